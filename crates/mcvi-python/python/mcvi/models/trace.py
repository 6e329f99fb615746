"""What a function of JAX computes at one point, as equations: calls are followed into, and what does not depend on the point is
computed once, by JAX."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Optional, Sequence

import jax
import numpy as np

#: Primitives that apply a function to their operands as they are.
CALLS = {
    "checkpoint",
    "closed_call",
    "core_call",
    "custom_jvp_call",
    "custom_lin",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
    "jit",
    "pjit",
    "remat",
    "remat2",
}
#: Primitives whose results are elements of the first operand.
SAME_ELEMENTS = {"broadcast_in_dim", "dynamic_slice", "gather", "reshape", "slice", "split", "squeeze", "transpose"}
#: Functions with derivatives of their own that have the same meaning and the same derivatives in the engine. Followed into, they
#: would lose them: the derivative of max(x, 0) + log1p(exp(-|x|)) at 0 is not that of softplus.
WHOLE = {"logaddexp", "relu"}


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled for a few calls: quickly, to a program that is not fast."""
    try:
        return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})
    except TypeError:  # before JAX 0.4.36
        return jax.jit(function)


class Uncovered(Exception):
    """Why the engine cannot compute a function itself."""


@dataclass(eq=False)
class Value:
    """A number or an array in the course of the computation."""

    shape: tuple[int, ...]
    dtype: Any
    #: Its elements, where they are known.
    known: Any = None
    #: Its elements in each iteration of the loop that it is in, where they are known.
    each: Optional[np.ndarray] = None
    source: Optional[Equation] = None
    #: Whether its elements are coordinates of the point, which are finite.
    of_point: bool = False

    def __post_init__(self) -> None:
        if 0 in self.shape and self.known is None:
            self.known = np.zeros(self.shape, self.dtype)

    @property
    def is_fixed(self) -> bool:
        """Whether it does not depend on the point."""
        return self.known is not None or self.each is not None or (self.source is not None and self.source.is_fixed)

    @property
    def varies(self) -> bool:
        """Whether it depends on the iteration of the loop that it is in."""
        return self.known is None and (self.each is not None or (self.source is not None and self.source.varies))

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def array(self) -> np.ndarray:
        """Its elements, if it does not depend on the point."""
        evaluate([self])
        return np.asarray(self.known)


@dataclass(eq=False)
class Equation:
    """A primitive applied to values."""

    name: str
    primitive: Any
    params: dict[str, Any]
    inputs: list[Value]
    outputs: list[Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.is_fixed = all(value.is_fixed for value in self.inputs)
        self.varies = any(value.varies for value in self.inputs)

    def bind(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """What JAX computes for these operands."""
        results = self.primitive.bind(*inputs, **self.params)
        return results if self.primitive.multiple_results else [results]


def constant(array: Any) -> Value:
    """A value that is known."""
    dtype = getattr(array, "dtype", None)
    if dtype is None:
        array = np.asarray(array)
        dtype = array.dtype
    return Value(tuple(np.shape(array)), dtype, known=array)


def equations(jaxpr: Any, constants: Iterable[Any], inputs: Sequence[Value]) -> tuple[list[Equation], list[Value]]:
    """The equations of a jaxpr, with those of all calls in their place, and its results."""
    found: list[Equation] = []
    return found, _follow(jaxpr, [constant(array) for array in constants], inputs, found)


def _follow(jaxpr: Any, constants: Sequence[Value], inputs: Sequence[Value], found: list[Equation]) -> list[Value]:
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *inputs]))

    def read(atom: Any) -> Value:
        return constant(np.asarray(atom.val, atom.aval.dtype)) if hasattr(atom, "val") else values[atom]

    for eqn in jaxpr.eqns:
        operands = [read(atom) for atom in eqn.invars]
        equation = Equation(eqn.primitive.name, eqn.primitive, eqn.params, operands)
        inner = _called(equation)
        if inner is not None:
            body, own, operands = inner
            results = _follow(body, [constant(array) for array in own], operands, found)
        else:
            if _whole(equation):
                equation.name = _whole(equation)
            # Random keys have no plain type, and are never more than intermediate.
            moved = equation.name in SAME_ELEMENTS and operands[0].of_point
            results = [Value(tuple(v.aval.shape), v.aval.dtype, source=equation, of_point=moved) for v in eqn.outvars]
            softplus = _softplus(equation)
            if softplus is not None:
                equation.name, equation.inputs = "softplus", [softplus]
            certain = _certain(equation)
            if certain is not None:
                results[0].known = np.full(results[0].shape, certain)
            equation.outputs = results
            found.append(equation)
        values.update(zip(eqn.outvars, results))
    return [read(atom) for atom in jaxpr.outvars]


def _called(equation: Equation) -> Optional[tuple[Any, Sequence[Any], list[Value]]]:
    """The function that an equation calls, its constants and its operands; None if it is an operation itself."""
    operands = equation.inputs
    if equation.name == "cond" and operands[0].is_fixed and not equation.is_fixed and not operands[0].varies:
        branches = equation.params["branches"]
        chosen = branches[int(np.clip(operands[0].array(), 0, len(branches) - 1))]
        return chosen.jaxpr, chosen.consts, operands[1:]
    if equation.name not in CALLS or _whole(equation):
        return None
    for param in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = equation.params.get(param)
        if inner is not None:
            return getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), operands
    return None


def _certain(equation: Equation) -> Optional[bool]:
    """What a test of coordinates for being finite gives, of which NumPyro's densities are full; None for anything else."""
    if not equation.inputs or not equation.inputs[0].of_point:
        return None
    x, y = equation.inputs[0], equation.inputs[-1]
    if equation.name == "is_finite":
        return True
    if equation.name not in ("eq", "ne"):
        return None
    if x is y:
        return equation.name == "eq"
    is_infinite = y.known is not None and y.size == 1 and np.isinf(np.asarray(y.known)).all()
    return equation.name == "ne" if is_infinite else None


def _softplus(equation: Equation) -> Optional[Value]:
    """The x of max(x, 0) + log1p(exp(−|x|)); None for anything else. NumPyro writes Bernoulli likelihoods so."""

    def operand(value: Value, *names: str) -> Optional[Value]:
        for name in names:
            if value.source is None or value.source.name != name or value.is_fixed:
                return None
            value = next(x for x in value.source.inputs if not x.is_fixed)
        return value

    if equation.name != "add" or equation.is_fixed:
        return None
    for top, rest in (equation.inputs, equation.inputs[::-1]):
        x, same = operand(top, "max"), operand(rest, "log1p", "exp", "neg", "abs")
        if x is not None and x is same:
            bound = [value for value in top.source.inputs if value is not x]
            if len(bound) == 1 and bound[0].is_fixed and not bound[0].varies and np.all(bound[0].array() == 0):
                return x
    return None


def supports(found: Sequence[Equation], result: Value) -> dict[int, Value]:
    """Selections of −∞ that the result is a sum of: by their identities, what is selected elsewhere.

    Outside of the support of one term the density is zero, whatever the other terms are.
    """
    uses: dict[int, int] = {}
    for equation in found:
        for value in equation.inputs:
            uses[id(value)] = uses.get(id(value), 0) + 1
    chosen, open_ = {}, [(result, 1)]
    while open_:
        value, sign = open_.pop()
        step = value.source
        if step is None or value.is_fixed or (value is not result and uses.get(id(value)) != 1):
            continue
        if step.name in ("add", "add_any", "reduce_sum", "reshape", "squeeze", "copy", "convert_element_type"):
            open_.extend((operand, sign) for operand in step.inputs)
        elif step.name == "neg":
            open_.append((step.inputs[0], -sign))
        elif step.name == "sub":
            open_.extend([(step.inputs[0], sign), (step.inputs[1], -sign)])
        elif step.name == "select_n" and sign > 0 and len(step.inputs) == 3 and not step.inputs[0].is_fixed:
            other = [case for case in step.inputs[1:] if not (case.is_fixed and np.all(np.asarray(case.array()) == -np.inf))]
            if len(other) == 1:
                chosen[id(step)] = other[0]
                open_.append((other[0], sign))
    return chosen


def _whole(equation: Equation) -> Optional[str]:
    """The name of a function that is not followed into."""
    if equation.name != "custom_jvp_call" or equation.is_fixed:
        return None
    body = equation.params["call_jaxpr"]
    name = getattr(getattr(body, "jaxpr", body).debug_info, "func_name", None)
    return name if name in WHOLE else None


def needed(found: Sequence[Equation], results: Iterable[Value]) -> list[Equation]:
    """Those of the equations that the results depend on and that depend on the point."""
    wanted = {id(value) for value in results}
    kept = []
    for equation in reversed(found):
        if not equation.is_fixed and any(id(value) in wanted and not value.is_fixed for value in equation.outputs):
            wanted.update(id(value) for value in equation.inputs)
            kept.append(equation)
    return kept[::-1]


def _sources(values: Iterable[Value]) -> tuple[list[Equation], list[Value]]:
    """Equations that compute values from what is known, in order, and what is known."""
    order: dict[int, Equation] = {}
    leaves: dict[int, Value] = {}
    open_: list[tuple[Any, bool]] = [(value, False) for value in values]
    while open_:
        item, done = open_.pop()
        if done:
            order.setdefault(id(item), item)
        elif item.known is not None or item.source is None:
            leaves[id(item)] = item
        elif id(item.source) not in order:
            open_.append((item.source, True))
            open_.extend((operand, False) for operand in item.source.inputs)
    return list(order.values()), list(leaves.values())


def _runner(values: Sequence[Value], steps: Sequence[Equation], leaves: Sequence[Value]) -> Callable[[Sequence[Any]], list[Any]]:
    """The function from what is known to the values."""

    def run(given: Sequence[Any]) -> list[Any]:
        at = {id(leaf): array for leaf, array in zip(leaves, given)}
        for step in steps:
            at.update(zip(map(id, step.outputs), step.bind([at[id(value)] for value in step.inputs])))
        return [at[id(value)] for value in values]

    return run


def evaluate(values: Iterable[Value]) -> None:
    """Computes values that do not depend on the point, in one go."""
    missing = [value for value in values if value.known is None]
    if missing:
        steps, leaves = _sources(missing)
        results = once(_runner(missing, steps, leaves))([leaf.known for leaf in leaves])
        for value, result in zip(missing, results):
            value.known = result


@dataclass
class Loop:
    """A loop taken apart: what follows from what is known is computed for all iterations, and the rest are equations."""

    carries: list[Value]
    elements: list[Value]
    next: list[Value]
    kept: list[Value]
    equations: list[Equation]


def loop(equation: Equation) -> Loop:
    """The loop that a scan is. Carries that the point does not reach, such as counters, are known in each iteration."""
    params = equation.params
    if any(value.varies for value in equation.inputs):
        raise Uncovered("a loop within a loop")
    evaluate(value for value in equation.inputs if value.is_fixed)
    consts, count = params["num_consts"], params["num_carry"]
    shared, first, arrays = equation.inputs[:consts], equation.inputs[consts : consts + count], equation.inputs[consts + count :]
    body, some = params["jaxpr"], np.zeros(())
    fixed = [value.is_fixed for value in first]
    while True:  # until no carry that counts as known becomes something that is not
        carries = [Value(v.shape, v.dtype, each=some if known else None) for v, known in zip(first, fixed)]
        elements = [Value(v.shape[1:], v.dtype, each=some if v.is_fixed else None) for v in arrays]
        found, results = equations(body.jaxpr, body.consts, [*shared, *carries, *elements])
        after = [was and result.is_fixed for was, result in zip(fixed, results)]
        if after == fixed:
            break
        fixed = after
    rest = needed(found, results)
    border = [value for step in rest for value in step.inputs] + results
    border = list({id(v): v for v in border if v.is_fixed and v.known is None}.values())
    known_carries = [i for i in range(count) if fixed[i]]
    known_arrays = [i for i, value in enumerate(arrays) if value.is_fixed]
    if border or known_carries:
        after_each = [results[i] for i in known_carries]
        steps, leaves = _sources([*after_each, *border])
        run = _runner([*after_each, *border], steps, leaves)
        bound = [*(carries[i] for i in known_carries), *(elements[i] for i in known_arrays)]
        place = {id(value): i for i, value in enumerate(bound)}

        def iterate(carry: Any, x: Any) -> Any:
            here = [*carry, *x]
            made = run([leaf.known if leaf.known is not None else here[place[id(leaf)]] for leaf in leaves])
            return made[: len(carry)], made[len(carry) :]

        start = [jax.numpy.asarray(first[i].known, first[i].dtype) for i in known_carries]
        given = [arrays[i].known for i in known_arrays]
        last, stacks = jax.lax.scan(iterate, start, given, length=params["length"], reverse=params["reverse"])
        for value, stack in zip(border, stacks):
            value.each = np.asarray(stack)
        for i, value in zip(known_carries, last):
            equation.outputs[i].known = value
    for value, out in zip(results[count:], equation.outputs[count:]):
        if value.is_fixed:
            out.known = value.each if value.varies else np.broadcast_to(value.array(), out.shape)
    return Loop(carries, elements, results[:count], results[count:], rest)

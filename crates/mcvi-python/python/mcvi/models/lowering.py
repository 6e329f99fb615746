"""A log density of JAX as operations that the engine compiles: then a fit calls no Python. What has no such form is called in
Python as it is, and the model's notes say why."""

from __future__ import annotations

import json
from typing import Any, Callable, Optional, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from mcvi import _mcvi
from mcvi.models.trace import Equation, Uncovered, Value, equations, evaluate, loop, needed, supports

#: Functions that work element by element and have the same name there.
FUNCTIONS = frozenset(_mcvi.expression_functions())
#: Operations that move elements from known places to others.
MOVES = {"dynamic_slice", "dynamic_update_slice", "gather", "pad", "rev", "scatter", "stack", "tile"}
#: Operations that change nothing.
SAME = {"copy", "copy_p", "device_put", "optimization_barrier", "pvary", "sharding_constraint"}
#: Operations on whole numbers that are not those on numbers.
WHOLE_NUMBERS = {"div", "rem", "pow", "integer_pow", "not", "and", "or", "xor"}
#: Reductions, and the corresponding running totals.
HOW = {"sum": "sum", "prod": "product", "max": "max", "min": "min", "logsumexp": "logsumexp", "and": "min", "or": "max"}
#: How far from the origin the points lie at which a log density is compared with JAX's. At the origin itself there may be kinks.
SCALES = (0.02, 0.1, 0.5, 1.0, 1.0, 2.0, 5.0, 20.0)
#: By how much both may differ, relatively: by rounding, and where JAX rounds to single precision.
DOUBLE, SINGLE = 1e-9, 1e-5
#: Far out, from here on, terms cancel that are large, and only a form that is another would show.
FAR, ROUGH = 5.0, 1e-2


def lower(density: Callable[[jax.Array], jax.Array], dim: int) -> tuple[_mcvi.LogDensity, float]:
    """The log density of a point as the engine computes it, and by how much it may differ from JAX's.

    :class:`Uncovered` if the engine does not have the operations.
    """
    traced = jax.make_jaxpr(density)(jax.ShapeDtypeStruct((dim,), jnp.float64))
    point = Value((dim,), np.dtype(np.float64), of_point=True)
    found, (result,) = equations(traced.jaxpr, traced.consts, [point])
    if result.size != 1:
        raise Uncovered("a log density that is not one number")
    rest = needed(found, [result])
    writer = Writer(supports(rest, result))
    start = writer.name(point)
    writer.run(rest, [result])
    text = json.dumps({"point": start, "steps": writer.steps, "result": writer.number(result)}, default=int)
    return _mcvi.LogDensity(text, writer.arrays), SINGLE if writer.is_rounded else DOUBLE


def difference(
    lowered: _mcvi.LogDensity, theirs: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], dim: int, near: float
) -> Optional[str]:
    """How values and gradients differ from JAX's at a few points; None if they do not."""
    rng = np.random.default_rng(1)
    z = np.array(SCALES)[:, None] * rng.normal(size=(len(SCALES), dim))
    values, gradients, _ = lowered.derivatives(z, np.zeros_like(z))
    expected, slopes = theirs(z)
    tolerance = np.where(np.array(SCALES) < FAR, near, ROUGH)
    finite = np.isfinite(expected)
    if not finite.any():
        return "the log density is not finite at any of the points where both are compared"
    size = np.maximum(np.abs(expected), 1)
    # Where JAX has no gradient, as on the other side of a `where`, there is nothing to compare.
    both = finite[:, None] & np.isfinite(slopes)
    steepest = np.max(np.abs(slopes), axis=1, where=both, initial=1.0)
    with np.errstate(invalid="ignore"):
        right = np.where(finite, np.abs(values - expected) <= tolerance * size, ~np.isfinite(values))
        right_slopes = ~both | (np.abs(gradients - slopes) <= (tolerance * np.maximum(steepest, size))[:, None])
    if right.all() and right_slopes.all():
        return None
    return f"values or gradients would differ at {(~(right & right_slopes.all(1))).sum()} of {len(z)} points"


class Writer:
    """Writes down the operations of equations, with names for their values."""

    def __init__(self, supports: dict[int, Value]) -> None:
        self._supports = supports
        self.is_rounded = False
        self.steps: list[dict[str, Any]] = []
        self.arrays: list[np.ndarray] = []
        self._names: dict[int, int] = {}
        self._kept: list[Value] = []  # so that no two values have the same identity
        self._count = 0
        #: Where the loop that is being written reads arrays, and what was written before it.
        self._loop: Optional[list[dict[str, int]]] = None
        self._before: list[dict[str, Any]] = []

    def fresh(self) -> int:
        self._count += 1
        return self._count - 1

    def name(self, value: Value) -> int:
        """The name of a value that is computed here."""
        self._kept.append(value)
        self._names[id(value)] = self.fresh()
        return self._names[id(value)]

    def add(self, op: str, **fields: Any) -> int:
        to = self.fresh()
        self.steps.append({"to": to, "op": op, **fields})
        return to

    def literal(self, array: Any) -> int:
        array = np.asarray(array)
        if not np.issubdtype(array.dtype, np.number) and array.dtype != bool:
            raise Uncovered(f"numbers of the type {array.dtype}")
        self.arrays.append(np.array(array, dtype=np.float64, order="C"))
        return self.add("literal", array=len(self.arrays) - 1)

    def indices(self, array: np.ndarray) -> int:
        self.arrays.append(np.array(array, dtype=np.int32, order="C"))
        return self.add("literal", array=len(self.arrays) - 1)

    def number(self, value: Value) -> int:
        """The name of a value, known or computed."""
        found = self._names.get(id(value))
        if found is None:
            if value.varies:
                if value.each is None:
                    raise Uncovered("a branch within a loop")
                found = self.element(self.outside(lambda: self.literal(value.each)))
            else:
                found = self.outside(lambda: self.literal(value.array()))
            self._kept.append(value)
            self._names[id(value)] = found
        return found

    def outside(self, write: Callable[[], int]) -> int:
        """Writes a literal where it stays known: before the loop that is being written, if there is one."""
        if self._loop is None:
            return write()
        body, self.steps = self.steps, self._before
        try:
            return write()
        finally:
            self.steps = body

    def element(self, of: int) -> int:
        """What each iteration of the loop sees of an array."""
        inner = self.fresh()
        assert self._loop is not None
        self._loop.append({"of": of, "inner": inner})
        return inner

    def run(self, needed: Sequence[Equation], results: Sequence[Value]) -> None:
        """Writes equations down. What they need that is known is computed first, together."""
        used = [value for equation in needed for value in equation.inputs] + list(results)
        evaluate(value for value in used if value.is_fixed and not value.varies)
        for equation in needed:
            self.equation(equation)

    def equation(self, equation: Equation) -> None:
        name, params = equation.name, equation.params
        write = getattr(self, "_" + name.replace("-", "_"), None)
        if name.startswith("reduce_") and name[7:] in HOW:
            done = self.add("reduce", of=self.number(equation.inputs[0]), how=HOW[name[7:]], axes=list(params["axes"]))
        elif name.startswith("cum") and name[3:] in HOW:
            of, axis = self.number(equation.inputs[0]), params["axis"]
            done = self.add("cumulate", of=of, how=HOW[name[3:]], axis=axis, reverse=params["reverse"])
        elif name in SAME:
            for value, out in zip(equation.inputs, equation.outputs):
                self._names[id(out)] = self.number(value)
                self._kept.append(out)
            done = None
        elif write is not None:
            done = write(equation, *equation.inputs)
        elif name in MOVES:
            done = self.moved(equation)
        elif name in FUNCTIONS:
            self.check_types(equation)
            done = self.map(name, equation.outputs[0].shape, *(self.number(value) for value in equation.inputs))
        else:
            raise Uncovered(f"the primitive {name}")
        if isinstance(done, int):
            self._names[id(equation.outputs[0])] = done
            self._kept.append(equation.outputs[0])

    def check_types(self, equation: Equation) -> None:
        """Truth values and whole numbers are computed as numbers, where that is the same."""
        whole = any(np.issubdtype(value.dtype, np.integer) and not value.is_fixed for value in equation.inputs)
        if whole and equation.name in WHOLE_NUMBERS:
            raise Uncovered(f"the primitive {equation.name} of whole numbers that depend on the parameters")
        for value in equation.outputs:
            if np.issubdtype(value.dtype, np.floating) and value.dtype != np.float64:
                self.is_rounded = True  # there; here it is not
            if np.issubdtype(value.dtype, np.complexfloating):
                raise Uncovered("complex numbers")

    def map(self, function: str, shape: Sequence[int], *operands: int) -> int:
        return self.add("map", function=function, of=list(operands), shape=list(shape))

    # Elements in other places.

    def reshape(self, of: int, shape: Sequence[int]) -> int:
        return self.add("reshape", of=of, shape=list(shape))

    def moved(self, equation: Equation) -> int:
        """An operation that moves elements: seen from where each comes from, by doing it to their numbers."""
        moving = [value for value in equation.inputs if not value.is_fixed]
        places = [value for value in equation.inputs if value.is_fixed and np.issubdtype(value.dtype, np.integer)]
        sources = [value for value in equation.inputs if value not in places]
        if any(np.issubdtype(value.dtype, np.integer) for value in moving):
            raise Uncovered(f"the primitive {equation.name} with places that depend on the parameters")
        starts = np.concatenate([[0], np.cumsum([value.size for value in sources])])
        numbered = [np.arange(a, b, dtype=float).reshape(v.shape) for a, b, v in zip(starts, starts[1:], sources)]

        def origin(*at: Any) -> Any:
            known, own = iter(at), iter(numbered)
            # Elements that come from nowhere are NaN.
            fill = {"fill_value": np.nan} if equation.name == "gather" else {}
            made = Equation(equation.name, equation.primitive, {**equation.params, **fill}, equation.inputs)
            return made.bind([next(known) if value in places else jnp.asarray(next(own)) for value in equation.inputs])[0]

        out = equation.outputs[0]
        if any(value.varies for value in places):
            count = next(len(value.each) for value in places if value.varies)
            stacks = [v.each if v.varies else np.broadcast_to(v.array(), (count, *v.shape)) for v in places]
            index = np.asarray(jax.vmap(origin)(*stacks)).reshape(count, out.size)
        else:
            index = np.asarray(origin(*(value.array() for value in places))).reshape(out.size)
        parts = [self.reshape(self.number(value), [value.size]) for value in sources if value.size > 0]
        if np.isnan(index).any():
            given = equation.params.get("fill_value")
            parts.append(self.literal([np.nan if given is None else given]))
            index = np.where(np.isnan(index), starts[-1], index)
        flat = parts[0] if len(parts) == 1 else self.add("concat", of=parts, axis=0)
        each = index.ndim == 2
        named = self.outside(lambda: self.indices(index))
        return self.add("take", of=flat, index=self.element(named) if each else named, shape=list(out.shape))

    def _scatter_add(self, equation: Equation, operand: Value, places: Value, updates: Value) -> int:
        if not places.is_fixed or places.varies:
            raise Uncovered("the primitive scatter-add with places that are not known")

        def add(updates: Any) -> Any:
            return equation.bind([jnp.zeros(operand.shape), places.known, updates])[0]

        # The transpose takes every element of the updates to the place that it is added to.
        (back,) = jax.linear_transpose(add, jax.ShapeDtypeStruct(updates.shape, jnp.float64))(
            jnp.arange(1.0, operand.size + 1).reshape(operand.shape)
        )
        index = np.asarray(back).ravel() - 1
        kept = np.flatnonzero(index >= 0)
        flat = self.reshape(self.number(updates), [updates.size])
        if len(kept) == 0:
            return self.number(operand)
        if len(kept) < updates.size:
            flat = self.add("take", of=flat, index=self.outside(lambda: self.indices(kept)), shape=[len(kept)])
        at = self.outside(lambda: self.indices(index[kept]))
        added = self.add("scatter", of=flat, index=at, shape=list(operand.shape))
        return self.map("add", operand.shape, self.number(operand), added)

    def _broadcast_in_dim(self, equation: Equation, x: Value, *_: Value) -> int:
        axes, shape = equation.params["broadcast_dimensions"], equation.outputs[0].shape
        return self.add("broadcast", of=self.number(x), shape=list(shape), axes=list(axes))

    def _reshape(self, equation: Equation, x: Value, *_: Value) -> int:
        return self.reshape(self.number(x), equation.outputs[0].shape)

    _squeeze = _expand_dims = _reshape

    def _transpose(self, equation: Equation, x: Value) -> int:
        return self.add("permute", of=self.number(x), order=list(equation.params["permutation"]))

    def _slice(self, equation: Equation, x: Value) -> int:
        p = equation.params
        start, limit, step = p["start_indices"], p["limit_indices"], p["strides"] or [1] * len(x.shape)
        return self.add("slice", of=self.number(x), start=list(start), limit=list(limit), step=list(step))

    def _split(self, equation: Equation, x: Value) -> None:
        axis, start = equation.params["axis"], 0
        of = self.number(x)
        for out, size in zip(equation.outputs, equation.params["sizes"]):
            begin, end = [0] * len(x.shape), list(x.shape)
            begin[axis], end[axis] = start, start + size
            start += size
            if size > 0:
                self._names[id(out)] = self.add("slice", of=of, start=begin, limit=end, step=[1] * len(x.shape))
                self._kept.append(out)

    def _concatenate(self, equation: Equation, *parts: Value) -> int:
        of = [self.number(part) for part in parts if part.size > 0]
        return of[0] if len(of) == 1 else self.add("concat", of=of, axis=equation.params["dimension"])

    # Numbers of other types.

    def _convert_element_type(self, equation: Equation, x: Value) -> int:
        new = equation.params["new_dtype"]
        self.check_types(equation)
        if new == bool and x.dtype != bool:
            return self.map("ne", x.shape, self.number(x), self.literal(0.0))
        if np.issubdtype(new, np.integer) and np.issubdtype(x.dtype, np.floating):
            raise Uncovered("whole numbers that depend on the parameters")
        return self.number(x)

    def _reduce_precision(self, equation: Equation, x: Value) -> int:
        if equation.params["mantissa_bits"] < 52:
            raise Uncovered("a precision of few digits")
        return self.number(x)

    # Arithmetic with parameters of its own.

    def _integer_pow(self, equation: Equation, x: Value) -> int:
        self.check_types(equation)
        return self.map("pow", x.shape, self.number(x), self.literal(float(equation.params["y"])))

    def _polygamma(self, equation: Equation, order: Value, x: Value) -> int:
        orders = np.unique(order.array()) if order.is_fixed and not order.varies else []
        if len(orders) != 1 or orders[0] not in range(20):
            raise Uncovered("the primitive polygamma of such an order")
        return self.add("polygamma", of=self.number(x), order=int(orders[0]))

    def _select_n(self, equation: Equation, which: Value, *cases: Value) -> int:
        if len(cases) == 1:
            return self.number(cases[0])
        inside = self._supports.get(id(equation))
        if inside is not None:
            # A term that has no derivative: gradients need no selections.
            nothing = [self.literal(0.0 if case is inside else -np.inf) for case in cases]
            outside = self.map("select", which.shape, self.number(which), *nothing)
            return self.map("add", equation.outputs[0].shape, self.number(inside), outside)
        done = self.number(cases[-1])
        for i in range(len(cases) - 2, -1, -1):
            here = self.number(which)
            if len(cases) > 2:
                here = self.map("gt", which.shape, here, self.literal(float(i)))
            done = self.map("select", cases[i].shape, here, self.number(cases[i]), done)
        return done

    def _cond(self, equation: Equation, which: Value, *operands: Value) -> None:
        """A branch that depends on the parameters: all are computed, and one is selected."""
        branches = equation.params["branches"]
        results = []
        for branch in branches:
            found, made = equations(branch.jaxpr, branch.consts, list(operands))
            self.run(needed(found, made), made)
            results.append(made)
        for i, out in enumerate(equation.outputs):
            chosen = Equation("select_n", None, {}, [which, *(made[i] for made in results)], [out])
            self._names[id(out)] = self._select_n(chosen, *chosen.inputs)
            self._kept.append(out)

    def _argmax(self, equation: Equation, x: Value) -> int:
        """The first place of the largest element: the smallest of those where it is."""
        (axis,), of, shape = equation.params["axes"], self.number(x), list(x.shape)
        if equation.name == "argmin":
            of = self.map("neg", shape, of)
        top = self.add("reduce", of=of, how="max", axes=[axis])
        top = self.add("broadcast", of=top, shape=shape, axes=[i for i in range(len(shape)) if i != axis])
        places = self.literal(np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))]))
        found = self.map("select", shape, self.map("eq", shape, of, top), self.literal(float(shape[axis])), places)
        return self.add("reduce", of=found, how="min", axes=[axis])

    _argmin = _argmax

    def _dot_general(self, equation: Equation, a: Value, b: Value) -> int:
        self.check_types(equation)
        contract, batch = ([list(axes) for axes in pair] for pair in equation.params["dimension_numbers"])
        return self.add("dot", of=[self.number(a), self.number(b)], contract=contract, batch=batch)

    def _cholesky(self, equation: Equation, x: Value) -> int:
        return self.add("cholesky", of=self.number(x))

    def _triangular_solve(self, equation: Equation, a: Value, b: Value) -> int:
        p = equation.params
        if p["unit_diagonal"]:
            raise Uncovered("the primitive triangular_solve with a diagonal of ones")
        # X op(A) = B is op(A)ᵀ Xᵀ = Bᵀ.
        left, rank = p["left_side"], len(b.shape)
        swap = [*range(rank - 2), rank - 1, rank - 2]
        right = self.number(b) if left else self.add("permute", of=self.number(b), order=swap)
        transpose = bool(p["transpose_a"]) == bool(left)
        solved = self.add("solve", of=[self.number(a), right], lower=bool(p["lower"]), transpose=transpose)
        return solved if left else self.add("permute", of=solved, order=swap)

    def _scan(self, equation: Equation, *_: Value) -> None:
        if self._loop is not None:
            raise Uncovered("a loop within a loop")
        body, count = loop(equation), equation.params["num_carry"]
        shared = equation.params["num_consts"]
        first, arrays = equation.inputs[shared : shared + count], equation.inputs[shared + count :]
        moving = [i for i in range(count) if not body.carries[i].is_fixed]
        firsts = [self.number(first[i]) for i in moving]
        elements = [(array, inner) for array, inner in zip(arrays, body.elements) if not inner.is_fixed]
        wholes = [self.number(array) for array, _ in elements]
        self._before, self.steps, self._loop = self.steps, [], []
        carries = [self.name(body.carries[i]) for i in moving]
        for (_, inner), of in zip(elements, wholes):
            self._loop.append({"of": of, "inner": self.name(inner)})
        for inner in body.equations:
            self.equation(inner)
        next_ = [self.number(body.next[i]) for i in moving]
        outputs, stacks = equation.outputs[:count], equation.outputs[count:]
        kept = [(value, out) for value, out in zip(body.kept, stacks) if not value.is_fixed]
        inner_kept = [self.number(value) for value, _ in kept]
        steps, seen = self.steps, self._loop
        self.steps, self._loop = self._before, None
        self.steps.append(
            {
                "op": "scan",
                "length": equation.params["length"],
                "reverse": equation.params["reverse"],
                "carries": [
                    {"first": first_, "inner": inner, "next": after, "last": self.name(outputs[i])}
                    for i, first_, inner, after in zip(moving, firsts, carries, next_)
                ],
                "elements": seen,
                "body": steps,
                "kept": [{"inner": inner, "to": self.name(out)} for inner, (_, out) in zip(inner_kept, kept)],
            }
        )

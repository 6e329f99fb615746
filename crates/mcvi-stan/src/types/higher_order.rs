//! Calls of functions that take functions: solvers, integrals and sums in parallel.

use super::Type;
use super::check::{Checked, Checker, Typed};
use super::environment::Signature;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{Base, Call, ExprKind, Name};

/// What a function that takes a function is like.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The function's own first arguments and result, then the arguments between it and those passed on, which are data
    /// if marked; and the result. Further arguments are passed on, if there may be any.
    Variadic { callee: Vec<Type>, gives: Type, control: Vec<(Type, bool)>, result: Type, passes_on: bool },
    /// `reduce_sum`.
    ReduceSum,
    /// The Laplace approximation of a marginal density; what it is given is not checked.
    Laplace(Type),
}

const REAL: Type = Type::REAL;

/// The kind of a function of Stan; none if it takes no function.
pub fn kind(name: &str) -> Option<Kind> {
    let vector = Type::VECTOR;
    let reals = || REAL.array(1);
    let data = |ty: Type| (ty, true);
    let free = |ty: Type| (ty, false);
    let tolerances = || vec![data(REAL), data(REAL), data(Type::INT)];
    let (stem, tol) = match name.strip_suffix("_tol") {
        Some(stem) => (stem, true),
        None => (name, false),
    };
    let mut control = match stem {
        "ode_rk45" | "ode_bdf" | "ode_adams" | "ode_ckrk" | "ode_adjoint_tol_ctl" => {
            vec![free(vector.clone()), free(REAL), free(reals())]
        }
        "dae" => vec![free(vector.clone()), free(vector.clone()), data(REAL), data(reals())],
        "solve_newton" | "solve_powell" => vec![free(vector.clone())],
        "integrate_1d_gauss_kronrod" | "integrate_1d_double_exponential" => vec![free(REAL), free(REAL)],
        _ => return old(name),
    };
    if stem == "ode_adjoint_tol_ctl" {
        let reals = [REAL, vector.clone(), REAL, vector.clone(), REAL, REAL];
        control.extend(reals.into_iter().map(data));
        control.extend(std::iter::repeat_n(data(Type::INT), 5));
    } else if tol {
        control.extend(tolerances());
    }
    let (callee, gives, result) = match stem {
        "dae" => (vec![REAL, vector.clone(), vector.clone()], vector.clone(), vector.array(1)),
        "solve_newton" | "solve_powell" => (vec![vector.clone()], vector.clone(), vector),
        "integrate_1d_gauss_kronrod" | "integrate_1d_double_exponential" => (vec![REAL, REAL], REAL, REAL),
        _ => (vec![REAL, vector.clone()], vector.clone(), vector.array(1)),
    };
    Some(Kind::Variadic { callee, gives, control, result, passes_on: true })
}

/// Functions with a fixed list of arguments, `reduce_sum`, and Laplace approximations.
fn old(name: &str) -> Option<Kind> {
    let vector = Type::VECTOR;
    let reals = || REAL.array(1);
    let ints = || Type::INT.array(1);
    let data = |ty: Type| (ty, true);
    let free = |ty: Type| (ty, false);
    let fixed =
        |callee, gives, control, result| Some(Kind::Variadic { callee, gives, control, result, passes_on: false });
    match name {
        "reduce_sum" | "reduce_sum_static" => Some(Kind::ReduceSum),
        "integrate_ode" | "integrate_ode_rk45" | "integrate_ode_bdf" | "integrate_ode_adams" => fixed(
            vec![REAL, reals(), reals(), reals(), ints()],
            reals(),
            vec![free(reals()), free(REAL), free(reals()), free(reals()), data(reals()), data(ints())],
            REAL.array(2),
        ),
        "algebra_solver" | "algebra_solver_newton" => fixed(
            vec![vector.clone(), vector.clone(), reals(), ints()],
            vector.clone(),
            vec![free(vector.clone()), free(vector.clone()), data(reals()), data(ints())],
            vector,
        ),
        "integrate_1d" => fixed(
            vec![REAL, REAL, reals(), reals(), ints()],
            REAL,
            vec![free(REAL), free(REAL), free(reals()), data(reals()), data(ints())],
            REAL,
        ),
        "map_rect" => fixed(
            vec![vector.clone(), vector.clone(), reals(), ints()],
            vector.clone(),
            vec![free(vector.clone()), free(vector.clone().array(1)), data(REAL.array(2)), data(Type::INT.array(2))],
            vector,
        ),
        _ if name.starts_with("laplace_") => Some(Kind::Laplace(if name.ends_with("_rng") {
            vector
        } else if name.contains("_solve") {
            Type::tuple(vec![vector, Type::MATRIX])
        } else {
            REAL
        })),
        _ => None,
    }
}

/// How many arguments for tolerances a function may have at its end, and their types.
fn optional(name: &str) -> &'static [Base] {
    match name {
        "integrate_ode_rk45"
        | "integrate_ode_bdf"
        | "integrate_ode_adams"
        | "algebra_solver"
        | "algebra_solver_newton" => &[Base::Real, Base::Real, Base::Real],
        "integrate_1d" => &[Base::Real],
        _ => &[],
    }
}

impl Checker {
    pub fn higher_order(&mut self, kind: Kind, call: &Call, span: Span) -> Checked<Typed> {
        if let Kind::Laplace(ty) = kind {
            return Ok(Typed { ty, autodiff: true });
        }
        let wrong = |message: String| Diagnostic::new(span, message);
        let function = match call.arguments.first().map(|a| &a.kind) {
            Some(ExprKind::Variable(name)) if self.names.has_function(&name.text) => name.clone(),
            _ => return Err(wrong(format!("the first argument of `{}` is a function of the program", call.name.text))),
        };
        let rest: Vec<Typed> = call.arguments[1..].iter().map(|a| self.expression(a)).collect::<Checked<_>>()?;
        let autodiff = rest.iter().any(|a| a.autodiff);
        let Kind::Variadic { callee, gives, control, result, passes_on } = kind else {
            return self.reduce_sum(&function, &rest, span);
        };
        let tail = if passes_on { &[][..] } else { optional(&call.name.text) };
        let tolerances = if rest.len() == control.len() + tail.len() { tail } else { &[] };
        let expected: Vec<(Type, bool)> =
            control.into_iter().chain(tolerances.iter().map(|b| (Type::of(*b), true))).collect();
        if rest.len() < expected.len() || (!passes_on && rest.len() > expected.len()) {
            return Err(wrong(format!("`{}` takes {} arguments after the function", call.name.text, expected.len())));
        }
        for (i, (argument, (ty, data_only))) in rest.iter().zip(&expected).enumerate() {
            if argument.ty.promotion(ty).is_none() {
                let message = format!("argument {} of `{}` must be {ty}, not {}", i + 2, call.name.text, argument.ty);
                return Err(Diagnostic::new(call.arguments[i + 1].span, message));
            }
            if *data_only && argument.autodiff {
                let message = format!("argument {} of `{}` must be data", i + 2, call.name.text);
                return Err(Diagnostic::new(call.arguments[i + 1].span, message));
            }
        }
        let passed: Vec<Typed> = callee
            .iter()
            .map(|ty| Typed { ty: ty.clone(), autodiff: passes_on })
            .chain(rest.into_iter().skip(expected.len()))
            .collect();
        self.callable(&function, &passed, &gives, span)?;
        Ok(Typed { ty: result, autodiff })
    }

    /// The function passed must take the arguments it will be given.
    fn callable(&mut self, function: &Name, passed: &[Typed], gives: &Type, span: Span) -> Checked<()> {
        let fits = |f: &Signature| super::call::cost(f, passed).is_some() && f.result.as_ref() == Some(gives);
        if self.names.overloads(&function.text).any(fits) {
            return Ok(());
        }
        let types: Vec<String> = passed.iter().map(|t| t.ty.to_string()).collect();
        let message = format!("`{}` must take ({}) and return {gives}", function.text, types.join(", "));
        let error = Diagnostic::new(span, message);
        Err(match self.names.overloads(&function.text).next() {
            Some(f) => error.related(f.span, "it is declared here"),
            None => error,
        })
    }

    /// `reduce_sum(f, x, grain, ...)`, where f takes a slice of x, its first and last place, and what follows.
    fn reduce_sum(&mut self, function: &Name, rest: &[Typed], span: Span) -> Checked<Typed> {
        let wrong = |message: &str| Err(Diagnostic::new(span, message));
        let [slice, grain, passed @ ..] = rest else {
            return wrong("`reduce_sum` takes a function, an array, the size of its pieces, and what is passed on");
        };
        if slice.ty.dimensions == 0 {
            return wrong("the second argument of `reduce_sum` must be an array");
        }
        if grain.ty != Type::INT {
            return wrong("the third argument of `reduce_sum`, the size of pieces, must be int");
        }
        if ["_lp", "_rng", "_jacobian"].iter().any(|s| function.text.ends_with(s)) {
            return wrong("`reduce_sum` takes a function without side effects");
        }
        let int = || Typed { ty: Type::INT, autodiff: false };
        let arguments: Vec<Typed> =
            std::iter::once(slice.clone()).chain([int(), int()]).chain(passed.iter().cloned()).collect();
        self.callable(function, &arguments, &Type::REAL, span)?;
        Ok(Typed { ty: Type::REAL, autodiff: rest.iter().any(|a| a.autodiff) })
    }
}

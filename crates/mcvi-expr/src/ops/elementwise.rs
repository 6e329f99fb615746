//! Elementwise operations: arithmetic, functions, comparisons, selection. What each computes and its derivative stand in
//! [`crate::table`].

use super::Vjp;
use super::simplify::{fold_literals, simplify};
use crate::error::{At, Error};
use crate::graph::{Expr, Op};
use crate::shape::{DType, Shape};
use crate::table::{Binary, MAX_ORDER, Unary, elementwise};
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::panic::Location;

/// The fold of a row.
macro_rules! fold {
    ((|$x:ident $(, $y:ident)?| $value:expr), $args:expr) => {{
        let [$x $(, $y)?]: [f64; _] = $args;
        Some($value)
    }};
}

/// The rule of a row of one operand.
macro_rules! unary_rule {
    ((flat), $v:ident) => {
        None
    };
    ((|$x:ident, $y:ident, $ct:ident| $rule:expr), $v:ident) => {{
        let ($x, $y, $ct) = ($v.args[0], $v.out, $v.ct);
        let _ = ($x, $y);
        Some($rule)
    }};
}

/// The rules of a row of two operands.
macro_rules! binary_rule {
    ((flat), $v:ident) => {
        vec![None, None]
    };
    ((|$a:ident, $b:ident, $y:ident, $ct:ident| $left:expr, $right:expr), $v:ident) => {{
        let ($a, $b, $y, $ct) = ($v.args[0], $v.args[1], $v.out, $v.ct);
        let _ = ($a, $b, $y);
        vec![$v.wanted[0].then(|| $left), $v.wanted[1].then(|| $right)]
    }};
}

macro_rules! graph {
    (
        unary {$(
            $($(#[$doc:meta])+ pub fn $method:ident =)?
            $unary:ident $(($order:ident: $type:ty))? $name:literal {
                $(fold $fold:tt)? vjp $vjp:tt cost $cost:tt cpu $cpu:tt cuda $cuda:tt
            }
        )*}
        binary {$(
            $($(#[$doc2:meta])+ pub fn $method2:ident =)?
            $binary:ident $(($order2:ident: $type2:ty))? $name2:literal {
                $(fold $fold2:tt)? vjp $vjp2:tt cost $cost2:tt cpu $cpu2:tt cuda $cuda2:tt
            }
        )*}
        ternary $ternary:tt
    ) => {
        /// The value at a constant, where the host's function is exact enough to fold.
        fn fold_unary(f: Unary, x: f64) -> Option<f64> {
            match f {
                $($(Unary::$unary => fold!($fold, [x]),)?)*
                _ => None,
            }
        }

        /// The same for two constants.
        pub(super) fn fold_binary(f: Binary, a: f64, b: f64) -> Option<f64> {
            match f {
                $($(Binary::$binary => fold!($fold2, [a, b]),)?)*
                _ => None,
            }
        }

        pub(super) fn unary_vjp<'g>(f: Unary, v: &Vjp<'_, 'g>) -> Option<Expr<'g>> {
            match f {
                $(Unary::$unary $(($order))? => unary_rule!($vjp, v),)*
            }
        }

        pub(super) fn binary_vjp<'g>(f: Binary, v: &Vjp<'_, 'g>) -> Vec<Option<Expr<'g>>> {
            match f {
                $(Binary::$binary $(($order2))? => binary_rule!($vjp2, v),)*
            }
        }

        impl<'g> Expr<'g> {
            $($(
                $(#[$doc])+
                #[track_caller]
                #[must_use]
                pub fn $method(self) -> Expr<'g> {
                    self.unary(Unary::$unary)
                }
            )?)*
            $($(
                $(#[$doc2])+
                #[track_caller]
                #[must_use]
                pub fn $method2(self, other: impl Operand<'g>) -> Expr<'g> {
                    self.binary(Binary::$binary, other)
                }
            )?)*
        }
    };
}
elementwise!(graph);

pub(super) fn select_vjp<'g>(v: &Vjp<'_, 'g>) -> Vec<Option<Expr<'g>>> {
    // The adjoint selects too: a NaN on the side not taken must not leak in through 0 · NaN.
    vec![None, v.wanted[1].then(|| v.args[0].select(v.ct, 0.0)), v.wanted[2].then(|| v.args[0].select(0.0, v.ct))]
}

/// The shape that all operands broadcast to, or an expression poisoned with the reason why there is none. `order` is
/// that of a polygamma function.
fn joint<'g>(op: &'static str, order: u32, args: &[Expr<'g>], at: At) -> Result<Shape, Expr<'g>> {
    let first = args[0];
    let mut shape = first.shape();
    for &e in args {
        if e.error().is_some() {
            return Err(e);
        }
        let error = if !std::ptr::eq(e.graph(), first.graph()) {
            Error::ForeignGraph { op, at }
        } else if order > MAX_ORDER {
            let why = format!("order {order} is above {MAX_ORDER}, the highest there is");
            Error::Argument { op, shape: e.shape(), why, at }
        } else if !e.dtype().is_float() {
            let why = "integers only serve as indices; convert with `cast` to compute".to_owned();
            Error::Argument { op, shape: e.shape(), why, at }
        } else if e.dtype() != first.dtype() {
            Error::DTypes { op, left: first.dtype(), right: e.dtype(), at }
        } else if let Some(wider) = shape.broadcast(&e.shape()) {
            shape = wider;
            continue;
        } else {
            let why = "extents must agree or be 1, counted from the last axis";
            Error::Shapes { op, left: shape, right: e.shape(), why, at }
        };
        return Err(first.graph().poison(error));
    }
    Ok(shape)
}

/// Something that can stand beside an expression: an expression or a number.
pub trait Operand<'g> {
    /// The operand as an expression of the same graph and element type as `like`.
    fn operand(self, like: Expr<'g>) -> Expr<'g>;
}
impl<'g> Operand<'g> for Expr<'g> {
    fn operand(self, _: Expr<'g>) -> Expr<'g> {
        self
    }
}
impl<'g> Operand<'g> for f64 {
    fn operand(self, like: Expr<'g>) -> Expr<'g> {
        like.same_type(self)
    }
}

impl<'g> Expr<'g> {
    #[track_caller]
    fn unary(self, f: Unary) -> Expr<'g> {
        let at = Location::caller();
        let shape = match joint(f.name(), f.order(), &[self], at) {
            Ok(shape) => shape,
            Err(poisoned) => return poisoned,
        };
        if let Some(folded) = self.as_const().and_then(|x| fold_unary(f, x)) {
            return self.same_type(folded).broadcast_to(shape);
        }
        if let Some(folded) = fold_literals([self], |[x]| fold_unary(f, x)) {
            return folded;
        }
        // Work on the small array, then broadcast.
        match self.op() {
            Op::Broadcast => return self.args()[0].unary(f).broadcast_to(shape),
            Op::Unary(Unary::Neg) if f == Unary::Neg => return self.args()[0],
            Op::Unary(Unary::Neg) if f == Unary::Square => return self.args()[0].square(),
            _ => {}
        }
        self.graph().build(f.name(), &[self], at, || Ok((Op::Unary(f), shape, self.dtype())))
    }

    #[track_caller]
    fn binary(self, f: Binary, other: impl Operand<'g>) -> Expr<'g> {
        let (a, b) = (self, other.operand(self));
        let (name, at, graph) = (f.name(), Location::caller(), self.graph());
        let shape = match joint(name, f.order(), &[a, b], at) {
            Ok(shape) => shape,
            Err(poisoned) => return poisoned,
        };
        if let Some(simple) = simplify(f, a, b) {
            return simple.broadcast_to(shape);
        }
        // Work on the small arrays, then broadcast: broadcasts of one source shape, or of a source and a number.
        let sources = [a.unbroadcast(), b.unbroadcast()];
        let small = sources[0].shape().broadcast(&sources[1].shape());
        if let Some(small) = small
            && small.size() < shape.size()
        {
            return sources[0].binary(f, sources[1]).broadcast_to(shape);
        }
        if let Some(folded) = fold_literals([a, b], |[x, y]| fold_binary(f, x, y)) {
            return folded;
        }
        let (a, b) = (a.broadcast_to(&shape), b.broadcast_to(&shape));
        graph.build(name, &[a, b], at, || Ok((Op::Binary(f), shape, a.dtype())))
    }

    /// The source of a broadcast, or the expression itself.
    fn unbroadcast(self) -> Expr<'g> {
        match self.op() {
            Op::Broadcast => self.args()[0],
            _ => self,
        }
    }

    /// 1 where `self > other`, else 0.
    #[track_caller]
    pub fn gt(self, other: impl Operand<'g>) -> Expr<'g> {
        other.operand(self).lt(self)
    }
    /// 1 where `self ≥ other`, else 0.
    #[track_caller]
    pub fn ge(self, other: impl Operand<'g>) -> Expr<'g> {
        other.operand(self).le(self)
    }

    /// `then` where this is not zero, `otherwise` elsewhere. Nothing flows back to the side not taken.
    #[track_caller]
    pub fn select(self, then: impl Operand<'g>, otherwise: impl Operand<'g>) -> Expr<'g> {
        let (a, b) = (then.operand(self), otherwise.operand(self));
        let (at, graph) = (Location::caller(), self.graph());
        let shape = match joint("select", 0, &[self, a, b], at) {
            Ok(shape) => shape,
            Err(poisoned) => return poisoned,
        };
        match self.as_const() {
            _ if a.is_same(b) => return a.broadcast_to(shape),
            Some(0.0) => return b.broadcast_to(shape),
            Some(_) => return a.broadcast_to(shape),
            None => {}
        }
        if let Some(folded) = fold_literals([self, a, b], |[c, x, y]| Some(if c != 0.0 { x } else { y })) {
            return folded;
        }
        let args = [self, a, b].map(|e| e.broadcast_to(&shape));
        graph.build("select", &args, at, || Ok((Op::Select, shape, self.dtype())))
    }

    /// `self` to the power of an expression.
    #[track_caller]
    pub fn pow(self, exponent: impl Operand<'g>) -> Expr<'g> {
        let exponent = exponent.operand(self);
        match exponent.as_const() {
            // A number stands for itself only among operands that fit.
            Some(p) if exponent.shape().rank() == 0 => match joint("pow", 0, &[self, exponent], Location::caller()) {
                Ok(_) => self.powf(p),
                Err(poisoned) => poisoned,
            },
            _ => self.binary(Binary::Pow, exponent),
        }
    }

    /// `self` to a constant power; small whole and half powers become products and roots.
    #[track_caller]
    pub fn powf(self, p: f64) -> Expr<'g> {
        if let Err(poisoned) = joint("pow", 0, &[self], Location::caller()) {
            return poisoned;
        }
        match p {
            0.0 => self.graph().full(self.dtype(), self.shape(), 1.0),
            1.0 => self,
            2.0 => self.square(),
            0.5 => self.sqrt(),
            _ if p < 0.0 && (p.fract() == 0.0 || p == -0.5) && p >= -16.0 => self.powf(-p).recip(),
            _ if p.fract() == 0.0 && p > 0.0 && p <= 16.0 => {
                let half = self.powf((p / 2.0).floor()).square();
                if p % 2.0 == 1.0 { half * self } else { half }
            }
            _ => self.binary(Binary::Pow, p),
        }
    }

    /// `lgamma(self + n) − lgamma(self)`, accurate also where `self` is so large that a plain difference is lost.
    #[track_caller]
    pub fn lgamma_diff(self, n: impl Operand<'g>) -> Expr<'g> {
        self.binary(Binary::PolygammaDiff(0), n)
    }

    /// `f(self + n) − f(self)` with f = lgamma (order 0), digamma (1), trigamma (2), …, accurate for large `self`.
    #[track_caller]
    pub fn polygamma_diff(self, order: u32, n: impl Operand<'g>) -> Expr<'g> {
        self.binary(Binary::PolygammaDiff(order), n)
    }

    /// The digamma function.
    #[track_caller]
    pub fn digamma(self) -> Expr<'g> {
        self.polygamma(0)
    }

    /// The polygamma function of the given order, 24 at most: 0 is digamma, 1 trigamma.
    #[track_caller]
    pub fn polygamma(self, order: u32) -> Expr<'g> {
        self.unary(Unary::Polygamma(order))
    }

    /// `ln σ(self)`, without cancellation.
    #[track_caller]
    pub fn log_sigmoid(self) -> Expr<'g> {
        -(-self).softplus()
    }

    /// The same numbers in another element type. Converting to `I32` truncates.
    #[track_caller]
    pub fn cast(self, dtype: DType) -> Expr<'g> {
        if self.error().is_some() || self.dtype() == dtype {
            return self;
        }
        if let (Some(c), true) = (self.as_const(), dtype.is_float()) {
            return self.graph().scalar(dtype, c).broadcast_to(self.shape());
        }
        self.graph().build("cast", &[self], Location::caller(), || Ok((Op::Cast, self.shape(), dtype)))
    }

    /// The value as it is, as a node of its own. Simplifications look through the arguments of what is built: a part
    /// of a part is a part of the whole. What is built from an opaque value depends on that node, so that [`grad`]
    /// may be asked for with respect to it, whatever it was made from.
    ///
    /// [`grad`]: crate::grad
    #[track_caller]
    pub fn opaque(self) -> Expr<'g> {
        if self.error().is_some() || matches!(self.op(), Op::Opaque) {
            return self;
        }
        self.graph().build("opaque", &[self], Location::caller(), || Ok((Op::Opaque, self.shape(), self.dtype())))
    }

    /// The value as it is, through which no derivative flows.
    #[track_caller]
    pub fn stop_gradient(self) -> Expr<'g> {
        if self.error().is_some() || self.as_const().is_some() {
            return self;
        }
        self.graph()
            .build("stop_gradient", &[self], Location::caller(), || Ok((Op::StopGradient, self.shape(), self.dtype())))
    }
}

impl<'g> Neg for Expr<'g> {
    type Output = Expr<'g>;
    #[track_caller]
    fn neg(self) -> Expr<'g> {
        match self.op() {
            Op::Binary(Binary::Sub) => {
                let args = self.args();
                args[1] - args[0]
            }
            _ => self.unary(Unary::Neg),
        }
    }
}

macro_rules! operator {
    ($($trait:ident, $method:ident, $variant:ident;)*) => {$(
        impl<'g> $trait for Expr<'g> {
            type Output = Expr<'g>;
            #[track_caller]
            fn $method(self, other: Expr<'g>) -> Expr<'g> {
                self.binary(Binary::$variant, other)
            }
        }
        impl<'g> $trait<f64> for Expr<'g> {
            type Output = Expr<'g>;
            #[track_caller]
            fn $method(self, other: f64) -> Expr<'g> {
                self.binary(Binary::$variant, other)
            }
        }
        impl<'g> $trait<Expr<'g>> for f64 {
            type Output = Expr<'g>;
            #[track_caller]
            fn $method(self, other: Expr<'g>) -> Expr<'g> {
                other.same_type(self).binary(Binary::$variant, other)
            }
        }
    )*};
}
operator! {
    Add, add, Add;
    Sub, sub, Sub;
    Mul, mul, Mul;
    Div, div, Div;
}

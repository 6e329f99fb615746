//! Elementwise operations: arithmetic, functions, comparisons, selection.

use super::simplify::simplify;
use super::{Op, Vjp};
use crate::error::{At, Error};
use crate::graph::Expr;
use crate::shape::{DType, Shape};
use std::f64::consts::PI;
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::panic::Location;

/// The highest order of the polygamma functions that executors know.
const MAX_ORDER: u32 = crate::cpu::micro::MAX_ORDER;

/// Functions of one number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Unary {
    Neg,
    Recip,
    Square,
    Sqrt,
    Abs,
    Sign,
    Floor,
    Exp,
    Expm1,
    Ln,
    Log1p,
    Softplus,
    Sigmoid,
    Tanh,
    Sin,
    Cos,
    Erf,
    Lgamma,
    /// The polygamma function of this order; 0 is digamma.
    Polygamma(u32),
}

/// Functions of two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    Pow,
    Lt,
    Le,
    Eq,
    /// `f(a + n) − f(a)` without cancellation, where f is lgamma (order 0), digamma (1), trigamma (2), …
    PolygammaDiff(u32),
}

impl Unary {
    pub fn name(self) -> &'static str {
        match self {
            Unary::Neg => "neg",
            Unary::Recip => "recip",
            Unary::Square => "square",
            Unary::Sqrt => "sqrt",
            Unary::Abs => "abs",
            Unary::Sign => "sign",
            Unary::Floor => "floor",
            Unary::Exp => "exp",
            Unary::Expm1 => "expm1",
            Unary::Ln => "ln",
            Unary::Log1p => "log1p",
            Unary::Softplus => "softplus",
            Unary::Sigmoid => "sigmoid",
            Unary::Tanh => "tanh",
            Unary::Sin => "sin",
            Unary::Cos => "cos",
            Unary::Erf => "erf",
            Unary::Lgamma => "lgamma",
            Unary::Polygamma(_) => "polygamma",
        }
    }

    fn order(self) -> u32 {
        if let Unary::Polygamma(n) = self { n } else { 0 }
    }

    pub fn is_smooth(self) -> bool {
        !matches!(self, Unary::Sign | Unary::Floor)
    }

    /// The value at a constant, where the host's function is exact enough to fold.
    fn fold(self, x: f64) -> Option<f64> {
        Some(match self {
            Unary::Neg => -x,
            Unary::Recip => 1.0 / x,
            Unary::Square => x * x,
            Unary::Sqrt => x.sqrt(),
            Unary::Abs => x.abs(),
            Unary::Floor => x.floor(),
            Unary::Exp => x.exp(),
            Unary::Expm1 => x.exp_m1(),
            Unary::Ln => x.ln(),
            Unary::Log1p => x.ln_1p(),
            Unary::Tanh => x.tanh(),
            Unary::Sin => x.sin(),
            Unary::Cos => x.cos(),
            _ => return None,
        })
    }

    pub fn vjp<'g>(self, v: &Vjp<'_, 'g>) -> Option<Expr<'g>> {
        let (x, y, ct) = (v.args[0], v.out, v.ct);
        Some(match self {
            Unary::Neg => -ct,
            Unary::Recip => -(ct * y.square()),
            Unary::Square => ct * (x * 2.0),
            Unary::Sqrt => ct * 0.5 / y,
            Unary::Abs => ct * x.sign(),
            Unary::Sign | Unary::Floor => return None,
            Unary::Exp => ct * y,
            Unary::Expm1 => ct * (y + 1.0),
            Unary::Ln => ct / x,
            Unary::Log1p => ct / (x + 1.0),
            Unary::Softplus => ct * x.sigmoid(),
            Unary::Sigmoid => ct * (y * (1.0 - y)),
            Unary::Tanh => ct * (1.0 - y.square()),
            Unary::Sin => ct * x.cos(),
            Unary::Cos => -(ct * x.sin()),
            Unary::Erf => ct * ((-x.square()).exp() * (2.0 / PI.sqrt())),
            Unary::Lgamma => ct * x.digamma(),
            Unary::Polygamma(n) => ct * x.polygamma(n + 1),
        })
    }
}

impl Binary {
    pub fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
            Binary::Min => "min",
            Binary::Max => "max",
            Binary::Pow => "pow",
            Binary::Lt => "lt",
            Binary::Le => "le",
            Binary::Eq => "eq",
            Binary::PolygammaDiff(_) => "lgamma_diff",
        }
    }

    fn order(self) -> u32 {
        if let Binary::PolygammaDiff(n) = self { n } else { 0 }
    }

    pub fn is_smooth(self) -> bool {
        !matches!(self, Binary::Lt | Binary::Le | Binary::Eq)
    }

    pub(super) fn fold(self, a: f64, b: f64) -> Option<f64> {
        Some(match self {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a * b,
            Binary::Div => a / b,
            Binary::Pow => a.powf(b),
            _ => return None,
        })
    }

    pub fn vjp<'g>(self, v: &Vjp<'_, 'g>) -> Vec<Option<Expr<'g>>> {
        let (a, b, y, ct) = (v.args[0], v.args[1], v.out, v.ct);
        let want = |i: usize, f: &dyn Fn() -> Expr<'g>| v.wanted[i].then(f);
        match self {
            Binary::Add => vec![Some(ct), Some(ct)],
            Binary::Sub => vec![Some(ct), want(1, &|| -ct)],
            Binary::Mul => vec![want(0, &|| ct * b), want(1, &|| ct * a)],
            Binary::Div => vec![want(0, &|| ct / b), want(1, &|| -(ct * y / b))],
            Binary::Min => {
                let first = a.le(b);
                vec![want(0, &|| first.select(ct, 0.0)), want(1, &|| first.select(0.0, ct))]
            }
            Binary::Max => {
                let first = b.le(a);
                vec![want(0, &|| first.select(ct, 0.0)), want(1, &|| first.select(0.0, ct))]
            }
            Binary::Pow => vec![
                want(0, &|| ct * (b * a.pow(b - 1.0))),
                // d/db a^b = a^b ln a, which is 0 at a = 0 (for b > 0), not 0 · −∞.
                want(1, &|| ct * a.eq(0.0).select(0.0, y * a.ln())),
            ],
            Binary::Lt | Binary::Le | Binary::Eq => vec![None, None],
            Binary::PolygammaDiff(k) => {
                vec![want(0, &|| ct * a.polygamma_diff(k + 1, b)), want(1, &|| ct * (a + b).polygamma(k))]
            }
        }
    }
}

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
        if let Some(folded) = self.as_const().and_then(|x| f.fold(x)) {
            return self.same_type(folded).broadcast_to(shape);
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

    /// The smaller of two.
    #[track_caller]
    pub fn min(self, other: impl Operand<'g>) -> Expr<'g> {
        self.binary(Binary::Min, other)
    }
    /// The larger of two.
    #[track_caller]
    pub fn max(self, other: impl Operand<'g>) -> Expr<'g> {
        self.binary(Binary::Max, other)
    }
    /// 1 where `self < other`, else 0.
    #[track_caller]
    pub fn lt(self, other: impl Operand<'g>) -> Expr<'g> {
        self.binary(Binary::Lt, other)
    }
    /// 1 where `self ≤ other`, else 0.
    #[track_caller]
    pub fn le(self, other: impl Operand<'g>) -> Expr<'g> {
        self.binary(Binary::Le, other)
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
    /// 1 where `self = other`, else 0.
    #[track_caller]
    pub fn eq(self, other: impl Operand<'g>) -> Expr<'g> {
        self.binary(Binary::Eq, other)
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
            _ if a == b => return a.broadcast_to(shape),
            Some(0.0) => return b.broadcast_to(shape),
            Some(_) => return a.broadcast_to(shape),
            None => {}
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

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident, $variant:ident;)*) => {
        impl<'g> Expr<'g> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self) -> Expr<'g> {
                self.unary(Unary::$variant)
            }
        )*}
    };
}
functions! {
    /// `1 / self`.
    recip, Recip;
    /// `self · self`.
    square, Square;
    /// The square root.
    sqrt, Sqrt;
    /// The absolute value.
    abs, Abs;
    /// −1, 0 or 1.
    sign, Sign;
    /// The largest whole number not above.
    floor, Floor;
    /// The exponential.
    exp, Exp;
    /// `exp(self) − 1`, accurate near 0.
    expm1, Expm1;
    /// The natural logarithm.
    ln, Ln;
    /// `ln(1 + self)`, accurate near 0.
    log1p, Log1p;
    /// `ln(1 + exp(self))`.
    softplus, Softplus;
    /// `1 / (1 + exp(−self))`.
    sigmoid, Sigmoid;
    /// The hyperbolic tangent.
    tanh, Tanh;
    /// The sine.
    sin, Sin;
    /// The cosine.
    cos, Cos;
    /// The error function.
    erf, Erf;
    /// `ln |Γ(self)|`.
    lgamma, Lgamma;
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

//! The table of elementwise operations: one row each, read by the graph, the plan and both executors.
//!
//! Every reader expands the same rows, so that an operation whose derivative, kernel or CUDA text is missing does not
//! compile. A row has these fields, in this order:
//!
//! - documentation and `pub fn name =` if users call it as a method of that name (operators have none);
//! - the variant of [`Unary`], [`Binary`] or [`Ternary`], with its parameter if it has one, and its name in messages;
//! - `fold`, where a constant operand is computed at once by the host's function;
//! - `vjp`: the derivative rule, from the operands, the value `y` and the cotangent `ct` to the operand's cotangent (one
//!   for each), written in expressions; or `flat` if no derivative flows;
//! - `cost`: roughly the nanoseconds of an element of type f64 on one core;
//! - `cpu`: the kernel, as a loop and what it does to one lane: `light` for a few instructions, `heavy` for more; or a
//!   type of `cpu/micro/lanes.rs`; or `kernel`, a function that chooses one. `T` is the type of the elements, `F` says
//!   whether there is fused multiply-add, `e` are the functions of `cpu/micro/elementary.rs`;
//! - `cuda`: the body of a function of `x`, of `a` and `b`, or of `a`, `b` and `c`, once for both types (called `T`) or
//!   for `float` and for `double`. It may call `f_name` of rows above, and what `source/prelude.cu` declares.

/// Highest order of the polygamma functions that executors have.
pub(crate) const MAX_ORDER: u32 = 24;

/// Calls the macro `$reader` with all rows.
macro_rules! elementwise {
    ($reader:ident) => {
        $reader! {
            unary {
                Neg "neg" {
                    fold(|x| -x)
                    vjp(|x, y, ct| -ct)
                    cost(0.1)
                    cpu(light |a| -a)
                    cuda("return -x;")
                }
                /// `1 / self`.
                pub fn recip = Recip "recip" {
                    fold(|x| 1.0 / x)
                    vjp(|x, y, ct| -(ct * y.square()))
                    cost(0.4)
                    cpu(light |a| T::lit(1.0) / a)
                    cuda("return T(1) / x;")
                }
                /// `self · self`.
                pub fn square = Square "square" {
                    fold(|x| x * x)
                    vjp(|x, y, ct| ct * (x * 2.0))
                    cost(0.1)
                    cpu(light |a| a * a)
                    cuda("return x * x;")
                }
                /// The square root.
                pub fn sqrt = Sqrt "sqrt" {
                    fold(|x| x.sqrt())
                    vjp(|x, y, ct| ct * 0.5 / y)
                    cost(0.4)
                    cpu(light |a| a.sqrt())
                    cuda("return sqrtf(x);", "return sqrt(x);")
                }
                /// The absolute value.
                pub fn abs = Abs "abs" {
                    fold(|x| x.abs())
                    vjp(|x, y, ct| ct * x.sign())
                    cost(0.1)
                    cpu(light |a| a.abs())
                    cuda("return fabsf(x);", "return fabs(x);")
                }
                /// −1, 0 or 1; NaN at NaN.
                pub fn sign = Sign "sign" {
                    vjp(flat)
                    cost(0.1)
                    cpu(light |a| sel(a > T::lit(0.0), T::lit(1.0), sel(a < T::lit(0.0), T::lit(-1.0), a)))
                    cuda("return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;")
                }
                /// The largest whole number not above.
                pub fn floor = Floor "floor" {
                    fold(|x| x.floor())
                    vjp(flat)
                    cost(0.1)
                    cpu(light |a| a.floor::<F>())
                    cuda("return floorf(x);", "return floor(x);")
                }
                /// The exponential.
                pub fn exp = Exp "exp" {
                    fold(|x| x.exp())
                    vjp(|x, y, ct| ct * y)
                    cost(0.8)
                    cpu(heavy |a| e::exp::<T, F>(a))
                    cuda("return expf(x);", "return exp(x);")
                }
                /// `exp(self) − 1`, accurate near 0.
                pub fn expm1 = Expm1 "expm1" {
                    fold(|x| x.exp_m1())
                    vjp(|x, y, ct| ct * (y + 1.0))
                    cost(1.5)
                    cpu(heavy |a| e::expm1::<T, F>(a))
                    cuda("return expm1f(x);", "return expm1(x);")
                }
                /// The natural logarithm.
                pub fn ln = Ln "ln" {
                    fold(|x| x.ln())
                    vjp(|x, y, ct| ct / x)
                    cost(0.8)
                    cpu(heavy |a| e::ln::<T, F>(a))
                    cuda("return logf(x);", "return log(x);")
                }
                /// `ln(1 + self)`, accurate near 0.
                pub fn log1p = Log1p "log1p" {
                    fold(|x| x.ln_1p())
                    vjp(|x, y, ct| ct / (x + 1.0))
                    cost(1.5)
                    cpu(heavy |a| e::log1p::<T, F>(a))
                    cuda("return log1pf(x);", "return log1p(x);")
                }
                /// `ln(1 + exp(self))`.
                pub fn softplus = Softplus "softplus" {
                    vjp(|x, y, ct| ct * x.sigmoid())
                    cost(1.5)
                    cpu(heavy |a| e::softplus::<T, F>(a))
                    cuda("T y = f_log1p(f_exp(-f_abs(x))); return x != x ? x : (x > T(0) ? x : T(0)) + y;")
                }
                /// `1 / (1 + exp(−self))`.
                pub fn sigmoid = Sigmoid "sigmoid" {
                    vjp(|x, y, ct| ct * (y * (1.0 - y)))
                    cost(0.8)
                    cpu(heavy |a| e::sigmoid::<T, F>(a))
                    // Both forms keep the digits of a result near 0.
                    cuda("T e = f_exp(-f_abs(x)), r = T(1) / (T(1) + e); return x < T(0) ? e * r : x != x ? x : r;")
                }
                /// The hyperbolic tangent.
                pub fn tanh = Tanh "tanh" {
                    fold(|x| x.tanh())
                    vjp(|x, y, ct| ct * (1.0 - y.square()))
                    cost(1.5)
                    cpu(heavy |a| e::tanh::<T, F>(a))
                    cuda("return tanhf(x);", "return tanh(x);")
                }
                /// The sine.
                pub fn sin = Sin "sin" {
                    fold(|x| x.sin())
                    vjp(|x, y, ct| ct * x.cos())
                    cost(1.5)
                    cpu(heavy Sin)
                    cuda("return sinf(x);", "return sin(x);")
                }
                /// The cosine.
                pub fn cos = Cos "cos" {
                    fold(|x| x.cos())
                    vjp(|x, y, ct| -(ct * x.sin()))
                    cost(1.5)
                    cpu(heavy Cos)
                    cuda("return cosf(x);", "return cos(x);")
                }
                /// The angle whose tangent this is, between −π/2 and π/2.
                pub fn atan = Atan "atan" {
                    fold(|x| x.atan())
                    vjp(|x, y, ct| ct / (x.square() + 1.0))
                    cost(1.5)
                    cpu(heavy |a| e::atan::<T, F>(a))
                    cuda("return atanf(x);", "return atan(x);")
                }
                /// The error function.
                pub fn erf = Erf "erf" {
                    vjp(|x, y, ct| ct * ((-x.square()).exp() * std::f64::consts::FRAC_2_SQRT_PI))
                    cost(1.5)
                    cpu(heavy |a| e::erf::<T, F>(a))
                    cuda("return erff(x);", "return erf(x);")
                }
                /// The complementary error function `1 − erf(self)`, accurate where it is small.
                pub fn erfc = Erfc "erfc" {
                    vjp(|x, y, ct| -(ct * ((-x.square()).exp() * std::f64::consts::FRAC_2_SQRT_PI)))
                    cost(2.0)
                    cpu(heavy |a| e::erfc::<T, F>(a))
                    cuda("return erfcf(x);", "return erfc(x);")
                }
                /// The scaled complementary error function `exp(self²) · erfc(self)`.
                pub fn erfcx = Erfcx "erfcx" {
                    vjp(|x, y, ct| ct * (x * 2.0 * y - std::f64::consts::FRAC_2_SQRT_PI))
                    cost(2.0)
                    cpu(heavy |a| e::erfcx::<T, F>(a))
                    cuda("return erfcxf(x);", "return erfcx(x);")
                }
                /// `ln(erfc(self))`, which does not underflow.
                pub fn log_erfc = LogErfc "log_erfc" {
                    vjp(|x, y, ct| -(ct * (x.erfcx().recip() * std::f64::consts::FRAC_2_SQRT_PI)))
                    cost(3.0)
                    cpu(heavy |a| e::log_erfc::<T, F>(a))
                    cuda("return x < T(0.5) ? f_log1p(-f_erf(x)) : f_ln(f_erfcx(x)) - x * x;")
                }
                /// `ln |Γ(self)|`.
                pub fn lgamma = Lgamma "lgamma" {
                    vjp(|x, y, ct| ct * x.digamma())
                    cost(1.5)
                    cpu(heavy Lgamma)
                    cuda("return (T)g_lgamma((double)x);")
                }
                // ψ⁽ᵏ⁾: digamma (0), trigamma (1), …; at negative arguments by reflection up to order 20, NaN beyond.
                Polygamma(order: u32) "polygamma" {
                    vjp(|x, y, ct| ct * x.polygamma(order + 1))
                    cost(if order < 2 { 1.5 } else { 200.0 })
                    cpu(kernel polygamma)
                    cuda("return (T)g_polygamma(order, (double)x);")
                }
            }
            binary {
                Add "add" {
                    fold(|a, b| a + b)
                    vjp(|a, b, y, ct| ct, ct)
                    cost(0.1)
                    cpu(light |a, b| a + b)
                    cuda("return a + b;")
                }
                Sub "sub" {
                    fold(|a, b| a - b)
                    vjp(|a, b, y, ct| ct, -ct)
                    cost(0.1)
                    cpu(light |a, b| a - b)
                    cuda("return a - b;")
                }
                Mul "mul" {
                    fold(|a, b| a * b)
                    vjp(|a, b, y, ct| ct * b, ct * a)
                    cost(0.1)
                    cpu(light |a, b| a * b)
                    cuda("return a * b;")
                }
                Div "div" {
                    fold(|a, b| a / b)
                    vjp(|a, b, y, ct| ct / b, -(ct * y / b))
                    cost(0.4)
                    cpu(light |a, b| a / b)
                    cuda("return a / b;")
                }
                /// The smaller of two; NaN if either is.
                pub fn min = Min "min" {
                    vjp(|a, b, y, ct| a.le(b).select(ct, 0.0), a.le(b).select(0.0, ct))
                    cost(0.1)
                    // b unless a is less, or not a number; a NaN in b makes every comparison false.
                    cpu(light |a, b| sel((a < b) | is_nan(a), a, b))
                    cuda("return (a < b || a != a) ? a : b;")
                }
                /// The larger of two; NaN if either is.
                pub fn max = Max "max" {
                    vjp(|a, b, y, ct| b.le(a).select(ct, 0.0), b.le(a).select(0.0, ct))
                    cost(0.1)
                    cpu(light |a, b| sel((a > b) | is_nan(a), a, b))
                    cuda("return (a > b || a != a) ? a : b;")
                }
                Pow "pow" {
                    fold(|a, b| a.powf(b))
                    // d/db a^b = a^b ln a, which is 0 at a = 0 (for b > 0), not 0 · −∞.
                    vjp(|a, b, y, ct| ct * (b * a.pow(b - 1.0)), ct * a.eq(0.0).select(0.0, y * a.ln()))
                    cost(20.0)
                    cpu(kernel pow)
                    cuda("return powf(a, b);", "return pow(a, b);")
                }
                /// 1 where `self < other`, else 0.
                pub fn lt = Lt "lt" {
                    fold(|a, b| f64::from(a < b))
                    vjp(flat)
                    cost(0.1)
                    cpu(light |a, b| sel(a < b, T::lit(1.0), T::lit(0.0)))
                    cuda("return a < b ? T(1) : T(0);")
                }
                /// 1 where `self ≤ other`, else 0.
                pub fn le = Le "le" {
                    fold(|a, b| f64::from(a <= b))
                    vjp(flat)
                    cost(0.1)
                    cpu(light |a, b| sel(a <= b, T::lit(1.0), T::lit(0.0)))
                    cuda("return a <= b ? T(1) : T(0);")
                }
                /// 1 where `self = other`, else 0: element by element, unlike [`is_same`](Expr::is_same).
                pub fn eq = Eq "eq" {
                    fold(|a, b| f64::from(a == b))
                    vjp(flat)
                    cost(0.1)
                    cpu(light |a, b| sel(a == b, T::lit(1.0), T::lit(0.0)))
                    cuda("return a == b ? T(1) : T(0);")
                }
                // `f(a + n) − f(a)` without cancellation, where f is lgamma (order 0), digamma (1), trigamma (2), …
                PolygammaDiff(order: u32) "lgamma_diff" {
                    vjp(|a, b, y, ct| ct * a.polygamma_diff(order + 1, b), ct * (a + b).polygamma(order))
                    cost(if order < 3 { 2.0 } else { 400.0 })
                    cpu(kernel polygamma_diff)
                    cuda("return (T)g_polygamma_diff(order, (double)a, (double)b);")
                }
            }
            ternary {
                // a · b + c, fused where there is an instruction for it.
                MulAdd "muladd" {
                    cost(0.1)
                    cpu(light MulAdd)
                    cuda("return fmaf(a, b, c);", "return fma(a, b, c);")
                }
                // b where a ≠ 0, else c.
                Select "select" {
                    cost(0.1)
                    cpu(light |a, b, c| sel(a != T::lit(0.0), b, c))
                    cuda("return a != T(0) ? b : c;")
                }
            }
        }
    };
}
pub(crate) use elementwise;

/// Whether a derivative flows.
macro_rules! is_smooth {
    ((flat)) => {
        false
    };
    ($rule:tt) => {
        true
    };
}

macro_rules! enums {
    (
        unary {$(
            $($(#[$doc:meta])+ pub fn $method:ident =)?
            $unary:ident $(($order:ident: $type:ty))? $name:literal {
                $(fold $fold:tt)? vjp $vjp:tt cost($cost:expr) cpu $cpu:tt cuda $cuda:tt
            }
        )*}
        binary {$(
            $($(#[$doc2:meta])+ pub fn $method2:ident =)?
            $binary:ident $(($order2:ident: $type2:ty))? $name2:literal {
                $(fold $fold2:tt)? vjp $vjp2:tt cost($cost2:expr) cpu $cpu2:tt cuda $cuda2:tt
            }
        )*}
        ternary {$(
            $ternary:ident $name3:literal { cost($cost3:expr) cpu $cpu3:tt cuda $cuda3:tt }
        )*}
    ) => {
        /// Functions of one number.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub(crate) enum Unary {
            $($unary $(($type))?,)*
        }

        /// Functions of two numbers.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub(crate) enum Binary {
            $($binary $(($type2))?,)*
        }

        /// Functions of three numbers.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub(crate) enum Ternary {
            $($ternary,)*
        }

        impl Unary {
            pub fn name(self) -> &'static str {
                match self {
                    $(Unary::$unary { .. } => $name,)*
                }
            }

            /// That of a polygamma function; 0 for all others.
            pub fn order(self) -> u32 {
                match self {
                    $(Unary::$unary $(($order))? => 0 $(+ $order)?,)*
                }
            }

            pub fn is_smooth(self) -> bool {
                match self {
                    $(Unary::$unary { .. } => is_smooth!($vjp),)*
                }
            }

            fn cost(self) -> f64 {
                match self {
                    $(Unary::$unary $(($order))? => $cost,)*
                }
            }
        }

        impl Binary {
            pub fn name(self) -> &'static str {
                match self {
                    $(Binary::$binary { .. } => $name2,)*
                }
            }

            /// That of a difference of polygamma functions; 0 for all others.
            pub fn order(self) -> u32 {
                match self {
                    $(Binary::$binary $(($order2))? => 0 $(+ $order2)?,)*
                }
            }

            pub fn is_smooth(self) -> bool {
                match self {
                    $(Binary::$binary { .. } => is_smooth!($vjp2),)*
                }
            }

            fn cost(self) -> f64 {
                match self {
                    $(Binary::$binary $(($order2))? => $cost2,)*
                }
            }
        }

        impl Ternary {
            pub fn name(self) -> &'static str {
                match self {
                    $(Ternary::$ternary => $name3,)*
                }
            }

            fn cost(self) -> f64 {
                match self {
                    $(Ternary::$ternary => $cost3,)*
                }
            }
        }
    };
}
elementwise!(enums);

/// What one operation of a fused kernel computes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Function {
    Unary(Unary),
    Binary(Binary),
    Ternary(Ternary),
    /// The first of two results; the second is the operation after this one.
    Pair(Pair),
    /// The second result of the operation before.
    Second,
}

/// Two functions of the same operands that share most of their work.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Pair {
    /// Differences of polygamma functions of this order (0 or 1), and of the next.
    Diff(u32),
    /// The softplus and its derivative, the sigmoid.
    Softplus,
}

impl Pair {
    /// All of them, those that are to be preferred first.
    pub const ALL: [Pair; 3] = [Pair::Diff(1), Pair::Diff(0), Pair::Softplus];

    /// Both functions.
    pub fn both(self) -> [Function; 2] {
        match self {
            Pair::Diff(k) => [k, k + 1].map(|k| Function::Binary(Binary::PolygammaDiff(k))),
            Pair::Softplus => [Unary::Softplus, Unary::Sigmoid].map(Function::Unary),
        }
    }
}

impl Function {
    pub const MUL_ADD: Function = Function::Ternary(Ternary::MulAdd);
    pub const SELECT: Function = Function::Ternary(Ternary::Select);

    pub fn name(self) -> &'static str {
        match self {
            Function::Unary(u) => u.name(),
            Function::Binary(b) => b.name(),
            Function::Ternary(t) => t.name(),
            Function::Pair(Pair::Diff(_)) => "lgamma_diffs",
            Function::Pair(Pair::Softplus) => "softplus_sigmoid",
            Function::Second => "and",
        }
    }

    /// Roughly the nanoseconds an element of type f64 takes on one core.
    pub fn cost(self) -> f64 {
        match self {
            Function::Unary(u) => u.cost(),
            Function::Binary(b) => b.cost(),
            Function::Ternary(t) => t.cost(),
            Function::Pair(Pair::Diff(_)) => 2.5,
            Function::Pair(Pair::Softplus) => 1.7,
            Function::Second => 0.0,
        }
    }
}

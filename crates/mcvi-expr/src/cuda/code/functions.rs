//! The elementwise functions of the table as CUDA C.

use crate::plan::{MapOp, Value};
use crate::table::{Function, elementwise};
use std::fmt::Write;

/// A row of the table: name, names of the operands, whether it has an order, and its body: for both types, or for each.
struct Row {
    name: &'static str,
    args: &'static [&'static str],
    ordered: bool,
    bodies: &'static [&'static str],
}

/// Whether there is anything between the parentheses.
macro_rules! any {
    () => {
        false
    };
    ($($token:tt)+) => {
        true
    };
}

macro_rules! rows {
    (
        unary {$(
            $($(#[$doc:meta])+ pub fn $method:ident =)?
            $unary:ident $(($($order:tt)+))? $name:literal {
                $(fold $fold:tt)? vjp $vjp:tt cost $cost:tt cpu $cpu:tt cuda($($body:literal),+)
            }
        )*}
        binary {$(
            $($(#[$doc2:meta])+ pub fn $method2:ident =)?
            $binary:ident $(($($order2:tt)+))? $name2:literal {
                $(fold $fold2:tt)? vjp $vjp2:tt cost $cost2:tt cpu $cpu2:tt cuda($($body2:literal),+)
            }
        )*}
        ternary {$(
            $ternary:ident $name3:literal { cost $cost3:tt cpu $cpu3:tt cuda($($body3:literal),+) }
        )*}
    ) => {
        const ROWS: &[Row] = &[
            $(Row { name: $name, args: &["x"], ordered: any!($($($order)+)?), bodies: &[$($body),+] },)*
            $(Row { name: $name2, args: &["a", "b"], ordered: any!($($($order2)+)?), bodies: &[$($body2),+] },)*
            $(Row { name: $name3, args: &["a", "b", "c"], ordered: false, bodies: &[$($body3),+] },)*
        ];
    };
}
elementwise!(rows);

/// The definitions of all of them, `f_name` each.
pub(crate) fn functions() -> String {
    let mut out = String::new();
    for row in ROWS {
        let types: &[&str] = if row.bodies.len() == 1 { &["T"] } else { &["float", "double"] };
        for (t, body) in types.iter().zip(row.bodies) {
            let order = row.ordered.then(|| "int order".to_owned());
            let args: Vec<String> = order.into_iter().chain(row.args.iter().map(|a| format!("{t} {a}"))).collect();
            let template = if *t == "T" { "template <class T> " } else { "" };
            let (name, args) = (row.name, args.join(", "));
            let _ = writeln!(out, "{template}__device__ __forceinline__ {t} f_{name}({args}) {{ {body} }}");
        }
    }
    out
}

/// The call of an operation.
pub(super) fn call(ops: &[MapOp], op: &MapOp, args: &[String]) -> String {
    // Both of a pair are computed apart: that shares less, but keeps one form.
    let function = match op.function {
        Function::Pair(pair) => pair.both()[0],
        Function::Second => {
            let Value::Op(first) = op.args[0] else { unreachable!("a second result belongs to an operation") };
            let Function::Pair(pair) = ops[first].function else { unreachable!("only pairs have a second result") };
            pair.both()[1]
        }
        function => function,
    };
    let (name, order) = match function {
        Function::Unary(u) => (u.name(), u.order()),
        Function::Binary(b) => (b.name(), b.order()),
        _ => (function.name(), 0),
    };
    let args = args.join(", ");
    match ROWS.iter().any(|row| row.name == name && row.ordered) {
        true => format!("f_{name}({order}, {args})"),
        false => format!("f_{name}({args})"),
    }
}

//! Affine functions with literal matrices, `a · B + c`: what follows from literals alone is computed as it is built.
//!
//! Linear predictors of whitened coordinates are such functions of such functions, and so are gradients of quadratic forms.

use crate::array::Array;
use crate::graph::{Expr, Op};
use crate::shape::Shape;
use crate::table::Binary;

/// Elements of a product of literals, and multiplications it may take.
const ELEMENTS: usize = 1 << 16;
const WORK: usize = 1 << 22;

/// `a · matrix + shift`.
struct Affine<'g> {
    a: Expr<'g>,
    matrix: Matrix<'g>,
    /// One number for each column.
    shift: Option<Expr<'g>>,
}

/// A literal, read as `rows` by `columns`.
struct Matrix<'g> {
    literal: Expr<'g>,
    transposed: bool,
    rows: usize,
    columns: usize,
}

impl<'g> Matrix<'g> {
    fn new(e: Expr<'g>, transposed: bool) -> Option<Self> {
        let array = literal(e)?;
        let &[rows, columns] = array.shape().dims() else { return None };
        let (rows, columns) = if transposed { (columns, rows) } else { (rows, columns) };
        Some(Matrix { literal: e, transposed, rows, columns })
    }
}

fn literal(e: Expr<'_>) -> Option<Array> {
    match e.op() {
        Op::Literal(array) => Some(array),
        _ => None,
    }
}

impl<'g> Affine<'g> {
    fn of(e: Expr<'g>) -> Option<Self> {
        match e.op() {
            Op::MatMul { ta: false, tb } => {
                let [a, b] = e.args()[..] else { return None };
                Some(Affine { a, matrix: Matrix::new(b, tb)?, shift: None })
            }
            Op::Binary(Binary::Add) => {
                let [x, y] = e.args()[..] else { return None };
                let (product, row) = if matches!(y.op(), Op::Broadcast) { (x, y) } else { (y, x) };
                let product = Affine::of(product).filter(|p| p.shift.is_none())?;
                Some(Affine { shift: Some(vector(row, product.matrix.columns)?), ..product })
            }
            _ => None,
        }
    }
}

/// The literal vector of n numbers that is added to, or multiplies, every row.
fn vector(e: Expr<'_>, n: usize) -> Option<Expr<'_>> {
    let source = if e.op() == Op::Broadcast { e.args()[0] } else { e };
    literal(source).filter(|array| *array.shape() == Shape::from(n)).map(|_| source)
}

/// `(a · B + c) · C` as `a · (B · C) + c · C`, if that takes no more multiplications even where `a · B + c` is needed too.
pub(super) fn product<'g>(e: Expr<'g>, other: Expr<'g>, transposed: bool) -> Option<Expr<'g>> {
    if e.shape().rank() != 2 || e.dtype() != other.dtype() || !std::ptr::eq(e.graph(), other.graph()) {
        return None;
    }
    let outer = Matrix::new(other, transposed)?;
    let Affine { a, matrix: inner, shift } = Affine::of(e)?;
    let (k, j, n) = (inner.rows, inner.columns, outer.columns);
    if k > j || k * n > ELEMENTS || k * j * n > WORK {
        return None;
    }
    let graph = e.graph();
    let values = |m: &Matrix<'g>| literal(m.literal).map(|array| array.to_f64());
    let (b, c) = (values(&inner)?, values(&outer)?);
    let at = |m: &Matrix<'g>, i: usize, l: usize| if m.transposed { l * m.rows + i } else { i * m.columns + l };
    let row = |left: &dyn Fn(usize) -> f64| -> Vec<f64> {
        let mut sums = vec![0.0; n];
        for l in 0..j {
            let x = left(l);
            sums.iter_mut().enumerate().for_each(|(column, sum)| *sum += x * c[at(&outer, l, column)]);
        }
        sums
    };
    let matrix = graph.known(Op::MatMul { ta: inner.transposed, tb: transposed }, &[inner.literal, other], || {
        let values = (0..k).flat_map(|i| row(&|l| b[at(&inner, i, l)])).collect();
        Array::from_f64s(e.dtype(), Shape::from([k, n]), values)
    });
    let product = a.matmul(matrix);
    Some(match shift.and_then(literal) {
        Some(shift) => {
            let shift = shift.to_f64();
            product + graph.literal(Array::from_f64s(e.dtype(), Shape::from(n), row(&|l| shift[l])))
        }
        None => product,
    })
}

/// `(a · B + c) · signs` as `a · (B · signs) + c · signs`, where every column is multiplied by 1 or −1.
pub(super) fn signed<'g>(e: Expr<'g>, signs: Expr<'g>) -> Option<Expr<'g>> {
    let Affine { a, matrix, shift } = Affine::of(e)?;
    let row = vector(signs, matrix.columns)?;
    let numbers = literal(row)?.to_f64();
    if e.shape().rank() != 2 || numbers.iter().any(|s| s.abs() != 1.0) || matrix.rows * matrix.columns > ELEMENTS {
        return None;
    }
    let values = literal(matrix.literal)?.to_f64();
    let column = |i: usize| if matrix.transposed { i / matrix.rows } else { i % matrix.columns };
    let changed = e.graph().known(Op::MatMul { ta: false, tb: matrix.transposed }, &[matrix.literal, row], || {
        let values = values.iter().enumerate().map(|(i, x)| x * numbers[column(i)]).collect();
        Array::from_f64s(e.dtype(), matrix.literal.shape(), values)
    });
    let product = a.matmul(if matrix.transposed { changed.t() } else { changed });
    Some(shift.map_or(product, |shift| product + shift * row))
}

/// `x + (y + row)` as `(x + y) + row` for products x and y: products are summed in place.
pub(super) fn summed<'g>(x: Expr<'g>, sum: Expr<'g>) -> Option<Expr<'g>> {
    let Affine { shift: Some(shift), .. } = Affine::of(sum)? else { return None };
    let product = sum.args().into_iter().find(|e| matches!(e.op(), Op::MatMul { .. }))?;
    matches!(x.op(), Op::MatMul { .. }).then(|| (x + product) + shift)
}

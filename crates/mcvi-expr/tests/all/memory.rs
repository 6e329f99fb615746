//! Kernels that reach memory by raw pointers, in a program small enough for Miri, which cannot run the `gemm` crate that
//! products call.

use crate::common::{array, assert_close};
use mcvi_expr::{Array, DType, Graph};

#[test]
fn small_kernels_stay_within_their_memory() {
    for dtype in [DType::F64, DType::F32] {
        let graph = Graph::new();
        let x = graph.input("x", dtype, [3, 5]);
        let w = graph.state("w", Array::filled(dtype, [3, 5], 1.0).unwrap());
        let index = graph.literal(Array::new(3, vec![2, 0, 2]).unwrap());
        // Types converted by way of scratch memory, from strided elements and contiguous ones.
        let other = if dtype == DType::F64 { DType::F32 } else { DType::F64 };
        let cast = x.t().cast(other).cast(dtype).t() + x.cast(DType::I32).cast(dtype);
        let moved = graph.concat(&[x.take(0, index), x.slice(0, 1..3), x.pad(0, 1, 1)], 0);
        let added = x.take(0, index).scatter_add(index, 3);
        let grown = x.reshape([1, 1, 3, 5]).upsample(4, 7).sum_all();
        let square = graph.literal(array([2, 2], [4.0, 2.0, 2.0, 3.0]).cast(dtype));
        let factor = square.cholesky().solve_lower(square);
        let noise = graph.normal(0, dtype, [3, 5]) * 0.0 + graph.uniform(1, dtype, [5]) * 0.0;
        let program = graph.program().output("cast", cast).output("moved", moved.cumsum(1)).output("added", added);
        let program = program.output("grown", grown).output("factor", factor).output("sums", x.exp().sum(&[0]).ln());
        let mut program = program.update(w, w * 2.0 + noise).threads(1).compile().unwrap();
        let numbers: Vec<f64> = (0..15).map(f64::from).collect();
        program.write("x", &array([3, 5], numbers.clone()).cast(dtype)).unwrap();
        program.run(3).unwrap();
        let mut output = |name: &str| program.output(name).unwrap().to_f64();
        assert_eq!(output("cast"), numbers.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
        assert_eq!(output("moved")[..5], [10.0, 21.0, 33.0, 46.0, 60.0]);
        assert_eq!(output("added")[5..], [0.0, 0.0, 0.0, 0.0, 0.0, 20.0, 22.0, 24.0, 26.0, 28.0]);
        assert_close(&output("factor"), &[2.0, 1.0, 0.0, 2f64.sqrt()], 1e-6);
        assert_eq!(output("sums").len(), 5);
        assert!(output("grown")[0] > 0.0);
        assert_eq!(program.read("w").unwrap().to_f64(), [8.0; 15]);
    }
}

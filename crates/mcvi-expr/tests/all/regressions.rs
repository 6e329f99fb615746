//! Mistakes that were made once: each test is the smallest program that showed one.

use mcvi_expr::{Array, DType, Graph, grad};

fn ones(shape: impl Into<mcvi_expr::Shape>) -> Array {
    Array::filled(DType::F64, shape, 1.0).unwrap()
}

#[test]
fn a_state_gets_a_sum_that_is_combined_from_parts() {
    for threads in [1, 8] {
        let g = Graph::new();
        let x = g.input("x", DType::F64, [2, 20_000]);
        let t = g.input("t", DType::F64, ());
        let s = g.state("s", Array::zeros(DType::F64, [20_000]).unwrap());
        let mut p = g.program().update(s, (x * t).sum(&[0])).threads(threads).compile().unwrap();
        p.write("x", &ones([2, 20_000])).unwrap();
        for k in 1..20 {
            p.write("t", &Array::scalar(f64::from(k))).unwrap();
            p.run(1).unwrap();
            assert!(p.read("s").unwrap().to_f64().iter().all(|v| *v == 2.0 * f64::from(k)));
        }
    }
}

#[test]
fn a_state_gets_a_gradient_of_filters() {
    let g = Graph::new();
    let x = g.input("x", DType::F64, [64, 3, 8, 8]);
    let t = g.input("t", DType::F64, ());
    let f = g.state("f", Array::zeros(DType::F64, [256, 3, 3, 3]).unwrap());
    let df = grad((x.conv2d(f, 1, (1, 1)) * t).sum_all(), &[f]).unwrap()[0];
    let mut p = g.program().update(f, df).threads(8).compile().unwrap();
    p.write("x", &ones([64, 3, 8, 8])).unwrap();
    for k in 1..10 {
        p.write("t", &Array::scalar(f64::from(k))).unwrap();
        p.run(1).unwrap();
        let v = p.read("f").unwrap().to_f64();
        // The middle of a filter meets all 64 pixels of 64 images.
        assert_eq!((v[4], v[256 * 27 - 5]), (4096.0 * f64::from(k), 4096.0 * f64::from(k)));
    }
}

#[test]
fn an_output_stays_when_the_state_it_replaced_is_written() {
    let g = Graph::new();
    let s = g.state("s", ones([4]));
    let v = s + 1.0;
    let mut p = g.program().update(s, v).output("v", v).compile().unwrap();
    p.run(1).unwrap();
    p.write("s", &Array::filled(DType::F64, [4], 100.0).unwrap()).unwrap();
    assert_eq!(p.output("v").unwrap().to_f64(), [2.0; 4]);
    p.run(1).unwrap();
    assert_eq!(p.read("s").unwrap().to_f64(), [101.0; 4]);
}

#[test]
fn padded_arrays_of_different_shapes_are_added_by_broadcasting() {
    let g = Graph::new();
    let (a, b) = (g.input("a", DType::F64, [1, 3]), g.input("b", DType::F64, [2]));
    let (c, w) = (g.input("c", DType::F64, [2, 4]), g.input("w", DType::F64, [4, 5]));
    let v = g.input("v", DType::F64, [1, 2]);
    let dw = grad(w.slice(0, 0..1).slice(1, 2..5).square().sum_all(), &[w]).unwrap()[0];
    let program = g.program();
    let program = program.output("first", a.pad(0, 1, 1) + b.pad(0, 1, 0));
    let program = program.output("second", b.pad(0, 0, 2) + c.pad(0, 2, 0)).output("third", v.pad(1, 0, 3) + dw);
    let mut p = program.compile().unwrap();
    for (name, shape) in [("a", vec![1, 3]), ("b", vec![2]), ("c", vec![2, 4]), ("w", vec![4, 5]), ("v", vec![1, 2])] {
        p.write(name, &ones(shape)).unwrap();
    }
    p.run(1).unwrap();
    let out = |p: &mut mcvi_expr::Program, name| p.output(name).unwrap().to_f64();
    assert_eq!(out(&mut p, "first"), [0., 1., 1., 1., 2., 2., 0., 1., 1.]);
    assert_eq!(out(&mut p, "second"), [1., 1., 0., 0., 1., 1., 0., 0., 2., 2., 1., 1., 2., 2., 1., 1.]);
    assert_eq!(out(&mut p, "third")[..10], [1., 1., 2., 2., 2., 1., 1., 0., 0., 0.]);
}

#[test]
fn constants_are_folded_within_the_range_of_their_type() {
    let g = Graph::new();
    let x = g.input("x", DType::F32, [1]);
    let program = g.program().output("y", x / 2f64.powi(-130)).output("z", (x * 1e-20) * 1e-20);
    let mut p = program.compile().unwrap();
    p.write("x", &Array::new([1], vec![2f32.powi(-20)]).unwrap()).unwrap();
    p.run(1).unwrap();
    assert_eq!(p.output("y").unwrap().to_f64(), [2f64.powi(110)]);
    p.write("x", &Array::new([1], vec![1e30f32]).unwrap()).unwrap();
    p.run(1).unwrap();
    let z = p.output("z").unwrap().to_f64()[0];
    assert!((z / 1e-10 - 1.0).abs() < 1e-6, "{z}");
}

#[test]
fn programs_run_from_the_threads_of_a_pool() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    pool.scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|_| {
                let g = Graph::new();
                let x = g.normal(0, DType::F64, [300, 784]);
                let mut p = g.program().output("y", x.exp().sum(&[0])).threads(2).compile().unwrap();
                p.run(3).unwrap();
            });
        }
    });
}

#[test]
fn an_input_that_nothing_depends_on_can_be_written() {
    let g = Graph::new();
    let (x, z) = (g.input("x", DType::F64, [3]), g.input("z", DType::F64, [3]));
    let d = grad((x * 2.0 + z.square()).sum_all(), &[x, z]).unwrap();
    let mut p = g.program().output("d", d[0] + d[1]).compile().unwrap();
    p.write("x", &ones([3])).unwrap();
    assert!(p.write("x", &ones([4])).is_err());
    p.write("z", &ones([3])).unwrap();
    p.run(1).unwrap();
    assert_eq!(p.output("d").unwrap().to_f64(), [4.0; 3]);
}

#[test]
fn fresh_streams_differ() {
    let g = Graph::new();
    let (a, b) = (g.fresh_stream(), g.fresh_stream());
    assert!((g.normal(a, DType::F64, [3]) + g.normal(b, DType::F64, [3])).error().is_none());
}

#[test]
fn sizes_beyond_all_memory_are_refused() {
    let g = Graph::new();
    let x = g.input("x", DType::F64, [2]);
    let y = (0..9).map(|i| x.pad(0, (1usize << 58) - i, 0).slice(0, 0..2)).reduce(|a, b| a + b).unwrap();
    assert!(g.program().output("y", y).compile().is_err());
}

/// A part of a part is a part of the whole, and a part of a concatenation a part of its piece: a gradient asked for with
/// respect to what lies between would be lost, were it not opaque.
#[test]
fn gradients_reach_opaque_values_that_are_taken_apart() {
    let g = Graph::new();
    let whole = g.state("whole", Array::new(5, vec![1.0, 2.0, 3.0, 4.0, 5.0]).unwrap());
    let between = [
        ("part", whole.slice(0, 1..4).opaque(), [2.0, 3.0, 4.0]),
        ("joined", g.concat(&[whole.slice(0, 0..1), whole.slice(0, 3..5)], 0).opaque(), [1.0, 4.0, 5.0]),
        ("constant", g.full(DType::F64, [3], 2.0).opaque(), [2.0; 3]),
    ];
    for (name, x, value) in between {
        let y = x.at(0, 0).square() + x.at(0, 2).square() * 3.0;
        let (dx, dwhole) = (grad(y, &[x]).unwrap()[0], grad(y, &[whole]).unwrap()[0]);
        let mut program = g.program().output("x", x).output("dx", dx).output("dwhole", dwhole).compile().unwrap();
        program.run(1).unwrap();
        assert_eq!(program.output("x").unwrap().to_f64(), value, "{name}");
        assert_eq!(program.output("dx").unwrap().to_f64(), [2.0 * value[0], 0.0, 6.0 * value[2]], "{name}");
        let total: f64 = program.output("dwhole").unwrap().to_f64().iter().sum();
        assert_eq!(total, if name == "constant" { 0.0 } else { 2.0 * value[0] + 6.0 * value[2] }, "{name}");
    }
}

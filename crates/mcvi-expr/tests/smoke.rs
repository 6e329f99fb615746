use mcvi_expr::*;
#[test]
fn smoke() {
    let g = Graph::new();
    let x = g.input("x", DType::F64, [3]);
    let y = (x.exp() * x).sum_all();
    let d = grad(y, &[x]).unwrap()[0];
    let dd = grad((d * x).sum_all(), &[x]).unwrap()[0];
    let mut p = g.program().output("y", y).output("d", d).output("dd", dd).compile().unwrap();
    println!("{p:?}");
    p.write("x", &Array::new([3], vec![0.5, -1.0, 2.0]).unwrap()).unwrap();
    p.run(1).unwrap();
    println!("{:?} {:?} {:?}", p.output("y"), p.output("d"), p.output("dd"));
    for (i, x) in [0.5f64, -1.0, 2.0].iter().enumerate() {
        assert!((p.output("d").unwrap().to_f64()[i] - x.exp() * (1.0 + x)).abs() < 1e-14);
        assert!((p.output("dd").unwrap().to_f64()[i] - x.exp() * (1.0 + x) - x * x.exp() * (2.0 + x)).abs() < 1e-13);
    }
}

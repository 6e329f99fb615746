//! probe
use mcvi_expr::*;
#[test]
fn compile_of_a_terabyte() {
    let g = Graph::new();
    let x = g.input("x", DType::F64, [1usize << 47]);
    let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| g.program().output("y", x.exp()).compile().map(|_| ())));
    println!("{r:?}");
}
#[test]
fn int_reshape() {
    for f in [0, 1, 2] {
        let g = Graph::new();
        let i = g.input("i", DType::I32, [2, 3]);
        let y = match f { 0 => i.t().reshape([6]), 1 => i.broadcast_to([2, 2, 3]).reshape([12]), _ => i.slice(1, 1..3).flatten() };
        let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut p = g.program().output("y", y).compile().unwrap();
            p.write("i", &Array::new([2, 3], vec![0, 1, 2, 3, 4, 5]).unwrap()).unwrap();
            p.run(1).unwrap();
            p.output("y").unwrap()
        }));
        println!("{f} {r:?}");
    }
}

//! Mistakes: each is a typed error that says where it was made and what would fit, and none is a panic.

use crate::common::array;
use mcvi_expr::{Array, DType, Error, Expr, External, Graph, Program, Result, Run, grad};
use std::sync::Arc;

/// Panics unless the expression is poisoned with an error of this file whose message contains all of `parts`, and
/// both `grad` and `compile` return it.
#[track_caller]
fn poisoned(e: Expr<'_>, parts: &[&str]) -> Error {
    let error = e.error().unwrap_or_else(|| panic!("{e:?} should be poisoned"));
    let message = error.to_string();
    for part in parts.iter().chain(&["errors.rs"]) {
        assert!(message.contains(part), "`{part}` is missing in: {message}");
    }
    // Poison spreads to whatever is built from it, to derivatives and to programs.
    let built = ((e + 1.0).exp() * 2.0).powf(0.0).sum_all().max(3.0).reshape([1]).mean(&[0]).cast(DType::F32);
    for poisoned in [built.error(), grad(built, &[e]).err(), e.graph().program().output("e", built).compile().err()] {
        assert_eq!(poisoned.map(|e| e.to_string()), Some(message.clone()));
    }
    error
}

/// A graph with the inputs these tests use.
struct Inputs<'g> {
    scalar: Expr<'g>,
    three: Expr<'g>,
    four: Expr<'g>,
    table: Expr<'g>,
    images: Expr<'g>,
    single: Expr<'g>,
    index: Expr<'g>,
}

fn inputs(graph: &Graph) -> Inputs<'_> {
    Inputs {
        scalar: graph.input("scalar", DType::F64, ()),
        three: graph.input("three", DType::F64, [3]),
        four: graph.input("four", DType::F64, [4]),
        table: graph.input("table", DType::F64, [2, 3]),
        images: graph.input("images", DType::F64, [2, 3, 8, 8]),
        single: graph.input("single", DType::F32, [3]),
        index: graph.input("index", DType::I32, [2]),
    }
}

#[test]
fn shapes_that_do_not_fit_are_named_with_the_operation_and_the_place() {
    let graph = Graph::new();
    let x = inputs(&graph);
    let shapes = |e: Expr<'_>, parts: &[&str]| assert!(matches!(poisoned(e, parts), Error::Shapes { .. }));
    shapes(x.three + x.four, &["add", "[3]", "[4]"]);
    shapes(x.three - x.four, &["sub", "[3]", "[4]"]);
    shapes(x.table * x.four, &["mul", "[2, 3]", "[4]"]);
    shapes(x.four / x.table, &["div", "[4]", "[2, 3]"]);
    shapes(x.three.pow(x.four), &["pow", "[3]", "[4]"]);
    shapes(x.three.max(x.four), &["max", "[3]", "[4]"]);
    shapes(x.three.lt(x.four), &["lt", "[3]", "[4]"]);
    shapes(x.three.lgamma_diff(x.four), &["lgamma_diff", "[3]", "[4]"]);
    shapes(x.three.select(x.four, 1.0), &["select", "[3]", "[4]"]);
    shapes(x.three.select(1.0, x.four), &["select", "[3]", "[4]"]);
    shapes(x.three.broadcast_to([4]), &["broadcast", "[3]", "[4]"]);
    shapes(x.three.broadcast_to([3, 4]), &["broadcast", "[3]", "[3, 4]"]);
    shapes(x.table.broadcast_to([3]), &["broadcast", "[2, 3]", "[3]"]);
    shapes(x.table.reshape([4]), &["reshape", "[2, 3]", "[4]"]);
    shapes(x.table.reshape([0]), &["reshape", "[2, 3]", "[0]"]);
    shapes(x.table.matmul(x.table), &["matmul", "[2, 3]", "inner"]);
    shapes(x.scalar.matmul(x.scalar), &["matmul", "[]"]);
    shapes(x.three.matmul(x.table), &["matmul", "[3]", "[2, 3]"]);
    shapes(x.images.matmul(x.images.slice(0, 0..1).slice(1, 0..2)), &["matmul", "[2, 3, 8, 8]", "[1, 2, 8, 8]"]);
    shapes(graph.concat(&[x.three, x.table], 0), &["concat", "[3]", "[2, 3]"]);
    shapes(graph.concat(&[x.table, x.table.t()], 0), &["concat", "[2, 3]", "[3, 2]"]);
    let square = x.three.expand(1) * x.three;
    shapes(square.solve_lower(x.table), &["solve", "[3, 3]", "[2, 3]"]);
    shapes(square.solve_lower_t(x.three), &["solve", "[3, 3]", "[3]"]);
    shapes(square.solve_upper(x.scalar), &["solve", "[3, 3]", "[]"]);
    shapes(x.images.conv2d(x.table, 1, (0, 0)), &["conv2d", "[2, 3, 8, 8]", "[2, 3]"]);
    shapes(x.table.conv2d(x.images, 1, (0, 0)), &["conv2d", "[2, 3]"]);
    shapes(x.images.conv2d(x.images.slice(1, 0..2), 1, (0, 0)), &["conv2d", "channels"]);
    shapes(x.images.slice(2, 0..3).conv2d(x.images, 1, (0, 0)), &["conv2d", "larger"]);
    shapes(x.images.upsample(4, 9), &["upsample", "[2, 3, 8, 8]", "[2, 3, 4, 9]"]);
    shapes(x.images.upsample(0, 0), &["upsample"]);
    shapes(x.three.scatter_add(x.index, 5), &["scatter_add", "[3]", "[2]"]);
    shapes(x.table.external(Arc::new(Fussy::default())), &["external", "[2, 3]", "[2, 2]"]);
}

#[test]
fn arguments_outside_their_range_are_errors() {
    let graph = Graph::new();
    let x = inputs(&graph);
    let argument = |e: Expr<'_>, parts: &[&str]| assert!(matches!(poisoned(e, parts), Error::Argument { .. }), "{e:?}");
    argument(x.table.sum(&[2]), &["sum", "[2, 3]", "[2]"]);
    argument(x.table.sum(&[usize::MAX]), &["sum"]);
    argument(x.table.sum(&[0, 0]), &["sum"]);
    argument(x.table.mean(&[0, 7]), &["sum"]);
    argument(x.scalar.mean(&[0]), &["sum"]);
    argument(x.table.max_over(&[3]), &["max_over"]);
    argument(x.table.logsumexp(&[2]), &["max_over"]);
    argument(x.table.logsumexp(&[0, 0]), &["max_over"]);
    argument(x.table.cumsum(2), &["cumsum"]);
    argument(x.scalar.cumsum(0), &["cumsum"]);
    argument(x.table.expand(3), &["expand"]);
    argument(x.table.permute(&[0]), &["permute"]);
    argument(x.table.permute(&[0, 0]), &["permute"]);
    argument(x.table.permute(&[0, 2]), &["permute"]);
    argument(x.table.permute(&[0, 1, 2]), &["permute"]);
    argument(x.three.t(), &["t", "[3]"]);
    argument(x.table.slice(2, 0..1), &["slice"]);
    argument(x.table.slice(1, 2..2), &["slice"]);
    #[expect(clippy::reversed_empty_ranges, reason = "the mistake made on purpose")]
    argument(x.table.slice(1, 2..1), &["slice"]);
    argument(x.table.slice(1, 0..4), &["slice"]);
    argument(x.table.slice(1, 2..usize::MAX), &["slice"]);
    argument(x.table.slice_step(1, 0..3, 0), &["slice"]);
    argument(x.table.at(1, 3), &["slice"]);
    argument(x.table.at(1, usize::MAX), &["slice"]);
    argument(x.table.at(usize::MAX, 0), &["slice"]);
    argument(x.scalar.at(0, 0), &["slice"]);
    argument(x.table.pad(2, 1, 1), &["pad"]);
    argument(x.table.pad(1, usize::MAX, usize::MAX), &["embed"]);
    argument(graph.concat(&[], 0), &["concat"]);
    argument(graph.concat(&[x.table, x.table], 2), &["concat"]);
    argument(graph.concat(&[x.table], 2), &["concat"]);
    argument(graph.concat(&[x.scalar, x.scalar], 0), &["concat"]);
    argument(x.table.take(2, x.index), &["take"]);
    argument(x.scalar.take(0, x.index), &["take"]);
    argument(x.table.tril(), &["tril", "[2, 3]"]);
    argument(x.three.diagonal(), &["diagonal"]);
    argument(x.table.cholesky(), &["cholesky"]);
    argument(x.scalar.cholesky(), &["cholesky"]);
    argument(x.table.solve_lower(x.table), &["solve"]);
    argument(x.images.conv2d(x.images, 0, (0, 0)), &["conv2d", "stride 0"]);
    argument(x.images.conv2d(x.images, 1, (usize::MAX, usize::MAX)), &["conv2d", "padding"]);
    argument(x.images.conv2d(x.images, 1, (8, 0)), &["conv2d", "padding"]);
    argument(x.three.upsample(4, 4), &["upsample"]);
    argument(x.three.external(Arc::new(Fussy::default())), &["external"]);
    argument(x.three.polygamma(u32::MAX), &["polygamma", "order"]);
    argument(x.three.polygamma_diff(u32::MAX, 1.0), &["order"]);
    // One beyond the highest order, reached by differentiating.
    let mut y = x.three.polygamma(20);
    let high = loop {
        match grad(y.sum_all(), &[x.three]) {
            Ok(d) => y = d[0],
            Err(error) => break error,
        }
    };
    assert!(high.to_string().contains("order"), "{high}");
}

#[test]
fn empty_and_huge_shapes_are_errors() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F64, [1]);
    let argument = |e: Expr<'_>, parts: &[&str]| assert!(matches!(poisoned(e, parts), Error::Argument { .. }), "{e:?}");
    argument(graph.input("empty", DType::F64, [3, 0]), &["[3, 0]", "length 0"]);
    argument(graph.input("huge", DType::F64, [usize::MAX, 2]), &["memory"]);
    argument(graph.input("long", DType::F32, usize::MAX), &["memory"]);
    argument(graph.full(DType::F64, [0], 1.0), &["length 0"]);
    argument(graph.full(DType::F64, [usize::MAX], 1.0), &["memory"]);
    argument(graph.full(DType::F64, [usize::MAX, usize::MAX], 1.0).exp(), &["memory"]);
    argument(graph.arange(DType::F64, 0), &["arange", "length 0"]);
    argument(graph.arange(DType::I32, usize::MAX), &["arange", "memory"]);
    argument(graph.normal(0, DType::F64, [0]), &["noise", "length 0"]);
    argument(graph.uniform(0, DType::F32, [usize::MAX]), &["noise", "memory"]);
    argument(x.broadcast_to([0]), &["length 0"]);
    argument(x.broadcast_to([usize::MAX, 3, 1]), &["memory"]);
    argument(x.reshape([1, 1]).upsample(usize::MAX, 3), &["memory"]);
    argument(x.broadcast_to([1 << 40]).expand(1) + x.broadcast_to([1 << 40]), &["memory"]);
    let index = graph.literal(Array::new(1, vec![0]).unwrap());
    argument(x.scatter_add(index, 0), &["scatter_add", "length 0"]);
    argument(x.scatter_add(index, usize::MAX), &["scatter_add", "memory"]);
    argument(x.pad(0, 0, usize::MAX), &["memory"]);
    // A failed draw leaves its stream free.
    assert!(graph.normal(0, DType::F64, [2]).error().is_none());
    for (shape, len) in [(vec![0], 0), (vec![usize::MAX, usize::MAX], 3), (vec![2], 3)] {
        assert!(Array::new(shape, vec![1.0; len]).is_err());
    }
    let mismatch = Array::new([2, 2], vec![1.0; 3]).unwrap_err();
    assert!(matches!(mismatch, Error::Length { len: 3, .. }) && mismatch.to_string().contains("[2, 2]"));
    assert!(Array::new([0], Vec::<f64>::new()).unwrap_err().to_string().contains("length 0"));
    // Huge steps select one element.
    let y = x.broadcast_to([5]).slice_step(0, 1..5, usize::MAX).slice_step(0, 0..1, usize::MAX);
    assert_eq!(y.shape().dims(), [1]);
    assert_eq!(crate::common::value(&[array(3, [1.0, 2.0, 3.0])], |x| x[0].slice_step(0, 1..3, 1 << 62)), [2.0]);
}

#[test]
fn element_types_never_mix() {
    let graph = Graph::new();
    let x = inputs(&graph);
    let types = |e: Expr<'_>, parts: &[&str]| assert!(matches!(poisoned(e, parts), Error::DTypes { .. }), "{e:?}");
    types(x.three + x.single, &["add", "f64", "f32", "cast"]);
    types(x.three.select(x.single, 0.0), &["select", "f64", "f32"]);
    types(x.three.pow(graph.scalar(DType::F32, 2.0)), &["pow", "f64", "f32"]);
    types(x.table.matmul(x.single.expand(1)), &["matmul", "f64", "f32"]);
    types(graph.concat(&[x.three, x.single], 0), &["concat"]);
    types((x.three.expand(1) * x.three).solve_lower(x.single.expand(1)), &["solve"]);
    types(x.images.conv2d(x.images.cast(DType::F32), 1, (0, 0)), &["conv2d"]);
    poisoned(x.three.take(0, x.three), &["take", "indices must be i32 and are f64"]);
    poisoned(x.index.take(0, x.index), &["take", "values must be floats and are i32"]);
    poisoned(x.table.scatter_add(x.four, 3), &["scatter_add", "indices must be i32 and are f64"]);
    types(x.table.slice(1, 0..2).cast(DType::F32).external(Arc::new(Fussy::default())), &["external", "f32", "f64"]);
    let integers = [
        x.index + 1.0,
        1.0 - x.index,
        x.index.exp(),
        -x.index,
        x.index.sum(&[0]),
        x.index.mean_all(),
        x.index.max_over(&[0]),
        x.index.logsumexp(&[0]),
        x.index.cumsum(0),
        x.index.expand(1).matmul(x.index.expand(0)),
        x.index.select(x.index, x.index),
        x.index.powf(0.0),
        x.index.powf(1.0),
        x.index.pow(2.0),
        (x.index.expand(1).broadcast_to([2, 2])).cholesky(),
        (x.index.expand(1).broadcast_to([2, 2])).tril(),
        graph.scalar(DType::I32, 2.0).exp(),
        graph.full(DType::I32, [2], 2.0).square(),
        graph.normal(5, DType::I32, [2]),
    ];
    for e in integers {
        assert!(matches!(poisoned(e, &[]), Error::Argument { .. }), "{e:?}");
    }
    let e = x.index.expand(1).upsample(2, 2);
    assert!(e.error().is_some());
}

#[test]
fn integers_can_be_rearranged_and_carry_no_derivative() {
    let got = crate::common::evaluate(&[Array::new([2, 3], vec![0, 1, 2, 3, 4, 5]).unwrap()], |x| {
        let i = x[0];
        vec![
            i.t(),
            i.at(0, 1),
            i.slice(1, 1..3),
            i.graph().concat(&[i, i.slice(0, 0..1)], 0),
            i.pad(1, 1, 0),
            i.stop_gradient(),
        ]
    });
    let wanted: [&[i32]; 6] = [
        &[0, 3, 1, 4, 2, 5],
        &[3, 4, 5],
        &[1, 2, 4, 5],
        &[0, 1, 2, 3, 4, 5, 0, 1, 2],
        &[0, 0, 1, 2, 0, 3, 4, 5],
        &[0, 1, 2, 3, 4, 5],
    ];
    for (got, wanted) in got.iter().zip(wanted) {
        assert_eq!(got.as_slice::<i32>().unwrap(), wanted);
    }
    let d = crate::common::value(&[array(3, [1.2, 2.7, -0.4])], |x| {
        grad((x[0].cast(DType::I32).cast(DType::F64) * x[0]).sum_all(), x).unwrap()[0]
    });
    assert_eq!(d, [1.0, 2.0, 0.0]);
    let graph = Graph::new();
    let (a, b) = (graph.state("a", ints(&[1, 2])), graph.state("b", ints(&[3, 4])));
    let mut swap = graph.program().update(a, b).update(b, a).compile().unwrap();
    swap.run(1).unwrap();
    assert_eq!((swap.read("a").unwrap(), swap.read("b").unwrap()), (ints(&[3, 4]), ints(&[1, 2])));
}

#[test]
fn integers_can_be_reshaped_where_that_takes_a_copy() {
    let got = crate::common::evaluate(&[Array::new([2, 3], vec![0, 1, 2, 3, 4, 5]).unwrap()], |x| {
        vec![x[0].t().reshape([6]), x[0].broadcast_to([2, 2, 3]).reshape([12]), x[0].slice(1, 1..3).flatten()]
    });
    assert_eq!(got[0].as_slice::<i32>().unwrap(), [0, 3, 1, 4, 2, 5]);
    assert_eq!(got[1].as_slice::<i32>().unwrap(), [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
    assert_eq!(got[2].as_slice::<i32>().unwrap(), [1, 2, 4, 5]);
}

fn ints(data: &[i32]) -> Array {
    Array::new(data.len(), data).unwrap()
}

#[test]
fn the_first_mistake_is_the_one_reported() {
    let graph = Graph::new();
    let x = inputs(&graph);
    let first = x.three + x.four;
    let message = first.error().unwrap().to_string();
    let later = (first.sum(&[9]).matmul(x.three) + x.table.sum(&[5])).reshape([7, 7]).conv2d(x.three, 0, (9, 9));
    assert_eq!(later.error().unwrap().to_string(), message);
    let all = [
        first.t(),
        first.at(4, 4),
        first.slice(1, 0..0),
        first.pad(3, 1, 1),
        first.expand(9),
        first.permute(&[5]),
        first.upsample(1, 1),
        first.cumsum(3),
        first.logsumexp(&[4]),
        first.mean(&[3]),
        first.max_over(&[3]),
        first.cholesky(),
        first.tril(),
        first.diagonal(),
        first.solve_lower(x.three),
        first.flatten(),
        first.sqrt(),
        first.powf(0.0),
        first.powf(1.0),
        first.pow(0.0),
        first.take(0, x.index),
        first.scatter_add(x.index, 0),
        first.select(x.three, x.four),
        x.three.select(first, x.four),
        first.polygamma(1),
        first.lgamma_diff(1.0),
        first.external(Arc::new(Fussy::default())),
        first.stop_gradient(),
        first.cast(DType::I32),
        1.0 / first,
        -first,
        first.sum_all(),
        first.mean_all(),
        first.broadcast_to([0]),
        x.table.matmul(first),
        first.log_sigmoid(),
        x.images.conv2d(first, 0, (0, 0)),
        graph.concat(&[first], 3),
        graph.concat(&[x.three, first], 9),
        first.slice_step(0, 0..9, 0),
        x.three.take(0, first),
        x.three.gt(first),
        first.eq(1.0),
        x.three.pow(first),
        x.table.solve_upper(first).max(first),
        first.min(0.5),
        first.reshape([0]),
        first.softplus(),
    ];
    for e in all {
        assert!(e.error().is_some(), "{e:?}");
    }
    for e in all.into_iter().filter(|e| e.error().unwrap().to_string() != message) {
        // A fault of its own comes first only where it stands left of the poisoned operand.
        assert!(e.error().unwrap().to_string().contains("solve_triangular"), "{e:?}");
    }
}

#[test]
fn expressions_of_two_graphs_never_meet() {
    let (graph, other) = (Graph::new(), Graph::new());
    let (x, y) = (graph.input("x", DType::F64, [2, 2]), other.input("x", DType::F64, [2, 2]));
    let foreign = |e: Expr<'_>| assert!(matches!(e.error(), Some(Error::ForeignGraph { .. })), "{e:?}");
    foreign(x + y);
    foreign(x.matmul(y));
    foreign(x.select(y, x));
    foreign(x.pow(other.scalar(DType::F64, 2.0)));
    foreign(x.solve_lower(y));
    foreign(x.take(0, other.literal(ints(&[0]))));
    foreign(y.scatter_add(graph.literal(ints(&[0, 1])), 2));
    foreign(graph.concat(&[x, y], 0));
    foreign(graph.concat(&[y], 0));
    let (a, b) = (x.reshape([1, 1, 2, 2]), y.reshape([1, 1, 2, 2]));
    foreign(a.conv2d(b, 1, (0, 0)));
    let message = grad(x.sum_all(), &[y]).unwrap_err();
    assert!(matches!(message, Error::ForeignGraph { op: "grad", .. }) && message.to_string().contains("errors.rs"));
    assert!(matches!(graph.program().output("y", y).compile(), Err(Error::ForeignGraph { .. })));
    let s = other.state("s", array(2, [0.0; 2]));
    assert!(matches!(graph.program().update(s, s + 1.0).compile(), Err(Error::ForeignGraph { .. })));
}

#[test]
fn streams_and_names_are_used_once() {
    let graph = Graph::new();
    let z = graph.normal(4, DType::F64, [2]);
    let again = graph.uniform(4, DType::F64, [2]);
    assert!(matches!(poisoned(again, &["4", "fresh_stream"]), Error::StreamInUse { stream: 4, .. }));
    assert!(z.error().is_none());
    let x = graph.input("x", DType::F64, [2]);
    for twin in [graph.input("x", DType::F64, [2]), graph.state("x", array(2, [0.0; 2]))] {
        let error = twin.error().unwrap();
        assert!(matches!(error, Error::DuplicateName { .. }) && error.to_string().contains("`x`"));
        assert!(graph.program().output("y", twin + x).compile().is_err());
    }
    let twice = graph.program().output("y", x).output("y", x + 1.0).compile();
    assert!(matches!(twice, Err(Error::DuplicateName { name }) if name == "y"));
}

#[test]
fn only_scalars_of_floats_are_differentiated() {
    let graph = Graph::new();
    let x = inputs(&graph);
    let error = grad(x.three, &[x.three]).unwrap_err();
    assert!(matches!(error, Error::NotScalar { .. }) && error.to_string().contains("[3]"));
    assert!(matches!(grad(x.three.sum_all(), &[x.index]), Err(Error::NotDifferentiable { .. })));
    assert!(matches!(grad(x.index.at(0, 0), &[x.three]), Err(Error::NotDifferentiable { .. })));
    assert!(grad(x.scalar, &[]).unwrap().is_empty());
    assert_eq!(grad(x.scalar, &[x.scalar]).unwrap()[0].shape().rank(), 0);
}

#[test]
fn updates_need_a_state_a_value_of_its_shape_and_to_be_given_once() {
    let graph = Graph::new();
    let (s, x) = (graph.state("s", array(2, [0.0; 2])), graph.input("x", DType::F64, [2]));
    let failure =
        |target: Expr<'_>, value: Expr<'_>| target.graph().program().update(target, value).compile().unwrap_err();
    assert!(matches!(failure(x, s), Error::Update { .. }));
    assert!(matches!(failure(s + 1.0, s), Error::Update { .. }));
    for wrong in [s.sum_all(), s.cast(DType::F32), s.expand(0)] {
        let error = failure(s, wrong);
        assert!(matches!(error, Error::Value { .. }) && error.to_string().contains("`s`"), "{error}");
    }
    let twice = graph.program().update(s, s + 1.0).update(s, s * 2.0).compile().unwrap_err();
    assert!(matches!(twice, Error::Update { .. }) && twice.to_string().contains("`s`"));
}

/// y = Σ x + s, with a state to watch.
fn small() -> Program {
    let graph = Graph::new();
    let (x, s) = (graph.input("x", DType::F64, [2]), graph.state("s", array((), [1.0])));
    graph.program().output("y", x.sum_all() + s).update(s, s + 1.0).compile().unwrap()
}

#[test]
fn unknown_names_are_answered_with_the_known_ones() {
    let mut program = small();
    program.write("x", &array(2, [1.0, 2.0])).unwrap();
    program.run(1).unwrap();
    let value = array(2, [0.0; 2]);
    let errors = [
        program.write("z", &value).unwrap_err(),
        program.read("y").unwrap_err(),
        program.output("x").unwrap_err(),
        program.execute(&Run::steps(1).record("x")).unwrap_err(),
        program.execute(&Run::steps(1).feed("z", &value)).unwrap_err(),
    ];
    for error in errors {
        let message = error.to_string();
        assert!(matches!(error, Error::UnknownName { .. }) && (message.contains("`x`") || message.contains("`y`")));
    }
    assert_eq!(program.step(), 1, "none of these ran a step");
}

#[test]
fn values_must_be_there_and_fit() {
    let mut program = small();
    assert!(matches!(program.run(1), Err(Error::MissingInput { name, .. }) if name == "x"));
    assert!(matches!(program.read("x"), Err(Error::MissingInput { .. })));
    assert!(matches!(program.output("y"), Err(Error::Setting { .. })), "nothing ran yet");
    for wrong in [array(3, [0.0; 3]), array((), [0.0]), array(2, [0.0; 2]).cast(DType::F32), ints(&[1, 2])] {
        assert!(matches!(program.write("x", &wrong), Err(Error::Value { .. })));
    }
    program.write("x", &array(2, [1.0, 2.0])).unwrap();
    assert!(matches!(program.run(0), Err(Error::Setting { what: "steps", .. })));
    for (steps, rows) in [(2, array([3, 2], [0.0; 6])), (2, array(2, [0.0; 2])), (1, array(2, [0.0; 2]))] {
        let error = program.execute(&Run::steps(steps).feed("x", &rows)).unwrap_err();
        assert!(matches!(error, Error::Value { .. }) && error.to_string().contains(&format!("{steps} steps")));
    }
    let whole = array([2, 2], [0.0; 4]).cast(DType::F32);
    assert!(program.execute(&Run::steps(2).feed("x", &whole)).is_err());
    program.run(1).unwrap();
    assert_eq!(program.output("y").unwrap().to_f64(), [4.0]);
    assert_eq!(program.step(), 1);
}

#[test]
fn a_program_has_between_1_and_1024_threads() {
    let graph = Graph::new();
    let x = graph.scalar(DType::F64, 1.0);
    for threads in [0, 1025, usize::MAX] {
        let error = graph.program().output("x", x).threads(threads).compile().unwrap_err();
        assert!(matches!(error, Error::Setting { what: "threads", .. }));
        assert!(small().set_threads(threads).is_err());
    }
}

#[test]
fn a_program_of_nothing_runs() {
    let mut program = Graph::new().program().compile().unwrap();
    program.run(3).unwrap();
    assert_eq!(program.step(), 3);
    assert!(program.states().unwrap().is_empty() && program.output_names().is_empty());
}

#[test]
fn an_index_out_of_range_fails_its_step_and_leaves_the_program_as_it_was_before() {
    for threads in [1, 2] {
        for bad in [5, -1, i32::MAX, i32::MIN] {
            let graph = Graph::new();
            let index = graph.input("index", DType::I32, [2]);
            let s = graph.state("s", array(5, [1.0; 5]));
            let picked = s.take(0, index);
            let next = s * 2.0 + picked.scatter_add(index, 5);
            let builder = graph.program().output("picked", picked).update(s, next);
            let mut program = builder.threads(threads).compile().unwrap();
            program.write("index", &ints(&[0, 4])).unwrap();
            program.run(1).unwrap();
            let before = program.states().unwrap();
            program.write("index", &ints(&[0, bad])).unwrap();
            let error = program.run(1).unwrap_err();
            assert!(matches!(error, Error::Index { index, len: 5, .. } if index == i64::from(bad)), "{error}");
            assert_eq!((program.states().unwrap(), program.step()), (before.clone(), 1));
            // In a run of several steps, those before the failure count.
            let rows = Array::new([3, 2], vec![1, 2, 0, bad, 3, 3]).unwrap();
            assert!(program.execute(&Run::steps(3).feed("index", &rows).record("picked")).is_err());
            assert_eq!(program.step(), 2);
            assert_ne!(program.states().unwrap(), before);
            program.write("index", &ints(&[3, 3])).unwrap();
            program.run(1).unwrap();
            assert_eq!(program.output("picked").unwrap().to_f64(), [4.0, 4.0]);
            assert_eq!(program.read("s").unwrap().to_f64(), [12.0, 12.0, 12.0, 16.0, 12.0]);
        }
    }
}

/// z₀ + z₁, unless z₀ is 1 (an error) or 2 (a panic).
#[derive(Default)]
struct Fussy {
    curved: bool,
}
impl External for Fussy {
    fn name(&self) -> &str {
        "fussy"
    }
    fn dimension(&self) -> usize {
        2
    }
    fn value(&self, z: &[f64]) -> Result<f64, String> {
        match z[0] {
            1.0 => Err("one is too many".to_owned()),
            2.0 => std::panic::resume_unwind(Box::new("quietly")),
            _ => Ok(z[0] + z[1]),
        }
    }
    fn gradient(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, String> {
        gradient.fill(1.0);
        self.value(z)
    }
    fn hessian_vector(&self, _: &[f64], _: &[f64], product: &mut [f64]) -> Result<(), String> {
        product.fill(0.0);
        Ok(())
    }
    fn has_hessian_vector(&self) -> bool {
        self.curved
    }
}

#[test]
fn a_step_that_fails_late_undoes_what_it_did_early_and_early_what_would_come_late() {
    // Large enough for several threads, so that the step has several parts.
    let n = 300;
    for threads in [1, 2, 3] {
        for late in [false, true] {
            let graph = Graph::new();
            let (early, after) = (graph.state("early", zeros([n, n])), graph.state("after", zeros([n, n])));
            let index = graph.input("index", DType::I32, 2);
            let x = graph.state("x", zeros([n, n]));
            let far = (x + 0.5).matmul(x + 0.25).tanh().matmul(x + 1.0);
            let picked = if late { far } else { x }.take(0, index).sum_all();
            let program = graph.program().update(early, early + 1.0).update(after, after + far.matmul(far) + picked);
            let mut program = program.threads(threads).compile().unwrap();
            program.write("index", &ints(&[0, n as i32 - 1])).unwrap();
            program.run(2).unwrap();
            let before = program.states().unwrap();
            program.write("index", &ints(&[0, n as i32])).unwrap();
            assert!(matches!(program.run(1), Err(Error::Index { .. })));
            assert_eq!(program.states().unwrap(), before, "{threads} threads, late: {late}");
            assert_eq!(program.step(), 2);
            // And it continues.
            program.write("index", &ints(&[0, 1])).unwrap();
            program.run(1).unwrap();
            assert_eq!(program.read("early").unwrap().to_f64(), vec![3.0; n * n]);
        }
    }
}

#[test]
fn an_input_is_fed_once() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F64, 2);
    let mut program = graph.program().output("y", x + 1.0).compile().unwrap();
    let rows = array([1, 2], [1.0, 2.0]);
    let error = program.execute(&Run::steps(1).feed("x", &rows).feed("x", &rows)).unwrap_err();
    assert!(matches!(error, Error::DuplicateName { ref name } if name == "x"), "{error}");
}

fn zeros(shape: [usize; 2]) -> Array {
    Array::zeros(DType::F64, shape).unwrap()
}

#[test]
fn an_external_function_that_fails_or_panics_fails_its_step_only() {
    for threads in [1, 2] {
        let graph = Graph::new();
        let z = graph.input("z", DType::F64, [3, 2]);
        let s = graph.state("s", array((), [0.0]));
        let y = z.external(Arc::new(Fussy::default()));
        let d = grad(y.sum_all(), &[z]).unwrap()[0];
        let builder = graph.program().output("y", y).output("d", d).update(s, s + y.sum_all());
        let mut program = builder.threads(threads).compile().unwrap();
        for (first, said) in [(1.0, "one is too many"), (2.0, "panicked")] {
            program.write("z", &array([3, 2], [0.0, 0.5, first, 0.5, 0.0, 0.5])).unwrap();
            let error = program.run(1).unwrap_err();
            assert!(matches!(&error, Error::External { name, .. } if name == "fussy"), "{error}");
            assert!(error.to_string().contains(said), "{error}");
            assert_eq!(program.step(), 0);
        }
        program.write("z", &array([3, 2], [0.0, 0.5, 3.0, 0.5, 0.0, 0.5])).unwrap();
        program.run(1).unwrap();
        assert_eq!(program.output("y").unwrap().to_f64(), [0.5, 3.5, 0.5]);
        assert_eq!(program.read("s").unwrap().to_f64(), [4.5]);
    }
}

#[test]
fn derivatives_an_external_function_does_not_offer_are_errors() {
    let graph = Graph::new();
    let z = graph.input("z", DType::F64, [3, 2]);
    let flat = z.external(Arc::new(Fussy::default())).exp().sum_all();
    let first = grad(flat, &[z]).unwrap()[0];
    let error = grad(first.square().sum_all(), &[z]).unwrap_err();
    assert!(matches!(error, Error::NotDifferentiable { op: "external", .. }) && error.to_string().contains("Hessian"));
    let curved = z.external(Arc::new(Fussy { curved: true })).exp().sum_all();
    let first = grad(curved, &[z]).unwrap()[0];
    let second = grad(first.square().sum_all(), &[z]).unwrap()[0];
    let error = grad(second.square().sum_all(), &[z]).unwrap_err();
    assert!(matches!(error, Error::NotDifferentiable { .. }) && error.to_string().contains("third"), "{error}");
}

#[test]
fn too_many_axes_and_too_much_memory_are_errors() {
    let graph = Graph::new();
    let many = graph.input("many", DType::F64, vec![2; 13]);
    assert!(many.error().is_some_and(|e| e.to_string().contains("12 axes")));
    let huge = graph.input("huge", DType::F64, [1 << 46]);
    let error = graph.program().output("out", huge + 1.0).compile().unwrap_err();
    assert!(matches!(error, Error::Memory { .. }), "{error}");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_build_without_cuda_says_so() {
    let graph = Graph::new();
    let x = graph.scalar(DType::F64, 1.0);
    let error = graph.program().output("x", x).device(mcvi_expr::Device::Cuda(1)).compile().unwrap_err();
    let message = "cuda:1: this build has no CUDA support; rebuild with the feature `cuda`, or use the device cpu";
    assert_eq!(error.to_string(), message);
    assert_eq!(mcvi_expr::Device::auto(), mcvi_expr::Device::Cpu);
}

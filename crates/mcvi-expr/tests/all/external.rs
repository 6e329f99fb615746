//! Black-box log densities inside expressions: leapfrog steps through them, differentiated, agree with the same
//! densities written as expressions.

use crate::common::{array, assert_close, declare, irregular, supply};
use mcvi_expr::{Array, DType, Expr, External, Graph, Program, Result, grad};
use std::sync::{Arc, Mutex};

/// −½ zᵀ P z with correlated components.
struct Gaussian;

const PRECISION: [[f64; 3]; 3] = [[2.0, 0.8, -0.3], [0.8, 1.5, 0.4], [-0.3, 0.4, 1.0]];

fn times(v: &[f64]) -> [f64; 3] {
    PRECISION.map(|row| row.iter().zip(v).map(|(p, v)| p * v).sum())
}

impl External for Gaussian {
    fn name(&self) -> &str {
        "gaussian"
    }
    fn dimension(&self) -> usize {
        3
    }
    fn value(&self, z: &[f64]) -> Result<f64, String> {
        Ok(-0.5 * times(z).iter().zip(z).map(|(a, b)| a * b).sum::<f64>())
    }
    fn gradient(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, String> {
        gradient.copy_from_slice(&times(z).map(|g| -g));
        self.value(z)
    }
    fn hessian_vector(&self, _: &[f64], v: &[f64], product: &mut [f64]) -> Result<(), String> {
        product.copy_from_slice(&times(v).map(|g| -g));
        Ok(())
    }
    fn has_hessian_vector(&self) -> bool {
        true
    }
}

fn gaussian(z: Expr<'_>) -> Expr<'_> {
    let p = z.graph().literal(array([3, 3], PRECISION.concat()));
    (z.matmul(p) * z).sum(&[1]) * -0.5
}

/// −½ a² − 2 (b − a²)²: a curved ridge.
struct Banana;

impl External for Banana {
    fn name(&self) -> &str {
        "banana"
    }
    fn dimension(&self) -> usize {
        2
    }
    fn value(&self, z: &[f64]) -> Result<f64, String> {
        Ok(-0.5 * z[0] * z[0] - 2.0 * (z[1] - z[0] * z[0]).powi(2))
    }
    fn gradient(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, String> {
        let off = z[1] - z[0] * z[0];
        gradient[0] = -z[0] + 8.0 * z[0] * off;
        gradient[1] = -4.0 * off;
        self.value(z)
    }
    fn hessian_vector(&self, z: &[f64], v: &[f64], product: &mut [f64]) -> Result<(), String> {
        let off = z[1] - z[0] * z[0];
        product[0] = (-1.0 + 8.0 * off - 16.0 * z[0] * z[0]) * v[0] + 8.0 * z[0] * v[1];
        product[1] = 8.0 * z[0] * v[0] - 4.0 * v[1];
        Ok(())
    }
    fn has_hessian_vector(&self) -> bool {
        true
    }
}

fn banana(z: Expr<'_>) -> Expr<'_> {
    let (a, b) = (z.at(1, 0), z.at(1, 1));
    a.square() * -0.5 - (b - a.square()).square() * 2.0
}

type Density<'a> = &'a dyn for<'g> Fn(Expr<'g>) -> Expr<'g>;

/// Two leapfrog steps, then the energy at their end with its derivatives in z, v and the step size.
fn leapfrog(log_p: Density<'_>, d: usize, threads: usize) -> Vec<Array> {
    let rows = 7;
    let values = [array([rows, d], irregular(rows * d, 1)), array([rows, d], irregular(rows * d, 2)), array((), [0.2])];
    let graph = Graph::new();
    let inputs = declare(&graph, &values);
    let (mut z, mut v, eps) = (inputs[0], inputs[1], inputs[2]);
    for _ in 0..2 {
        v = v + eps * 0.5 * grad(log_p(z).sum_all(), &[z]).unwrap()[0];
        z = z + eps * v;
        v = v + eps * 0.5 * grad(log_p(z).sum_all(), &[z]).unwrap()[0];
    }
    let weights = graph.literal(array(rows, irregular(rows, 3)));
    let y = ((log_p(z) - v.square().sum(&[1]) * 0.5) * weights).sum_all() + (z * v).sum_all();
    let derivatives = grad(y, &inputs).unwrap();
    let builder = graph.program().output("y", y).output("z", z);
    let builder = derivatives.iter().enumerate().fold(builder, |b, (i, e)| b.output(&format!("d{i}"), *e));
    let mut program = builder.threads(threads).compile().unwrap();
    supply(&mut program, &values);
    program.run(1).unwrap();
    ["y", "z", "d0", "d1", "d2"].iter().map(|name| program.output(name).unwrap()).collect()
}

#[test]
fn leapfrog_steps_through_a_black_box_differentiate_like_those_through_expressions() {
    let boxes: [Arc<dyn External>; 2] = [Arc::new(Gaussian), Arc::new(Banana)];
    let densities: [Density<'_>; 2] = [&gaussian, &banana];
    for ((black, open), d) in boxes.into_iter().zip(densities).zip([3, 2]) {
        let want = leapfrog(open, d, 1);
        for threads in [1, 2] {
            let got = leapfrog(&|z| z.external(black.clone()), d, threads);
            for (got, want) in got.iter().zip(&want) {
                assert_close(&got.to_f64(), &want.to_f64(), 1e-12);
            }
        }
    }
}

/// A density that is itself a compiled program, run for every point.
struct Nested(Mutex<Program>);

impl Nested {
    fn new(threads: usize) -> Self {
        let graph = Graph::new();
        let (z, v) = (graph.input("z", DType::F64, [1, 2]), graph.input("v", DType::F64, [1, 2]));
        // A product large enough to be shared between threads, so that a team inside a team would be noticed.
        let wide = z.sum_all() * graph.full(DType::F64, [200, 200], 0.001);
        let extra = wide.matmul(wide.exp()).sum_all() * 1e-3;
        let y = banana(z).sum_all() + extra;
        let g = grad(y, &[z]).unwrap()[0];
        let product = grad((g * v).sum_all(), &[z]).unwrap()[0];
        let builder = graph.program().output("y", y).output("g", g).output("hv", product);
        Nested(Mutex::new(builder.threads(threads).compile().unwrap()))
    }

    fn run(&self, z: &[f64], v: &[f64], output: &str) -> Result<Vec<f64>, String> {
        let mut program = self.0.lock().map_err(|e| e.to_string())?;
        let mut result = || {
            program.write("z", &Array::new([1, 2], z)?)?;
            program.write("v", &Array::new([1, 2], v)?)?;
            program.run(1)?;
            Ok(program.output(output)?.to_f64())
        };
        result().map_err(|e: mcvi_expr::Error| e.to_string())
    }
}

impl External for Nested {
    fn name(&self) -> &str {
        "a program"
    }
    fn dimension(&self) -> usize {
        2
    }
    fn value(&self, z: &[f64]) -> Result<f64, String> {
        Ok(self.run(z, z, "y")?[0])
    }
    fn gradient(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, String> {
        gradient.copy_from_slice(&self.run(z, z, "g")?);
        self.value(z)
    }
    fn hessian_vector(&self, z: &[f64], v: &[f64], product: &mut [f64]) -> Result<(), String> {
        product.copy_from_slice(&self.run(z, v, "hv")?);
        Ok(())
    }
    fn has_hessian_vector(&self) -> bool {
        true
    }
}

#[test]
fn an_external_function_may_itself_run_a_program() {
    let open: Density<'_> = &|z| {
        let graph = z.graph();
        let rows: Vec<Expr<'_>> = (0..z.shape().dims()[0])
            .map(|i| {
                let wide = z.at(0, i).sum_all() * graph.full(DType::F64, [200, 200], 0.001);
                (wide.matmul(wide.exp()).sum_all() * 1e-3).expand(0)
            })
            .collect();
        banana(z) + graph.concat(&rows, 0)
    };
    let want = leapfrog(open, 2, 1);
    for threads in [1, 2] {
        let nested: Arc<dyn External> = Arc::new(Nested::new(threads));
        let got = leapfrog(&|z| z.external(nested.clone()), 2, threads);
        for (got, want) in got.iter().zip(&want) {
            assert_close(&got.to_f64(), &want.to_f64(), 1e-10);
        }
    }
}

#[test]
fn impossible_points_are_data_and_not_errors() {
    struct Half;
    impl External for Half {
        fn name(&self) -> &str {
            "half line"
        }
        fn dimension(&self) -> usize {
            1
        }
        fn value(&self, z: &[f64]) -> Result<f64, String> {
            Ok(if z[0] > 0.0 { -z[0] } else { f64::NEG_INFINITY })
        }
        fn gradient(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, String> {
            gradient[0] = if z[0] > 0.0 { -1.0 } else { f64::NAN };
            self.value(z)
        }
    }
    let half: Arc<dyn External> = Arc::new(Half);
    let got = crate::common::evaluate(&[array([2, 1], [-1.0, 2.0])], |x| {
        let y = x[0].external(half.clone());
        // A select keeps the impossible row's NaN out of the gradient of the sum.
        let safe = y.gt(f64::NEG_INFINITY).select(y, 0.0).sum_all();
        vec![y, grad(safe, x).unwrap()[0]]
    });
    assert_eq!(got[0].to_f64(), [f64::NEG_INFINITY, -2.0]);
    assert_eq!(got[1].to_f64(), [0.0, -1.0]);
}

#[test]
fn a_batched_function_gets_all_rows_at_once() {
    /// The banana, with the sizes of the calls.
    #[derive(Default)]
    struct Batched(Mutex<Vec<usize>>);
    impl Batched {
        fn rows(&self, z: &[f64]) {
            self.0.lock().unwrap().push(z.len() / 2);
        }
    }
    impl External for Batched {
        fn name(&self) -> &str {
            "batched"
        }
        fn dimension(&self) -> usize {
            2
        }
        fn value(&self, z: &[f64]) -> Result<f64, String> {
            Banana.value(z)
        }
        fn gradient(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, String> {
            Banana.gradient(z, gradient)
        }
        fn is_batched(&self) -> bool {
            true
        }
        fn has_hessian_vector(&self) -> bool {
            true
        }
        fn values(&self, z: &[f64], values: &mut [f64]) -> Result<(), String> {
            self.rows(z);
            Banana.values(z, values)
        }
        fn gradients(&self, z: &[f64], gradients: &mut [f64]) -> Result<(), String> {
            self.rows(z);
            Banana.gradients(z, gradients)
        }
        fn hessian_vectors(&self, z: &[f64], v: &[f64], products: &mut [f64]) -> Result<(), String> {
            self.rows(z);
            Banana.hessian_vectors(z, v, products)
        }
    }
    let one_by_one: Arc<dyn External> = Arc::new(Banana);
    let want = leapfrog(&|z| z.external(one_by_one.clone()), 2, 2);
    let batched = Arc::new(Batched::default());
    let got = leapfrog(&|z| z.external(batched.clone()), 2, 2);
    assert!(got.iter().zip(&want).all(|(got, want)| got.to_f64() == want.to_f64()));
    let calls = batched.0.lock().unwrap().clone();
    assert!(calls.len() > 3 && calls.iter().all(|rows| *rows == calls[0]) && calls[0] > 1, "{calls:?}");
}

//! Covariances of low rank plus a diagonal: exact where they are, in hundreds of dimensions.

use mcvi::density::Gaussian;
use mcvi::diagnostics::mean;
use mcvi::fit::{Settings, fit};
use mcvi::transition::Uha;
use mcvi::{Approximation, Chain, Initialisation, Sharing, target};
use mcvi_expr::{Array, Expr};

const LOCALS: usize = 600;
const D: usize = LOCALS + 2;

/// log of standard normal densities, summed by rows.
fn normal(e: Expr<'_>) -> Expr<'_> {
    let n = e.shape().dims()[1] as f64;
    e.square().sum(&[1]) * -0.5 - 0.5 * n * std::f64::consts::TAU.ln()
}

/// Many local parameters, normal given two global ones: log Z = 0.
fn hierarchy() -> impl mcvi::Target + 'static {
    target(D, |scope, z| {
        let numbers = |f: &dyn Fn(f64) -> f64| scope.vector(&(0..LOCALS).map(|i| f(i as f64)).collect::<Vec<_>>());
        let (global, local) = (z.slice(1, 0..2), z.slice(1, 2..D));
        let (slope, sd) = (numbers(&|i| i.sin() / 5.0), numbers(&|i| 0.1 + (i / 7.0).cos().powi(2)));
        let center = global.at(1, 0).expand(1) + global.at(1, 1).expand(1) * slope + numbers(&|i| i / 300.0);
        normal(global - 1.0) + normal((local - center) / sd) - sd.ln().sum(&[0])
    })
}

#[test]
fn a_hierarchy_is_whitened_exactly() {
    let model = Approximation::new(hierarchy(), Chain::new(Gaussian::diagonal()).whitened()).unwrap();
    let draws = model.draw(500, 3).unwrap();
    assert!(draws.log_weights.iter().all(|l| l.abs() < 1e-3), "{:?}", mean(&draws.log_weights));
    // Its draws have the covariance: of the last local parameter with the first global one.
    let i = D - 1;
    let product: Vec<f64> = draws.z.iter().map(|z| (z[0] - 1.0) * (z[i] - model.initialisation().center[i])).collect();
    let product = mean(&product);
    assert!((product.value - 1.0).abs() < 4.0 * product.se, "{product:?}");
    // The matrix is never made: a file has a few rows.
    let path = std::env::temp_dir().join(format!("mcvi-low-rank-{}.safetensors", std::process::id()));
    model.save(&path).unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    let again = Approximation::load(&path, hierarchy()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(bytes < (D * D) as u64, "{bytes}");
    assert_eq!(again.initialisation(), model.initialisation());
    assert_eq!(again.draw(20, 1).unwrap(), model.draw(20, 1).unwrap());
}

#[test]
fn chains_run_in_these_coordinates_and_start_from_moments() {
    let first = Approximation::new(hierarchy(), Chain::new(Gaussian::diagonal()).whitened()).unwrap();
    let moments = Initialisation::moments(&first.draw(5000, 1).unwrap().z);
    let start = || Chain::new(Gaussian::diagonal()).whitened();
    let bound = |chain: Chain| {
        let model = first.restarted(chain, moments.clone()).unwrap();
        mean(&model.draw(2000, 2).unwrap().log_weights)
    };
    // Two factors and a diagonal are estimated well from 5000 draws; log Z = 0.
    let gaussian = bound(start());
    assert!(gaussian.value < 4.0 * gaussian.se && gaussian.value > -3.0, "{gaussian:?}");
    let chain = bound(start().steps(2, Sharing::Nothing, Uha::new(1)).annealed_learned());
    assert!(chain.value < 4.0 * chain.se && chain.value > -10.0, "{chain:?}");
}

/// What is drawn, and its density, are those of N(m, S(I + BᵀB)S).
#[test]
fn a_learned_gaussian_of_low_rank_has_the_density_of_its_matrix() {
    let (d, k) = (4, 2);
    let (m, log_sd): (Vec<f64>, Vec<f64>) = (vec![1.0, -2.0, 0.5, 3.0], vec![0.3, -0.5, 0.0, 1.1]);
    let b = vec![1.5, -0.7, 0.2, 0.0, 0.4, 0.9, -1.2, 2.0];
    let s: Vec<f64> = log_sd.iter().map(|x| x.exp()).collect();
    let entry = |i: usize, j: usize| {
        let shared: f64 = (0..k).map(|f| b[f * d + i] * b[f * d + j]).sum();
        s[i] * s[j] * (shared + f64::from(i == j))
    };
    let covariance = nalgebra::DMatrix::from_fn(d, d, entry);
    let (inverse, log_det) = (covariance.clone().try_inverse().unwrap(), covariance.determinant().ln());
    let (precision, center): (Vec<f64>, Vec<f64>) = (inverse.as_slice().to_vec(), m.clone());
    let exact = target(d, move |scope, z| {
        let apart = z - scope.vector(&center);
        let precision = scope.vector(&precision).reshape([d, d]);
        (apart.matmul(precision) * apart).sum(&[1]) * -0.5 - 0.5 * (log_det + d as f64 * std::f64::consts::TAU.ln())
    });
    let mut model = Approximation::new(exact, Chain::new(Gaussian::low_rank(k))).unwrap();
    let params = model.params_mut();
    params.set("q0.bias", Array::new(d, m).unwrap()).unwrap();
    params.set("q0.log_sd", Array::new(d, log_sd).unwrap()).unwrap();
    params.set("q0.loadings", Array::new([k, d], b).unwrap()).unwrap();
    let draws = model.draw(4000, 1).unwrap();
    // log p − log q = 0, draw by draw.
    assert!(draws.log_weights.iter().all(|l| l.abs() < 1e-9), "{:?}", mean(&draws.log_weights));
    for i in 0..d {
        let squares: Vec<f64> =
            draws.z.iter().map(|z| (z[i] - model.params().get("q0.bias").unwrap().value.to_f64()[i]).powi(2)).collect();
        let variance = mean(&squares);
        assert!((variance.value - covariance[(i, i)]).abs() < 4.0 * variance.se, "{i}: {variance:?}");
    }
}

#[test]
fn factors_are_learned() {
    // One strong direction in 30 dimensions that a diagonal cannot have.
    let d = 30;
    let line = || {
        target(d, move |_, z| {
            let total = z.sum(&[1]) / (d as f64).sqrt();
            z.square().sum(&[1]) * -0.5 + total.square() * 0.495
        })
    };
    let start = Initialisation::new(&vec![0.0; d], &vec![1.0; d]).unwrap();
    let bound = |gaussian: Gaussian| {
        let target = std::sync::Arc::new(line());
        let mut model = Approximation::from(target, Chain::new(gaussian), start.clone()).unwrap();
        fit(&mut model, &Settings { iterations: 4000, ..Settings::default() }).unwrap();
        mean(&model.draw(5000, 1).unwrap().log_weights)
    };
    let log_z = 0.5 * d as f64 * std::f64::consts::TAU.ln() - 0.5 * 0.01f64.ln();
    let (low, diagonal) = (bound(Gaussian::low_rank(1)), bound(Gaussian::diagonal()));
    assert!(log_z - low.value < 0.1, "{low:?} of {log_z}");
    assert!(log_z - diagonal.value > 1.5, "{diagonal:?} of {log_z}");
    let none = Approximation::new(line(), Chain::new(Gaussian::low_rank(31))).err().unwrap().to_string();
    assert!(none.contains("between 1 and 30"), "{none}");
}

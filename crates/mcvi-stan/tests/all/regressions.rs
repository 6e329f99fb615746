//! Regressions against the Stan programs that they print: log densities with all constants, and gradients, for all families
//! and group structures.

use mcvi::regression::{Coordinates, Family, Frame, Link, Options, ReadOptions, Regression};
use mcvi::{BayesianModel, Target};
use mcvi_stan::Posterior;

const TABLE: &str = "x,w,n,c,g,h,real,pos,unit,zero,cat\n\
    0.3,1,5,a,A,u,1.2,0.7,0.3,0,low\n-1.1,2,4,b,B,v,-0.3,1.9,0.6,3,mid\n2.0,1,6,a,C,u,2.4,0.4,0.2,1,high\n\
    0.7,0.5,5,b,A,v,0.1,2.2,0.9,0,low\n-0.4,1,7,c,B,u,-1.7,1.1,0.5,2,mid\n1.5,3,5,c,C,v,0.9,0.9,0.4,5,high\n\
    -2.2,1,8,a,A,u,-2.5,3.1,0.1,0,mid\n0.9,1,5,b,B,v,1.1,0.2,0.7,1,low\n";

fn agree(formula: &str, options: &Options) {
    let frame = Frame::parse(TABLE.as_bytes(), &ReadOptions::default()).expect("a frame");
    let options = Options { coordinates: Coordinates::NonCentred, ..options.clone() };
    let regression = Regression::with(formula, &frame, &options).unwrap_or_else(|e| panic!("{formula}: {e}"));
    let stan = regression.stan();
    let program = crate::read(&stan.code).unwrap_or_else(|e| panic!("{formula}: {e}\n{}", stan.code));
    let posterior = Posterior::new(&program, &stan.data).unwrap_or_else(|e| panic!("{formula}: {e}\n{}", stan.code));
    assert_eq!(posterior.dim(), regression.dim(), "{formula}\n{}", stan.code);
    let dim = regression.dim();
    let point: Vec<f64> = (0..dim).map(|i| 0.8 * ((i as f64 + 1.0) * 0.618).fract() - 0.4).collect();
    let (value, gradient) = posterior.value_and_gradient(&point).expect("a value");
    // The middle, then both neighbours along each axis.
    let h = 1e-4;
    let mut points = vec![point.clone()];
    for i in 0..dim {
        for by in [h, -h] {
            let mut moved = point.clone();
            moved[i] += by;
            points.push(moved);
        }
    }
    let densities = mcvi::log_density(&regression, &points).expect("densities");
    let close = |a: f64, b: f64, within: f64| (a - b).abs() <= within * (1.0 + a.abs());
    assert!(close(densities[0], value, 1e-10), "{formula}: {} and {value}\n{}", densities[0], stan.code);
    for i in 0..dim {
        let slope = (densities[2 * i + 1] - densities[2 * i + 2]) / (2.0 * h);
        assert!(close(slope, gradient[i], 1e-5), "{formula}, {}: {slope} and {}", regression.names()[i], gradient[i]);
    }
}

#[test]
fn families_are_those_of_stan() {
    let of = |family, link| Options { family, link, ..Options::default() };
    for (response, family) in [
        ("real", Family::Gaussian),
        ("real", Family::Student),
        ("I(real > 0)", Family::Bernoulli),
        ("zero | trials(n)", Family::Binomial),
        ("zero", Family::Poisson),
        ("zero", Family::Negbinomial),
        ("pos", Family::Gamma),
        ("unit", Family::Beta),
        ("cat", Family::Cumulative),
        ("cat", Family::Categorical),
        ("zero", Family::ZeroInflatedPoisson),
    ] {
        for link in family.links() {
            agree(&format!("{response} ~ x + c"), &of(family, Some(*link)));
        }
        agree(&format!("{response} ~ x + (1 | g)"), &of(family, None));
        let weighted = Options { weights: Some("w".to_owned()), ..of(family, None) };
        agree(&format!("{response} ~ x"), &weighted);
    }
    assert!(Family::Bernoulli.links().contains(&Link::Cloglog));
}

#[test]
fn groups_are_those_of_stan() {
    let poisson = Options { family: Family::Poisson, ..Options::default() };
    for formula in [
        "zero ~ 1 + (1 + x | g)",
        "zero ~ x + (1 + x || g)",
        "zero ~ 0 + x + (1 | g/h)",
        "zero ~ x * c + (1 | g) + (0 + x | h) + offset(log(pos))",
        "zero ~ poly(x, 2) + (x + pos | g)",
    ] {
        agree(formula, &poisson);
        agree(&formula.replace("zero", "real"), &Options::default());
    }
    let priors =
        ["x ~ student_t(4, 1, 2)", "sd ~ exponential(2)", "cor ~ lkj(3)", "c=b ~ laplace(0, 1)", "sigma ~ gamma(2, 1)"];
    let with = Options { priors: priors.map(str::to_owned).to_vec(), ..Options::default() };
    agree("real ~ x + c + (1 + x | g)", &with);
}

//! The families of random targets.
//!
//! Names, counts, and what is drawn in which order are fixed, and must not be changed: a target is a function of its
//! family's name and its index alone, so that campaigns years apart see the same targets. A new kind of target is a
//! new family. The test below fails when a target changes.

use super::affine::Affine;
use super::problem::{Component, Density, Problem};
use super::random::Random;
use super::shape::Shape;
use serde_json::{Value, json};

/// A family of random targets.
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// How many targets it has.
    pub count: usize,
    /// Whether every target has one mode.
    pub unimodal: bool,
    /// Whether the goals for `good` verdicts hold for it; otherwise it is only reported.
    pub has_threshold: bool,
    make: fn(&mut Random) -> (Value, Density),
}

const fn family(name: &'static str, count: usize, make: fn(&mut Random) -> (Value, Density)) -> Family {
    Family { name, count, unimodal: true, has_threshold: true, make }
}

const fn modes(name: &'static str, count: usize, make: fn(&mut Random) -> (Value, Density)) -> Family {
    Family { name, count, unimodal: false, has_threshold: true, make }
}

const fn reported(name: &'static str, count: usize, make: fn(&mut Random) -> (Value, Density)) -> Family {
    Family { name, count, unimodal: false, has_threshold: false, make }
}

/// All families.
pub const FAMILIES: [Family; 12] = [
    family("gaussian", 100, gaussian),
    family("student", 60, student),
    family("banana", 60, banana),
    family("funnel", 60, funnel),
    modes("mixture", 200, |r| two(r, (1, 10), Two { weight: (0.01, 0.99), distance: (3.0, 50.0), ratio: (1.0, 5.0) })),
    reported("wide-ratio", 60, |r| {
        two(r, (1, 10), Two { weight: (0.01, 0.99), distance: (3.0, 50.0), ratio: (5.0, 20.0) })
    }),
    modes("two-mode", 100, |r| two(r, (1, 20), Two { weight: (0.1, 0.9), distance: (5.0, 20.0), ratio: (1.0, 2.0) })),
    modes("many-mode", 60, many),
    reported("spike", 40, spike),
    family("ridge", 60, ridge),
    family("bounded", 60, bounded),
    family("skewed", 60, skewed),
];

impl Family {
    /// The target of this index.
    pub fn problem(&self, index: usize) -> Problem {
        let mut random = Random::new(self.name, index);
        let log_z = random.between((-20.0, 20.0));
        let (parameters, density) = (self.make)(&mut random);
        Problem { family: self.name, index, parameters, log_z, density }
    }
}

/// N(0, 3²) per coordinate.
fn centre(random: &mut Random, d: usize) -> Vec<f64> {
    random.normals(d).iter().map(|x| 3.0 * x).collect()
}

fn gaussian(random: &mut Random) -> (Value, Density) {
    let d = random.integer(1, 200);
    let (condition, size) = (random.log_between((1.0, 1e4)), random.log_between((0.3, 3.0)));
    let centre = centre(random, d);
    let map = Affine::correlated(random, centre, size, condition);
    (json!({"condition": condition, "size": size}), Density::Single(map, Shape::Normal))
}

fn student(random: &mut Random) -> (Value, Density) {
    let (d, nu) = (random.integer(1, 20), [3.0, 5.0, 10.0, 30.0][random.integer(0, 3)]);
    let (condition, size) = (random.log_between((1.0, 100.0)), random.log_between((0.3, 3.0)));
    let centre = centre(random, d);
    let map = Affine::correlated(random, centre, size, condition);
    (json!({"nu": nu, "condition": condition, "size": size}), Density::Single(map, Shape::Student(nu)))
}

fn banana(random: &mut Random) -> (Value, Density) {
    let d = random.integer(2, 20);
    let pairs: Vec<(f64, f64)> =
        (0..d / 2).map(|_| (random.between((0.1, 1.0)), random.log_between((0.3, 1.0)))).collect();
    let (bend, width): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    let map = Affine::new(centre(random, d), vec![1.0; d]);
    (json!({"bend": bend, "width": width}), Density::Single(map, Shape::Banana { bend, width }))
}

fn funnel(random: &mut Random) -> (Value, Density) {
    let (d, sd) = (random.integer(2, 10), random.between((0.5, 3.0)));
    let map = Affine::new(centre(random, d), vec![1.0; d]);
    (json!({"sd": sd}), Density::Single(map, Shape::Funnel(sd)))
}

/// Ranges of what two Gaussians are drawn from.
struct Two {
    /// The mass of the first.
    weight: (f64, f64),
    /// How far they are apart, in standard deviations of the wider.
    distance: (f64, f64),
    /// The wider one's width in widths of the narrower.
    ratio: (f64, f64),
}

/// Two Gaussians of one covariance but for its size, either of them the wider.
fn two(random: &mut Random, (low, high): (usize, usize), ranges: Two) -> (Value, Density) {
    let d = random.integer(low, high);
    let (weight, distance) = (random.between(ranges.weight), random.log_between(ranges.distance));
    let (ratio, size) = (random.log_between(ranges.ratio), random.log_between((0.5, 2.0)));
    let (is_first_wider, is_correlated) = (random.chance(0.5), random.chance(0.5));
    let middle = centre(random, d);
    let condition = random.log_between((1.0, 100.0));
    let condition = if is_correlated { condition } else { 1.0 };
    let wider = Affine::correlated(random, middle.clone(), size, condition);
    let direction = random.normals(d);
    let norm = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
    let end = |sign: f64| {
        let half: Vec<f64> = direction.iter().map(|x| sign * 0.5 * distance * x / norm).collect();
        wider.forward(&half)
    };
    let factors = if is_first_wider { [1.0, 1.0 / ratio] } else { [1.0 / ratio, 1.0] };
    let component = |mass, sign, factor| Component { mass, map: wider.moved(end(sign), factor) };
    let both = vec![component(weight, -1.0, factors[0]), component(1.0 - weight, 1.0, factors[1])];
    let parameters = json!({
        "weight": weight, "distance": distance, "ratio": ratio, "size": size,
        "first_is_wider": is_first_wider, "condition": condition,
    });
    (parameters, Density::Mixture(both))
}

/// Gaussians in a box around the origin of half-width 15.
fn many(random: &mut Random) -> (Value, Density) {
    let (d, n) = (random.integer(2, 6), random.integer(3, 8));
    let weights: Vec<f64> = (0..n).map(|_| -random.uniform().ln()).collect();
    let total: f64 = weights.iter().sum();
    let component = |w: &f64| {
        let centre: Vec<f64> = (0..d).map(|_| random.between((-15.0, 15.0))).collect();
        let (size, condition) = (random.log_between((0.5, 2.0)), random.log_between((1.0, 10.0)));
        Component { mass: w / total, map: Affine::correlated(random, centre, size, condition) }
    };
    let components: Vec<Component> = weights.iter().map(component).collect();
    (json!({"modes": n}), Density::Mixture(components))
}

/// A broad Gaussian, and a narrow one around a draw from it.
fn spike(random: &mut Random) -> (Value, Density) {
    let (d, mass) = (random.integer(1, 5), random.between((0.05, 0.6)));
    let (ratio, size) = (random.log_between((50.0, 500.0)), random.log_between((1.0, 3.0)));
    let broad = Affine::new(centre(random, d), vec![size; d]);
    let narrow = broad.moved(broad.forward(&random.normals(d)), 1.0 / ratio);
    let both = vec![Component { mass: 1.0 - mass, map: broad }, Component { mass, map: narrow }];
    (json!({"mass": mass, "ratio": ratio, "size": size}), Density::Mixture(both))
}

/// A Gaussian around a circle or a parabola, and independent Gaussian coordinates.
fn ridge(random: &mut Random) -> (Value, Density) {
    let d = random.integer(2, 5);
    let mut scale: Vec<f64> = (0..d).map(|_| random.log_between((0.3, 3.0))).collect();
    let is_circle = random.chance(0.5);
    let (parameters, shape) = if is_circle {
        let radius = random.log_between((2.0, 10.0));
        let width = radius / random.between((3.0, 20.0));
        (json!({"circle": radius, "width": width}), Shape::Circle { radius, width })
    } else {
        let (bend, width) = (random.log_between((1.0, 5.0)), random.log_between((0.1, 0.5)));
        (json!({"parabola": bend, "width": width}), Shape::Banana { bend: vec![bend], width: vec![width] })
    };
    scale[..2].fill(1.0);
    (parameters, Density::Single(Affine::new(centre(random, d), scale), shape))
}

/// Beta and Gamma variables in unconstrained coordinates. They are where they are: nothing is moved.
fn bounded(random: &mut Random) -> (Value, Density) {
    let d = random.integer(1, 10);
    let betas = random.integer(0, d);
    let positive = |random: &mut Random| random.log_between((0.3, 10.0));
    let beta: Vec<(f64, f64)> = (0..betas).map(|_| (positive(random), positive(random))).collect();
    let gamma: Vec<(f64, f64)> = (betas..d).map(|_| (positive(random), random.log_between((0.1, 10.0)))).collect();
    let map = Affine::new(vec![0.0; d], vec![1.0; d]);
    (json!({"beta": beta, "gamma": gamma}), Density::Single(map, Shape::Transformed { beta, gamma }))
}

/// Logs of Gamma variables, rotated.
fn skewed(random: &mut Random) -> (Value, Density) {
    let d = random.integer(1, 10);
    let shapes: Vec<f64> = (0..d).map(|_| random.log_between((0.3, 30.0))).collect();
    let (centre, rotation) = (centre(random, d), random.rotation(d));
    let map = Affine { centre, scale: vec![1.0; d], rotation: Some(rotation) };
    let gamma = shapes.iter().map(|k| (*k, 1.0)).collect();
    (json!({"shape": shapes}), Density::Single(map, Shape::Transformed { beta: vec![], gamma }))
}

//! The latent space in two dimensions: images placed by their posterior means.

use crate::plot::{NOTHING, Tiles};
use anyhow::Result;
use mcvi::vae::Evaluator;

/// Draws of z averaged for each image: its position is E[z|x], not a single draw.
const DRAWS: usize = 2;
/// Cells along each axis.
pub const CELLS: usize = 24;
/// Extent of the plane in standard deviations, in each direction.
pub const REACH: f64 = 2.4;
/// Rounds of the power iteration. If two variances are so close that it has not converged, either direction will do.
const ROUNDS: usize = 300;

/// Images at their positions in the plane of the first two principal components.
pub struct Plane {
    /// The picture.
    pub svg: String,
    /// Shares of the variance of E[z|x] along the two components.
    pub shares: [f64; 2],
    /// Number of images placed, and how many of them are shown.
    pub images: usize,
    pub shown: usize,
}

/// Place all images of an evaluator. Each cell of the plane shows the image nearest to its centre.
pub fn plane(evaluator: &mut Evaluator, images: &[Vec<f32>], [height, width]: [usize; 2]) -> Result<Plane> {
    let all: Vec<i32> = (0..images.len() as i32).collect();
    let mut means = evaluator.draw(&all)?;
    for _ in 1..DRAWS {
        for (mean, z) in means.iter_mut().zip(evaluator.draw(&all)?) {
            mean.iter_mut().zip(z).for_each(|(m, z)| *m += z);
        }
    }
    means.iter_mut().flatten().for_each(|m| *m /= DRAWS as f64);
    // One outlier must not determine the scale for all others.
    let finite: Vec<usize> = (0..means.len()).filter(|i| means[*i].iter().all(|m| m.is_finite())).collect();
    let centred = centred(finite.iter().map(|i| means[*i].clone()).collect());
    let (places, shares) = principal(&centred);
    let cells = nearest(&places);
    let shown = cells.iter().flatten().count();
    let nothing = vec![NOTHING; height * width];
    let tiles: Vec<Vec<f32>> =
        cells.iter().map(|cell| cell.map_or_else(|| nothing.clone(), |i| images[finite[i]].clone())).collect();
    let scale = (28 / height.max(1)).clamp(1, 4);
    let svg = Tiles::new(height, width).columns(CELLS).scale(scale).to_svg(&tiles)?;
    Ok(Plane { svg, shares, images: places.len(), shown })
}

/// The point nearest to the centre of each cell, of those in it; rows from the top.
fn nearest(places: &[[f64; 2]]) -> Vec<Option<usize>> {
    let mut cells: Vec<Option<(usize, f64)>> = vec![None; CELLS * CELLS];
    let n = CELLS as f64;
    for (i, place) in places.iter().enumerate() {
        let at = [place[0], -place[1]].map(|x| (x / REACH + 1.0) * 0.5 * n);
        if at.iter().all(|x| (0.0..n).contains(x)) {
            let cell = &mut cells[at[1] as usize * CELLS + at[0] as usize];
            let off: f64 = at.iter().map(|x| (x.fract() - 0.5).powi(2)).sum();
            if cell.is_none_or(|(_, least)| off < least) {
                *cell = Some((i, off));
            }
        }
    }
    cells.into_iter().map(|cell| cell.map(|(i, _)| i)).collect()
}

fn centred(mut points: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let n = points.len().max(1) as f64;
    for j in 0..points.first().map_or(0, Vec::len) {
        let mean = points.iter().map(|p| p[j]).sum::<f64>() / n;
        points.iter_mut().for_each(|p| p[j] -= mean);
    }
    points
}

/// Coordinates along the first two principal components, in standard deviations of each, and their shares of the total
/// variance.
fn principal(points: &[Vec<f64>]) -> (Vec<[f64; 2]>, [f64; 2]) {
    let d = points.first().map_or(0, Vec::len);
    let mut found: Vec<Vec<f64>> = vec![];
    for k in 0..2.min(d) {
        // A fixed start that favours no axis.
        let mut v: Vec<f64> = (0..d).map(|j| 1.0 + 0.1 * ((j * (k + 1)) as f64).sin()).collect();
        for _ in 0..ROUNDS {
            let mut next = vec![0.0; d];
            for p in points {
                let along = dot(p, &v);
                next.iter_mut().zip(p).for_each(|(n, p)| *n += along * p);
            }
            for other in &found {
                let along = dot(&next, other);
                next.iter_mut().zip(other).for_each(|(n, o)| *n -= along * o);
            }
            let norm = dot(&next, &next).sqrt();
            // All points coincide along what is left.
            if norm.is_nan() || norm <= f64::MIN_POSITIVE {
                break;
            }
            v = next.iter().map(|n| n / norm).collect();
        }
        found.push(v);
    }
    let total: f64 = points.iter().map(|p| dot(p, p)).sum();
    let mut places = vec![[0.0; 2]; points.len()];
    let mut shares = [0.0; 2];
    for (k, v) in found.iter().enumerate() {
        let along: Vec<f64> = points.iter().map(|p| dot(p, v)).collect();
        let square = dot(&along, &along);
        let sd = (square / points.len() as f64).sqrt();
        if sd > 0.0 {
            shares[k] = square / total;
            places.iter_mut().zip(&along).for_each(|(place, a)| place[k] = a / sd);
        }
    }
    (places, shares)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_found_and_points_are_placed() {
        // Long along (3, 4, 0)/5, half as long across, flat in the third direction.
        let points: Vec<Vec<f64>> = (0..400)
            .map(|i| {
                let (a, b) = (f64::from(i % 20) - 9.5, 0.5 * (f64::from(i / 20) - 9.5));
                vec![7.0 + 0.6 * a - 0.8 * b, 0.8 * a + 0.6 * b, 1.0]
            })
            .collect();
        let (places, shares) = principal(&centred(points));
        assert!((shares[0] - 0.8).abs() < 1e-9 && (shares[1] - 0.2).abs() < 1e-9, "{shares:?}");
        let sd = (33.25f64).sqrt();
        assert!((places[0][0].abs() - 9.5 / sd).abs() < 1e-9 && (places[0][1].abs() - 9.5 / sd).abs() < 1e-9);
        let cells = nearest(&[[0.11, 0.11], [0.1, 0.1], [-2.3, 2.3], [9.0, 0.0]]);
        assert_eq!(cells[(CELLS / 2 - 1) * CELLS + CELLS / 2], Some(1), "the nearest to the centre of its cell");
        assert_eq!(cells[0], Some(2), "left is low, above is high");
        assert_eq!(cells.iter().flatten().count(), 2, "what is far out is not shown");
    }

    #[test]
    fn too_little_to_place_is_no_trouble() {
        assert!(principal(&[]).0.is_empty());
        assert_eq!(principal(&centred(vec![vec![2.0]; 3])).0, [[0.0; 2]; 3]);
        assert_eq!(principal(&centred(vec![vec![1.0, 2.0, 3.0]])).1, [0.0; 2]);
    }
}

//! Histograms: where to put the bins, how high they are, and their outlines.

/// Bins of equal width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bins {
    /// The lower end of the first.
    pub start: f64,
    /// The width of each.
    pub width: f64,
    /// How many there are.
    pub count: usize,
    /// Whether the values are whole numbers, which lie in the middles of the bins and never at their ends.
    pub whole: bool,
}

/// Maximum distance of bins beyond the quartiles, in interquartile ranges: enough for all of a Gaussian, while a few
/// outliers do not squeeze all other draws into one bin.
const REACH: f64 = 6.0;
/// The interquartile range of a Gaussian, in widths of its densest tenth; and how many values have one that says anything.
const OF_TENTH: f64 = 5.37;
const MANY: usize = 200;
/// Whole numbers up to this range have a bin each.
const EACH: f64 = 60.0;

impl Bins {
    /// Bins for values that make histograms of `size` values each: the rule of Freedman and Diaconis, within limits.
    pub fn new(values: &[f64], size: usize) -> Self {
        let sorted = sorted(values);
        let (Some(&least), Some(&most)) = (sorted.first(), sorted.last()) else {
            return Self { start: -0.5, width: 1.0, count: 1, whole: false };
        };
        let (q1, q3) = (quantile(&sorted, 0.25), quantile(&sorted, 0.75));
        let reach = if q3 > q1 { REACH * (q3 - q1) } else { f64::INFINITY };
        let (from, to) = (least.max(q1 - reach), most.min(q3 + reach));
        // Of several modes, the quartiles may lie in different ones.
        let tenth = sorted.len() / 10;
        let dense = sorted.windows(tenth + 1).map(|w| w[tenth] - w[0]).fold(f64::INFINITY, f64::min);
        let spread = if sorted.len() >= MANY && dense > 0.0 { (OF_TENTH * dense).min(q3 - q1) } else { q3 - q1 };
        let best = 2.0 * spread / (size.max(1) as f64).cbrt();
        let wanted = if best > 0.0 { ((to - from) / best).ceil().clamp(8.0, 50.0) } else { 20.0 };
        // Beyond 2^52 all numbers are whole, and bins of one unit are lost to rounding.
        if sorted.iter().all(|x| x.fract() == 0.0 && x.abs() < 1e15) {
            let (from, to) = (from.ceil(), to.floor());
            let width = if to - from <= EACH { 1.0 } else { ((to - from) / wanted).ceil() };
            return Self { start: from - 0.5, width, count: ((to - from) / width).floor() as usize + 1, whole: true };
        }
        let width = (to - from) / wanted;
        if from + width > from && width.is_finite() {
            Self { start: from, width, count: wanted as usize, whole: false }
        } else {
            // All the same but for rounding, or too far apart to subtract.
            let width = 0.1 * from.abs().max(1.0);
            Self { start: from - width / 2.0, width, count: 1, whole: false }
        }
    }

    /// The lower end of a bin.
    pub fn edge(&self, i: usize) -> f64 {
        self.start + i as f64 * self.width
    }

    /// For each bin the share of all finite values in it, as a density.
    pub fn density(&self, values: &[f64]) -> Vec<f64> {
        let mut counts = vec![0_usize; self.count];
        let mut all = 0_usize;
        for &x in values.iter().filter(|x| x.is_finite()) {
            all += 1;
            let place = (x - self.start) / self.width;
            // The greatest value belongs to the last bin, though rounding may put it just above.
            if place >= 0.0 && place <= self.count as f64 * (1.0 + 1e-12) {
                counts[(place as usize).min(self.count - 1)] += 1;
            }
        }
        let unit = all.max(1) as f64 * self.width;
        counts.into_iter().map(|count| count as f64 / unit).collect()
    }

    /// A line along the tops of the bins.
    pub fn outline(&self, heights: &[f64]) -> Vec<(f64, f64)> {
        let tops = heights.iter().enumerate().flat_map(|(i, &y)| [(self.edge(i), y), (self.edge(i + 1), y)]);
        std::iter::once((self.start, 0.0)).chain(tops).chain([(self.edge(heights.len()), 0.0)]).collect()
    }
}

/// The finite values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// A quantile of sorted values, interpolated linearly; NaN without values.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (below, part) = (place.floor(), place.fract());
    let (a, b) = (sorted[below as usize], sorted[(below as usize + 1).min(last)]);
    a * (1.0 - part) + b * part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(bins: Bins, values: &[f64]) -> f64 {
        bins.density(values).iter().sum::<f64>() * bins.width
    }

    #[test]
    fn bins_hold_all_values() {
        let wave: Vec<f64> = (0..1000).map(|i| (f64::from(i) * 0.7).sin() * 3.0 + 0.123).collect();
        let bins = Bins::new(&wave, wave.len());
        assert!((8..=50).contains(&bins.count) && !bins.whole, "{bins:?}");
        assert!((area(bins, &wave) - 1.0).abs() < 1e-9);
        for odd in
            [vec![], vec![2.5], vec![0.1; 9], vec![-0.1, 0.3], vec![f64::NAN, 1.5, f64::INFINITY], vec![1e300, -1e300]]
        {
            let finite = odd.iter().filter(|x| x.is_finite()).count();
            let bins = Bins::new(&odd, odd.len());
            assert!(bins.width > 0.0 && bins.count > 0, "{odd:?} {bins:?}");
            if odd.iter().all(|x| x.abs() < 1e300) {
                assert!((area(bins, &odd) - f64::from(u8::from(finite > 0))).abs() < 1e-9, "{odd:?} {bins:?}");
            }
        }
    }

    #[test]
    fn bins_are_narrow_enough_for_each_of_several_modes() {
        // Three modes of width 0.2, ten apart.
        let modes: Vec<f64> = (0..3000).map(|i| f64::from(i % 3) * 10.0 + f64::from(i / 3) * 2e-4).collect();
        assert_eq!(Bins::new(&modes, modes.len()).count, 50);
        let even: Vec<f64> = (0..3000).map(|i| f64::from(i) * 1e-3).collect();
        assert_eq!(Bins::new(&even, even.len()).count, 15);
    }

    #[test]
    fn whole_numbers_have_bins_of_their_own() {
        let bins = Bins::new(&[0.0, 3.0, 1.0, 1.0], 4);
        assert_eq!(bins, Bins { start: -0.5, width: 1.0, count: 4, whole: true });
        assert_eq!(bins.density(&[0.0, 3.0, 1.0, 1.0]), [0.25, 0.5, 0.0, 0.25]);
        let wide: Vec<f64> = (0..500).map(|i| f64::from(i * i % 997)).collect();
        let bins = Bins::new(&wide, 500);
        assert!(bins.width.fract() == 0.0 && bins.count <= 51 && (area(bins, &wide) - 1.0).abs() < 1e-9, "{bins:?}");
    }

    #[test]
    fn wild_values_do_not_hide_the_others() {
        let mut values: Vec<f64> = (0..999).map(|i| f64::from(i) / 998.5).collect();
        values.push(1e9);
        let bins = Bins::new(&values, 1000);
        assert!(bins.edge(bins.count) < 10.0);
        assert!((area(bins, &values) - 0.999).abs() < 1e-9, "what is left out still counts");
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        let sorted = sorted(&[3.0, f64::NAN, 1.0, 2.0, 4.0, 5.0]);
        assert_eq!([0.0, 0.5, 0.625, 1.0].map(|p| quantile(&sorted, p)), [1.0, 3.0, 3.5, 5.0]);
        assert!(quantile(&[], 0.5).is_nan());
    }
}

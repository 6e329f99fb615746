//! Axes: the range of the data, nice ticks on linear and logarithmic scales, and tick labels.

/// Whether an axis can show a value; huge ones would overflow differences.
pub fn usable(value: f64, log: bool) -> bool {
    value.abs() < 1e300 && (!log || value > 1e-300)
}

/// A scale from `lo` to `hi` with its labelled ticks.
#[derive(Debug)]
pub struct Axis {
    lo: f64,
    hi: f64,
    log: bool,
    /// Values and labels.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// The axis of a fixed range, or of the values' range with a small margin, still without ticks.
    pub fn new(fixed: Option<(f64, f64)>, log: bool, values: impl Iterator<Item = f64>) -> Self {
        let forward = |v: f64| if log { v.log10() } else { v };
        let backward = |v: f64| if log { 10f64.powf(v) } else { v };
        let (lo, hi) = match fixed.filter(|&(a, b)| usable(a, log) && usable(b, log) && a != b) {
            Some((a, b)) => (a.min(b), a.max(b)),
            None => {
                let span = |(lo, hi): (f64, f64), v: f64| (lo.min(v), hi.max(v));
                let (lo, hi) =
                    values.filter(|&v| usable(v, log)).map(forward).fold((f64::INFINITY, f64::NEG_INFINITY), span);
                let (lo, hi) = if lo <= hi { (lo, hi) } else { (0.0, 1.0) };
                let size = lo.abs().max(hi.abs());
                let margin = match hi - lo {
                    width if width > 1e-12 * size => 0.04 * width,
                    _ if size > 0.0 && !log => 0.1 * size,
                    _ => 0.5,
                };
                (backward(lo - margin), backward(hi + margin))
            }
        };
        Self { lo, hi, log, ticks: Vec::new() }
    }

    /// Whether a value lies on the axis, its ends included.
    pub fn contains(&self, value: f64) -> bool {
        (self.lo..=self.hi).contains(&value)
    }

    /// The position of a value on the axis, 0 at its start and 1 at its end. Distant values are clamped; unusable ones
    /// have none.
    pub fn place(&self, value: f64) -> Option<f64> {
        let forward = |v: f64| if self.log { v.log10() } else { v };
        let (lo, hi) = (forward(self.lo), forward(self.hi));
        usable(value, self.log).then(|| ((forward(value) - lo) / (hi - lo)).clamp(-20.0, 21.0))
    }

    /// Sets the densest ticks whose labels, of the given extent along an axis of the given length, stay apart.
    pub fn set_ticks(&mut self, length: f64, spacing: f64, gap: f64, extent: impl Fn(&str) -> f64) {
        let most = (length / spacing).clamp(2.0, 8.0) as usize;
        let place = |v: f64| self.place(v).unwrap_or(0.0) * length;
        let apart = |ticks: &[(f64, String)]| {
            ticks.windows(2).all(|pair| {
                let [(a, first), (b, second)] = pair else { return true };
                place(*b) - place(*a) >= gap + 0.5 * (extent(first) + extent(second))
            })
        };
        let candidates = if self.log { log_ticks(self.lo, self.hi, most) } else { linear(self.lo, self.hi, most) };
        let last = candidates.last().cloned().unwrap_or_default();
        self.ticks = candidates.into_iter().find(|ticks| apart(ticks)).unwrap_or(last);
    }

    /// Sets ticks at given values, dropping those that are not on the axis.
    pub fn set_custom_ticks(&mut self, ticks: &[(f64, String)]) {
        self.ticks = ticks.iter().filter(|(v, _)| self.contains(*v)).cloned().collect();
    }
}

/// Labelled linear ticks, from about `most` down to two.
fn linear(lo: f64, hi: f64, most: usize) -> Vec<Vec<(f64, String)>> {
    (1..=most)
        .rev()
        .map(|count| {
            let (ticks, step) = ticks(lo, hi, count);
            let labels = labels(&ticks, step);
            ticks.into_iter().zip(labels).collect()
        })
        .collect()
}

/// About `count` multiples of a step of 1, 2 or 5 times a power of ten within a range, and the step.
pub fn ticks(lo: f64, hi: f64, count: usize) -> (Vec<f64>, f64) {
    let raw = (hi - lo) / count.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= raw * 0.75).unwrap_or(raw);
    let first = (lo / step - 1e-6).ceil();
    let values = (0..50).map(|i| (first + f64::from(i)) * step).take_while(|v| *v <= hi + 1e-6 * step);
    (values.collect(), step)
}

/// Labels of evenly spaced ticks: all with the same decimals, or all with the same power of ten.
pub fn labels(ticks: &[f64], step: f64) -> Vec<String> {
    let size = ticks.iter().fold(0f64, |m, v| m.max(v.abs()));
    let decimals = |step: f64| (-(step.log10() + 1e-9).floor()).clamp(0.0, 17.0) as usize;
    let exponent = size.log10().floor();
    let scientific = !(1e-3..1e5).contains(&size) && step >= 1e-3 * size;
    let label = |&v: &f64| match v {
        v if v.abs() < 1e-6 * step => "0".to_owned(),
        v if scientific => {
            let unit = 10f64.powf(exponent);
            power_of_ten(&format!("{:.*}", decimals(step / unit), v / unit), exponent as i32)
        }
        v => format!("{v:.*}", decimals(step)).replace('-', "−"),
    };
    ticks.iter().map(label).collect()
}

/// Labelled logarithmic ticks from dense to sparse; linear ones for a range too short for a few of them.
fn log_ticks(lo: f64, hi: f64, most: usize) -> Vec<Vec<(f64, String)>> {
    let (first, last) = (lo.log10().floor() as i32, hi.log10().ceil() as i32);
    let plain = lo > 0.9e-3 && hi < 1.1e4;
    let all = |digits: &[u8], stride: usize| -> Vec<(f64, String)> {
        let decades = (first..=last).filter(|e| (e.unsigned_abs() as usize).is_multiple_of(stride));
        let values = decades.flat_map(|e| digits.iter().map(move |&d| (f64::from(d), e)));
        let labelled = values.map(|(d, e)| (d * 10f64.powi(e), log_label(d, e, plain)));
        labelled.filter(|(v, _)| *v >= lo * (1.0 - 1e-9) && *v <= hi * (1.0 + 1e-9)).collect()
    };
    let mut candidates = vec![all(&[1, 2, 5], 1), all(&[1, 3], 1)];
    candidates.extend((1..=last.abs_diff(first).max(1) as usize).map(|stride| all(&[1], stride)));
    candidates.retain(|ticks| ticks.len() <= most.max(3) + 1);
    if candidates.first().is_none_or(|ticks| ticks.len() < 3) {
        candidates = linear(lo, hi, most);
    }
    candidates
}

/// The label of a digit times a power of ten, written out if `plain`.
fn log_label(digit: f64, exponent: i32, plain: bool) -> String {
    match exponent {
        0 => format!("{digit:.0}"),
        _ if plain => format!("{:.*}", (-exponent).max(0) as usize, digit * 10f64.powi(exponent)),
        _ => power_of_ten(&format!("{digit:.0}"), exponent),
    }
}

/// A number like 2×10⁵ with a true minus sign; a factor of one is left out.
fn power_of_ten(mantissa: &str, exponent: i32) -> String {
    let raised = |c: char| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        c => c.to_digit(10).and_then(|d| char::from_u32(0x2070 + d)).unwrap_or(c),
    };
    let power: String = exponent.to_string().chars().map(raised).collect();
    match mantissa {
        "1" => format!("10{power}"),
        "-1" => format!("−10{power}"),
        _ => format!("{}×10{power}", mantissa.replace('-', "−")),
    }
}

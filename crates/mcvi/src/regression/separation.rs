//! Columns that separate the two outcomes of a bernoulli response (Albert & Anderson 1984): along their coefficients the
//! likelihood rises without end, and only the priors keep them finite.

/// What the columns of a row-major matrix are called that by themselves have one outcome on one side of a value and the other not
/// beyond it; of categories also the first level, which has no column. Without an intercept that value is 0.
pub(super) fn separating<'a>(
    labels: impl Iterator<Item = &'a str>,
    x: &[f64],
    y: &[f64],
    intercept: bool,
) -> Vec<String> {
    let labels: Vec<&str> = labels.collect();
    let k = labels.len();
    let column = |j: usize| x.iter().skip(j).step_by(k).copied();
    let least = |j: usize| column(j).fold(f64::INFINITY, f64::min);
    let is_split = |values: &[f64]| {
        let of = |outcome: f64| values.iter().zip(y).filter(move |(_, y)| **y == outcome).map(|(x, _)| *x);
        let range =
            |outcome: f64| (of(outcome).fold(f64::INFINITY, f64::min), of(outcome).fold(f64::NEG_INFINITY, f64::max));
        let is_below =
            |low: (f64, f64), high: (f64, f64)| low.1 <= high.0 && (intercept || low.1 <= 0.0 && 0.0 <= high.0);
        let (zeros, ones) = (range(0.0), range(1.0));
        is_below(zeros, ones) || is_below(ones, zeros)
    };
    let mut found: Vec<String> =
        (0..k).filter(|j| is_split(&column(*j).collect::<Vec<_>>())).map(|j| format!("`{}`", labels[j])).collect();
    let variable =
        |label: &'a str| label.split_once('=').map(|(variable, _)| variable).filter(|_| !label.contains(':'));
    let mut variables: Vec<&str> = labels.iter().filter_map(|label| variable(label)).collect();
    variables.dedup();
    for name in variables {
        let levels: Vec<(usize, f64)> =
            (0..k).filter(|j| variable(labels[*j]) == Some(name)).map(|j| (j, least(j))).collect();
        // Of two levels, the one with a column says it all.
        if levels.len() > 1 && intercept {
            let is_first = |row: &[f64]| f64::from(u8::from(levels.iter().all(|(j, least)| row[*j] == *least)));
            if is_split(&x.chunks(k).map(is_first).collect::<Vec<_>>()) {
                found.push(format!("the first level of `{name}`"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::separating;

    #[test]
    fn columns_that_separate_outcomes_are_found() {
        let y = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0];
        let of = |labels: &[&str], columns: &[[f64; 6]], intercept: bool| {
            let x: Vec<f64> = (0..6).flat_map(|row| columns.iter().map(move |c| c[row])).collect();
            separating(labels.iter().copied(), &x, &y, intercept).join(", ")
        };
        let (wholly, partly) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [5.0, 4.0, 3.0, 3.0, 2.0, 1.0]);
        let mixed = [1.0, 5.0, 2.0, 4.0, 3.0, 6.0];
        assert_eq!(of(&["a", "b", "c"], &[wholly, mixed, partly], true), "`a`, `c`");
        // Through the origin a positive column tells nothing apart.
        assert_eq!(of(&["a"], &[wholly], false), "");
        assert_eq!(of(&["a"], &[wholly.map(|x| x - 3.5)], false), "`a`");
        // Of three levels the first is all zeros, and the others are not all of one outcome.
        let (second, third) = ([0.0, 0.0, 1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
        assert_eq!(of(&["g=b", "g=c"], &[second, third], true), "the first level of `g`");
        let level = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0];
        assert_eq!(of(&["g=b"], &[level], true), "`g=b`");
        assert_eq!(of(&[], &[], true), "");
    }
}

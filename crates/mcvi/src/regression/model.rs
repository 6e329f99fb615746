//! The model of a regression: parameters on a standardised scale with their priors, linear predictors, and what is
//! reported on the scale of the data.

use super::Scale;
use super::conditional::{self, Information};
use super::design::DesignColumn;
use super::family::{Auxiliary, Family, Given, Link};
use super::groups::{GroupRows, Groups};
use super::pilot::Working;
use super::prior::Prior;
use super::rows::Matrix;
use crate::model::{Builder, normal};
use mcvi_expr::Expr;

/// A regression, ready to be written.
pub(super) struct Specification {
    pub family: Family,
    pub link: Link,
    /// What the response is called.
    pub observed: String,
    /// Location and scale of the linear predictor.
    pub scale: Scale,
    pub columns: Vec<DesignColumn>,
    /// One linear predictor; of categories without an order, one for each but the first.
    pub predictors: Vec<Predictor>,
    /// Number of thresholds, and their prior.
    pub thresholds: Option<(usize, Prior)>,
    pub auxiliaries: Vec<Auxiliary>,
    /// What was observed.
    pub rows: Rows,
    /// What it says, roughly, of group effects: they are looked for there. None for plain non-centred effects.
    pub working: Option<Working>,
}

/// A linear predictor.
#[derive(Clone)]
pub(super) struct Predictor {
    /// What its names end in: nothing, or the category.
    pub suffix: String,
    /// The prior of the intercept; none if there is none.
    pub intercept: Option<Prior>,
    /// The names and the priors of the coefficients.
    pub names: Vec<String>,
    pub coefficients: Vec<Prior>,
    pub groups: Vec<GroupEffects>,
}

/// Effects of groups on a linear predictor.
#[derive(Clone)]
pub(super) struct GroupEffects {
    pub groups: Groups,
    /// `county`, with what tells it apart from others.
    pub name: String,
    /// The priors of the standard deviations.
    pub sds: Vec<Prior>,
    /// The prior of the correlations; none if there are none.
    pub correlation: Option<Prior>,
}

/// The rows of data that are predicted, or observed.
pub(super) struct Rows {
    pub count: usize,
    /// Standardised columns.
    pub x: Matrix,
    pub y: Vec<f64>,
    pub trials: Option<Vec<f64>>,
    pub weights: Option<Vec<f64>>,
    pub offset: Option<Vec<f64>>,
    /// For the groups of one linear predictor.
    pub groups: Vec<GroupRows>,
}

/// The effects of groups as declared.
struct Effects<'g> {
    /// `[rows, k]`
    sds: Expr<'g>,
    /// `[rows, k, k]`
    correlation: Option<Expr<'g>>,
    /// For each coefficient `[rows, groups]`.
    each: Vec<Expr<'g>>,
}

impl Specification {
    /// Write the model of what was observed.
    pub fn write<'g>(&self, m: &Builder<'g>) {
        self.declare(m, &self.rows, false);
    }

    /// Write the model with new rows in place of those observed: their expected responses are the generated quantity
    /// `mean`, and groups that were not fitted have parameters of their own, after all others.
    pub fn predict<'g>(&self, m: &Builder<'g>, rows: &Rows) {
        self.declare(m, rows, true);
    }

    fn declare<'g>(&self, m: &Builder<'g>, rows: &Rows, is_new: bool) {
        let k = self.columns.len();
        let mut parts = vec![];
        for p in &self.predictors {
            let a =
                p.intercept.as_ref().map(|prior| m.real(&format!("intercept_std{}", p.suffix), prior.distribution()));
            let b = (k > 0).then(|| m.reals(&format!("beta_std{}", p.suffix), k, Prior::of_vector(m, &p.coefficients)));
            parts.push((a, b));
        }
        let thresholds =
            self.thresholds.as_ref().map(|(n, prior)| m.ordered("threshold_std", *n, prior.distribution()));
        // What is in units of the response has its standard deviation for a unit.
        let auxiliary = |a: &Auxiliary| match a.name {
            "sigma" => a.range.declare(m, "sigma_std", a.prior.distribution()) * self.scale.sd,
            name => a.range.declare(m, name, a.prior.distribution()),
        };
        let auxiliaries: Vec<Expr<'g>> = self.auxiliaries.iter().map(auxiliary).collect();
        let mut effects: Vec<Vec<Effects<'g>>> = vec![];
        for (p, (a, b)) in self.predictors.iter().zip(&parts) {
            let at = Predicted { intercept: *a, coefficients: *b, precision: self.precision(&auxiliaries) };
            effects.push(self.effects(m, p, &at));
        }
        let reported: Vec<Vec<Vec<Expr<'g>>>> =
            effects.iter().map(|of| of.iter().map(|e| e.each.clone()).collect()).collect();
        for (p, effects) in self.predictors.iter().zip(&mut effects).filter(|_| is_new) {
            p.groups.iter().zip(effects).zip(&rows.groups).for_each(|((g, e), rows)| g.extend(m, e, rows));
        }
        let etas = parts.iter().zip(&effects).map(|((a, b), effects)| {
            let at = Predicted { intercept: *a, coefficients: *b, precision: None };
            let mut eta = at.fixed(m, rows);
            for (effects, rows) in effects.iter().zip(&rows.groups) {
                eta = eta + gathered(m, rows, &effects.each);
            }
            let eta = if self.scale.is_unit() { eta } else { eta * self.scale.sd + self.scale.mean };
            rows.offset.as_ref().map_or(eta, |o| eta + m.data(o))
        });
        let predictors: Vec<Expr<'g>> = etas.collect();
        let trials = rows.trials.as_ref().map(|t| m.data(t));
        let given = Given { predictors, auxiliaries, thresholds, trials };
        let distribution = self.family.distribution(self.link, &given);
        let weighted = match &rows.weights {
            Some(weights) => distribution.weighted(m.data(weights)),
            None => distribution,
        };
        m.observe(&self.observed, &rows.y, weighted);
        if is_new {
            m.generated("mean", self.family.mean(self.link, &given));
        }
        self.report(m, &parts, &given);
        for ((p, effects), each) in self.predictors.iter().zip(&effects).zip(&reported) {
            p.groups.iter().zip(effects).zip(each).for_each(|((g, e), each)| g.report(m, e, each, self.scale.sd));
        }
    }

    /// The precision of pseudo-responses in units of the linear predictor, where it is a parameter.
    fn precision<'g>(&self, auxiliaries: &[Expr<'g>]) -> Option<Expr<'g>> {
        let inverse = |sigma: Expr<'g>| (sigma / self.scale.sd).square().recip();
        match (self.family, auxiliaries) {
            (Family::Gaussian, [sigma]) => Some(inverse(*sigma)),
            // The expected information of a t distribution.
            (Family::Student, [sigma, nu]) => Some(inverse(*sigma) * (*nu + 1.0) / (*nu + 3.0)),
            _ => None,
        }
    }

    /// Declare the group effects of a linear predictor: first how they vary, then what they are.
    fn effects<'g>(&self, m: &Builder<'g>, p: &Predictor, at: &Predicted<'g>) -> Vec<Effects<'g>> {
        let mut effects: Vec<Effects<'g>> = p.groups.iter().map(|g| g.spread(m)).collect();
        for (t, g) in p.groups.iter().enumerate() {
            let working = self.working.as_ref().filter(|_| g.sds.len() <= conditional::MOST);
            let information = working.map(|w| at.information(m, (&self.rows, w), &effects, t));
            let e = conditional::declare(
                m,
                &g.free("z"),
                g.groups.levels.len(),
                &effects[t].factor(),
                information.as_ref(),
            );
            effects[t].each = effects[t].mixed(&e);
        }
        effects
    }

    /// Coefficients on the scale of the data.
    fn report<'g>(&self, m: &Builder<'g>, parts: &[(Option<Expr<'g>>, Option<Expr<'g>>)], given: &Given<'g>) {
        // a + Σ b (x − mean)/sd, in powers of x.
        let shift: Vec<f64> = self.columns.iter().map(|c| c.scale.mean / c.scale.sd).collect();
        let shift_of = |b: &Option<Expr<'g>>| b.map(|b| (b * m.data(&shift)).sum(&[1]).expand(1));
        for (p, (a, b)) in self.predictors.iter().zip(parts) {
            if let Some(a) = a {
                let at_zero = shift_of(b).map_or(*a, |shift| *a - shift);
                m.generated(&format!("intercept{}", p.suffix), at_zero * self.scale.sd + self.scale.mean);
            }
            if let Some(thresholds) = given.thresholds {
                m.generated("threshold", shift_of(b).map_or(thresholds, |shift| thresholds + shift));
            }
            for (j, (name, c)) in p.names.iter().zip(&self.columns).enumerate() {
                if let Some(b) = b {
                    m.generated(name, b.slice(1, j..j + 1) * (self.scale.sd / c.scale.sd));
                }
            }
        }
        let own = self.auxiliaries.iter().zip(&given.auxiliaries).find(|(a, _)| a.name == "sigma");
        if let Some((_, sigma)) = own {
            m.generated("sigma", *sigma);
        }
    }
}

impl GroupEffects {
    /// What a standard deviation is called on the scale of the data.
    pub fn sd_name(&self, column: usize) -> String {
        format!("sd_{}_{}", self.name, self.groups.columns[column].word)
    }

    /// What the effects are called on the scale of the data.
    pub fn effect_name(&self, column: usize) -> String {
        format!("r_{}_{}", self.name, self.groups.columns[column].word)
    }

    /// Declare how effects vary.
    fn spread<'g>(&self, m: &Builder<'g>) -> Effects<'g> {
        let k = self.groups.columns.len();
        let sds = m.positives(&format!("sd_std_{}", self.name), k, Prior::of_vector(m, &self.sds));
        let correlation = self.correlation.as_ref();
        let name = format!("L_{}", self.name);
        let correlation = correlation.map(|prior| m.correlation_cholesky(&name, k, prior.distribution()));
        Effects { sds, correlation, each: vec![] }
    }

    /// The names of the parameters behind the effects, one for each coefficient.
    pub fn free(&self, prefix: &str) -> Vec<String> {
        self.groups.columns.iter().map(|c| format!("{prefix}_{}_{}", self.name, c.word)).collect()
    }

    /// Add effects of groups that were not fitted, from the distribution of all.
    fn extend<'g>(&self, m: &Builder<'g>, effects: &mut Effects<'g>, rows: &GroupRows) {
        if rows.new.is_empty() {
            return;
        }
        let new: Vec<_> = self.free("new").iter().map(|name| m.reals(name, rows.new.len(), normal(0.0, 1.0))).collect();
        let new = effects.mixed(&new);
        effects.each.iter_mut().zip(new).for_each(|(each, new)| *each = each.graph().concat(&[*each, new], 1));
    }

    /// What is reported on the scale of the data.
    fn report<'g>(&self, m: &Builder<'g>, effects: &Effects<'g>, each: &[Expr<'g>], unit: f64) {
        let columns = &self.groups.columns;
        for (c, column) in columns.iter().enumerate() {
            m.generated(&self.sd_name(c), effects.sds.slice(1, c..c + 1) * (unit / column.sd));
        }
        for (i, j) in (0..columns.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
            if let Some(lower) = effects.correlation {
                let both = (lower.at(1, i) * lower.at(1, j)).sum(&[1]).expand(1);
                m.generated(&format!("cor_{}_{}_{}", self.name, columns[j].word, columns[i].word), both);
            }
        }
        for (c, column) in columns.iter().enumerate() {
            m.generated(&self.effect_name(c), each[c] * (unit / column.sd));
        }
    }
}

impl<'g> Effects<'g> {
    /// A, with AAᵀ the covariance of the effects of a group.
    fn factor(&self) -> Vec<Vec<Option<Expr<'g>>>> {
        let k = self.sds.shape().dims().get(1).copied().unwrap_or(0);
        let sd = |c: usize| self.sds.slice(1, c..c + 1);
        let element = |c: usize, d: usize| match self.correlation {
            Some(lower) if d <= c => Some(lower.at(1, c).slice(1, d..d + 1) * sd(c)),
            None if d == c => Some(sd(c)),
            _ => None,
        };
        (0..k).map(|c| (0..k).map(|d| element(c, d)).collect()).collect()
    }

    /// Ae, for standard normal e.
    fn mixed(&self, e: &[Expr<'g>]) -> Vec<Expr<'g>> {
        let row =
            |a: &Vec<Option<Expr<'g>>>| a.iter().zip(e).filter_map(|(a, e)| a.map(|a| a * *e)).reduce(|a, b| a + b);
        self.factor().iter().filter_map(row).collect()
    }
}

/// What is known of a linear predictor before its group effects.
struct Predicted<'g> {
    intercept: Option<Expr<'g>>,
    coefficients: Option<Expr<'g>>,
    /// The precision of pseudo-responses of weight 1.
    precision: Option<Expr<'g>>,
}

impl<'g> Predicted<'g> {
    /// What pseudo-responses say about the effects of term `t`, given those of the terms before, and not knowing those of
    /// the terms after it.
    fn information(
        &self,
        m: &Builder<'g>,
        (rows, working): (&Rows, &Working),
        effects: &[Effects<'g>],
        t: usize,
    ) -> Information<'g> {
        let own = &rows.groups[t];
        let (k, groups) = (own.values.len(), own.index.iter().max().map_or(0, |i| i + 1));
        let value = |c: usize, i: usize| own.values[c].as_ref().map_or(1.0, |v| v[i]);
        if effects.len() == 1 {
            // Sums over the rows of each group are data.
            let summed = |f: &dyn Fn(usize) -> f64| {
                let mut sums = vec![0.0; groups];
                own.index.iter().enumerate().for_each(|(i, j)| sums[*j] += working.weights[i] * f(i));
                sums
            };
            let scaled = |e: Expr<'g>| self.precision.map_or(e, |p| e * p);
            let precision = |c: usize, d: usize| scaled(m.data(&summed(&|i| value(c, i) * value(d, i))));
            let score = |c: usize| {
                let mut score = m.data(&summed(&|i| value(c, i) * working.response[i]));
                if let Some(a) = self.intercept {
                    score = score - a * m.data(&summed(&|i| value(c, i)));
                }
                if let Some(b) = self.coefficients {
                    let p = rows.x.len() / rows.count;
                    let columns: Vec<f64> = (0..p).flat_map(|l| summed(&|i| value(c, i) * rows.x[i * p + l])).collect();
                    score = score - b.matmul(m.matrix(groups, &columns));
                }
                scaled(score)
            };
            let precision = (0..k).map(|c| (0..k).map(|d| precision(c, d)).collect()).collect();
            return Information { precision, score: (0..k).map(score).collect() };
        }
        // Each later term adds to the variance of a mean of n rows as if it were that of n times the variance of one.
        let inverse: Vec<f64> = working.weights.iter().map(|w| 1.0 / w).collect();
        let mut variance = self.precision.map_or_else(|| m.data(&inverse), |p| m.data(&inverse) / p);
        for (later, of) in rows.groups.iter().zip(effects).skip(t + 1) {
            let mut sizes = vec![0.0; later.index.iter().max().map_or(0, |i| i + 1)];
            later.index.iter().for_each(|j| sizes[*j] += 1.0);
            for (c, v) in later.values.iter().enumerate() {
                let of_row = |i: usize| sizes[later.index[i]] * v.as_ref().map_or(1.0, |v| v[i] * v[i]);
                let each: Vec<f64> = (0..rows.count).map(of_row).collect();
                variance = variance + of.sds.slice(1, c..c + 1).square() * m.data(&each);
            }
        }
        let weight = variance.recip();
        let mut left = m.data(&working.response) - self.fixed(m, rows);
        for (before, of) in rows.groups.iter().zip(effects).take(t) {
            left = left - gathered(m, before, &of.each);
        }
        let index = m.index(&own.index);
        // What is known beforehand has no rows of its own.
        let whole = effects[t].sds.shape().dims().first().map_or([1, rows.count], |r| [*r, rows.count]);
        let summed = |e: Expr<'g>| e.broadcast_to(whole).t().scatter_add(index, groups).t();
        let column = |c: usize| (0..rows.count).map(|i| value(c, i)).collect::<Vec<f64>>();
        let products = |c: usize, d: usize| column(c).iter().zip(column(d)).map(|(a, b)| a * b).collect::<Vec<f64>>();
        let precision = (0..k).map(|c| (0..k).map(|d| summed(weight * m.data(&products(c, d)))).collect()).collect();
        let score = (0..k).map(|c| summed(weight * left * m.data(&column(c)))).collect();
        Information { precision, score }
    }

    /// The linear predictor without group effects.
    fn fixed(&self, m: &Builder<'g>, rows: &Rows) -> Expr<'g> {
        let x = self.coefficients.zip(rows.x.constant(m)).map(|(b, x)| b.matmul(x.t()));
        let zero = || m.data(&vec![0.0; rows.count]);
        match (self.intercept, x) {
            (Some(a), Some(x)) => a + x,
            (Some(a), None) => a + zero(),
            (None, Some(x)) => x,
            (None, None) => zero(),
        }
    }
}

/// The sum of the effects of a term in each row.
fn gathered<'g>(m: &Builder<'g>, rows: &GroupRows, effects: &[Expr<'g>]) -> Expr<'g> {
    let index = m.index(&rows.index);
    let each = effects.iter().zip(&rows.values).map(|(effect, values)| {
        let each = effect.take(1, index);
        values.as_ref().map_or(each, |v| each * m.data(v))
    });
    each.reduce(|a, b| a + b).unwrap_or_else(|| m.data(&[0.0]))
}

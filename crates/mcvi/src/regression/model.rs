//! The model of a regression: parameters on a standardised scale with their priors, linear predictors, and what is
//! reported on the scale of the data.

use super::Scale;
use super::conditional::{self, Conditional, Information};
use super::design::DesignColumn;
use super::family::{Auxiliary, Family, Given, Link};
use super::groups::{GroupRows, Groups};
use super::pilot::Working;
use super::prior::Prior;
use super::rows::Matrix;
use crate::model::{Builder, Constraint, Distribution};
use mcvi_expr::Expr;
use nalgebra::DMatrix;
use std::f64::consts::TAU;
use std::sync::OnceLock;

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
    /// Sums over rows of the products of columns and responses, once they are asked for.
    pub products: OnceLock<DMatrix<f64>>,
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
    /// How they are distributed given all else, if they are integrated out.
    integrated: Option<Conditional<'g>>,
}

impl Specification {
    /// Write the model of what was observed.
    pub fn write<'g>(&self, m: &Builder<'g>) {
        self.declare(m, &self.rows, false);
    }

    /// Write the model with new rows in place of those observed: their expected responses are the generated quantity
    /// `mean`. Effects of groups that were not fitted are drawn.
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
        let trials = |rows: &Rows| rows.trials.as_ref().map(|t| m.data(t));
        let mut given = Given { predictors: vec![], auxiliaries, thresholds, trials: trials(&self.rows) };
        // One linear predictor has a term whose effects are integrated out.
        let mut total = None;
        if self.family == Family::Gaussian && self.predictors[0].groups.is_empty() {
            total = Some(self.normal(m, &parts[0], given.auxiliaries[0]));
        }
        if let Some(t) = self.integrated() {
            let eta = self.predictor(m, &parts[0], (&effects[0], Some(t)), &self.rows);
            if let Some(at) = effects[0][t].integrated.take() {
                total = Some(self.integrate(m, (&parts[0], eta), &given, (&mut effects[0][t], at, t)));
            }
        }
        let reported: Vec<Vec<Vec<Expr<'g>>>> =
            effects.iter().map(|of| of.iter().map(|e| e.each.clone()).collect()).collect();
        for (p, effects) in self.predictors.iter().zip(&mut effects).filter(|_| is_new) {
            p.groups.iter().zip(effects).zip(&rows.groups).for_each(|((g, e), rows)| g.extend(m, e, rows));
        }
        let etas = parts.iter().zip(&effects).map(|(part, effects)| self.predictor(m, part, (effects, None), rows));
        given = Given { predictors: etas.collect(), trials: trials(rows), ..given };
        let distribution = self.weighted(m, &given, rows);
        match total.filter(|_| !is_new) {
            None => m.observe(&self.observed, &rows.y, distribution),
            Some(total) => m.observe_integrated(&self.observed, &rows.y, distribution, total),
        };
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

    /// A linear predictor, with all group effects but those of one term.
    fn predictor<'g>(
        &self,
        m: &Builder<'g>,
        (intercept, coefficients): &(Option<Expr<'g>>, Option<Expr<'g>>),
        (effects, but): (&[Effects<'g>], Option<usize>),
        rows: &Rows,
    ) -> Expr<'g> {
        let at = Predicted { intercept: *intercept, coefficients: *coefficients, precision: None };
        let mut eta = at.fixed(m, rows);
        for (_, (effects, rows)) in effects.iter().zip(&rows.groups).enumerate().filter(|(t, _)| Some(*t) != but) {
            eta = eta + gathered(m, rows, &effects.each);
        }
        let eta = if self.scale.is_unit() { eta } else { eta * self.scale.sd + self.scale.mean };
        rows.offset.as_ref().map_or(eta, |o| eta + m.data(o))
    }

    /// The distribution of responses, each with its weight.
    fn weighted<'g>(&self, m: &Builder<'g>, given: &Given<'g>, rows: &Rows) -> Distribution<'g> {
        let distribution = self.family.distribution(self.link, given);
        match &rows.weights {
            Some(weights) => distribution.weighted(m.data(weights)),
            None => distribution,
        }
    }

    /// Integrate the effects of a term out of the log likelihood of all rows, which are normal, given the linear predictor `eta`
    /// without them, and draw them.
    fn integrate<'g>(
        &self,
        m: &Builder<'g>,
        (parts, eta): (&(Option<Expr<'g>>, Option<Expr<'g>>), Expr<'g>),
        given: &Given<'g>,
        (effects, at, t): (&mut Effects<'g>, Conditional<'g>, usize),
    ) -> Expr<'g> {
        let without = if self.rows.groups.len() == 1 {
            self.normal(m, parts, given.auxiliaries[0])
        } else {
            let given = Given { predictors: vec![eta], ..given.clone() };
            let y = m.data(&m.observed(&self.observed, &self.rows.y));
            self.weighted(m, &given, &self.rows).log_density(y).sum(&[1])
        };
        let groups = self.predictors[0].groups[t].groups.levels.len();
        let noise: Vec<Expr<'g>> = (0..at.len()).map(|_| m.noise(groups)).collect();
        // From the prior, nothing is known of them.
        let e = if m.is_prior() { noise } else { at.effects(&noise) };
        effects.each = effects.mixed(&e);
        without + at.log_factor().sum(&[1])
    }

    /// The log likelihood of normal responses without group effects: `[draws]`, from sums over rows that are made once.
    fn normal<'g>(&self, m: &Builder<'g>, (a, b): &(Option<Expr<'g>>, Option<Expr<'g>>), sigma: Expr<'g>) -> Expr<'g> {
        let (n, k) = (self.rows.count, self.columns.len());
        let y = m.observed(&self.observed, &self.rows.y);
        let weight = |i: usize| self.rows.weights.as_ref().map_or(1.0, |w| w[i]);
        let products = || {
            let y = self.standardised(&y);
            // Columns with the intercept before and the response behind them, and all their products.
            let x = |i: usize, j: usize| match j {
                0 => f64::from(a.is_some()),
                j if j <= k => self.rows.x[i * k + j - 1],
                _ => y[i],
            };
            let all = DMatrix::from_fn(n, k + 2, |i, j| weight(i).sqrt() * x(i, j));
            all.tr_mul(&all)
        };
        // Simulated responses have their own.
        let products = if y == self.rows.y { self.products.get_or_init(products) } else { &products() };
        let zero = || m.graph().full(sigma.dtype(), [m.rows(), 1], 0.0);
        let one = zero() + 1.0;
        let parts: Vec<Expr<'g>> = [*a, *b]
            .into_iter()
            .enumerate()
            .filter_map(|(i, e)| if i == 0 { Some(e.unwrap_or_else(zero)) } else { e })
            .collect();
        let coefficients = m.graph().concat(&[parts.as_slice(), &[-one]].concat(), 1);
        let squares = (coefficients * coefficients.matmul(m.matrix(k + 2, products.as_slice()))).sum(&[1]);
        let total: f64 = (0..n).map(weight).sum();
        let (unit, log_sigma) = (sigma / self.scale.sd, sigma.ln().sum(&[1]));
        squares / unit.square().sum(&[1]) * -0.5 - (log_sigma + 0.5 * TAU.ln()) * total
    }

    /// Responses as the linear predictor without its offset has them, where it is on their scale.
    pub fn standardised(&self, y: &[f64]) -> Vec<f64> {
        let offset = |i: usize| self.rows.offset.as_ref().map_or(0.0, |o| o[i]);
        y.iter().enumerate().map(|(i, y)| self.scale.standardise(y - offset(i))).collect()
    }

    /// The group term whose effects are integrated out: where errors are normal, that with the most effects.
    fn integrated(&self) -> Option<usize> {
        let is_normal = self.family == Family::Gaussian && self.working.is_some();
        let groups = self.predictors.first().filter(|_| is_normal)?.groups.iter().enumerate();
        let few = groups.filter(|(_, g)| g.sds.len() <= conditional::MOST);
        few.max_by_key(|(_, g)| g.sds.len() * g.groups.levels.len()).map(|(t, _)| t)
    }

    /// Declare the group effects of a linear predictor: first how they vary, then what they are; those that are integrated
    /// out come last.
    fn effects<'g>(&self, m: &Builder<'g>, p: &Predictor, at: &Predicted<'g>) -> Vec<Effects<'g>> {
        let least = |t: usize| self.working.as_ref().and_then(|w| w.least.get(t).copied());
        let mut effects: Vec<Effects<'g>> = p.groups.iter().enumerate().map(|(t, g)| g.spread(m, least(t))).collect();
        let integrated = self.integrated();
        let order: Vec<usize> = (0..p.groups.len()).filter(|t| Some(*t) != integrated).chain(integrated).collect();
        for (i, &t) in order.iter().enumerate() {
            let (g, factor) = (&p.groups[t], effects[t].factor());
            let levels = g.groups.levels.len();
            let working = self.working.as_ref().filter(|_| g.sds.len() <= conditional::MOST);
            let information = |w: &Working| at.information(m, (&self.rows, w), &effects, (t, &order[..i]));
            match working {
                Some(working) if integrated == Some(t) => {
                    let response = self.standardised(&m.observed(&self.observed, &self.rows.y));
                    let information = information(&Working { response, ..working.clone() });
                    effects[t].integrated = Some(Conditional::new(m, &factor, &information));
                }
                _ => {
                    let information = working.map(information);
                    let e = conditional::declare(m, &g.free("z"), levels, &factor, information.as_ref());
                    effects[t].each = effects[t].mixed(&e);
                }
            }
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

    /// Declare how effects vary, given the least standard deviation that the data tell from 0.
    fn spread<'g>(&self, m: &Builder<'g>, least: Option<f64>) -> Effects<'g> {
        let k = self.groups.columns.len();
        // Small ones as they are, large ones by their logarithms.
        let near_zero = |least: f64| Constraint::NearZero { knee: 0.5 * least, unit: 2.0 * least };
        let constraint = least.map_or(Constraint::Positive, near_zero);
        let sds = m.parameter(&format!("sd_std_{}", self.name), constraint, k, Prior::of_vector(m, &self.sds));
        let correlation = self.correlation.as_ref();
        let name = format!("L_{}", self.name);
        let correlation = correlation.map(|prior| m.correlation_cholesky(&name, k, prior.distribution()));
        Effects { sds, correlation, each: vec![], integrated: None }
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
        let new: Vec<_> = self.groups.columns.iter().map(|_| m.noise(rows.new.len())).collect();
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
    /// What pseudo-responses say about the effects of term `t`, given those of some terms, and not knowing those of the others.
    fn information(
        &self,
        m: &Builder<'g>,
        (rows, working): (&Rows, &Working),
        effects: &[Effects<'g>],
        (t, given): (usize, &[usize]),
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
        // Each unknown term adds to the variance of a mean of n rows as if it were that of n times the variance of one.
        let inverse: Vec<f64> = working.weights.iter().map(|w| 1.0 / w).collect();
        let mut variance = self.precision.map_or_else(|| m.data(&inverse), |p| m.data(&inverse) / p);
        for u in (0..effects.len()).filter(|u| *u != t && !given.contains(u)) {
            let (unknown, of) = (&rows.groups[u], &effects[u]);
            let mut sizes = vec![0.0; unknown.index.iter().max().map_or(0, |i| i + 1)];
            unknown.index.iter().for_each(|j| sizes[*j] += 1.0);
            for (c, v) in unknown.values.iter().enumerate() {
                let of_row = |i: usize| sizes[unknown.index[i]] * v.as_ref().map_or(1.0, |v| v[i] * v[i]);
                let each: Vec<f64> = (0..rows.count).map(of_row).collect();
                variance = variance + of.sds.slice(1, c..c + 1).square() * m.data(&each);
            }
        }
        let weight = variance.recip();
        let mut left = m.data(&working.response) - self.fixed(m, rows);
        for u in given {
            left = left - gathered(m, &rows.groups[*u], &effects[*u].each);
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

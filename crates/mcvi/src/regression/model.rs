//! The model of a regression: parameters on a standardised scale with their priors, linear predictors, and what is
//! reported on the scale of the data.

use super::Scale;
use super::conditional::{self, Conditional};
use super::design::DesignColumn;
use super::family::{Auxiliary, Family, Given, Link};
use super::groups::{GroupRows, Groups};
use super::pilot::Working;
use super::predictor::Predicted;
use super::prior::Prior;
use super::rows::Matrix;
use crate::model::{Builder, Constraint};
use mcvi_expr::Expr;
use nalgebra::DMatrix;
use std::f64::consts::TAU;
use std::ops::Range;
use std::sync::OnceLock;

/// A regression, ready to be written.
#[derive(Clone)]
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
    /// The rows of columns and responses turned into a triangle, once it is asked for: without the columns of the effects that
    /// are integrated out.
    pub triangle: OnceLock<DMatrix<f64>>,
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
#[derive(Clone)]
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
pub(super) struct Effects<'g> {
    /// `[rows, k]`
    pub sds: Expr<'g>,
    /// `[rows, k, k]`
    correlation: Option<Expr<'g>>,
    /// For each coefficient `[rows, groups]`.
    pub each: Vec<Expr<'g>>,
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
        // Where pseudo-responses say how, their units follow from how effects vary, which is declared before them.
        let plain: Vec<Predicted<'g>> = match &self.working {
            None => self.predictors.iter().map(|p| self.coefficients(m, p, (None, &[]))).collect(),
            Some(_) => vec![],
        };
        let thresholds =
            self.thresholds.as_ref().map(|(n, prior)| m.ordered("threshold_std", *n, prior.distribution()));
        // What is in units of the response has its standard deviation for a unit.
        let auxiliary = |a: &Auxiliary| match a.name {
            "sigma" => a.range.declare(m, "sigma_std", a.prior.distribution()) * self.scale.sd,
            name => a.range.declare(m, name, a.prior.distribution()),
        };
        let auxiliaries: Vec<Expr<'g>> = self.auxiliaries.iter().map(auxiliary).collect();
        let error = self.error(&auxiliaries);
        let (mut predicted, mut effects) = (vec![], vec![]);
        let mut plain = plain.into_iter();
        for p in &self.predictors {
            let mut own = self.spread(m, p);
            let at = match plain.next() {
                Some(at) => Predicted { error, ..at },
                None => self.coefficients(m, p, (error, &own)),
            };
            self.effects(m, p, &at, &mut own);
            predicted.push(at);
            effects.push(own);
        }
        let total = (self.family == Family::Gaussian).then(|| self.normal(m, &predicted[0], &mut effects[0]));
        let reported: Vec<Vec<Vec<Expr<'g>>>> =
            effects.iter().map(|of| of.iter().map(|e| e.each.clone()).collect()).collect();
        for (p, effects) in self.predictors.iter().zip(&mut effects).filter(|_| is_new) {
            p.groups.iter().zip(effects).zip(&rows.groups).for_each(|((g, e), rows)| g.extend(m, e, rows));
        }
        let etas = predicted.iter().zip(&effects).map(|(at, effects)| {
            let effects: Vec<&[Expr<'g>]> = effects.iter().map(|e| e.each.as_slice()).collect();
            let eta = at.with(m, rows, &effects);
            let eta = if self.scale.is_unit() { eta } else { eta * self.scale.sd + self.scale.mean };
            rows.offset.as_ref().map_or(eta, |o| eta + m.data(o))
        });
        let predictors: Vec<Expr<'g>> = etas.collect();
        let trials = rows.trials.as_ref().map(|t| m.data(t));
        let given = Given { predictors, auxiliaries, thresholds, trials };
        let distribution = self.family.distribution(self.link, &given);
        let distribution = match &rows.weights {
            Some(weights) => distribution.weighted(m.data(weights)),
            None => distribution,
        };
        match total.filter(|_| !is_new) {
            None => m.observe(&self.observed, &rows.y, distribution),
            Some(total) => m.observe_integrated(&self.observed, &rows.y, distribution, total),
        };
        if is_new {
            m.generated("mean", self.family.mean(self.link, &given));
        }
        self.report(m, &predicted, &given);
        for ((p, effects), each) in self.predictors.iter().zip(&effects).zip(&reported) {
            p.groups.iter().zip(effects).zip(each).for_each(|((g, e), each)| g.report(m, e, each, self.scale.sd));
        }
    }

    /// The standard deviation of pseudo-responses of weight 1, in units of the linear predictor; none where it is 1.
    fn error<'g>(&self, auxiliaries: &[Expr<'g>]) -> Option<Expr<'g>> {
        match (self.family, auxiliaries) {
            (Family::Gaussian, [sigma]) => Some(*sigma / self.scale.sd),
            // By the expected information of a t distribution.
            (Family::Student, [sigma, nu]) => Some(*sigma / self.scale.sd * ((*nu + 3.0) / (*nu + 1.0)).sqrt()),
            // Information grows with these, from what it was where pseudo-responses come from.
            (Family::Gamma, [shape]) => Some((self.estimated(0)? / *shape).sqrt()),
            (Family::Beta, [phi]) => Some(((self.estimated(0)? + 1.0) / (*phi + 1.0)).sqrt()),
            _ => None,
        }
    }

    /// A rough value of a parameter of the family.
    fn estimated(&self, i: usize) -> Option<f64> {
        self.working.as_ref()?.auxiliaries.get(i).copied()
    }

    /// The log likelihood of normal responses, `[rows]`, with the effects of a term integrated out, which are drawn.
    fn normal<'g>(&self, m: &Builder<'g>, at: &Predicted<'g>, effects: &mut [Effects<'g>]) -> Expr<'g> {
        let y = self.standardised(&self.rows.y);
        let integrated = self.integrated().and_then(|t| Some((t, self.working.as_ref()?)));
        let own = integrated.map(|(t, working)| (t, &working.turned[t]));
        let others: Vec<usize> = (0..effects.len()).filter(|t| integrated.is_none_or(|(own, _)| own != *t)).collect();
        let squares = if others.is_empty() {
            let triangle = || at.triangle(&self.rows, own.map(|(_, turned)| turned), &y);
            at.squares(m, self.triangle.get_or_init(triangle))
        } else {
            let each: Vec<&[Expr<'g>]> = (0..effects.len())
                .map(|t| if others.contains(&t) { effects[t].each.as_slice() } else { &[] })
                .collect();
            at.squares_by_row(m, &self.rows, own, m.data(&y) - at.with(m, &self.rows, &each))
        };
        let error = at.error.map_or_else(|| m.graph().full(squares.dtype(), [m.rows()], 1.0), |e| e.sum(&[1]));
        let weight: f64 = self.rows.weights.as_ref().map_or(self.rows.count as f64, |w| w.iter().sum());
        let without = squares / error.square() * -0.5 - (error.ln() + (self.scale.sd.ln() + 0.5 * TAU.ln())) * weight;
        let Some((t, conditional)) = integrated.and_then(|(t, _)| Some((t, effects[t].integrated.take()?))) else {
            return without;
        };
        let groups = self.predictors[0].groups[t].groups.levels.len();
        let noise: Vec<Expr<'g>> = (0..conditional.len()).map(|_| m.noise(groups)).collect();
        // From the prior, nothing is known of them.
        let e = if m.is_prior() { noise } else { conditional.effects(&noise) };
        effects[t].each = effects[t].mixed(&e);
        without + conditional.log_integral().sum(&[1])
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

    /// Declare how the group effects of a linear predictor vary.
    fn spread<'g>(&self, m: &Builder<'g>, p: &Predictor) -> Vec<Effects<'g>> {
        let least = |t: usize| self.working.as_ref().and_then(|w| w.least.get(t).copied());
        p.groups.iter().enumerate().map(|(t, g)| g.spread(m, least(t))).collect()
    }

    /// Declare the intercept and the coefficients of a linear predictor, given how its group effects vary.
    fn coefficients<'g>(
        &self,
        m: &Builder<'g>,
        p: &Predictor,
        (error, effects): (Option<Expr<'g>>, &[Effects<'g>]),
    ) -> Predicted<'g> {
        let k = self.columns.len();
        let units = self.working.as_ref().map(|w| (w.knowledge.uncertainty(m, error, effects), &w.coefficients));
        let constraint = |range: Range<usize>| match units {
            Some((unit, centre)) => Constraint::Affine {
                offset: m.data(&centre[range.clone()]).into(),
                multiplier: unit.slice(1, range).into(),
            },
            None => Constraint::Real,
        };
        let (a, b) = (format!("intercept_std{}", p.suffix), format!("beta_std{}", p.suffix));
        let intercept = p.intercept.as_ref().map(|prior| m.parameter(&a, constraint(0..1), 1, prior.distribution()));
        let prior = || Prior::of_vector(m, &p.coefficients);
        let coefficients = (k > 0).then(|| m.parameter(&b, constraint(1..k + 1), k, prior()));
        Predicted { intercept, coefficients, error }
    }

    /// Declare the group effects of a linear predictor; those that are integrated out come last.
    fn effects<'g>(&self, m: &Builder<'g>, p: &Predictor, at: &Predicted<'g>, effects: &mut [Effects<'g>]) {
        let integrated = self.integrated();
        let mut order: Vec<usize> = (0..p.groups.len()).collect();
        // Groups within groups come after these, given their effects.
        if self.working.is_some() {
            order.sort_by_key(|t| (Some(*t) == integrated, p.groups[*t].groups.levels.len()));
        }
        for (i, &t) in order.iter().enumerate() {
            let (g, factor) = (&p.groups[t], effects[t].factor());
            let levels = g.groups.levels.len();
            let working = self.working.as_ref().filter(|_| g.sds.len() <= conditional::MOST);
            match working {
                Some(working) if integrated == Some(t) => {
                    let seen = at.seen(m, &self.rows, working, effects, (t, &order[..i]));
                    effects[t].integrated = Some(Conditional::new(&factor, &seen));
                }
                _ => {
                    let seen = |w: &Working| at.seen(m, &self.rows, w, effects, (t, &order[..i]));
                    let seen = working.map(seen);
                    let e = conditional::declare(m, &g.free("z"), levels, &factor, seen.as_ref());
                    effects[t].each = effects[t].mixed(&e);
                }
            }
        }
    }

    /// Coefficients on the scale of the data.
    fn report<'g>(&self, m: &Builder<'g>, predicted: &[Predicted<'g>], given: &Given<'g>) {
        // a + Σ b (x − mean)/sd, in powers of x.
        let shift: Vec<f64> = self.columns.iter().map(|c| c.scale.mean / c.scale.sd).collect();
        let shift_of = |b: &Option<Expr<'g>>| b.map(|b| (b * m.data(&shift)).sum(&[1]).expand(1));
        for (p, at) in self.predictors.iter().zip(predicted) {
            let (a, b) = (&at.intercept, &at.coefficients);
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

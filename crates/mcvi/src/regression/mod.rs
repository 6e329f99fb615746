//! Regressions: a formula in the notation of lme4 and brms and a data frame become a model whose coefficients are reported on
//! the scale of the data.

mod arithmetic;
mod coefficients;
mod column;
mod conditional;
mod design;
mod effects;
mod family;
mod formula;
mod frame;
mod groups;
mod lines;
mod model;
mod names;
mod pilot;
mod predict;
mod predictor;
mod prior;
mod prior_choice;
mod response;
mod rows;
mod saved;
mod separation;
mod stan;
mod table;
mod turned;
mod variable;

pub use family::{Family, Link};
pub use formula::Formula;
pub use frame::{Frame, ReadOptions};
pub use names::nearest;
pub use predict::{NewGroups, Prediction, PredictionOptions};
pub use saved::{KIND, SHORTHANDS, data_file, reopen, reopen_shared, shorthand};
pub use stan::StanProgram;

use crate::bayesian_model::{About, Axes, BayesianModel, DataDigest, DescribedModel, Parameter, Source};
use crate::conditional_effect::ConditionalEffect;
use crate::error::{Error, Result};
use crate::hardware::{Hardware, Ranks};
use crate::model::{Model, Quantities, Quantity};
use crate::scope::Scope;
use crate::target::Target;
use design::{Coding, Design, Products};
use formula::Terms;
use groups::Groups;
use mcvi_expr::Expr;
use model::{GroupEffects, Predictor, Rows, Specification};
use names::{Names, word};
use prior::Prior;
use response::Response;
use rows::{Left, Made, complete};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// An error in a user's data or formula, with a message for them.
fn mistake(why: String) -> Error {
    Error::Table { why }
}

/// The first of some items, and how many more there are.
fn listed(items: impl Iterator<Item = String>, most: usize) -> String {
    let items: Vec<String> = items.collect();
    let mut shown: Vec<String> = items.iter().take(most).cloned().collect();
    if items.len() > most {
        shown.push(format!("and {} more", items.len() - most));
    }
    shown.join(", ")
}

/// A number with a noun.
fn counted(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// Mean and standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    mean: f64,
    sd: f64,
}

impl Scale {
    const UNIT: Scale = Scale { mean: 0.0, sd: 1.0 };

    /// None if it cannot be divided by.
    fn of(values: &[f64]) -> Option<Scale> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        Scale::checked(mean, (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
    }

    fn checked(mean: f64, sd: f64) -> Option<Scale> {
        (mean.is_finite() && sd.is_normal()).then_some(Scale { mean, sd })
    }

    fn standardise(self, x: f64) -> f64 {
        (x - self.mean) / self.sd
    }

    fn is_unit(self) -> bool {
        self == Scale::UNIT
    }
}

/// What to do with rows in which something is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// Say where, and stop.
    #[default]
    Refuse,
    /// Leave those rows out.
    Drop,
}

/// How a formula is to be fitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// The distribution of the response.
    pub family: Family,
    /// What the linear predictor is a function of. By default the usual one of the family.
    pub link: Option<Link>,
    /// Priors in place of the defaults, on the scale of the data: `x ~ normal(0, 1)`, `sd ~ exponential(1)`.
    pub priors: Vec<String>,
    /// A column of weights: each log likelihood is multiplied by its own.
    pub weights: Option<String>,
    /// What to do with missing values.
    pub missing: Missing,
    /// The categories of the response in their order; by default as numbers are, or alphabetically.
    pub levels: Vec<String>,
    /// Where group effects are looked for.
    pub coordinates: Coordinates,
}

/// The coordinates in which group effects are looked for: the model is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coordinates {
    /// Those in which the data say that they are standard normal, nearly independent of all else.
    #[default]
    Conditional,
    /// Effects divided by their standard deviation.
    NonCentred,
}

/// A regression: a [`BayesianModel`] like any other.
///
/// ```
/// use mcvi::regression::{Family, Frame, Options, Regression};
/// use mcvi::{BayesianModel, infer::{Request, infer}};
///
/// let frame = Frame::new()
///     .numbers("dose", vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?
///     .numbers("deaths", vec![0.0, 1.0, 1.0, 3.0, 4.0, 6.0])?;
/// let options = Options { family: Family::Poisson, ..Options::default() };
/// let regression = Regression::with("deaths ~ dose", &frame, &options)?;
/// assert_eq!(regression.names(), ["intercept_std", "beta_std"]);
/// let posterior = infer(regression, &Request::default())?;
/// # Ok::<(), mcvi::Error>(())
/// ```
#[derive(Clone)]
pub struct Regression {
    described: DescribedModel,
    fit: Arc<Fitted>,
}

/// What is needed for new data.
#[derive(Clone)]
struct Fitted {
    formula: Formula,
    options: Options,
    terms: Terms,
    design: Design,
    specification: Arc<Specification>,
    /// The categories of the response.
    levels: Vec<String>,
    /// The columns of the data in short.
    usual: Vec<effects::Usual>,
}

impl Regression {
    /// With normal errors and default priors.
    pub fn new(formula: &str, frame: &Frame) -> Result<Self> {
        Regression::with(formula, frame, &Options::default())
    }

    /// With a family, priors, weights.
    pub fn with(formula: &str, frame: &Frame, options: &Options) -> Result<Self> {
        Regression::fitting(&Formula::parse(formula)?, frame, options)
    }

    /// The same of a formula that is parsed already.
    pub fn fitting(formula: &Formula, frame: &Frame, options: &Options) -> Result<Self> {
        Regression::shared(formula, frame, options, None)
    }

    /// The same, where ranks share the rows: each holds the columns of its own.
    pub fn shared(formula: &Formula, frame: &Frame, options: &Options, ranks: Option<Ranks>) -> Result<Self> {
        Regression::of(formula, frame, options, (true, ranks))
    }

    /// From a formula. Where predictors are logarithms, `is_located` says whether the prior of the intercept is about the logarithm
    /// of the mean response, and not about 0.
    fn of(
        formula: &Formula,
        frame: &Frame,
        options: &Options,
        (is_located, ranks): (bool, Option<Ranks>),
    ) -> Result<Self> {
        let mut notes = vec![];
        let left = Left::of(formula, options)?;
        let terms = left.terms(formula, frame)?;
        let mut own = vec![];
        left.response.columns(&mut own);
        if !own.is_empty() && own.iter().all(|c| terms.columns().contains(c)) {
            let what = "the response is also on the right side, where it would explain itself; leave it out there";
            return Err(formula.at(&left.response, what));
        }
        let frame = complete(frame, &left.columns(&terms), options.missing, &mut notes)?;
        let frame = &*frame;
        let family = options.family;
        let link = options.link.unwrap_or(family.links()[0]);
        if !family.links().contains(&link) {
            Link::named(link.name(), family)?;
        }

        let order = (family, options.levels.as_slice());
        let response = Response::new(formula, &left.response, frame, order, &mut notes)?;
        let mut names = Names::default();
        ["intercept_std", "beta_std", "sigma_std", "intercept", "sigma"]
            .into_iter()
            .for_each(|name| names.reserve(name));
        family.auxiliaries().iter().for_each(|a| names.reserve(a.name));
        ["threshold", "threshold_std", "mean"].into_iter().for_each(|name| names.reserve(name));
        let label = left.response.to_string();
        let observed = names.safe("", &label);
        if observed != label {
            notes.push(format!("the response `{label}` is called `{observed}` in the results"));
        }
        let coding = Coding {
            intercept: terms.intercept || family == Family::Cumulative,
            centred: terms.intercept || family == Family::Cumulative,
        };
        let mut design = Design::learn(formula, &terms.terms, frame, &coding)?;
        design.name(&mut names, "beta_", &mut notes);
        let mut rows = left.rows(formula, (frame, &terms.offsets), response.values)?;
        let groups: Vec<Groups> = terms
            .groups
            .iter()
            .map(|g| Groups::learn(formula, g, frame))
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect();
        rows.groups = groups.iter().map(|g| g.rows(frame)).collect::<Result<_>>()?;
        let mut digest = DataDigest::default();
        digest.add(&observed, &rows.y);
        design.columns.iter().for_each(|c| digest.add(&c.name, &[c.scale.mean, c.scale.sd]));
        let mut products = Products::new(design.columns.len());
        // What is looked for in groups, and the triangle that normal errors need, are computed of all rows.
        let divided = Hardware { ranks, ..Hardware::default() }.divide(frame.len());
        let divided = divided.filter(|_| groups.is_empty() && family != Family::Gaussian);
        let held = divided.map(|parts| parts.held(frame.len()));
        rows.x = Made { held, digest: &mut digest, products: &mut products }.matrix(&design, frame)?;
        for label in design.dependent(&products) {
            notes.push(format!(
                "`{label}` is a linear combination of other columns: the data cannot tell their coefficients apart, only \
                 the priors do"
            ));
        }
        if family == Family::Bernoulli {
            let labels = design.columns.iter().map(|c| c.label.as_str());
            for label in separation::separating(labels, &rows.x, &rows.y, terms.intercept) {
                notes.push(format!(
                    "{label} separates the outcomes: the data alone would make its coefficient infinite, only the prior keeps it \
                     finite"
                ));
            }
        }
        let scale = scale(family, terms.intercept, is_located, &rows, frame)?;
        let predictors = predictors(&design, groups, (&terms, family), &response.levels, &mut names);
        let mut specification = Specification {
            family,
            link,
            observed,
            scale,
            columns: design.columns.clone(),
            predictors,
            thresholds: (family == Family::Cumulative).then(|| (response.levels.len() - 1, Prior::normal(0.0, 5.0))),
            auxiliaries: family.auxiliaries(),
            working: None,
            rows,
            triangle: OnceLock::new(),
        };
        prior_choice::choose(&mut specification, &options.priors)?;
        notes.extend(prior_choice::said(&specification));
        let digest = saved::digest(digest, &specification, &specification.rows);
        let about = About {
            name: family.name().to_owned(),
            description: format!(
                "`{}` with link {}, {} of {}",
                formula.text(),
                link.name(),
                counted(specification.rows.count, "row"),
                frame.described()
            ),
            notes,
            log_evidence: None,
        };
        let source = saved::source(formula, options, frame, &left.columns(&terms));
        let labels = labels(&specification);
        let (specification, model) = located(specification, options.coordinates)?;
        let model = model.map_err(|error| frame.mistake(error))?.shared_by(ranks);
        let levels = response.levels;
        let (formula, options, usual) = (formula.clone(), options.clone(), effects::Usual::of(frame, &terms)?);
        let fit = Fitted { formula, options, terms, design, specification, levels, usual };
        let described = DescribedModel { model, about, source, labels, data_digest: Some(digest) };
        Ok(Regression { described, fit: Arc::new(fit) })
    }

    /// The formula.
    pub fn formula(&self) -> &Formula {
        &self.fit.formula
    }

    /// How it is fitted.
    pub fn options(&self) -> &Options {
        &self.fit.options
    }
}

/// The location and scale of the linear predictor, in which priors are stated.
fn scale(family: Family, intercept: bool, is_located: bool, rows: &Rows, frame: &Frame) -> Result<Scale> {
    if family.is_scaled() {
        let spread = || frame.mistake("the response's spread is too small or too large; change its unit");
        let scale = Scale::of(&rows.y).ok_or_else(spread)?;
        return Ok(if intercept { scale } else { Scale { mean: 0.0, ..scale } });
    }
    if family.links() != [Link::Log] || !intercept || !is_located {
        return Ok(Scale::UNIT);
    }
    // The logarithm of the mean response, per unit of exposure.
    let exposure: f64 = rows.offset.as_ref().map_or(rows.count as f64, |o| o.iter().map(|o| o.exp()).sum());
    let mean = (rows.y.iter().sum::<f64>() / exposure).ln();
    Ok(if mean.is_finite() { Scale { mean, sd: 1.0 } } else { Scale::UNIT })
}

/// One linear predictor; of categories without an order, one for each but the first.
fn predictors(
    design: &Design,
    groups: Vec<Groups>,
    (terms, family): (&Terms, Family),
    levels: &[String],
    names: &mut Names,
) -> Vec<Predictor> {
    let suffixes = match family {
        Family::Categorical => levels[1..].iter().map(|l| format!("_{}", word(l))).collect(),
        _ => vec![String::new()],
    };
    let is_alone = suffixes.len() == 1;
    let predictor = |suffix: String| {
        let effects = groups.iter().map(|g| {
            let name = names.free(&format!("{}{suffix}", g.word));
            let sds = vec![Prior::half_student_t(3.0, 2.5); g.columns.len()];
            let correlation = (g.columns.len() > 1).then(|| Prior::lkj(1.0));
            GroupEffects { groups: g.clone(), name, sds, correlation }
        });
        let effects = effects.collect();
        let name = |c: &design::DesignColumn| if is_alone { c.name.clone() } else { format!("{}{suffix}", c.name) };
        Predictor {
            intercept: (terms.intercept && family != Family::Cumulative).then(|| Prior::normal(0.0, 5.0)),
            names: design.columns.iter().map(name).collect(),
            coefficients: vec![Prior::normal(0.0, 2.5); design.columns.len()],
            groups: effects,
            suffix,
        }
    };
    suffixes.into_iter().map(predictor).collect()
}

/// A specification that knows where group effects are looked for, and its model.
fn located(mut s: Specification, coordinates: Coordinates) -> Result<(Arc<Specification>, Result<Model>)> {
    s.working = working(&s, coordinates)?;
    let specification = Arc::new(s);
    let written = specification.clone();
    Ok((specification, Model::new(move |m| written.write(m))))
}

/// Where group effects are looked for.
fn working(s: &Specification, coordinates: Coordinates) -> Result<Option<pilot::Working>> {
    if s.rows.groups.is_empty() || coordinates == Coordinates::NonCentred {
        return Ok(None);
    }
    if !s.family.is_scaled() {
        return pilot::working(s.family, s.link, &s.rows, s.scale.mean, s.thresholds.as_ref().map_or(0, |t| t.0));
    }
    let weights = s.rows.weights.clone().unwrap_or_else(|| vec![1.0; s.rows.count]);
    // In units of the response, no error has a larger standard deviation.
    Ok(Some(pilot::Working::normal(&s.rows, s.standardised(&s.rows.y), weights)))
}

/// The labels of vectors of parameters.
fn labels(specification: &Specification) -> Vec<(String, Vec<Vec<String>>)> {
    let mut labels = vec![];
    for p in &specification.predictors {
        // A single coefficient is a number, without an axis.
        let axes = |names: Vec<String>| if names.len() > 1 { vec![names] } else { vec![] };
        labels.push((format!("beta_std{}", p.suffix), axes(p.names.clone())));
        for g in &p.groups {
            labels.push((format!("sd_std_{}", g.name), axes((0..g.sds.len()).map(|c| g.sd_name(c)).collect())));
            for c in &g.groups.columns {
                labels.push((format!("z_{}_{}", g.name, c.word), axes(g.groups.levels.clone())));
            }
        }
    }
    labels
}

impl std::fmt::Debug for Regression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Regression({}, {})", self.fit.formula.text(), self.fit.options.family.name())
    }
}

impl Target for Regression {
    fn dim(&self) -> usize {
        self.described.dim()
    }
    fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        self.described.log_density(scope, z)
    }
    fn ranks(&self) -> Option<Ranks> {
        self.described.ranks()
    }
}

impl BayesianModel for Regression {
    fn about(&self) -> About {
        self.described.about()
    }
    fn parameters(&self) -> Vec<Parameter> {
        self.described.parameters()
    }
    fn internal(&self) -> Vec<String> {
        let is_reported = |name: &String| self.fit.specification.auxiliaries.iter().any(|a| a.name == *name);
        self.parameters().into_iter().map(|p| p.name).filter(|name| !is_reported(name)).collect()
    }
    fn axes(&self) -> Axes {
        let mut axes = Axes::default();
        for g in self.fit.specification.predictors.iter().flat_map(|p| &p.groups) {
            let (label, levels) = (g.groups.word.clone(), &g.groups.levels);
            let effects = (0..g.sds.len()).map(|c| g.effect_name(c)).chain(g.free("z"));
            effects.for_each(|name| drop(axes.names.insert(name, vec![label.clone()])));
            axes.labels.insert(label, levels.clone());
        }
        axes
    }
    fn quantities(&self, z: &[Vec<f64>], seed: Option<u64>, hardware: Hardware) -> Result<Quantities> {
        self.described.quantities(z, seed, hardware)
    }
    fn observations(&self) -> Result<Vec<Quantity>> {
        self.described.observations()
    }
    fn prior(&self, count: usize, seed: u64) -> Result<Quantities> {
        self.described.prior(count, seed)
    }
    fn prior_parameters(&self, count: usize, seed: u64) -> Result<Vec<Quantity>> {
        self.described.prior_parameters(count, seed)
    }
    fn conditional_effects(&self, z: &[Vec<f64>], hardware: Hardware) -> Result<Vec<ConditionalEffect>> {
        self.effects(z, hardware)
    }
    fn unconstrained(&self, parameters: &[Quantity]) -> Result<Vec<Vec<f64>>> {
        self.described.unconstrained(parameters)
    }
    fn observing(&self, observations: &[(String, Vec<f64>)]) -> Result<Arc<dyn BayesianModel>> {
        self.described.model.observing(observations)?;
        let mut specification = (*self.fit.specification).clone();
        specification.triangle = OnceLock::new();
        if let Some((_, y)) = observations.iter().find(|(name, _)| *name == specification.observed) {
            specification.rows.y.clone_from(y);
        }
        // Other responses say that group effects are elsewhere.
        let (specification, model) = located(specification, self.fit.options.coordinates)?;
        let described = DescribedModel { model: model?.shared_by(self.ranks()), ..self.described.clone() };
        Ok(Arc::new(Regression { described, fit: Arc::new(Fitted { specification, ..(*self.fit).clone() }) }))
    }
    fn source(&self) -> Option<Source> {
        self.described.source()
    }
    fn data_digest(&self) -> Result<String> {
        self.described.data_digest()
    }
}

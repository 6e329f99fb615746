//! Simulation from a program's own statements: what `x ~ f(…)` says of a parameter is drawn, then data given parameters.
//!
//! What is not drawn yet is not a number. The model block is run until all is drawn: a statement whose arguments are known
//! draws its variate, others wait for the next run. `target += f_lpdf(x | …)` counts as `x ~ f(…)`.

use super::{Machine, Run, fail};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{BinaryOp, Constraint, Declaration, DistributionStatement, Expr, ExprKind, Statement};
use crate::trace::Flat;
use crate::value::{Places, Selected, Selection, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// Draws until one lies within the bounds.
const TRIES: usize = 10_000;

/// A variable that is drawn.
#[derive(Clone, Debug)]
pub struct Wanted<'p> {
    pub declaration: &'p Declaration,
    /// Which statement has drawn each element.
    pub drawn: Vec<Option<Span>>,
    /// Whether some statement would draw it.
    pub is_mentioned: bool,
    /// Whether draws must keep to the declared bounds: those of parameters do.
    pub is_bounded: bool,
}

impl Wanted<'_> {
    pub fn name(&self) -> &Arc<str> {
        &self.declaration.name.text
    }
}

/// A simulation under way.
#[derive(Clone, Debug, Default)]
pub struct Simulation<'p> {
    pub wanted: Vec<Wanted<'p>>,
    /// Data that the model draws, or generated quantities replicate: what is said of them is no prior.
    pub data: Vec<Arc<str>>,
    /// Whether nothing is drawn yet, to see what depends on parameters.
    pub is_dry: bool,
    /// Statements that add something unknown to the target otherwise.
    pub factors: HashSet<Span>,
    /// How many elements have been drawn.
    pub count: usize,
    /// What makes the program one that cannot be simulated.
    pub conflict: Option<Diagnostic>,
}

fn is_unknown(value: &Value) -> bool {
    value.numbers().is_some_and(|n| n.iter().any(|x| x.is_nan()))
}

/// Whether a term depends on what is unknown: it is not a number, or −∞ where a comparison fails.
fn is_open(value: &Value) -> bool {
    value.numbers().is_none_or(|n| n.iter().any(|x| !x.is_finite()))
}

/// The variable that an expression is, or is the same numbers as.
fn variable(expr: &Expr) -> Option<(&Expr, &[crate::syntax::ast::Index])> {
    match &expr.kind {
        ExprKind::Variable(_) => Some((expr, &[])),
        ExprKind::Index(inner, indices) if matches!(inner.kind, ExprKind::Variable(_)) => Some((inner, indices)),
        ExprKind::Call(call) if matches!(&*call.name.text, "to_vector" | "to_array_1d" | "to_row_vector") => {
            call.arguments.first().and_then(variable)
        }
        _ => None,
    }
}

impl<'p> Machine<'p> {
    /// Runs statements one by one; one that cannot be run yet is left out.
    pub fn attempt(&mut self, list: &'p [Statement]) -> Option<Diagnostic> {
        let mut first = None;
        for statement in list {
            if let Err(mistake) = self.statement(statement) {
                first.get_or_insert(mistake);
            }
        }
        first
    }

    /// `y ~ f(…)` in a simulation.
    pub fn simulate_statement(&mut self, d: &'p DistributionStatement, span: Span) -> Run<()> {
        let arguments: Vec<Value> = d.arguments.iter().map(|a| self.expression(a)).collect::<Run<_>>()?;
        let (low, high) = d.truncation.as_ref().map_or((None, None), |(l, h)| (l.as_ref(), h.as_ref()));
        let low = low.map(|e| self.expression(e)).transpose()?;
        let high = high.map(|e| self.expression(e)).transpose()?;
        if self.simulate(&d.variate, &d.name.text, &arguments, [low, high], span)? {
            return Ok(());
        }
        let value = self.expression(&d.variate)?;
        if is_open(&value) || arguments.iter().any(is_unknown) {
            self.note_factor(span);
        }
        Ok(())
    }

    /// `target += …` in a simulation: terms that are densities of variables draw these.
    pub fn simulate_term(&mut self, expr: &'p Expr, span: Span) -> Run<()> {
        match &expr.kind {
            ExprKind::Binary(BinaryOp::Add | BinaryOp::Subtract, a, b) => {
                self.simulate_term(a, span)?;
                self.simulate_term(b, span)
            }
            ExprKind::Call(call) if call.conditional => {
                let name = &*call.name.text;
                let suffix = ["_lpdf", "_lpmf", "_lupdf", "_lupmf"].into_iter().find(|s| name.ends_with(s));
                if let (Some(suffix), [variate, rest @ ..]) = (suffix, call.arguments.as_slice()) {
                    let arguments: Vec<Value> = rest.iter().map(|a| self.expression(a)).collect::<Run<_>>()?;
                    let family = &name[..name.len() - suffix.len()];
                    if self.simulate(variate, family, &arguments, [None, None], span)? {
                        return Ok(());
                    }
                }
                self.unknown_term(expr, span)
            }
            _ => self.unknown_term(expr, span),
        }
    }

    fn unknown_term(&mut self, expr: &'p Expr, span: Span) -> Run<()> {
        match self.expression(expr) {
            Ok(value) if !is_open(&value) => {}
            _ => self.note_factor(span),
        }
        Ok(())
    }

    fn note_factor(&mut self, span: Span) {
        if let Some(simulation) = &mut self.simulation {
            simulation.factors.insert(span);
        }
    }

    /// Draws a variable or a part of it; false if the variate is none that is wanted.
    fn simulate(
        &mut self,
        variate: &'p Expr,
        family: &str,
        arguments: &[Value],
        truncation: [Option<Value>; 2],
        span: Span,
    ) -> Run<bool> {
        let Some((variable, indices)) = variable(variate) else { return Ok(false) };
        let ExprKind::Variable(name) = &variable.kind else { return Ok(false) };
        if self.simulation.as_ref().is_some_and(|s| s.data.iter().any(|d| Arc::ptr_eq(d, &name.text))) {
            return Ok(true);
        }
        let position =
            self.simulation.as_ref().and_then(|s| s.wanted.iter().position(|w| Arc::ptr_eq(w.name(), &name.text)));
        let (Some(index), Some(value)) = (position, self.scope.get(&name.text).cloned()) else { return Ok(false) };
        let selections = self.selections(&value.shape, indices, span)?;
        let Selected { base, shape, places } = value.select(&selections);
        let places: Vec<usize> = match places {
            Places::Range(first, count) => (first..first + count).collect(),
            Places::List(list) => list,
        };
        let Some(simulation) = &mut self.simulation else { return Ok(false) };
        let wanted = &mut simulation.wanted[index];
        wanted.is_mentioned = true;
        if places.iter().any(|&p| wanted.drawn[p].is_some_and(|s| s != span)) {
            let message = format!("`{}` has two distributions: it cannot be drawn from both", name.text);
            simulation.conflict.get_or_insert(Diagnostic::new(span, message));
            return Ok(true);
        }
        if places.iter().all(|&p| wanted.drawn[p].is_some()) {
            return Ok(true);
        }
        if simulation.is_dry {
            return Ok(true);
        }
        let (is_bounded, declaration) = (wanted.is_bounded, wanted.declaration);
        let [low, high] = truncation;
        if arguments.iter().chain(&low).chain(&high).any(is_unknown) {
            return Ok(true);
        }
        let mut bounds = [low, high];
        let mut sorted = None;
        if is_bounded {
            let sized = self.sized(&declaration.ty, &declaration.trailing)?;
            match sized.constraint {
                Constraint::Bounds { lower, upper } => {
                    for (slot, bound) in bounds.iter_mut().zip([lower, upper]) {
                        let Some(bound) = bound else { continue };
                        let bound = self.expression(bound)?;
                        if is_unknown(&bound) {
                            return Ok(true);
                        }
                        // Of a container, those of the elements that are drawn.
                        let bound = match bound.len() {
                            1 => Value::scalar(bound.flat.part(0, 1)),
                            n => Value::vector(bound.flat.gather(&places.iter().map(|p| p % n).collect::<Vec<_>>())),
                        };
                        slot.get_or_insert(bound);
                    }
                }
                Constraint::Ordered => sorted = Some(()),
                Constraint::PositiveOrdered => {
                    sorted = Some(());
                    bounds[0].get_or_insert(Value::real(0.0));
                }
                _ => {}
            }
        }
        let like = Value { base, shape, flat: Flat::from_numbers(vec![0.0; places.len()]) };
        let mut numbers = self.variates(family, arguments, &like, bounds, span)?;
        // Draws that are alike are ordered by sorting.
        if sorted.is_some() && arguments.iter().all(Value::is_scalar) {
            numbers.sort_by(f64::total_cmp);
        }
        if let Some(variable) = self.scope.get_mut(&name.text) {
            for (&place, x) in places.iter().zip(&numbers) {
                variable.flat.set(place, crate::trace::Cell::Number(*x));
            }
        }
        if let Some(simulation) = &mut self.simulation {
            places.iter().for_each(|&p| simulation.wanted[index].drawn[p] = Some(span));
            simulation.count += places.len();
        }
        Ok(true)
    }

    /// Draws from a family for all elements of a value.
    fn variates(
        &mut self,
        family: &str,
        arguments: &[Value],
        like: &Value,
        bounds: [Option<Value>; 2],
        span: Span,
    ) -> Run<Vec<f64>> {
        if let Some((family, arguments)) = self.predictor(family, arguments, span)? {
            return self.variates(family, &arguments, like, bounds, span);
        }
        let user = format!("{family}_rng");
        if self.find_user(&user, arguments).is_some() {
            let drawn = self.apply(&user, arguments.to_vec(), span)?;
            return Ok(drawn.numbers().map(<[f64]>::to_vec).unwrap_or_default());
        }
        let is_of_numbers = crate::math::find(&format!("{family}_lpdf")).is_some()
            || crate::math::find(&format!("{family}_lpmf")).is_some();
        let of_categories =
            matches!(family, "categorical" | "categorical_logit" | "ordered_logistic" | "ordered_probit");
        let mut out = Vec::with_capacity(like.len());
        if is_of_numbers {
            for i in 0..like.len() {
                let at = |v: &Value| Value::scalar(v.flat.part(if v.len() == 1 { 0 } else { i }, 1));
                let list: Vec<Value> = arguments.iter().map(at).collect();
                let limit = |v: &Option<Value>, none: f64| v.as_ref().map_or(none, |v| at(v).number().unwrap_or(none));
                let (low, high) = (limit(&bounds[0], f64::NEG_INFINITY), limit(&bounds[1], f64::INFINITY));
                let mut found = None;
                for _ in 0..TRIES {
                    let x = self.draw(family, &list, span)?.number().unwrap_or(f64::NAN);
                    if x >= low && x <= high {
                        found = Some(x);
                        break;
                    }
                }
                let Some(x) = found else {
                    return fail(span, format!("next to nothing of `{family}` lies from {low} to {high}"));
                };
                out.push(x);
            }
            return Ok(out);
        }
        // One draw for each element of an array.
        let arrays = like.dimensions();
        let count: usize = if of_categories { like.len() } else { like.shape[..arrays].iter().product() };
        for i in 0..count {
            let part = |(k, v): (usize, &Value)| match (of_categories, v.dimensions()) {
                (true, 0) if k == 0 && family.starts_with("ordered") && v.len() > 1 => Value::scalar(v.flat.part(i, 1)),
                (_, d) if d > 0 && v.shape[0] == count && count > 1 => v.at(&[Selection::One(i)]),
                _ => v.clone(),
            };
            let list: Vec<Value> = arguments.iter().enumerate().map(part).collect();
            let drawn = match family {
                "lkj_corr" | "lkj_corr_cholesky" => {
                    let size = Value::int(like.extent().0 as i64);
                    self.draw(family, &[size, list[0].clone()], span)?
                }
                "multi_normal_prec" => {
                    let covariance = self.inverse(&list[1], span)?;
                    self.draw("multi_normal", &[list[0].clone(), covariance], span)?
                }
                "multinomial" => {
                    return fail(span, "multinomial counts cannot be simulated: their total is not stated here");
                }
                _ => self.draw(family, &list, span)?,
            };
            out.extend_from_slice(drawn.numbers().unwrap_or(&[]));
        }
        if out.len() != like.len() {
            return fail(span, format!("`{family}` gives {} numbers for {}", out.len(), like.len()));
        }
        Ok(out)
    }

    /// The family of a regression with its predictor.
    fn predictor(&mut self, family: &str, arguments: &[Value], span: Span) -> Run<Option<(&'static str, Vec<Value>)>> {
        let (family, trials, x, rest) = match (family, arguments) {
            ("bernoulli_logit_glm", [x, rest @ ..]) => ("bernoulli_logit", None, x, rest),
            ("poisson_log_glm", [x, rest @ ..]) => ("poisson_log", None, x, rest),
            ("neg_binomial_2_log_glm", [x, rest @ ..]) => ("neg_binomial_2_log", None, x, rest),
            ("normal_id_glm", [x, rest @ ..]) => ("normal", None, x, rest),
            ("binomial_logit_glm", [trials, x, rest @ ..]) => ("binomial_logit", Some(trials), x, rest),
            _ => return Ok(None),
        };
        let [alpha, beta, more @ ..] = rest else { return Ok(None) };
        let slope = self.product(x, beta, span)?;
        let eta = self.binary(BinaryOp::Add, &slope.into_vector(), &alpha.clone().into_vector(), span)?;
        Ok(Some((family, trials.into_iter().cloned().chain([eta]).chain(more.iter().cloned()).collect())))
    }

    /// Draws a parameter of which the program says nothing, if its declaration allows only a bounded set.
    pub fn draw_flat(&mut self, declaration: &'p Declaration) -> Run<Option<Vec<f64>>> {
        let span = declaration.name.span;
        let sized = self.sized(&declaration.ty, &declaration.trailing)?;
        let (base, shape) = (sized.base, sized.shape.clone());
        let like = Value { base, shape: shape.clone(), flat: Flat::from_numbers(vec![0.0; shape.iter().product()]) };
        let n = shape.last().copied().unwrap_or(1);
        let one = Value::real(1.0);
        Ok(Some(match sized.constraint {
            Constraint::Bounds { lower: Some(lower), upper: Some(upper) } => {
                let bounds = [self.expression(lower)?, self.expression(upper)?];
                if bounds.iter().any(|b| b.numbers().is_none_or(|n| n.iter().any(|x| !x.is_finite()))) {
                    return Ok(None);
                }
                self.variates("uniform", &bounds.map(Value::into_vector), &like, [None, None], span)?
            }
            Constraint::Simplex => {
                let even = Value::vector(Flat::from_numbers(vec![1.0; n]));
                self.variates("dirichlet", &[even], &like, [None, None], span)?
            }
            Constraint::CorrMatrix => self.variates("lkj_corr", &[one], &like, [None, None], span)?,
            _ => return Ok(None),
        }))
    }
}

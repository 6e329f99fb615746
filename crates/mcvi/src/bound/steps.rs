//! Algorithm 1, lines 3 to 6: one step, and many steps of one kind as a loop that is compiled once.

use super::{Visit, tile};
use crate::chain::{Chain, Group, Iterates, Step};
use crate::error::{Error, Result};
use crate::params;
use crate::scope::Scope;
use crate::target::{Bridge, Ends, Landscape, Point, Target, evaluate};
use crate::transition::{ChainState, Diagnostic, Momentum, StepScope, Transition};
use mcvi_expr::Expr;

/// Steps of one kind beyond which they run as a loop. Fewer are faster one after the other: they share what meets between them.
const LOOP: usize = 40;
/// Steps beyond which the derivative of a loop computes parts of it again, so that memory grows with the square root of their
/// number. Below, it grows with their number.
const CHECKPOINTED: usize = 256;

/// What all steps of a chain see.
pub(super) struct Steps<'a, 'g> {
    pub chain: &'a Chain,
    pub target: &'a dyn Target,
    pub target_scope: &'a Scope<'g>,
    pub scope: &'a Scope<'g>,
    pub data: Option<Expr<'g>>,
    /// β₁ … β_T.
    pub betas: Option<Expr<'g>>,
    pub log_q0: &'a dyn Fn(Expr<'g>) -> Result<Expr<'g>>,
}

/// Diagnostics of a step, one number for each row.
type Diagnostics<'g> = Vec<(Diagnostic, Expr<'g>)>;

/// A step taken.
pub(super) struct Taken<'g> {
    pub visit: Visit<'g>,
    /// log αₜ of each row.
    pub alpha: Expr<'g>,
    pub diagnostics: Diagnostics<'g>,
}

impl<'g> Steps<'_, 'g> {
    /// Whether most steps of a kind run as a loop.
    pub fn loops(&self, group: Group<'_>) -> bool {
        let one_path = matches!(self.chain.iterates, Iterates::Last);
        group.count() > LOOP && one_path && group.step(0).transition.is_loopable()
    }

    /// Step t, counted from 0.
    pub fn take(&self, step: &Step<'_>, t: usize, before: Visit<'g>) -> Result<Taken<'g>> {
        self.apply(self.scope, step, self.times(t), self.beta(t), before, None).map(|(taken, _)| taken)
    }

    /// Step t back from where it has ended: where it began, with log rₜ − log qₜ.
    pub fn take_back(&self, step: &Step<'_>, t: usize, after: Visit<'g>) -> Result<Visit<'g>> {
        let at = self.step_scope(self.scope, step, self.times(t), after.state);
        let moved = step.transition.reverse(&at, after.state, &self.landscape(self.beta(t), None))?;
        Ok(Visit { state: moved.state, log_ratio: after.log_ratio + moved.log_ratio })
    }

    /// When step t starts and ends.
    fn times(&self, t: usize) -> [Expr<'g>; 2] {
        [t, t + 1].map(|t| self.scope.graph().scalar(self.scope.dtype(), t as f64 / self.chain.len() as f64))
    }

    fn beta(&self, t: usize) -> Option<Expr<'g>> {
        self.betas.map(|betas| betas.at(0, t))
    }

    /// Where a step between two times finds its parameters.
    fn step_scope(
        &self,
        scope: &Scope<'g>,
        step: &Step<'_>,
        [start, time]: [Expr<'g>; 2],
        state: ChainState<'g>,
    ) -> StepScope<'g> {
        StepScope {
            forward: scope.child(&step.forward).group(params::Group::Transition),
            inverse: scope.child(&step.inverse).group(params::Group::Inverse),
            shared: scope.child(&step.shared).group(params::Group::Transition),
            time,
            start,
            data: self.data.map(|x| tile(x, state.paths)),
        }
    }

    /// What a step at a temperature sees of the target.
    fn landscape(&self, beta: Option<Expr<'g>>, known: Option<Ends<'g>>) -> Landscape<'_, 'g> {
        let bridge = beta.map(|beta| Bridge { path: &self.chain.path, beta, log_q0: Box::new(self.log_q0) });
        Landscape { target: self.target, scope: self.target_scope.clone(), bridge, known }
    }

    /// A step between two times at a temperature, with what is known of the target where it starts and where it ends.
    fn apply(
        &self,
        scope: &Scope<'g>,
        step: &Step<'_>,
        times: [Expr<'g>; 2],
        beta: Option<Expr<'g>>,
        before: Visit<'g>,
        known: Option<Ends<'g>>,
    ) -> Result<(Taken<'g>, Landscape<'_, 'g>)> {
        let at = self.step_scope(scope, step, times, before.state);
        let landscape = self.landscape(beta, known);
        // Line 4: the transition zₜ ~ qₜ(zₜ|x, zₜ₋₁), with log rₜ − log qₜ.
        let moved = step.transition.apply(&at, before.state, &landscape)?;
        // Line 5: log αₜ.
        let split = |e: Expr<'g>| tile(e, moved.state.paths / before.state.paths);
        let from = match known {
            Some(known) => known.p.log_p,
            None => evaluate(self.target, self.target_scope, before.state.z)?,
        };
        let to = evaluate(self.target, self.target_scope, moved.state.z)?;
        let alpha = to - split(from) + moved.log_ratio;
        // Line 6: L = L + log αₜ.
        let log_ratio = split(before.log_ratio) + moved.log_ratio;
        let visit = Visit { state: moved.state, log_ratio };
        Ok((Taken { visit, alpha, diagnostics: moved.diagnostics }, landscape))
    }

    /// All steps of a kind but the first, which has been taken before as step t − 1: where the last of them ends, and what each
    /// has added to the bound, with its diagnostics.
    ///
    /// Densities and gradients at the end of an iteration are carried to the next, so that they are computed once.
    pub fn repeat(
        &self,
        group: Group<'_>,
        t: usize,
        before: Visit<'g>,
    ) -> Result<(Visit<'g>, Vec<(Expr<'g>, Diagnostics<'g>)>)> {
        let (graph, n, first) = (self.scope.graph(), group.count() - 1, group.step(0));
        let names = |name: fn(Step<'_>) -> String| (1..=n).map(|i| name(group.step(i))).collect::<Vec<_>>();
        // The loop goes through the parameters that each step has of its own; shared ones are captured.
        let own = [(&first.forward, names(|step| step.forward)), (&first.inverse, names(|step| step.inverse))];
        let own = own.iter().filter(|(first, names)| names.iter().all(|name| name != *first));
        let mut params: Vec<(String, Expr<'g>)> = vec![];
        for (first, names) in own {
            // The names of an inverse model begin with those of its step.
            let new =
                self.scope.stacked(first, names).into_iter().filter(|(path, _)| params.iter().all(|p| p.0 != *path));
            params.extend(new.collect::<Vec<_>>());
        }
        let times = |from: usize| {
            let times: Vec<f64> = (from..from + n).map(|t| t as f64 / self.chain.len() as f64).collect();
            self.scope.vector(&times)
        };
        let mut xs = vec![times(t), times(t + 1)];
        xs.extend(self.betas.map(|betas| betas.slice(0, t..t + n)));
        let given = xs.len();
        xs.extend(params.iter().map(|(_, rows)| *rows));

        let start = self.landscape(self.beta(t), None);
        let carry = Carry { visit: before, ends: start.ends(before.state.z)? };
        let (mut failed, mut kinds) = (None, vec![]);
        let body = |now: &[Expr<'g>], xs: &[Expr<'g>]| {
            let at = carry.like(now);
            let elements = params.iter().map(|(path, _)| path.clone()).zip(xs[given..].iter().copied());
            let (scope, beta) = (self.scope.within(elements), self.betas.map(|_| xs[2]));
            let taken = self.apply(&scope, &first, [xs[0], xs[1]], beta, at.visit, Some(at.ends));
            let taken = taken.and_then(|(taken, landscape)| {
                let ends = landscape.ends(taken.visit.state.z)?;
                Ok((Carry { visit: taken.visit, ends }, taken))
            });
            match taken {
                Ok((next, taken)) => {
                    kinds = taken.diagnostics.iter().map(|d| d.0).collect();
                    let values = taken.diagnostics.iter().map(|d| d.1);
                    (next.flat(), std::iter::once(taken.alpha).chain(values).collect())
                }
                Err(error) => {
                    failed = Some(error);
                    (now.to_vec(), vec![])
                }
            }
        };
        let (carry0, short) = (carry.flat(), n <= CHECKPOINTED);
        let (last, ys) =
            if short { graph.scan(n, &carry0, &xs, body) } else { graph.scan_checkpointed(n, &carry0, &xs, body) };
        if let Some(error) = failed.or_else(|| last.iter().find_map(|e| e.error()).map(Error::from)) {
            return Err(error);
        }
        let each = (0..n).map(|i| {
            let values = kinds.iter().zip(&ys[1..]).map(|(kind, y)| (*kind, y.at(0, i)));
            (ys[0].at(0, i), values.collect())
        });
        Ok((carry.like(&last).visit, each.collect()))
    }
}

/// What an iteration leaves for the next.
#[derive(Clone, Copy)]
struct Carry<'g> {
    visit: Visit<'g>,
    ends: Ends<'g>,
}

impl<'g> Carry<'g> {
    fn flat(&self) -> Vec<Expr<'g>> {
        let point = |p: Point<'g>| [p.log_p, p.gradient];
        let mut flat = vec![self.visit.state.z, self.visit.log_ratio];
        flat.extend(point(self.ends.p));
        flat.extend(self.ends.q0.into_iter().flat_map(point));
        flat.extend(self.visit.state.momentum.into_iter().flat_map(|m| [m.v, m.log_density]));
        flat
    }

    /// The same parts in other expressions.
    fn like(&self, flat: &[Expr<'g>]) -> Self {
        let mut next = flat.iter().copied();
        // There are as many as `flat` has made.
        let mut take = || next.next().unwrap_or(flat[0]);
        let (z, log_ratio) = (take(), take());
        let p = Point { z, log_p: take(), gradient: take() };
        let q0 = self.ends.q0.map(|_| Point { z, log_p: take(), gradient: take() });
        let momentum = self.visit.state.momentum.map(|_| Momentum { v: take(), log_density: take() });
        let state = ChainState { z, momentum, ..self.visit.state };
        Carry { visit: Visit { state, log_ratio }, ends: Ends { p, q0 } }
    }
}

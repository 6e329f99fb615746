//! Observations, all of them or some at a time.

use super::Distribution;
use super::builder::{Builder, Observed};
use crate::scope::Choices;
use mcvi_expr::{Array, DType, Expr};

/// Some of the observations, drawn anew for each gradient; see [`Builder::minibatch`].
pub struct Minibatch<'g> {
    /// Of how many.
    n: usize,
    index: Option<Expr<'g>>,
    scale: f64,
}

impl<'g> Minibatch<'g> {
    /// The drawn elements of data `[n, …]`.
    pub fn of(&self, data: Expr<'g>) -> Expr<'g> {
        self.index.map_or(data, |index| data.take(0, index))
    }
}

impl<'g> Builder<'g> {
    /// Data with their distribution; returns the log likelihood of each, `[rows, n]`.
    pub fn observe(&self, name: &str, data: &[f64], distribution: Distribution<'g>) -> Expr<'g> {
        let data = self.replaced.get(name).map_or(data, Vec::as_slice);
        match Array::new(data.len(), data.to_vec()) {
            Ok(array) => self.observe_array(name, array, distribution),
            Err(error) => self.refuse(format!("`{name}`: {error}")),
        }
    }

    /// Vectors with their distribution, `[n, k]`: multinomial counts, multivariate normal rows.
    pub fn observe_rows(&self, name: &str, k: usize, data: &[f64], distribution: Distribution<'g>) -> Expr<'g> {
        let data = self.replaced.get(name).map_or(data, Vec::as_slice);
        let n = data.len().checked_div(k).unwrap_or(0);
        match Array::new([n, k], data.to_vec()) {
            Ok(array) => self.observe_array(name, array, distribution),
            Err(error) => self.refuse(format!("`{name}`, in rows of {k}: {error}")),
        }
    }

    /// `size` of `n` observations, drawn anew for each gradient and weighted so that the expected log density is that of
    /// all.
    ///
    /// Draws and diagnostics always use all observations. While training, the bound is unbiased only in expectation
    /// over minibatches, exp(L) is not, and accept probabilities would be wrong: use it with Hamiltonian or Langevin
    /// steps without accept/reject.
    pub fn minibatch(&self, n: usize, size: usize) -> Minibatch<'g> {
        if size == 0 || size > n {
            self.fail(format!("a minibatch of {size} out of {n} observations"));
        }
        self.write().subsampled |= size < n;
        if self.scope.choices() == Choices::Sample || size >= n || size == 0 {
            return Minibatch { n, index: None, scale: 1.0 };
        }
        let drawn = (self.scope.uniform(size) * n as f64).floor().min(n as f64 - 1.0);
        Minibatch { n, index: Some(drawn.cast(DType::I32)), scale: n as f64 / size as f64 }
    }

    /// Observations of a minibatch; `distribution` speaks of the drawn ones, made with [`Minibatch::of`].
    pub fn observe_some(
        &self,
        name: &str,
        batch: &Minibatch<'g>,
        data: &[f64],
        distribution: Distribution<'g>,
    ) -> Expr<'g> {
        if data.len() != batch.n {
            self.fail(format!("`{name}` has {} observations, its minibatch is one of {}", data.len(), batch.n));
        }
        if batch.index.is_none() {
            return self.observe(name, data, distribution);
        }
        self.check_name(name);
        self.check_distribution(name, &distribution);
        let all = batch.of(self.scope.vector(self.replaced.get(name).map_or(data, Vec::as_slice)));
        let log_likelihood = self.log_likelihood(name, all, &distribution);
        self.count(self.per_row(log_likelihood) * batch.scale);
        log_likelihood
    }

    /// The same where something that the distribution is given is integrated out of the log density of all, `[rows]`.
    pub(crate) fn observe_integrated(
        &self,
        name: &str,
        data: &[f64],
        distribution: Distribution<'g>,
        log_density: Expr<'g>,
    ) -> Expr<'g> {
        let so_far = self.write().log_density;
        let log_likelihood = self.observe(name, data, distribution);
        self.write().log_density = so_far + log_density;
        log_likelihood
    }

    fn observe_array(&self, name: &str, data: Array, distribution: Distribution<'g>) -> Expr<'g> {
        self.check_name(name);
        self.check_distribution(name, &distribution);
        if let Some(i) = data.to_f64().iter().position(|x| x.is_nan()) {
            self.fail(format!("`{name}` is not a number at position {}; leave missing observations out", i + 1));
        }
        let x = self.graph().literal(data.cast(self.scope.dtype()));
        let log_likelihood = self.log_likelihood(name, x, &distribution);
        self.count(self.per_row(log_likelihood));
        self.write().observed.push(Observed { name: name.to_owned(), data, distribution, log_likelihood });
        log_likelihood
    }

    fn check_distribution(&self, name: &str, distribution: &Distribution<'g>) {
        if distribution.is_flat() {
            self.fail(format!("`{name}`: an observation needs a proper distribution, `flat()` is none"));
        }
        if let Some(mistake) = distribution.mistake() {
            self.fail(format!("`{name}`: {mistake}"));
        }
    }

    /// One for each row and observation, also where nothing depends on parameters.
    fn log_likelihood(&self, name: &str, x: Expr<'g>, distribution: &Distribution<'g>) -> Expr<'g> {
        let (log_density, shape) = (distribution.log_density(x), x.shape());
        let n = shape.dims().first().copied().unwrap_or(1);
        if x.error().is_none() && shape.rank() != 1 + distribution.event_dim() {
            let (values, remedy) = match distribution.event_dim() {
                0 => ("single numbers", "use `m.observe`"),
                1 => ("vectors", "use `m.observe_rows`"),
                _ => ("matrices", "which cannot be observed"),
            };
            self.fail(format!("`{name}`, {shape}: {distribution:?} is a distribution of {values}; {remedy}"));
        }
        let fits = log_density.error().is_some() || log_density.shape().dims() == [self.rows, n];
        let each = if fits { log_density } else { log_density.broadcast_to([self.rows, n]) };
        if let Some(error) = each.error() {
            self.fail(format!("`{name}`, {shape}, does not fit its distribution, {distribution:?}: {error}"));
        }
        each
    }

    /// Remember a mistake, and stand in for a log likelihood.
    fn refuse(&self, mistake: String) -> Expr<'g> {
        self.fail(mistake);
        self.graph().full(self.scope.dtype(), [self.rows, 1], 0.0)
    }
}

//! Accept variables: one binary choice per row, with log odds predicted from the state of the chain.

use super::{Given, Predictor};
use crate::error::Result;
use crate::scope::Scope;
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// A Bernoulli distribution with log odds predicted from the state of the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bernoulli {
    /// The predictor of the log odds.
    pub log_odds: Predictor,
}

impl Bernoulli {
    /// The log probabilities of 1 and of 0, each `[rows]`.
    pub fn log_probabilities<'g>(&self, scope: &Scope<'g>, given: &Given<'g>) -> Result<(Expr<'g>, Expr<'g>)> {
        let logit = self.log_odds.predict(scope, given, &[0.0], &[1.0])?;
        let logit = logit.broadcast_to([given.rows, 1]).reshape(given.rows);
        Ok((logit.log_sigmoid(), (-logit).log_sigmoid()))
    }
}

//! The mixture indicator of section 4.3: which iterate a position came from.

use super::{Given, Predictor};
use crate::error::Result;
use crate::scope::Scope;
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// A categorical distribution with log odds predicted from the state of the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Categorical {
    /// The predictor of the log odds.
    pub log_odds: Predictor,
}

impl Categorical {
    /// The log probabilities of `choices` choices, [rows, choices].
    pub fn log_probabilities<'g>(&self, scope: &Scope<'g>, given: &Given<'g>, choices: usize) -> Result<Expr<'g>> {
        let logits = self.log_odds.predict(scope, given, &vec![0.0; choices], &vec![1.0; choices])?;
        let logits = logits.broadcast_to([given.rows, choices]);
        Ok(logits - logits.logsumexp(&[1]).expand(1))
    }
}

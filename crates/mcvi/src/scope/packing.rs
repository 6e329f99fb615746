//! Small parameters packed into one state, and parameters placed in a graph or written to a program.

use crate::error::Result;
use crate::params::{Param, Params};
use mcvi_expr::{Array, DType, Expr, Graph, Program};
use std::collections::HashMap;

/// Parameters with fewer elements than this share one state, so that the optimiser updates them together.
const SMALL: usize = 4096;

/// The name of the state that holds the small parameters.
pub(crate) const PACKED: &str = "params";

/// Whether a parameter shares the packed state.
pub(crate) fn is_packed(param: &Param) -> bool {
    param.learned && param.value.shape().size() < SMALL
}

/// The values of all small learned parameters, one after the other.
pub(crate) fn pack(params: &Params) -> Vec<f64> {
    params.iter().filter(|(_, p)| is_packed(p)).flat_map(|(_, p)| p.value.to_f64()).collect()
}

/// Unpack values packed by [`pack`].
pub(crate) fn unpack(params: &mut Params, packed: &[f64]) -> Result<()> {
    let small: Vec<(String, Array)> =
        params.iter().filter(|(_, p)| is_packed(p)).map(|(n, p)| (n.to_owned(), p.value.clone())).collect();
    let mut rest = packed;
    for (name, old) in small {
        let (values, after) = rest.split_at(old.shape().size().min(rest.len()));
        rest = after;
        params.set(&name, Array::new(old.shape().clone(), values.to_vec())?.cast(old.dtype()))?;
    }
    Ok(())
}

/// Write the values of the learned parameters to a program.
pub(crate) fn write(program: &mut Program, params: &Params) -> Result<()> {
    let packed = pack(params);
    let small = params.iter().find(|(_, p)| is_packed(p));
    if let Some((_, first)) = small {
        program.write(PACKED, &Array::new(packed.len(), packed)?.cast(first.value.dtype()))?;
    }
    for (name, param) in params.iter().filter(|(_, p)| p.learned && !is_packed(p)) {
        program.write(name, &param.value)?;
    }
    Ok(())
}

/// The packed state, and every parameter's expression.
pub(super) type Placed<'g> = (Option<Expr<'g>>, HashMap<String, Expr<'g>>);

/// An expression for every parameter: part of the packed state, a state of its own, or a constant.
pub(super) fn place<'g>(graph: &'g Graph, params: &Params) -> Result<Placed<'g>> {
    let packed = pack(params);
    let dtype = params.iter().next().map_or(DType::F64, |(_, p)| p.value.dtype());
    let state = match packed.len() {
        0 => None,
        n => Some(graph.state(PACKED, Array::new(n, packed)?.cast(dtype))),
    };
    let mut at = 0;
    let mut exprs = HashMap::new();
    for (name, param) in params.iter() {
        let shape = param.value.shape().clone();
        let expr = match state {
            Some(state) if is_packed(param) => {
                at += shape.size();
                // Opaque, so that the gradient is not lost when a chain takes the parameter apart.
                state.slice(0, at - shape.size()..at).reshape(shape).opaque()
            }
            _ if param.learned => graph.state(name, param.value.clone()),
            _ => graph.literal(param.value.clone()),
        };
        exprs.insert(name.to_owned(), expr);
    }
    Ok((state, exprs))
}

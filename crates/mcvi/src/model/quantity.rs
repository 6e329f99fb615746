//! Parameters as declared, and values of parameters and other quantities, draw by draw.

use super::Constraint;

/// A parameter, as declared.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Declaration {
    /// Its name.
    pub name: String,
    shape: Vec<usize>,
    free: usize,
}

/// Values of something for a number of draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// Its name.
    pub name: String,
    /// The shape for one draw: empty for a number.
    pub shape: Vec<usize>,
    /// The values, draw by draw.
    pub values: Vec<f64>,
}

/// What follows from draws of the parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantities {
    /// The parameters, constrained.
    pub parameters: Vec<Quantity>,
    /// Generated quantities.
    pub generated: Vec<Quantity>,
    /// The log likelihood of each observation.
    pub log_likelihood: Vec<Quantity>,
    /// The log prior density of each parameter that has one, without the Jacobian of its free coordinates.
    pub log_prior: Vec<Quantity>,
    /// New observations, drawn given the parameters.
    pub predictive: Vec<Quantity>,
    /// Why values are missing (NaN), if some are.
    pub note: Option<String>,
}

impl Quantity {
    /// The size for one draw.
    pub fn size(&self) -> usize {
        self.shape.iter().product()
    }

    /// The name of each element, as Stan has them: `theta[1]`, `L[1,2]`.
    pub fn names(&self) -> Vec<String> {
        element_names(&self.name, &self.shape)
    }

    /// The values of each element by name, draw by draw.
    pub fn columns(&self) -> Vec<(String, Vec<f64>)> {
        self.names().into_iter().enumerate().map(|(i, name)| (name, self.column(i))).collect()
    }

    /// The values of one element, draw by draw.
    pub fn column(&self, element: usize) -> Vec<f64> {
        self.values.iter().skip(element).step_by(self.size().max(1)).copied().collect()
    }
}

fn element_names(name: &str, shape: &[usize]) -> Vec<String> {
    if shape.is_empty() {
        return vec![name.to_owned()];
    }
    let place = |mut element: usize| {
        let mut index: Vec<String> = vec![];
        for n in shape.iter().rev() {
            index.push((element % n + 1).to_string());
            element /= n;
        }
        index.reverse();
        format!("{name}[{}]", index.join(","))
    };
    (0..shape.iter().product()).map(place).collect()
}

impl Declaration {
    /// A parameter of that many elements, or rows of a matrix.
    pub(super) fn new(name: &str, constraint: Constraint<'_>, size: usize) -> Self {
        let shape = match (constraint, size) {
            (Constraint::CorrelationCholesky, k) => vec![k, k],
            (Constraint::Ordered | Constraint::PositiveOrdered | Constraint::Simplex, k) => vec![k],
            (_, 1) => vec![],
            (_, k) => vec![k],
        };
        Declaration { name: name.to_owned(), shape, free: constraint.free(size) }
    }

    /// The shape of one value: empty for a number.
    pub fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    /// The number of free numbers behind one value.
    pub fn free(&self) -> usize {
        self.free
    }

    /// The name of each element, as Stan has them.
    pub fn names(&self) -> Vec<String> {
        element_names(&self.name, &self.shape)
    }
}

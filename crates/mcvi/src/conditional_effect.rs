//! How the expected response depends on one column, where all others are as usual.

/// A column with what is expected at some of its values.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConditionalEffect {
    /// The column.
    pub column: String,
    /// Where it is looked at.
    pub places: Places,
    /// The expected response there, or the probability of each category.
    pub curves: Vec<Curve>,
}

/// Values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Places {
    /// Numbers in increasing order.
    Numbers(Vec<f64>),
    /// Categories.
    Levels(Vec<String>),
}

/// What is expected at each place.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The category; nothing where there are none.
    pub label: String,
    /// The quantiles of 5 %, 50 % and 95 %.
    pub quantiles: Vec<[f64; 3]>,
}

impl ConditionalEffect {
    /// Of a column at some places, one curve or more.
    pub fn new(column: String, places: Places, curves: Vec<Curve>) -> Self {
        ConditionalEffect { column, places, curves }
    }
}

//! The report of a fit or of a deep model: one HTML page that opens anywhere, without scripts or anything from elsewhere, and its figures.

pub mod figures;
mod histogram;
mod page;

pub use mcvi::infer::VerdictKind;
pub use page::render;

/// Everything that the page says, in this order.
#[derive(Clone, Debug)]
pub struct Page {
    /// What it is about.
    pub title: String,
    /// Whether to believe it, where that is the question.
    pub verdict: Option<Verdict>,
    /// What was done, as names and values: the bound, the data, the settings.
    pub facts: Vec<(String, String)>,
    /// The posterior in numbers.
    pub parameters: Vec<ParameterRow>,
    /// Figures with their explanations.
    pub sections: Vec<Section>,
    /// How the page came about.
    pub footer: String,
}

/// What a fit is good for, why, and what to do.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The verdict in a word.
    pub kind: VerdictKind,
    /// The verdict in a sentence.
    pub headline: String,
    /// What speaks for it, a sentence each.
    pub reasons: Vec<String>,
    /// What to try next, a sentence each.
    pub next: Vec<String>,
}

/// The marginal posterior of one parameter.
#[derive(Clone, Debug)]
pub struct ParameterRow {
    /// The name.
    pub name: String,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub sd: f64,
    /// The quantile of 5%.
    pub q05: f64,
    /// The median.
    pub q50: f64,
    /// The quantile of 95%.
    pub q95: f64,
}

/// A part of the page.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What the figure shows and how to read it; an empty line starts a new paragraph.
    pub text: String,
    /// An SVG document of our own making, as [`crate::plot::Figure::to_svg`] gives.
    pub figure: Option<String>,
    /// Numbers below it.
    pub table: Option<Table>,
}

/// Rows of text and numbers, the first of each row its name.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What the columns are.
    pub columns: Vec<String>,
    /// As many cells in each row.
    pub rows: Vec<Vec<String>>,
}

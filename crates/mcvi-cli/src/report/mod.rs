//! The report of a fit or of a deep model: one HTML page that opens anywhere, without scripts or anything from elsewhere, and its figures.

pub mod figures;
mod histogram;
mod page;

pub use mcvi::infer::VerdictKind;
pub use page::render;

/// The contents of the page, in this order.
#[derive(Clone, Debug)]
pub struct Page {
    /// The title.
    pub title: String,
    /// The verdict, if there is one.
    pub verdict: Option<Verdict>,
    /// Facts as names and values: the bound, the data, the settings.
    pub facts: Vec<(String, String)>,
    /// Posterior summaries.
    pub parameters: Vec<ParameterRow>,
    /// Figures with their explanations.
    pub sections: Vec<Section>,
    /// How the page was made.
    pub footer: String,
}

/// The verdict on a fit, its reasons, and what to do.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The verdict in a word.
    pub kind: VerdictKind,
    /// The verdict in a sentence.
    pub headline: String,
    /// The reasons, a sentence each.
    pub reasons: Vec<String>,
    /// What to try next, a sentence each.
    pub next: Vec<String>,
}

/// The marginal posterior of one parameter.
#[derive(Clone, Debug)]
pub struct ParameterRow {
    /// The name.
    pub name: String,
    /// Whether only the computation needs it: it is folded away. Those come last.
    pub is_internal: bool,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub sd: f64,
    /// The 5% quantile.
    pub q05: f64,
    /// The median.
    pub q50: f64,
    /// The 95% quantile.
    pub q95: f64,
}

/// A part of the page.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What the figure shows and how to read it; an empty line starts a new paragraph.
    pub text: String,
    /// An SVG document, as [`crate::plot::Figure::to_svg`] makes it.
    pub figure: Option<String>,
    /// A table below the figure.
    pub table: Option<Table>,
}

/// Rows of text and numbers. The first cell of each row is its name.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The column headings.
    pub columns: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<String>>,
}

//! Everything that can go wrong in inference, as one typed error that names the problem and the remedy.

/// An error in describing, fitting or using a chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error in an expression: a wrong shape in a target, a derivative that an external function does not offer.
    #[error(transparent)]
    Expr(#[from] mcvi_expr::Error),
    /// A setting outside its range.
    #[error("{what}: {why}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// What is wrong with it, and what would be right.
        why: String,
    },
    /// A target that cannot be used as asked.
    #[error("target: {why}")]
    Target {
        /// What is wrong, and what to do.
        why: String,
    },
    /// A parameter or an observation that cannot be drawn.
    #[error("`{name}` cannot be drawn: {why}")]
    CannotDraw {
        /// The parameter or observation.
        name: String,
        /// Why not, and what to do.
        why: String,
    },
    /// A density that cannot be used in this place.
    #[error("density: {why}")]
    Density {
        /// What is wrong, and what to do.
        why: String,
    },
    /// A transition that does not fit its target or its inverse model.
    #[error("step {step}: {why}")]
    Step {
        /// Which step, counted from 1.
        step: usize,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A path that cannot be drawn backwards, from its end.
    #[error(
        "{what}: its inverse model can be evaluated, but not drawn from, so that no path runs backwards and there is no \
         upper bound; use another chain"
    )]
    NoWayBack {
        /// The transition, or the part of the chain.
        what: String,
    },
    /// Averaging over all accept paths when there are too many.
    #[error(
        "{accepts} accept/reject steps make {paths} paths for each draw, more than {limit}; \
         use fewer such steps, or evaluate with sampled accepts"
    )]
    TooManyPaths {
        /// Number of accept/reject steps so far.
        accepts: usize,
        /// Paths they make.
        paths: usize,
        /// The maximum number.
        limit: usize,
    },
    /// Parameters that do not belong to this chain.
    #[error("parameters: {why}")]
    Params {
        /// Which, and how they differ.
        why: String,
    },
    /// A fit that cannot continue.
    #[error("fit: {why}")]
    Fit {
        /// What happened, and what to try.
        why: String,
    },
    /// A file that cannot be read or written.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file that is damaged: its contents are not what was written.
    #[error("{path}: {why}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A table of data that cannot be used as asked: the message names the file, the line and the column.
    #[error("{why}")]
    Table {
        /// What is wrong, where, and what to do.
        why: String,
    },
    /// A file written by a newer version of mcvi.
    #[error(
        "{path}: was written by a newer version of mcvi (format {found}; this one reads up to {known}); update mcvi"
    )]
    Newer {
        /// The file.
        path: String,
        /// The version of its format.
        found: u64,
        /// The newest version that can be read.
        known: u64,
    },
    /// Data that are not what their file should hold: damaged, of another kind, or missing.
    #[error("{path}: found {found}; expected {expected}; {remedy}")]
    Data {
        /// The file or folder.
        path: String,
        /// What is there.
        found: String,
        /// What should be there.
        expected: String,
        /// What to do about it.
        remedy: String,
    },
}

/// The crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

//! `mcvi paper`: the paper's worked examples and claims.

mod claims;
mod gaussian;
mod mnist;
mod stomach_cancer;

pub use mnist::Results;

use anyhow::Result;
use clap::Subcommand;

/// Which part of the paper.
#[derive(Subcommand)]
pub enum Command {
    /// Figure 1: Gibbs sampling and over-relaxation on a bivariate Gaussian, learned beside exact.
    Gaussian(gaussian::Options),
    /// Figures 2 and 3: Hamiltonian variational inference for deaths from stomach cancer.
    StomachCancer(stomach_cancer::Options),
    /// Table 1: deep models of binarized MNIST, the paper's beside the runs found here.
    Mnist(mnist::Options),
    /// Claims made in the text of sections 3 and 4, measured.
    Claims(claims::Options),
}

/// Run it.
pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Gaussian(options) => gaussian::run(&options),
        Command::StomachCancer(options) => stomach_cancer::run(&options),
        Command::Mnist(options) => mnist::run(&options),
        Command::Claims(options) => claims::run(&options),
    }
}

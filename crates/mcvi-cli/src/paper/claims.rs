//! `mcvi paper claims`.
use crate::output::Common;
use anyhow::Result;
use clap::Args;
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
}
pub fn run(options: &Options) -> Result<()> {
    let _ = &options.common;
    anyhow::bail!("not yet")
}

//! Stop an inference, save where it stood, and go on later: it ends as if it had never stopped, bit for bit.

use mcvi::infer::{Budget, Checkpoint, Request, infer, infer_from};
use mcvi::{Result, posteriors};
use std::ops::ControlFlow;

/// Compare an inference in two parts with one in one part.
pub fn main() -> Result<()> {
    let funnel = || posteriors::ALL[2].model();
    let budget =
        |iterations| Request { budget: Budget { iterations: Some(iterations), seconds: None }, ..Request::default() };
    let path = std::env::temp_dir().join(format!("mcvi-resuming-{}.safetensors", std::process::id()));

    let part = infer(funnel()?, &budget(700))?;
    part.checkpoint.save(&path)?;
    println!("after {} iterations: {:?}, bound {:.3}", part.iterations, part.stop_reason, part.diagnostics.bound.value);

    let saved = Checkpoint::load(&path)?;
    let resumed = infer_from(funnel()?, &budget(2000), &saved, |_| ControlFlow::Continue(()))?;
    let whole = infer(funnel()?, &budget(2000))?;
    println!(
        "resumed: bound {:.6}; never stopped: {:.6}",
        resumed.diagnostics.bound.value, whole.diagnostics.bound.value
    );
    assert_eq!(resumed.draws, whole.draws);
    let _ = std::fs::remove_file(&path);
    Ok(())
}

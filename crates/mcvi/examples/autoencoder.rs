//! An auto-encoder on images whose approximate posterior is a Markov chain: the paper's section 3.2 in a minute.
//!
//! The images are 6 × 6, their quarters on or off with a few pixels flipped. Expect the bound on images not seen in
//! training to rise well above the −25.0 nats of independent pixels.

use mcvi::vae::{Architecture, Evaluator, TrainSettings, Trainer};
use mcvi::{Array, Hardware, Result};
use std::ops::ControlFlow;

const SIDE: usize = 6;

/// Images, one a row.
fn images(count: usize, mut state: u64) -> Result<Array> {
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut pixels: Vec<f32> = vec![];
    for _ in 0..count {
        let on = [0; 4].map(|_| next(2) == 1);
        pixels.extend((0..SIDE * SIDE).map(|i| {
            let quarter = 2 * (2 * (i / SIDE) / SIDE) + 2 * (i % SIDE) / SIDE;
            f32::from(u8::from(on[quarter] != (next(20) == 0)))
        }));
    }
    Ok(Array::new([count, SIDE * SIDE], pixels)?)
}

/// Train, then evaluate.
pub fn main() -> Result<()> {
    let (train, valid, test) = (images(2000, 1)?, images(200, 2)?, images(200, 3)?);
    let architecture =
        Architecture { image: [SIDE, SIDE], hidden: 40, latent: 4, leapfrogs: 2, ..Architecture::default() };
    let settings = TrainSettings { epochs: 30, batch: 50, rate: 0.005, warm_up: 5.0, ..TrainSettings::default() };
    let hardware = Hardware::default();
    let mut trainer = Trainer::new(&architecture, &settings, (&train, &valid, "quarters"), hardware)?;
    while !trainer.is_over() {
        if let Some(epoch) = trainer.epoch(|_| ControlFlow::Continue(()))?
            && epoch.epoch % 10 == 0
        {
            println!("epoch {}: bound {:.2} on validation images", epoch.epoch, epoch.valid_bound);
        }
    }
    let mut evaluator = Evaluator::new(&trainer.model(), &test, false, 1, hardware)?;
    let all: Vec<i32> = (0..200).collect();
    let evidence = evaluator.evidence(&all, 50, |_| ControlFlow::Continue(()))?;
    println!("test: bound {:.2}, log p(x) {:.2}", evidence.bound().value, evidence.log_p().value);
    assert!(evidence.log_p().value > -16.0 && evidence.log_p().value >= evidence.bound().value);
    Ok(())
}

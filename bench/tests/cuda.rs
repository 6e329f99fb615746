//! Both workloads on the GPU against the CPU: loss and gradient, and some training steps. Without a GPU their source is made,
//! and compiled where NVRTC is found.

#![cfg(feature = "cuda")]

use mcvi_bench::{Workload, stomach, vae};
use mcvi_expr::{Array, DType, Device, Graph, Program};

fn gpu() -> Option<Device> {
    match Device::Cuda(0).check() {
        Ok(()) => Some(Device::Cuda(0)),
        Err(why) => {
            eprintln!("SKIPPED on the GPU: {why}");
            None
        }
    }
}

fn vae_start(leapfrogs: usize) -> Array {
    let n = vae::parameters(leapfrogs);
    let values: Vec<f32> = (0..n).map(|i| 0.05 * ((i as f32 * 12.9898).sin() * 4_375.545).fract()).collect();
    Array::new(n, values).unwrap()
}

fn vae<'g>(graph: &'g Graph, leapfrogs: usize, batch: usize) -> Workload<'g> {
    vae::build(graph, leapfrogs, batch, vae_start(leapfrogs), false).unwrap()
}

fn pixels(program: &mut Program, batch: usize) {
    let pixels = (0..batch * 784).map(|i| f32::from(i * 7919 % 1000 < 200)).collect::<Vec<f32>>();
    program.write("x", &Array::new([batch, 784], pixels).unwrap()).unwrap();
}

/// Relative distance of two arrays.
fn distance(got: &Array, want: &Array) -> f64 {
    let (got, want) = (got.to_f64(), want.to_f64());
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut got.iter().zip(&want).map(|(g, w)| g - w)) / norm(&mut want.iter().copied())
}

#[test]
fn sources_are_made_and_compile() {
    for (leapfrogs, batch) in [(0, 100), (1, 100), (4, 1000)] {
        let graph = Graph::new();
        let (source, compiled) = vae(&graph, leapfrogs, batch).describe().unwrap().cuda_source("sm_90");
        eprintln!("vae {leapfrogs}: {} bytes of source, {compiled:?}", source.len());
        assert!(compiled.is_none_or(|c| c.is_ok()));
    }
    let graph = Graph::new();
    let start = Array::new(stomach::PARAMETERS, stomach::start()).unwrap();
    let workload = stomach::build(&graph, 4, 8, start, false).unwrap();
    let (source, compiled) = workload.describe().unwrap().cuda_source("sm_90");
    eprintln!("stomach: {} bytes of source, {compiled:?}", source.len());
    assert!(compiled.is_none_or(|c| c.is_ok()));
}

#[test]
fn loss_and_gradient_of_the_auto_encoder_agree() {
    let Some(device) = gpu() else { return };
    for (leapfrogs, batch) in [(0, 100), (1, 100), (4, 37), (4, 1000)] {
        let evaluate = |device: Device, full: bool| {
            let graph = Graph::new();
            let w = vae(&graph, leapfrogs, batch);
            let builder = graph.program().output("loss", w.loss).output("gradient", w.gradient()).device(device);
            let mut program = if full { builder.full_precision() } else { builder }.compile().unwrap();
            pixels(&mut program, batch);
            program.run(1).unwrap();
            (program.output("loss").unwrap(), program.output("gradient").unwrap())
        };
        let (loss, gradient) = evaluate(Device::Cpu, false);
        for (full, tolerance) in [(true, 2e-5), (false, 5e-3)] {
            let (got, slope) = evaluate(device, full);
            let off = (distance(&got, &loss), distance(&slope, &gradient));
            eprintln!("vae {leapfrogs} {batch} full {full}: loss off by {:.1e}, gradient by {:.1e}", off.0, off.1);
            assert!(off.0 < tolerance && off.1 < tolerance);
        }
    }
}

#[test]
fn training_agrees_and_repeats_itself() {
    let Some(device) = gpu() else { return };
    let train = |device: Device| {
        let graph = Graph::new();
        let mut program = vae(&graph, 2, 100).training_on(device, 2).unwrap();
        pixels(&mut program, 100);
        program.run(30).unwrap();
        (program.output("loss").unwrap(), program.states().unwrap())
    };
    let (cpu, gpu, again) = (train(Device::Cpu), train(device), train(device));
    assert_eq!(gpu, again);
    let off = distance(&gpu.0, &cpu.0);
    eprintln!("vae: loss off by {off:.1e} after 30 steps");
    assert!(off < 1e-2);
    for (leapfrogs, draws) in [(1, 1), (4, 8), (8, 64)] {
        let train = |device: Device| {
            let graph = Graph::new();
            let start = Array::new(stomach::PARAMETERS, stomach::start()).unwrap();
            let workload = stomach::build(&graph, leapfrogs, draws, start, false).unwrap();
            let mut program = workload.training_on(device, 1).unwrap();
            program.run(200).unwrap();
            assert_eq!(program.output("loss").unwrap().dtype(), DType::F64);
            (program.output("loss").unwrap(), program.read("params").unwrap())
        };
        let (cpu, gpu) = (train(Device::Cpu), train(device));
        let off = (distance(&gpu.0, &cpu.0), distance(&gpu.1, &cpu.1));
        eprintln!(
            "stomach {leapfrogs} {draws}: loss off by {:.1e}, parameters by {:.1e} after 200 steps",
            off.0, off.1
        );
        assert!(off.0 < 1e-8 && off.1 < 1e-7);
    }
}

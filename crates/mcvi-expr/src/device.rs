//! Where a program runs.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// What a program is compiled for. From text: `cpu`, `cuda`, `cuda:1`, or `auto` (a GPU if there is one that can be used).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Device {
    /// The processor, with as many threads as asked for.
    #[default]
    Cpu,
    /// An NVIDIA GPU, by its number.
    Cuda(usize),
}

/// How a program is compiled for a GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GpuOptions {
    /// Products of floats in full precision.
    pub full_precision: bool,
    /// Multiprocessors to use at most.
    pub multiprocessors: Option<usize>,
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Device> {
        let number = |n: &str| n.parse().ok().map(Device::Cuda);
        let found = match text.split_once(':') {
            None if text == "cpu" => Some(Device::Cpu),
            None if text == "cuda" => Some(Device::Cuda(0)),
            None if text == "auto" => Some(Device::auto()),
            Some(("cuda", n)) => number(n),
            _ => None,
        };
        found.ok_or_else(|| Error::Setting {
            what: "device",
            why: format!("`{text}` is not one of cpu, cuda, cuda:NUMBER, auto"),
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(n) => write!(f, "cuda:{n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_as_they_are_written() {
        for device in [Device::Cpu, Device::Cuda(0), Device::Cuda(7)] {
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
        }
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::Cuda(0));
        let error = "gpu".parse::<Device>().unwrap_err();
        assert_eq!(error.to_string(), "device: `gpu` is not one of cpu, cuda, cuda:NUMBER, auto");
    }
}

//! The GPU itself: found, given memory, fed and launched, with every error of the driver in words.

use super::nvrtc;
use super::task::Functions;
use super::unroll;
use crate::error::{Error, Result};
use crate::plan::{Kernel, Plan};
use cudarc::driver::sys::{CUdevice_attribute, CUfunction_attribute, CUresult};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use std::sync::Arc;

/// What a launch tells the device (`Launch` of prelude.cu).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    pub seed: u64,
    pub first_step: u64,
    pub begin: u32,
    pub end: u32,
    pub failure: u64,
    pub done: u64,
    pub times: u64,
}
// SAFETY: plain numbers, laid out as the structure of the same name on the device.
unsafe impl DeviceRepr for Launch {}

/// A piece of device memory.
pub(super) struct Memory {
    slice: CudaSlice<u8>,
    address: u64,
}

impl Memory {
    pub fn address(&self) -> u64 {
        self.address
    }
}

/// One GPU with a stream of its own.
pub(super) struct Gpu {
    name: String,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    function: Option<CudaFunction>,
    /// Bytes of shared memory of a block.
    shared: usize,
}

/// Whether a GPU can be used; the error says what is missing.
pub(crate) fn check(index: usize) -> Result<()> {
    let gpu = Gpu::open(index)?;
    nvrtc::available().map_err(|why| Error::Device { device: gpu.name, why })
}

/// The multiprocessors of a GPU.
pub(crate) fn multiprocessors(index: usize) -> Result<usize> {
    Ok(Gpu::open(index)?.multiprocessors())
}

impl Gpu {
    pub fn open(index: usize) -> Result<Gpu> {
        let name = format!("cuda:{index}");
        let missing = |why: &str| Error::Device { device: name.clone(), why: why.to_owned() };
        // SAFETY: only tries to load the driver's library.
        if !unsafe { cudarc::driver::sys::is_culib_present() } {
            return Err(missing(
                "no NVIDIA driver was found on this machine (libcuda); install it, or use the device cpu",
            ));
        }
        let say = |e: DriverError| Error::Device { device: name.clone(), why: words(e) };
        let count = CudaContext::device_count().map_err(say)?;
        if index >= count.max(0) as usize {
            return Err(missing(&format!("there are {count} GPUs here, numbered from 0")));
        }
        let context = CudaContext::new(index).map_err(say)?;
        // SAFETY: every piece of memory is used by the stream of its own program only.
        unsafe { context.disable_event_tracking() };
        let (major, minor) = context.compute_capability().map_err(say)?;
        if major < 8 {
            return Err(missing(&format!("its compute capability is {major}.{minor}, and 8.0 is needed")));
        }
        let stream = context.new_stream().map_err(say)?;
        Ok(Gpu { name, context, stream, function: None, shared: 0 })
    }

    fn say(&self, e: DriverError) -> Error {
        Error::Device { device: self.name.clone(), why: words(e) }
    }

    pub fn multiprocessors(&self) -> usize {
        let count = self.context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
        count.map_or(1, |n| n.max(1) as usize)
    }

    /// Bytes of shared memory a block may have, beside those that every block takes for its list.
    pub fn most_shared(&self) -> usize {
        let most = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        self.context.attribute(most).map_or(0, |n| (n.max(0) as usize).saturating_sub(4096))
    }

    /// Refuse what kernels cannot count: convolutions number their elements by 32 bits, and levels have 19.
    pub fn refuse(&self, plan: &Plan) -> Result<()> {
        fn large(kernel: &Kernel) -> bool {
            match kernel {
                Kernel::Conv(c) => {
                    let [x, f, y] = c.sizes();
                    [x, y, f * c.parts()].into_iter().any(|n| n > i32::MAX as usize)
                }
                Kernel::Loop(l) => l.kernels.iter().any(large),
                _ => false,
            }
        }
        if plan.kernels.iter().any(large) {
            let why = "a convolution has arrays of 2^31 elements or more; use smaller batches, or the CPU".to_owned();
            return Err(Error::Device { device: self.name.clone(), why });
        }
        // A level's number has 19 bits (`schedule.rs`); a kernel can become two steps.
        let count = unroll::count(&plan.kernels);
        if count >= 1 << 18 {
            let why = format!("a program of {count} kernels is too long; run a shorter one several times");
            return Err(Error::Device { device: self.name.clone(), why });
        }
        Ok(())
    }

    /// Compile and load the functions of a program, whose tiles need `shared` bytes of shared memory.
    pub fn load(&mut self, functions: &Functions, shared: usize) -> Result<()> {
        if shared > self.most_shared() {
            let why = format!("{shared} bytes of shared memory are needed, and it has {}", self.most_shared());
            return Err(Error::Device { device: self.name.clone(), why });
        }
        let (major, minor) = self.context.compute_capability().map_err(|e| self.say(e))?;
        let code = nvrtc::compile(&functions.source(), &format!("sm_{major}{minor}"));
        let code = code.map_err(|why| Error::Device { device: self.name.clone(), why })?;
        let module = self.context.load_module(Ptx::from_binary(code)).map_err(|e| {
            let why = format!("{} ({})", words(e), nvrtc::versions());
            Error::Device { device: self.name.clone(), why }
        })?;
        let function = module.load_function("walk").map_err(|e| self.say(e))?;
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        function.set_attribute(attribute, shared as i32).map_err(|e| self.say(e))?;
        (self.function, self.shared) = (Some(function), shared);
        Ok(())
    }

    /// Memory filled with zeros.
    pub fn memory(&self, bytes: usize) -> Result<Memory> {
        let slice = self.stream.alloc_zeros::<u8>(bytes.max(16)).map_err(|e| match e.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let free = self.context.mem_get_info().map_or(0, |m| m.0);
                Error::DeviceMemory { device: self.name.clone(), bytes, free }
            }
            _ => self.say(e),
        })?;
        let address = slice.device_ptr(&self.stream).0;
        Ok(Memory { slice, address })
    }

    /// Numbers in memory of their own.
    pub fn upload<T: DeviceRepr>(&self, data: &[T]) -> Result<Memory> {
        // SAFETY: the numbers uploaded have no padding, so they may be read as bytes.
        let bytes = unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), size_of_val(data)) };
        let mut memory = self.memory(bytes.len())?;
        self.write(&mut memory, 0, bytes)?;
        Ok(memory)
    }

    /// Write bytes; they have been taken when this returns.
    pub fn write(&self, memory: &mut Memory, at: usize, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut part = memory.slice.slice_mut(at..at + bytes.len());
        self.stream.memcpy_htod(bytes, &mut part).map_err(|e| self.say(e))?;
        self.finish()
    }

    pub fn read(&self, memory: &Memory, at: usize, bytes: usize) -> Result<Vec<u8>> {
        if bytes == 0 {
            return Ok(vec![]);
        }
        let read = self.stream.clone_dtoh(&memory.slice.slice(at..at + bytes)).map_err(|e| self.say(e))?;
        self.finish()?;
        Ok(read)
    }

    pub fn copy(&self, from: &Memory, at: usize, to: &mut Memory, to_at: usize, bytes: usize) -> Result<()> {
        let (from, mut to) = (from.slice.slice(at..at + bytes), to.slice.slice_mut(to_at..to_at + bytes));
        self.stream.memcpy_dtod(&from, &mut to).map_err(|e| self.say(e))
    }

    pub fn clear(&self, memory: &mut Memory) -> Result<()> {
        self.stream.memset_zeros(&mut memory.slice).map_err(|e| self.say(e))
    }

    /// Wait until all is done.
    pub fn finish(&self) -> Result<()> {
        self.stream.synchronize().map_err(|e| self.say(e))
    }

    /// Start a walk through lists; all blocks are on the device at the same time.
    pub fn launch(&self, blocks: usize, launch: Launch, pointers: [u64; 3], numbers: [u32; 2]) -> Result<()> {
        let Some(function) = &self.function else { unreachable!("loaded before it is launched") };
        let config = LaunchConfig {
            grid_dim: (blocks as u32, 1, 1),
            block_dim: (super::code::THREADS as u32, 1, 1),
            shared_mem_bytes: self.shared as u32,
        };
        let mut builder = self.stream.launch_builder(function);
        builder.arg(&launch);
        pointers.iter().for_each(|p| {
            builder.arg(p);
        });
        numbers.iter().for_each(|n| {
            builder.arg(n);
        });
        // SAFETY: the arguments are those of `walk` in run.cu; lists and arguments point into memory that the executor
        // keeps as long as it launches.
        unsafe { builder.launch_cooperative(config) }.map(|_| ()).map_err(|e| self.say(e))
    }
}

/// What the driver says, and what that means where it is known.
fn words(e: DriverError) -> String {
    let message = e.error_string().map_or_else(|_| format!("{:?}", e.0), |s| s.to_string_lossy().into_owned());
    let meaning = match e.0 {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => "; use smaller arrays or batches, or stop what else runs there",
        CUresult::CUDA_ERROR_NO_DEVICE => "; use the device cpu",
        CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
        | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE
        | CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
        | CUresult::CUDA_ERROR_LAUNCH_FAILED
        | CUresult::CUDA_ERROR_UNKNOWN => "; the GPU was lost to this process, and what was on it is gone",
        _ => "",
    };
    format!("the CUDA driver says: {message}{meaning}")
}

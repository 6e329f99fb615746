//! NVIDIA's run-time compiler, found and loaded when first needed, and a cache of what it has compiled.

use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

type Create = unsafe extern "C" fn(
    *mut *mut c_void,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

/// The functions of the library that are used.
struct Nvrtc {
    create: Create,
    compile: Compile,
    log_size: Size,
    log: Get,
    cubin_size: Size,
    cubin: Get,
    destroy: Destroy,
    version: (c_int, c_int),
    /// Keeps the library loaded.
    _library: Library,
}

/// Where the library may be, most wanted first.
fn candidates() -> Vec<PathBuf> {
    let names: &[&str] = if cfg!(windows) {
        &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"]
    } else {
        &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"]
    };
    if let Some(given) = std::env::var_os("MCVI_NVRTC") {
        let given = PathBuf::from(given);
        return if given.is_dir() { names.iter().map(|n| given.join(n)).collect() } else { vec![given] };
    }
    let mut found: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    let mut folders: Vec<PathBuf> = vec![];
    for variable in ["CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"] {
        if let Some(root) = std::env::var_os(variable) {
            folders.extend(["lib64", "lib", "bin"].map(|d| Path::new(&root).join(d)));
        }
    }
    folders.push("/usr/local/cuda/lib64".into());
    // Python packages bring the library along.
    if let Some(root) = std::env::var_os("VIRTUAL_ENV") {
        for python in std::fs::read_dir(Path::new(&root).join("lib")).into_iter().flatten().flatten() {
            let nvidia = python.path().join("site-packages").join("nvidia");
            folders.extend(["cu13/lib", "cuda_nvrtc/lib"].map(|d| nvidia.join(d)));
        }
    }
    found.extend(folders.iter().flat_map(|f| names.iter().map(|n| f.join(n))));
    found
}

/// The newest CUDA the driver knows, if there is a driver.
fn driver() -> Option<(c_int, c_int)> {
    let mut version = 0;
    // SAFETY: the library is there when it is called, and writes one number.
    let code = unsafe {
        if !cudarc::driver::sys::is_culib_present() {
            return None;
        }
        cudarc::driver::sys::cuDriverGetVersion(&mut version)
    };
    (code == cudarc::driver::sys::CUresult::CUDA_SUCCESS).then_some((version / 1000, version % 1000 / 10))
}

/// Both versions in words: a driver loads code of its own major version of CUDA and older ones.
pub(super) fn versions() -> String {
    let of = |v: Option<(c_int, c_int)>| v.map_or("an unknown CUDA".to_owned(), |(a, b)| format!("CUDA {a}.{b}"));
    let compiler = nvrtc().ok().map(|n| n.version);
    format!("the driver is for {}, NVRTC for {}; MCVI_NVRTC names another NVRTC", of(driver()), of(compiler))
}

/// The first library whose code the driver can load; if there is none, the first.
fn load() -> Result<Nvrtc, String> {
    let driver = driver();
    let mut first = None;
    for candidate in candidates() {
        // SAFETY: loading NVIDIA's library runs its own initialisers, which ask nothing of the caller.
        let Ok(library) = (unsafe { Library::new(&candidate) }) else { continue };
        let nvrtc = open(library);
        if nvrtc.as_ref().is_ok_and(|n| driver.is_none_or(|d| n.version.0 <= d.0)) {
            return nvrtc;
        }
        first.get_or_insert(nvrtc);
    }
    first.unwrap_or_else(|| {
        Err("NVRTC (libnvrtc, which compiles kernels) was not found; it comes with the CUDA toolkit and with PyPI's \
             nvidia-cuda-nvrtc: set MCVI_NVRTC to the library or its folder"
            .to_owned())
    })
}

fn open(library: Library) -> Result<Nvrtc, String> {
    // SAFETY: the signatures are those of nvrtc.h, the same in all versions named above.
    unsafe {
        let missing = |e: libloading::Error| format!("NVRTC lacks a function: {e}");
        let version: Version = *library.get(b"nvrtcVersion\0").map_err(missing)?;
        let (mut major, mut minor) = (0, 0);
        version(&mut major, &mut minor);
        Ok(Nvrtc {
            create: *library.get(b"nvrtcCreateProgram\0").map_err(missing)?,
            compile: *library.get(b"nvrtcCompileProgram\0").map_err(missing)?,
            log_size: *library.get(b"nvrtcGetProgramLogSize\0").map_err(missing)?,
            log: *library.get(b"nvrtcGetProgramLog\0").map_err(missing)?,
            cubin_size: *library.get(b"nvrtcGetCUBINSize\0").map_err(missing)?,
            cubin: *library.get(b"nvrtcGetCUBIN\0").map_err(missing)?,
            destroy: *library.get(b"nvrtcDestroyProgram\0").map_err(missing)?,
            version: (major, minor),
            _library: library,
        })
    }
}

fn nvrtc() -> Result<&'static Nvrtc, String> {
    static NVRTC: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    NVRTC.get_or_init(load).as_ref().map_err(Clone::clone)
}

/// Whether kernels can be compiled here, and if not, why.
pub(super) fn available() -> Result<(), String> {
    nvrtc().map(|_| ())
}

/// Machine code for a processor such as `sm_90`, from the cache if it has been compiled before.
pub(super) fn compile(source: &str, processor: &str) -> Result<Vec<u8>, String> {
    let nvrtc = nvrtc()?;
    let file = cache_file(source, processor, nvrtc.version);
    if let Some(code) = file.as_ref().and_then(|f| unseal(std::fs::read(f).ok()?)) {
        return Ok(code);
    }
    let code = compile_now(nvrtc, source, processor)?;
    if let Some(file) = file {
        // A cache that cannot be written is no failure; the file appears whole or not at all, also where several
        // threads compile the same.
        static WRITTEN: AtomicUsize = AtomicUsize::new(0);
        let own = format!("{}-{}.part", std::process::id(), WRITTEN.fetch_add(1, Ordering::Relaxed));
        let temporary = file.with_extension(own);
        let written = file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
            let mut to = std::fs::File::create(&temporary)?;
            to.write_all(&seal(&code))?;
            to.sync_all()
        });
        if written.and_then(|()| std::fs::rename(&temporary, &file)).is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        // For those who want to read it.
        let _ = std::fs::write(file.with_extension("cu"), source);
    }
    Ok(code)
}

/// Code with its length and checksum after it: the driver reads what it is given without asking how much there is.
fn seal(code: &[u8]) -> Vec<u8> {
    [code, &(code.len() as u64).to_le_bytes(), &checksum(code).to_le_bytes()].concat()
}

/// The code of a sealed file, if it is whole.
fn unseal(mut file: Vec<u8>) -> Option<Vec<u8>> {
    let length = file.len().checked_sub(16)?;
    let stated = (&file[length..length + 8], &file[length + 8..]);
    let (bytes, sum) = ((length as u64).to_le_bytes(), checksum(&file[..length]).to_le_bytes());
    if stated != (&bytes[..], &sum[..]) {
        return None;
    }
    file.truncate(length);
    Some(file)
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01B3))
}

/// Named by everything the code depends on. `MCVI_CACHE` names another folder, or none if it is empty.
fn cache_file(source: &str, processor: &str, version: (c_int, c_int)) -> Option<PathBuf> {
    let folder = match std::env::var_os("MCVI_CACHE") {
        Some(folder) if folder.is_empty() => return None,
        Some(folder) => PathBuf::from(folder),
        None => match std::env::var_os("XDG_CACHE_HOME") {
            Some(cache) if !cache.is_empty() => Path::new(&cache).join("mcvi"),
            _ => Path::new(&std::env::var_os("HOME")?).join(".cache").join("mcvi"),
        },
    };
    let hash = |salt: u8| {
        let mut h = DefaultHasher::new();
        (salt, env!("CARGO_PKG_VERSION"), source, processor, version).hash(&mut h);
        h.finish()
    };
    Some(folder.join(format!("{:016x}{:016x}.cubin", hash(0), hash(1))))
}

fn compile_now(nvrtc: &Nvrtc, source: &str, processor: &str) -> Result<Vec<u8>, String> {
    let source = CString::new(source).map_err(|_| "the source contains a zero byte".to_owned())?;
    // Quotients and roots of f32 to 2 ulp: the exact ones take a third of the time of a fused kernel.
    let options = [&format!("--gpu-architecture={processor}"), "--std=c++17", "--prec-div=false", "--prec-sqrt=false"];
    let options = options.map(|o| CString::new(o).unwrap_or_default());
    let pointers = options.each_ref().map(|o| o.as_ptr());
    let mut program = std::ptr::null_mut();
    // SAFETY: all pointers are valid for the duration of the calls; sizes are asked for before buffers are filled; the
    // program is destroyed once, at the end.
    unsafe {
        let code =
            (nvrtc.create)(&mut program, source.as_ptr(), c"mcvi.cu".as_ptr(), 0, std::ptr::null(), std::ptr::null());
        if code != 0 {
            return Err(format!("NVRTC cannot create a program (error {code})"));
        }
        let fetch = |size: Size, get: Get| {
            let mut n = 0;
            if size(program, &mut n) != 0 {
                return vec![];
            }
            let mut bytes = vec![0u8; n];
            if get(program, bytes.as_mut_ptr().cast()) != 0 { vec![] } else { bytes }
        };
        let code = (nvrtc.compile)(program, pointers.len() as c_int, pointers.as_ptr());
        let result = if code == 0 {
            Ok(fetch(nvrtc.cubin_size, nvrtc.cubin))
        } else {
            let log = fetch(nvrtc.log_size, nvrtc.log);
            let log = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy).unwrap_or_default();
            let (major, minor) = nvrtc.version;
            Err(format!("NVRTC {major}.{minor} cannot compile for {processor} (error {code}): {log}"))
        };
        (nvrtc.destroy)(&mut program);
        result.and_then(|c| if c.is_empty() { Err("NVRTC gave no machine code".to_owned()) } else { Ok(c) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_file_is_used_only_if_it_is_whole() {
        let code = vec![7u8; 1000];
        let sealed = seal(&code);
        assert_eq!(unseal(sealed.clone()), Some(code));
        assert!((0..sealed.len()).all(|cut| unseal(sealed[..cut].to_vec()).is_none()));
        let mut flipped = sealed;
        flipped[500] ^= 1;
        assert_eq!(unseal(flipped), None);
    }
}

//! NVIDIA's run-time compiler, found and loaded when first needed.

use super::cache::{Cached, absolute};
use libloading::Library;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

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

/// Where the library may be, most wanted first: a name for the system to look up, or an absolute path. Never in the
/// current folder, whose files may be anybody's.
fn candidates(variable: impl Fn(&str) -> Option<OsString> + Copy) -> Vec<PathBuf> {
    let names: &[&str] = if cfg!(windows) {
        &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"]
    } else {
        &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"]
    };
    if let Some(given) = absolute(variable, "MCVI_NVRTC") {
        return if given.is_dir() { names.iter().map(|n| given.join(n)).collect() } else { vec![given] };
    }
    let mut found: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    let mut folders: Vec<PathBuf> = vec![];
    for root in ["CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"].iter().filter_map(|name| absolute(variable, name)) {
        folders.extend(["lib64", "lib", "bin"].map(|d| root.join(d)));
    }
    folders.push("/usr/local/cuda/lib64".into());
    // Python packages bring the library along.
    if let Some(root) = absolute(variable, "VIRTUAL_ENV") {
        for python in std::fs::read_dir(root.join("lib")).into_iter().flatten().flatten() {
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
    for candidate in candidates(|name| std::env::var_os(name)) {
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
             nvidia-cuda-nvrtc: set MCVI_NVRTC to the absolute path of the library or its folder"
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
    let cached = Cached::new((source, processor, nvrtc.version), |name| std::env::var_os(name));
    if let Some(code) = cached.as_ref().and_then(Cached::read) {
        return Ok(code);
    }
    let code = compile_now(nvrtc, source, processor)?;
    // A cache that cannot be written is no failure.
    let _ = cached.map(|cached| cached.write(&code, source));
    Ok(code)
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
    fn nothing_is_loaded_from_the_current_folder() {
        let all = ["MCVI_NVRTC", "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "VIRTUAL_ENV"];
        let bare = |path: &PathBuf| path.components().count() == 1;
        for value in ["", ".", "toolkit", "./toolkit", "../toolkit"] {
            let found = candidates(|name| all.contains(&name).then(|| value.into()));
            assert!(found.iter().all(|path| path.is_absolute() || bare(path)), "{value:?}: {found:?}");
            assert!(!found.contains(&PathBuf::from(value)), "{value:?}: {found:?}");
        }
        let found = candidates(|name| (name == "CUDA_HOME").then(|| "/opt/cuda".into()));
        assert!(found.iter().any(|path| path.starts_with("/opt/cuda/lib64")), "{found:?}");
        assert_eq!(
            candidates(|name| (name == "MCVI_NVRTC").then(|| "/opt/it.so".into())),
            [PathBuf::from("/opt/it.so")]
        );
    }
}

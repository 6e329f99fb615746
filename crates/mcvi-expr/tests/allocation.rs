//! A step allocates nothing: the memory of a program is found when it is compiled, and kept.

use mcvi_expr::{Array, DType, Graph, Program, grad};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

/// Counts the allocations of all threads.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(ptr, layout, size) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Every kind of kernel but external functions, which are the user's, and the two that call `gemm`.
fn plain(dtype: DType, threads: usize) -> Program {
    let graph = Graph::new();
    let x = graph.normal(0, dtype, [64, 30]);
    let w = graph.state("w", Array::filled(dtype, [64, 30], 0.01).unwrap());
    let s = graph.state("s", Array::filled(dtype, [2, 2], 0.1).unwrap());
    let index = graph.literal(Array::new(3, vec![2, 0, 2]).unwrap());
    let h = (x * w).softplus();
    let images = h.reshape([64, 6, 5]).upsample(8, 8).cast(DType::F32).cast(dtype);
    let unit = graph.literal(Array::new([2, 2], vec![1.0, 0.0, 0.0, 1.0]).unwrap().cast(dtype));
    let factor = (s.t().matmul(s) + unit).cholesky();
    let solved = factor.solve_lower(s.t()).cumsum(0);
    let parts = graph.concat(&[h.take(0, index), h.slice(0, 3..5)], 0).logsumexp(&[1]);
    let loss = h.square().sum_all() + images.square().sum(&[0]).mean_all() + solved.sum_all() + parts.sum_all();
    let d = grad(loss, &[w, s]).unwrap();
    let builder = graph.program().output("loss", loss).update(w, w - d[0] * 1e-5).update(s, s - d[1] * 1e-5);
    builder.output("t", w.t()).threads(threads).compile().unwrap()
}

/// Large matrix products and convolutions, for which `gemm` takes memory and gives it back.
fn products(dtype: DType, threads: usize) -> Program {
    let graph = Graph::new();
    let x = graph.normal(0, dtype, [64, 30]);
    let w = graph.state("w", Array::filled(dtype, [30, 40], 0.01).unwrap());
    let f = graph.state("f", Array::filled(dtype, [2, 1, 3, 3], 0.1).unwrap());
    let images = x.slice(0, 0..20).reshape([20, 1, 6, 5]).conv2d(f, 1, (1, 1));
    let loss = x.matmul(w).softplus().sum_all() + images.square().mean_all();
    let d = grad(loss, &[w, f]).unwrap();
    let builder = graph.program().output("loss", loss).update(w, w - d[0] * 1e-5).update(f, f - d[1] * 1e-5);
    builder.threads(threads).compile().unwrap()
}

/// Allocations of a run of `steps` steps, and how many of them it kept.
fn allocations(program: &mut Program, steps: usize) -> (usize, isize) {
    let (count, live) = (COUNT.load(Ordering::Relaxed), LIVE.load(Ordering::Relaxed));
    program.run(steps).unwrap();
    (COUNT.load(Ordering::Relaxed) - count, LIVE.load(Ordering::Relaxed) - live)
}

// Not a function of the test harness, whose own thread allocates meanwhile.
fn main() {
    for dtype in [DType::F32, DType::F64] {
        for threads in [1, 2] {
            let mut program = plain(dtype, threads);
            assert!(program.kernels().0 > 15, "{program:?}");
            // The first run makes the team of threads and their scratch memory.
            program.run(2).unwrap();
            let (one, many) = (allocations(&mut program, 1), allocations(&mut program, 1000));
            assert_eq!(many, one, "allocations of 1000 steps and of one, {dtype} on {threads} threads");

            let mut program = products(dtype, threads);
            program.run(2).unwrap();
            let (one, many) = (allocations(&mut program, 1), allocations(&mut program, 100));
            assert_eq!(many.1, one.1, "memory kept by 100 steps and by one, {dtype} on {threads} threads");
        }
    }
}

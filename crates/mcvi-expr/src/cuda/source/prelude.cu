// What every generated program starts with: types and reductions. Elementary functions follow it: see src/table.rs.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define THREADS 512
#define WARPS 16

// Memory of a block, used by whichever task runs.
extern __shared__ __align__(128) unsigned char shared_memory[];

// Words of a task's arguments.
template <class T> __device__ __forceinline__ T* at(const u64* a, int i) { return (T*)a[i]; }
__device__ __forceinline__ int num(const u64* a, int i) { return (int)a[i]; }

// Brings the line of an element into the second-level cache.
__device__ __forceinline__ void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];\n" ::"l"(p)); }

// The same for a run of elements, by all threads of a block.
template <class T> __device__ __forceinline__ void prefetch(const T* p, int count) {
    const int line = 128 / sizeof(T);
    #pragma unroll 1
    for (int e = threadIdx.x * line; e < count; e += THREADS * line) prefetch(p + e);
}

// Four floats at once.
__device__ __forceinline__ void load4(float (&x)[4], const float* p) {
    const float4 v = *(const float4*)p;
    x[0] = v.x; x[1] = v.y; x[2] = v.z; x[3] = v.w;
}
__device__ __forceinline__ void store4(float* p, const float (&x)[4]) { *(float4*)p = make_float4(x[0], x[1], x[2], x[3]); }

__device__ __forceinline__ void f_sincospi(float x, float* s, float* c) { sincospif(x, s, c); }
__device__ __forceinline__ void f_sincospi(double x, double* s, double* c) { sincospi(x, s, c); }

// Defined in gamma.cu.
__device__ double g_lgamma(double x);
__device__ double g_polygamma(int m, double x);
__device__ double g_polygamma_diff(int k, double a, double n);

// The two reductions, with what they start from.
struct Sum {
    template <class T> static __device__ __forceinline__ T start() { return T(0); }
    template <class T> static __device__ __forceinline__ T join(T a, T b) { return a + b; }
};
struct Max {
    template <class T> static __device__ __forceinline__ T start() { return T(-1) / T(0); }
    template <class T> static __device__ __forceinline__ T join(T a, T b) { return (a >= b || a != a) ? a : b; }
};

// All lanes get the result; the order is fixed.
template <class R, class T> __device__ __forceinline__ T reduce_warp(T x) {
    #pragma unroll
    for (int d = 16; d > 0; d /= 2) x = R::join(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

// The first thread gets the result.
template <class R, class T> __device__ __forceinline__ T reduce_block(T x) {
    T* part = (T*)shared_memory;
    x = reduce_warp<R>(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < WARPS; w++) x = R::join(x, part[w]);
    return x;
}

// The first of every COUNT warps gets the result of all of them.
template <class R, int COUNT, class T> __device__ __forceinline__ T join_warps(T x) {
    T* part = (T*)shared_memory;
    const int warp = threadIdx.x / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[warp] = x;
    __syncthreads();
    if (warp % COUNT == 0)
        for (int w = 1; w < COUNT; w++) x = R::join(x, part[warp + w]);
    return x;
}

// 32 columns by 16 rows of threads: the first row of threads gets the result of its column.
template <class R, class T> __device__ __forceinline__ T reduce_columns(T x) {
    T* part = (T*)shared_memory;
    __syncthreads();
    part[threadIdx.x] = x;
    __syncthreads();
    if (threadIdx.x < 32)
        for (int w = 1; w < WARPS; w++) x = R::join(x, part[threadIdx.x + 32 * w]);
    return x;
}

// The same with four neighbouring columns for each of the 32: the first 128 threads get the result of one each.
template <class R> __device__ __forceinline__ float reduce_columns(const float (&x)[4]) {
    float* part = (float*)shared_memory;
    __syncthreads();
    store4(part + 4 * threadIdx.x, x);
    __syncthreads();
    float all = part[threadIdx.x % 128];
    if (threadIdx.x < 128)
        for (int w = 1; w < WARPS; w++) all = R::join(all, part[threadIdx.x + 128 * w]);
    return all;
}

// What a run needs to know; filled in by the host for each launch.
struct Launch {
    u64 seed;
    // Number of the step that iteration 0 of the run is.
    u64 first_step;
    // Iterations of the run this launch does.
    u32 begin, end;
    // Place of the first failure: iteration + 1 (0: none), operation, index, length.
    u32* failure;
    // One counter for each level: it grows by WHOLE with every step that has completed it.
    u32* done;
    // For profiles: when each level was begun and completed, in nanoseconds; else null.
    u64* times;
};

// Philox 4x32-10 with counter (block, stream, step) and the seed as key: the same bits as on the CPU.

__device__ __forceinline__ uint4 philox(u32 c0, u32 c1, u32 c2, u32 c3, u32 k0, u32 k1) {
    #pragma unroll
    for (int i = 0; i < 10; i++) {
        u32 lo0 = 0xd2511f53u * c0, hi0 = __umulhi(0xd2511f53u, c0);
        u32 lo1 = 0xcd9e8d57u * c2, hi1 = __umulhi(0xcd9e8d57u, c2);
        c0 = hi1 ^ c1 ^ k0;
        c1 = lo1;
        c2 = hi0 ^ c3 ^ k1;
        c3 = lo0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return make_uint4(c0, c1, c2, c3);
}

__device__ __forceinline__ float unit(u32 w) { return __uint_as_float((w >> 9) | 0x3f800000u) - (1.0f - 5.9604645e-8f); }
__device__ __forceinline__ double unit(u32 lo, u32 hi) {
    u64 m = (((u64)hi << 32) | lo) >> 12;
    return __longlong_as_double((i64)(m | 0x3ff0000000000000ull)) - (1.0 - 1.1102230246251565e-16);
}

template <class T> __device__ __forceinline__ void box_muller(T u, T v, T* x) {
    T r = f_sqrt(f_abs(T(-2) * f_ln(u)));
    T s, c;
    f_sincospi(T(2) * v, &s, &c);
    x[0] = r * c;
    x[1] = r * s;
}

template <bool NORMAL> __device__ __forceinline__ int numbers(uint4 w, float* x) {
    if (NORMAL) {
        // The product is rounded before the sum, as on the CPU: all bits of the word count near 0.
        box_muller(__fmul_rn((float)w.x + 0.5f, 2.3283064e-10f), unit(w.y), x);
        box_muller(__fmul_rn((float)w.z + 0.5f, 2.3283064e-10f), unit(w.w), x + 2);
    } else {
        x[0] = unit(w.x); x[1] = unit(w.y); x[2] = unit(w.z); x[3] = unit(w.w);
    }
    return 4;
}
template <bool NORMAL> __device__ __forceinline__ int numbers(uint4 w, double* x) {
    if (NORMAL) box_muller(unit(w.x, w.y), unit(w.z, w.w), x);
    else { x[0] = unit(w.x, w.y); x[1] = unit(w.z, w.w); }
    return 2;
}

// Words: to, elements, stream, where the number of the iteration of a loop stands (0 outside of loops). It enters the high word of
// the step.
template <class T, bool NORMAL> __device__ __forceinline__ void noise(const u64* a, u32 tile, u64 seed, u64 step) {
    const int per = sizeof(T) == 4 ? 4 : 2;
    T* to = at<T>(a, 0);
    u64 len = a[1];
    if (a[3]) step += (u64)*(const double*)a[3] << 32;
    u64 block = (u64)tile * THREADS + threadIdx.x;
    if (block * per >= len) return;
    T x[4];
    numbers<NORMAL>(philox((u32)block, (u32)a[2], (u32)step, (u32)(step >> 32), (u32)seed, (u32)(seed >> 32)), x);
    #pragma unroll
    for (int k = 0; k < per; k++)
        if (block * per + k < len) to[block * per + k] = x[k];
}

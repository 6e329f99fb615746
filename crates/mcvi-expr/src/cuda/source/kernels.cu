// Kernels that are the same for every program; their extents are arguments.

// Words: to, from, parts, len. A tile is WIDE elements of the result, 32 to 512.
template <class R, class T, int WIDE> __device__ __forceinline__ void combine(const u64* a, u32 tile) {
    T* to = at<T>(a, 0);
    const T* from = at<T>(a, 1);
    const int parts = num(a, 2), len = num(a, 3), column = tile * WIDE + threadIdx.x % WIDE, rows = THREADS / WIDE;
    T x = R::template start<T>();
    if (column < len)
        #pragma unroll 8
        for (int p = threadIdx.x / WIDE; p < parts; p += rows) x = R::join(x, from[(i64)p * len + column]);
    T* part = (T*)shared_memory;
    __syncthreads();
    part[threadIdx.x] = x;
    __syncthreads();
    if (threadIdx.x < WIDE && column < len) {
        for (int w = 1; w < rows; w++) x = R::join(x, part[threadIdx.x + WIDE * w]);
        to[column] = x;
    }
}

// The element that number `i` of a strided array is: dims, then strides, from the outermost axis.
__device__ __forceinline__ i64 place(const u64* dims, int rank, u64 i) {
    i64 p = 0;
    for (int d = rank - 1; d >= 0; d--) {
        p += (i64)(i % dims[d]) * (i64)dims[rank + d];
        i /= dims[d];
    }
    return p;
}

// Words: to, from, elements, rank and dims and strides of the source, then the same of the target.
template <class S, class T> __device__ __forceinline__ void copy(const u64* a, u32 tile) {
    T* to = at<T>(a, 0);
    const S* from = at<S>(a, 1);
    const u64 total = a[2];
    const int rank = num(a, 3), other = num(a, 4 + 2 * rank);
    const u64 begin = (u64)tile * 1024, end = begin + 1024 < total ? begin + 1024 : total;
    for (u64 i = begin + threadIdx.x; i < end; i += THREADS)
        to[place(a + 5 + 2 * rank, other, i)] = (T)from[place(a + 4, rank, i)];
}

// Words: to, bytes (a multiple of 4).
__device__ __forceinline__ void zero(const u64* a, u32 tile) {
    const u64 begin = (u64)tile * 1024, total = a[1] / 4, end = begin + 1024 < total ? begin + 1024 : total;
    for (u64 i = begin + threadIdx.x; i < end; i += THREADS) at<u32>(a, 0)[i] = 0;
}

// Words a tile moves.
#define MOVED 8192

// Rows of four bytes, one a step: `i` is the iteration of the run. Words: to, from, words of a row, which of the two moves from step to
// step: the source (0), the target (1), or neither (2).
__device__ __forceinline__ void transfer(const u64* a, u32 tile, u32 i) {
    u32* to = at<u32>(a, 0);
    const u32* from = at<u32>(a, 1);
    const u64 row = a[2], begin = (u64)tile * MOVED, end = begin + MOVED < row ? begin + MOVED : row;
    if (a[3] == 0) from += i * row;
    if (a[3] == 1) {
        // Records are taken at the start of the next step.
        if (i == 0) return;
        to += (i - 1) * row;
    }
    if (((u64)to | (u64)from) % 16 == 0) {
        // All are read before any is written.
        uint4 v[MOVED / 4 / THREADS];
        const u64 first = begin / 4 + threadIdx.x;
        #pragma unroll
        for (int u = 0; u < MOVED / 4 / THREADS; u++)
            if (first + u * THREADS < end / 4) v[u] = ((const uint4*)from)[first + u * THREADS];
        #pragma unroll
        for (int u = 0; u < MOVED / 4 / THREADS; u++)
            if (first + u * THREADS < end / 4) ((uint4*)to)[first + u * THREADS] = v[u];
        if (end % 4 > threadIdx.x) to[end / 4 * 4 + threadIdx.x] = from[end / 4 * 4 + threadIdx.x];
        return;
    }
    for (u64 j = begin + threadIdx.x; j < end; j += THREADS) to[j] = from[j];
}

// Words: to, from, outer, len, inner, reverse.
template <class T> __device__ __forceinline__ void cumsum(const u64* a, u32 tile) {
    const u64 outer = a[2], len = a[3], inner = a[4], i = (u64)tile * THREADS + threadIdx.x;
    if (i >= outer * inner) return;
    const u64 first = i / inner * len * inner + i % inner;
    const T* from = at<T>(a, 1) + first;
    T* to = at<T>(a, 0) + first;
    T sum = T(0);
    for (u64 s = 0; s < len; s++) {
        const u64 k = (a[5] ? len - 1 - s : s) * inner;
        sum = s ? sum + from[k] : from[k];
        to[k] = sum;
    }
}

// Words: to, from, n. A tile is one matrix.
template <class T> __device__ __forceinline__ void cholesky(const u64* a, u32 tile) {
    const int n = num(a, 2);
    const T* from = at<T>(a, 1) + (i64)tile * n * n;
    T* l = at<T>(a, 0) + (i64)tile * n * n;
    for (int e = threadIdx.x; e < n * n; e += THREADS)
        if (e % n > e / n) l[e] = T(0);
    for (int j = 0; j < n; j++) {
        __syncthreads();
        T d = from[j * n + j];
        for (int k = 0; k < j; k++) d -= l[j * n + k] * l[j * n + k];
        d = d > T(0) ? f_sqrt(d) : T(0) / T(0);
        for (int i = j + threadIdx.x; i < n; i += THREADS) {
            T s = (from[i * n + j] + from[j * n + i]) * T(0.5);
            for (int k = 0; k < j; k++) s -= l[i * n + k] * l[j * n + k];
            l[i * n + j] = i == j ? d : s / d;
        }
    }
}

// Words: to, a, b, n, columns, transposed, backwards, groups of columns. A warp solves one column.
template <class T> __device__ __forceinline__ void trisolve(const u64* w, u32 tile) {
    const int n = num(w, 3), cols = num(w, 4), groups = num(w, 7), lane = threadIdx.x % 32;
    const i64 item = tile / groups;
    const int c = tile % groups * WARPS + threadIdx.x / 32;
    if (c >= cols) return;
    const T* a = at<T>(w, 1) + item * n * n;
    const T* b = at<T>(w, 2) + item * n * cols + c;
    T* x = at<T>(w, 0) + item * n * cols + c;
    const i64 row = w[5] ? 1 : n, col = w[5] ? n : 1;
    for (int s = 0; s < n; s++) {
        const int i = w[6] ? n - 1 - s : s, low = w[6] ? i + 1 : 0, high = w[6] ? n : i;
        T sum = T(0);
        for (int j = low + lane; j < high; j += 32) sum += a[i * row + j * col] * x[(i64)j * cols];
        sum = reduce_warp<Sum>(sum);
        if (lane == 0) x[(i64)i * cols] = (b[(i64)i * cols] - sum) / a[i * row + i * col];
        __syncwarp();
    }
}

// Words: to, from, planes, small height and width, large height and width.
template <class T, bool UP> __device__ __forceinline__ void resize(const u64* a, u32 tile) {
    const int h = num(a, 3), w = num(a, 4), hh = num(a, 5), ww = num(a, 6);
    const u64 i = (u64)tile * THREADS + threadIdx.x, planes = a[2];
    if (UP) {
        if (i >= planes * hh * ww) return;
        const u64 plane = i / (hh * ww);
        const int y = i / ww % hh, x = i % ww;
        at<T>(a, 0)[i] = at<T>(a, 1)[(plane * h + (i64)y * h / hh) * w + (i64)x * w / ww];
        return;
    }
    if (i >= planes * h * w) return;
    const u64 plane = i / (h * w);
    const int y = i / w % h, x = i % w;
    // The pixels whose nearest is this one: those with floor(p h / H) = y.
    T sum = T(0);
    for (int p = (y * hh + h - 1) / h; p < hh && (i64)p * h / hh == y; p++)
        for (int q = (x * ww + w - 1) / w; q < ww && (i64)q * w / ww == x; q++)
            sum += at<T>(a, 1)[(plane * hh + p) * ww + q];
    at<T>(a, 0)[i] = sum;
}

__device__ __forceinline__ void fail(const Launch& run, u32 iteration, u32 operation, int index, u32 len) {
    if (atomicCAS(run.failure, 0u, iteration + 1) == 0u) {
        run.failure[1] = operation;
        run.failure[2] = (u32)index;
        run.failure[3] = len;
    }
}

// Words: to, from, index, outer, len, picks, inner.
template <class T, bool TAKE> __device__ __forceinline__ void indexing(const u64* a, u32 tile, const Launch& run, u32 iteration) {
    T* to = at<T>(a, 0);
    const T* from = at<T>(a, 1);
    const int* index = at<int>(a, 2);
    const u64 outer = a[3], len = a[4], picks = a[5], inner = a[6], i = (u64)tile * THREADS + threadIdx.x;
    if (TAKE) {
        if (i >= outer * picks * inner) return;
        const u64 o = i / (picks * inner), pick = i / inner % picks, j = i % inner;
        const int k = index[pick];
        if (k < 0 || k >= (i64)len) return fail(run, iteration, 0, k, len);
        to[i] = from[(o * len + k) * inner + j];
        return;
    }
    // Picks may name the same place twice: each place looks for its own, in their order.
    if (i >= outer * len * inner) return;
    const u64 o = i / (len * inner), j = i % inner;
    const int place = i / inner % len;
    T sum = T(0);
    for (u64 pick = 0; pick < picks; pick++) {
        const int k = index[pick];
        if (k == place) sum += from[(o * picks + pick) * inner + j];
        else if (k < 0 || k >= (i64)len) fail(run, iteration, 1, k, len);
    }
    to[i] = sum;
}

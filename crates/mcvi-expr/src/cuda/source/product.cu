// Matrix products by tiles: sums of products with a strided layout.
//
// The inner extent of a tile is split over warps, which fetch what they multiply straight into registers, in the order in which
// it lies in memory: a sum may be taken in any order, and rows and columns are put in their place at the end. (Large tiles
// through shared memory, a chunk of 64 at a time, took twice as long: all warps then read at once and compute at once.)
// The result is left in shared memory, as partial sums of a fixed number of slices, and taken from there by an epilogue,
// which stores it or goes on computing with it.

// How the elements of an operand lie: along the inner extent without gaps, across it without gaps (both in whole vectors of
// four), or anyhow.
enum { ALONG = 0, ACROSS = 1, ANY = 2 };

// One operand: element (row, k), of the left side; or (column, k), of the right side.
template <class T, int MODE> struct Side {
    enum { mode = MODE };
    const T* p;
    i64 row, inner;
    int rows, depth;
    __device__ __forceinline__ const T* at(int r, int k) const {
        return r < rows && k < depth ? p + r * row + k * inner : 0;
    }
};

// A sum of products. Words: to, m, n, terms, items, tiles across, tiles down; then for each term the two operands, the inner
// extent, strides of the left (row, inner) and the right (inner, column), and a table of first elements (if items > 1).
template <class T, int LEFT, int RIGHT> struct Terms {
    const u64* w;
    int item;
    __device__ __forceinline__ int count() const { return num(w, 3); }
    __device__ __forceinline__ int depth(int t) const { return num(w, 9 + 8 * t); }
    __device__ __forceinline__ Side<T, LEFT> left(int t) const {
        const u64* v = w + 7 + 8 * t;
        const T* p = (const T*)v[0];
        if (v[7]) p += ((const u64*)v[7])[2 * item];
        return Side<T, LEFT>{p, (i64)v[3], (i64)v[4], num(w, 1), (int)v[2]};
    }
    __device__ __forceinline__ Side<T, RIGHT> right(int t) const {
        const u64* v = w + 7 + 8 * t;
        const T* p = (const T*)v[1];
        if (v[7]) p += ((const u64*)v[7])[2 * item + 1];
        return Side<T, RIGHT>{p, (i64)v[6], (i64)v[5], num(w, 2), (int)v[2]};
    }
};

// Which row of a warp's part of a tile the lane group g holds as its number j, of R.
template <int R, int MODE> __device__ __forceinline__ int row_of(int g, int j) { return MODE == ACROSS ? R * g + j : g + 8 * j; }

// R rows of a warp's part of an operand, from row r0 on: of each, the four inner elements from k + 4 t on.
template <int R, class S> __device__ __forceinline__ void fetch(float (&x)[R][4], const S& side, int r0, int k, int g, int t) {
    k += 4 * t;
    if constexpr (S::mode == ALONG) {
        const bool in = k < side.depth;
        #pragma unroll
        for (int j = 0; j < R; j++) {
            const int r = min(r0 + g + 8 * j, side.rows - 1);
            float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (in) v = *(const float4*)(side.p + r * (int)side.row + k);
            x[j][0] = v.x; x[j][1] = v.y; x[j][2] = v.z; x[j][3] = v.w;
        }
    } else if constexpr (S::mode == ACROSS) {
        const int r = min(r0 + R * g, side.rows - R);
        #pragma unroll
        for (int c = 0; c < 4; c++) {
            const float* p = side.p + (k + c) * (int)side.inner + r;
            const bool in = k + c < side.depth;
            if constexpr (R == 4) {
                float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (in) v = *(const float4*)p;
                x[0][c] = v.x; x[1][c] = v.y; x[2][c] = v.z; x[3][c] = v.w;
            } else {
                float2 v = make_float2(0.0f, 0.0f);
                if (in) v = *(const float2*)p;
                x[0][c] = v.x; x[1][c] = v.y;
            }
        }
    } else {
        #pragma unroll
        for (int j = 0; j < R; j++)
            #pragma unroll
            for (int c = 0; c < 4; c++) {
                const float* p = side.at(r0 + g + 8 * j, k + c);
                x[j][c] = p ? *p : 0.0f;
            }
    }
}

__device__ __forceinline__ u32 tf32(float x) {
    u32 y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

// Slices the inner extent of a tile is summed in: the warps left over by its parts.
#define SLICES(M, N) (WARPS / ((M) / 16 > 2 ? (M) / 32 : (M) / 16) / ((N) / 32))
#define STRIDE(N) ((N) + 4)

// Adds to c the product of 16 MT rows and 32 columns over 16 inner elements.
template <int MT> __device__ __forceinline__ void multiply(float (&c)[MT][4][4], const float (&x)[2 * MT][4], const float (&y)[4][4]) {
    #pragma unroll
    for (int s = 0; s < 2; s++)
        #pragma unroll
        for (int i = 0; i < MT; i++) {
            const u32 a0 = tf32(x[2 * i][2 * s]), a1 = tf32(x[2 * i + 1][2 * s]);
            const u32 a2 = tf32(x[2 * i][2 * s + 1]), a3 = tf32(x[2 * i + 1][2 * s + 1]);
            #pragma unroll
            for (int j = 0; j < 4; j++)
                asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                             "{%0,%1,%2,%3};\n"
                             : "+f"(c[i][j][0]), "+f"(c[i][j][1]), "+f"(c[i][j][2]), "+f"(c[i][j][3])
                             : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(tf32(y[j][2 * s])), "r"(tf32(y[j][2 * s + 1])));
        }
}

// Leaves a warp's part of a tile of N columns in shared memory, neighbours together: stores of single floats meet in few banks.
template <int MT, int N, int LEFT, int RIGHT> __device__ __forceinline__ void leave(const float (&c)[MT][4][4], int row, int column, int g, int t) {
    #pragma unroll
    for (int i = 0; i < MT; i++)
        #pragma unroll
        for (int h = 0; h < 2; h++) {
            float* out = (float*)shared_memory + (row + row_of<2 * MT, LEFT>(g, 2 * i + h)) * STRIDE(N) + column;
            if constexpr (RIGHT == ACROSS) {
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    *(float4*)(out + 4 * (2 * t + e)) =
                        make_float4(c[i][0][2 * h + e], c[i][1][2 * h + e], c[i][2][2 * h + e], c[i][3][2 * h + e]);
            } else {
                #pragma unroll
                for (int j = 0; j < 4; j++) *(float2*)(out + 8 * j + 2 * t) = make_float2(c[i][j][2 * h], c[i][j][2 * h + 1]);
            }
        }
    __syncthreads();
}

// The tile of M by N at (m0, n0) on the tensor cores: 16 by 32, 32 by 32 or 64 by 64. A warp has 32 columns of it, and 16 rows
// (32 of the large one).
template <int M, int N, class P> __device__ __noinline__ void product_tf32(P terms, int m0, int n0) {
    const int mt = M == 64 ? 2 : 1, R = 2 * mt, down = M / (16 * mt), across = N / 32, slices = SLICES(M, N);
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int wm = warp % down * (16 * mt), wn = warp / down % across * 32, slice = warp / (down * across);
    typedef decltype(terms.left(0)) Left;
    typedef decltype(terms.right(0)) Right;
    float c[mt][4][4];
    #pragma unroll
    for (int i = 0; i < mt; i++)
        #pragma unroll
        for (int j = 0; j < 4; j++)
            #pragma unroll
            for (int e = 0; e < 4; e++) c[i][j][e] = 0.0f;
    // What is fetched next: inner elements from k on of a term; every slice takes each so many steps of 16.
    const int count = terms.count();
    int term = 0, k = slice * 16;
    Left left = terms.left(0);
    Right right = terms.right(0);
    auto skip = [&]() {
        while (k >= terms.depth(term)) {
            if (++term == count) return;
            k = slice * 16;
            left = terms.left(term);
            right = terms.right(term);
        }
    };
    skip();
    float x[2][R][4], y[2][4][4];
    auto next = [&](float (&x)[R][4], float (&y)[4][4]) {
        fetch<R>(x, left, m0 + wm, k, g, t);
        fetch<4>(y, right, n0 + wn, k, g, t);
        k += 16 * slices;
        skip();
    };
    // One step is fetched while the one before is multiplied.
    if (term < count) {
        next(x[0], y[0]);
        #pragma unroll 1
        while (true) {
            if (term == count) {
                multiply<mt>(c, x[0], y[0]);
                break;
            }
            next(x[1], y[1]);
            multiply<mt>(c, x[0], y[0]);
            if (term == count) {
                multiply<mt>(c, x[1], y[1]);
                break;
            }
            next(x[0], y[0]);
            multiply<mt>(c, x[1], y[1]);
        }
    }
    leave<mt, N, Left::mode, Right::mode>(c, slice * M + wm, wn, g, t);
}

// The same with plain arithmetic in full precision: tiles of 32 by 32, one slice.
template <class T, class P> __device__ __noinline__ void product_plain(P terms, int m0, int n0) {
    T* a = (T*)shared_memory;
    T* b = a + 32 * 33;
    const int column = threadIdx.x % 32, row = threadIdx.x / 32;
    T c[2] = {T(0), T(0)};
    for (int t = 0; t < terms.count(); t++) {
        auto left = terms.left(t);
        auto right = terms.right(t);
        const int depth = terms.depth(t);
        for (int first = 0; first < depth; first += 32) {
            __syncthreads();
            #pragma unroll
            for (int e = 0; e < 2; e++) {
                const T* p = left.at(m0 + row + 16 * e, first + column);
                a[(row + 16 * e) * 33 + column] = p ? *p : T(0);
                const T* q = right.at(n0 + row + 16 * e, first + column);
                b[(row + 16 * e) * 33 + column] = q ? *q : T(0);
            }
            __syncthreads();
            #pragma unroll 8
            for (int k = 0; k < 32; k++)
                #pragma unroll
                for (int j = 0; j < 2; j++) c[j] += a[(row + 16 * j) * 33 + k] * b[column * 33 + k];
        }
    }
    __syncthreads();
    #pragma unroll
    for (int j = 0; j < 2; j++) a[(row + 16 * j) * STRIDE(32) + column] = c[j];
    __syncthreads();
}

// Element e of the tile left in shared memory, counted row by row.
template <class T, int M, int N, int S> __device__ __forceinline__ T result(int e) {
    const T* p = (const T*)shared_memory + e / N * STRIDE(N) + e % N;
    T v = p[0];
    #pragma unroll
    for (int s = 1; s < S; s++) v += p[s * M * STRIDE(N)];
    return v;
}

// Matrix products by tiles: sums of products with a strided layout.
//
// The inner extent of a tile is split over warps. For small tiles they fetch what they multiply straight into registers, which
// answers soonest; in large ones they share it through shared memory. Elements are taken in the order in which they lie in
// memory: a sum may be taken in any order, and rows and columns are put in their place at the end.
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

// The tensor cores drop the lower 13 bits. What is added first, ln 2 / 2048 of the number, is half of what is dropped on average,
// leaves numbers of 11 bits as they are, and takes one instruction where exact rounding takes three.
__device__ __forceinline__ u32 tf32(float x) { return __float_as_uint(x * 1.000338450f); }

// Slices the inner extent of a tile is summed in: the warps left over by its parts, of 16 by 32, or 32 by 32 in large tiles.
#define SLICES(M, N) (WARPS / ((M) / 16) / ((N) / 32))
#define LARGE_SLICES(M, N) (WARPS / ((M) / 32) / ((N) / 32))
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

// The tile of M by N at (m0, n0) on the tensor cores: 16 by 32 or 32 by 32. A warp has 16 rows and 32 columns of it.
template <int M, int N, class P> __device__ __noinline__ void product_tf32(P terms, int m0, int n0) {
    const int R = 2, down = M / 16, across = N / 32, slices = SLICES(M, N);
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int wm = warp % down * 16, wn = warp / down % across * 32, slice = warp / (down * across);
    typedef decltype(terms.left(0)) Left;
    typedef decltype(terms.right(0)) Right;
    float c[1][4][4];
    #pragma unroll
    for (int j = 0; j < 4; j++)
        #pragma unroll
        for (int e = 0; e < 4; e++) c[0][j][e] = 0.0f;
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
                multiply<1>(c, x[0], y[0]);
                break;
            }
            next(x[1], y[1]);
            multiply<1>(c, x[0], y[0]);
            if (term == count) {
                multiply<1>(c, x[1], y[1]);
                break;
            }
            next(x[0], y[0]);
            multiply<1>(c, x[1], y[1]);
        }
    }
    leave<1, N, Left::mode, Right::mode>(c, slice * M + wm, wn, g, t);
}

// Large tiles: the warps of a slice fetch 16 inner elements of all its rows and columns at a time, several such steps ahead, into
// shared memory, and wait for each other only: while one slice reads, another multiplies.

// Floats from one inner element to the next of a step, where elements lie across it: reads of whole vectors meet in no bank.
// Where they lie along it, the 16 of a row lie together.
#define PITCH(ROWS) (((ROWS) + 23) / 32 * 32 + 8)
// Floats of a step of an operand.
#define SPAN(ROWS) (16 * PITCH(ROWS))

// Starts copying to shared memory, 4 or 16 bytes, or zeros.
template <int BYTES> __device__ __forceinline__ void copy_async(float* to, const float* from, bool in) {
    const u32 s = (u32)__cvta_generic_to_shared(to);
    if constexpr (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(s), "l"(from), "r"(in ? 16 : 0));
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(s), "l"(from), "r"(in ? 4 : 0));
}

// The part of a thread, one of the G of a slice, in fetching ROWS rows of an operand from row r0 on, step by step. Nothing is
// fetched beyond the last row: many fetching the same would wait for each other.
template <int ROWS, int G, class S> struct Stream {
    enum { quads = S::mode == ANY ? 1 : ROWS * 4 / G, at_once = G * 4 / ROWS };
    S side;
    const float* p;
    // From step to step, and from the first part of a step to the others; the next inner element, and the last of each part; where
    // it goes.
    int step, other[quads], k, end[quads], to;
    __device__ __forceinline__ Stream(const S& s, int r0, int k0, int ahead) : side(s), k(k0) {
        const int u = threadIdx.x % G;
        if constexpr (S::mode == ALONG) {
            const int row = r0 + u / 4;
            k += u % 4 * 4;
            p = s.p + row * s.row + k;
            #pragma unroll
            for (int i = 0; i < quads; i++) {
                other[i] = i * (G / 4) * (int)s.row;
                end[i] = row + i * (G / 4) < s.rows ? s.depth : 0;
            }
            to = u * 4;
        } else if constexpr (S::mode == ACROSS) {
            const int at = u / (ROWS / 4), row = r0 + u % (ROWS / 4) * 4;
            k += at;
            p = s.p + row + k * s.inner;
            #pragma unroll
            for (int i = 0; i < quads; i++) {
                other[i] = i * at_once * (int)s.inner;
                end[i] = row < s.rows ? s.depth - i * at_once : 0;
            }
            // Inner elements 0, 4, 8, 12 come first, then 1, 5, 9, 13 and so on.
            to = (at / 4 + at % 4 * 4) * PITCH(ROWS) + u % (ROWS / 4) * 4;
        } else {
            // Here the row.
            to = r0 + u / 16;
            k += u % 16;
        }
        step = ahead * (S::mode == ANY ? 1 : (int)s.inner);
    }
    __device__ __forceinline__ void next(float* shared, int ahead) {
        if constexpr (S::mode == ANY) {
            #pragma unroll
            for (int i = 0; i < ROWS * 16 / G; i++) {
                const float* q = side.at(to + i * (G / 16), k);
                copy_async<4>(shared + threadIdx.x % G + i * G, q ? q : side.p, q);
            }
        } else {
            #pragma unroll
            for (int i = 0; i < quads; i++) {
                // Of those at once, 4 or more, the place of the first says that of all.
                const int place = S::mode == ALONG ? i * G * 4 : i * at_once / 4 * PITCH(ROWS);
                copy_async<16>(shared + to + place, p + other[i], k < end[i]);
            }
            p += step;
        }
        k += ahead;
    }
};

// As `fetch`, from a step in shared memory.
template <int ROWS, int R, int MODE> __device__ __forceinline__ void take(float (&x)[R][4], const float* s, int r0, int g, int t) {
    if constexpr (MODE == ACROSS) {
        #pragma unroll
        for (int c = 0; c < 4; c++) {
            const float4 v = *(const float4*)(s + (t + 4 * c) * PITCH(ROWS) + r0 + 4 * g);
            x[0][c] = v.x; x[1][c] = v.y; x[2][c] = v.z; x[3][c] = v.w;
        }
    } else {
        #pragma unroll
        for (int j = 0; j < R; j++) {
            const float4 v = *(const float4*)(s + (r0 + g + 8 * j) * 16 + 4 * t);
            x[j][0] = v.x; x[j][1] = v.y; x[j][2] = v.z; x[j][3] = v.w;
        }
    }
}

// The tile of M by N at (m0, n0) on the tensor cores, of which a warp has 32 by 32, with so many steps under way.
template <int M, int N, int STAGES, class P> __device__ __noinline__ void product_large(P terms, int m0, int n0) {
    const int down = M / 32, across = N / 32, G = 32 * down * across, slices = LARGE_SLICES(M, N), span = SPAN(M) + SPAN(N);
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int wm = warp % down * 32, wn = warp / down % across * 32, slice = warp / (down * across);
    float* shared = (float*)shared_memory + slice * STAGES * span;
    typedef decltype(terms.left(0)) Left;
    typedef decltype(terms.right(0)) Right;
    float c[2][4][4];
    #pragma unroll
    for (int i = 0; i < 2; i++)
        #pragma unroll
        for (int j = 0; j < 4; j++)
            #pragma unroll
            for (int e = 0; e < 4; e++) c[i][j][e] = 0.0f;
    auto wait = [&]() { asm volatile("bar.sync %0, %1;\n" ::"r"(slice + 1), "n"(G) : "memory"); };
    #pragma unroll 1
    for (int term = 0; term < terms.count(); term++) {
        const int steps = ((terms.depth(term) + 15) / 16 + slices - 1 - slice) / slices;
        Stream<M, G, Left> left(terms.left(term), m0, slice * 16, 16 * slices);
        Stream<N, G, Right> right(terms.right(term), n0, slice * 16, 16 * slices);
        int unfetched = steps;
        auto next = [&](float* to) {
            if (unfetched > 0) {
                left.next(to, 16 * slices);
                right.next(to + SPAN(M), 16 * slices);
            }
            unfetched--;
            asm volatile("cp.async.commit_group;\n");
        };
        // The threads of the slice wait for each other: nobody reads what is overwritten.
        if (term > 0) wait();
        #pragma unroll 1
        for (int s = 0; s < STAGES - 1; s++) next(shared + s * span);
        float *now = shared, *free = shared + (STAGES - 1) * span;
        #pragma unroll 1
        for (int i = 0; i < steps; i++) {
            asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
            wait();
            next(free);
            float x[4][4], y[4][4];
            take<M, 4, Left::mode>(x, now, wm, g, t);
            take<N, 4, Right::mode>(y, now + SPAN(M), wn, g, t);
            multiply<2>(c, x, y);
            free = now;
            now = now + span == shared + STAGES * span ? shared : now + span;
        }
    }
    asm volatile("cp.async.wait_group 0;\n" ::: "memory");
    __syncthreads();
    leave<2, N, Left::mode, Right::mode>(c, slice * M + wm, wn, g, t);
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

// The four from e on.
template <class T, int M, int N, int S> __device__ __forceinline__ void result(int e, T (&v)[4]) {
    const T* p = (const T*)shared_memory + e / N * STRIDE(N) + e % N;
    load4(v, p);
    #pragma unroll
    for (int s = 1; s < S; s++) {
        T more[4];
        load4(more, p + s * M * STRIDE(N));
        #pragma unroll
        for (int q = 0; q < 4; q++) v[q] += more[q];
    }
}

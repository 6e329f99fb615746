// Convolutions: x [n, c, h, w], f [o, c, fh, fw], y [n, o, oh, ow]. Every extent is a constant of a generated structure.
//
// On the tensor cores a tile is a few whole images. Their channels lie in shared memory as planes with zeros around, the filters
// beside them as they are; a product of 16 by 8 by 8 has output channels as rows, output pixels as columns, and input channels
// inside, at one element of the filters. Strides of planes and filters are such that a warp's reads meet in no bank.

__device__ __forceinline__ void multiply8(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void copies_done() {
    asm volatile("cp.async.wait_all;\n" ::: "memory");
    __syncthreads();
}

// IMAGES images of C channels, from `first` on, as planes of GH by GW: pixel (y, x) of the source is at (BY + y SPACE, BX + x SPACE),
// and there are zeros elsewhere. Channels from C to CPAD are zeros. In memory the source is SH by SW, and resized on the way. A
// thread has a row, or so many columns of one, and reads a few of them before it puts the first down.
template <class G> __device__ __forceinline__ void planes(float* to, const float* from, int first) {
    const int columns = G::GW <= 36 ? G::GW : 32, pieces = (G::GW + columns - 1) / columns, total = G::IMAGES * G::CPAD * G::GH * pieces;
    const int turns = (total + THREADS - 1) / THREADS, most = columns <= 12 ? 3 : columns <= 20 ? 2 : 1, count = turns < most ? turns : most;
    #pragma unroll 1
    for (int start = threadIdx.x; start < total; start += count * THREADS) {
        float v[count][columns];
        #pragma unroll
        for (int k = 0; k < count; k++) {
            const int e = start + k * THREADS, row = e / pieces, left = e % pieces * columns, plane = row / G::GH, y = row % G::GH - G::BY;
            const int image = first + plane / G::CPAD, c = plane % G::CPAD;
            const bool in = e < total && image < G::N && c < G::C && y >= 0 && y < G::H * G::SPACE && y % G::SPACE == 0;
            const float* source = from + ((image * G::C + c) * G::SH + y / G::SPACE * G::SH / G::H) * G::SW;
            #pragma unroll
            for (int u = 0; u < columns; u++) {
                const int x = left + u - G::BX;
                v[k][u] = in && x >= 0 && x < G::W * G::SPACE && x % G::SPACE == 0 ? source[x / G::SPACE * G::SW / G::W] : 0.0f;
            }
        }
        #pragma unroll
        for (int k = 0; k < count; k++) {
            const int e = start + k * THREADS, row = e / pieces, left = e % pieces * columns;
            float* out = to + row / G::GH * G::PLANE + row % G::GH * G::GW + left;
            if (e < total)
                #pragma unroll
                for (int u = 0; u < columns; u++)
                    if (left + u < G::GW) out[u] = __uint_as_float(tf32(v[k][u]));
        }
    }
}

// Begins to copy the filters, which may be there long before the images are.
template <class G> __device__ __forceinline__ void conv_filters(const float* f) {
    float* filters = (float*)shared_memory;
    const int vector = G::WHOLE ? 4 : 1;
    // Blocks begin at different places: all want the same filters at the same time.
    const u32 turns = (G::ROWS * G::K + vector * THREADS - 1) / (vector * THREADS), own = blockIdx.x % turns;
    #pragma unroll 4
    for (u32 turn = own; turn < own + turns; turn++) {
        const u32 e = ((turn < turns ? turn : turn - turns) * THREADS + threadIdx.x) * vector;
        if (e < G::ROWS * G::K) copy_async<4 * vector>(filters + e / G::K * G::FROW + e % G::K, f + e, true);
    }
}

// Filters, or (if BACK) the filters of the adjoint, applied to the images of a tile, once the filters are on their way. Leaves KS
// partial sums by output channel and (image, pixel), which others may read after the next barrier.
template <class G> __device__ __noinline__ void conv_images(const float* x, int first) {
    const float* filters = (const float*)shared_memory;
    float* image = (float*)shared_memory + G::FILTERS;
    planes<G>(image, x, first);
    copies_done();
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int m0 = warp % G::MG * 16 * G::MT, n0 = warp / G::MG % G::NG * 8 * G::NT, slice = warp / (G::MG * G::NG);
    const int FF = G::FH * G::FW;
    float c[G::MT][G::NT][4];
    #pragma unroll
    for (int i = 0; i < G::MT; i++)
        #pragma unroll
        for (int j = 0; j < G::NT; j++)
            #pragma unroll
            for (int e = 0; e < 4; e++) c[i][j][e] = 0.0f;
    // Places of this lane's rows and columns; those beyond the last take its place and are not used.
    int row[G::MT][2], column[G::NT];
    #pragma unroll
    for (int i = 0; i < G::MT; i++)
        #pragma unroll
        for (int h = 0; h < 2; h++) row[i][h] = min(m0 + 16 * i + 8 * h + g, G::O - 1) * (G::BACK ? FF : G::FROW);
    #pragma unroll
    for (int j = 0; j < G::NT; j++) {
        const int n = min(n0 + 8 * j + g, G::IMAGES * G::P - 1), p = n % G::P;
        column[j] = n / G::P * G::CPAD * G::PLANE + p / G::OW * G::STEP * G::GW + p % G::OW * G::STEP + t * G::PLANE;
    }
    if (slice < G::KS) {
        #pragma unroll 1
        for (int part = slice; part < G::CPAD / 8 * G::FH; part += G::KS) {
            const int block = part / G::FH, i = part % G::FH;
            const float* pixels = image + block * 8 * G::PLANE + i * G::GW;
            const int c0 = min(block * 8 + t, G::C - 1), c1 = min(block * 8 + t + 4, G::C - 1);
            const float* f0 = filters + (G::BACK ? c0 * G::FROW + FF - 1 - i * G::FW : c0 * FF + i * G::FW);
            const float* f1 = filters + (G::BACK ? c1 * G::FROW + FF - 1 - i * G::FW : c1 * FF + i * G::FW);
            #pragma unroll
            for (int j = 0; j < G::FW; j++) {
                const int at = G::BACK ? -j : j;
                u32 a[G::MT][4];
                #pragma unroll
                for (int m = 0; m < G::MT; m++) {
                    a[m][0] = tf32(f0[row[m][0] + at]);
                    a[m][1] = tf32(f0[row[m][1] + at]);
                    a[m][2] = tf32(f1[row[m][0] + at]);
                    a[m][3] = tf32(f1[row[m][1] + at]);
                }
                #pragma unroll
                for (int n = 0; n < G::NT; n++) {
                    const u32 b[2] = {__float_as_uint(pixels[column[n] + j]), __float_as_uint(pixels[column[n] + j + 4 * G::PLANE])};
                    #pragma unroll
                    for (int m = 0; m < G::MT; m++) multiply8(c[m][n], a[m], b);
                }
            }
        }
    }
    __syncthreads();
    float* out = (float*)shared_memory + slice * G::O * G::OROW + n0 + 2 * t;
    if (slice < G::KS)
        #pragma unroll
        for (int m = 0; m < G::MT; m++)
            #pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = m0 + 16 * m + 8 * h + g;
                if (r < G::O)
                    #pragma unroll
                    for (int n = 0; n < G::NT; n++) *(float2*)(out + r * G::OROW + 8 * n) = make_float2(c[m][n][2 * h], c[m][n][2 * h + 1]);
            }
}

// The first of `large` pixels that are pixel `p` of `small` ones.
__device__ __forceinline__ int first_of(int p, int large, int small) { return (p * large + small - 1) / small; }

// Pixel p of channel o of an image of the tile. If the result is smaller in memory, RH by RW, that is the sum over the pixels
// that one becomes.
template <class G> __device__ __forceinline__ float conv_result(u32 image, u32 o, u32 pixel) {
    const float* p = (const float*)shared_memory + o * G::OROW + image * G::P;
    const int y = pixel / G::RW, x = pixel % G::RW;
    auto sum = [&](int at) {
        float v = p[at];
        #pragma unroll
        for (int s = 1; s < G::KS; s++) v += p[at + s * G::O * G::OROW];
        return v;
    };
    if constexpr (G::RH == G::OH && G::RW == G::OW) return sum(pixel);
    float v = 0.0f;
    #pragma unroll 1
    for (int i = first_of(y, G::OH, G::RH); i < first_of(y + 1, G::OH, G::RH); i++)
        #pragma unroll 1
        for (int j = first_of(x, G::OW, G::RW); j < first_of(x + 1, G::OW, G::RW); j++) v += sum(i * G::OW + j);
    return v;
}

// What a tile of it reads comes nearer.
template <class G> __device__ __forceinline__ void conv_near(const float* to, const float* x, const float* y, int part) {
    const int first = part * G::IMAGES, many = G::IMAGES < G::N - first ? G::IMAGES : G::N - first;
    prefetch(x + first * G::C * G::SH * G::SW, many * G::C * G::SH * G::SW);
    prefetch(y + first * G::O * G::P, many * G::O * G::P);
    if (G::ONTO) prefetch(to + part * G::O * G::C * G::FH * G::FW, G::O * G::C * G::FH * G::FW);
}

// The gradient of filters over a part of the images, which are shared out to slices of warps: output channels as rows, input
// channels at one element of the filters as columns, pixels inside. A tile has NB of the blocks of eight columns. If ONTO, it is
// added to what is there.
template <class G> __device__ __noinline__ void conv_weight(float* to, const float* x, const float* y, int part, int across) {
    float* image = (float*)shared_memory;
    float* result = image + G::IMAGES * G::CPAD * G::PLANE;
    const int first = part * G::IMAGES, FF = G::FH * G::FW, blocks = G::CPAD / 8 * FF;
    #pragma unroll 4
    for (int e = threadIdx.x; e < G::IMAGES * G::O * G::PPAD; e += THREADS) {
        const int p = e % G::PPAD, plane = e / G::PPAD;
        const bool in = p < G::P && first + plane / G::O < G::N;
        copy_async<4>(result + plane * G::YROW + p, y + (in ? (first * G::O + plane) * G::P + p : 0), in);
    }
    planes<G>(image, x, first);
    copies_done();
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int m0 = warp % G::MG * 16 * G::MT, q0 = warp / G::MG % G::NG * G::NT, slice = warp / (G::MG * G::NG);
    float c[G::MT][G::NT][4];
    #pragma unroll
    for (int i = 0; i < G::MT; i++)
        #pragma unroll
        for (int j = 0; j < G::NT; j++)
            #pragma unroll
            for (int e = 0; e < 4; e++) c[i][j][e] = 0.0f;
    if (slice < G::SLICES) {
        int row[G::MT][2], column[G::NT];
        #pragma unroll
        for (int i = 0; i < G::MT; i++)
            #pragma unroll
            for (int h = 0; h < 2; h++) row[i][h] = min(m0 + 16 * i + 8 * h + g, G::O - 1) * G::YROW;
        #pragma unroll
        for (int j = 0; j < G::NT; j++) {
            const int q = min(across * G::NB + q0 + j, blocks - 1), at = q % FF;
            column[j] = (q / FF * 8 + g) * G::PLANE + at / G::FW * G::GW + at % G::FW;
        }
        #pragma unroll 1
        for (int own = slice; own < G::IMAGES; own += G::SLICES) {
            const float* pixels = image + own * G::CPAD * G::PLANE;
            const float* slopes = result + own * G::O * G::YROW;
            #pragma unroll 2
            for (int k = t; k < G::PPAD; k += 8) {
                const int p = min(k, G::P - 1), q = min(k + 4, G::P - 1);
                const float* x0 = pixels + p / G::OW * G::STEP * G::GW + p % G::OW * G::STEP;
                const float* x1 = pixels + q / G::OW * G::STEP * G::GW + q % G::OW * G::STEP;
                u32 a[G::MT][4];
                #pragma unroll
                for (int m = 0; m < G::MT; m++) {
                    a[m][0] = tf32(slopes[row[m][0] + k]);
                    a[m][1] = tf32(slopes[row[m][1] + k]);
                    a[m][2] = tf32(slopes[row[m][0] + k + 4]);
                    a[m][3] = tf32(slopes[row[m][1] + k + 4]);
                }
                #pragma unroll
                for (int n = 0; n < G::NT; n++) {
                    const u32 b[2] = {__float_as_uint(x0[column[n]]), __float_as_uint(x1[column[n]])};
                    #pragma unroll
                    for (int m = 0; m < G::MT; m++) multiply8(c[m][n], a[m], b);
                }
            }
        }
    }
    __syncthreads();
    // By slice, output channel, channel within its block, and block: neighbours there are neighbours in the result.
    float* out = (float*)shared_memory;
    if (slice < G::SLICES)
        #pragma unroll
        for (int m = 0; m < G::MT; m++)
            #pragma unroll
            for (int n = 0; n < G::NT; n++)
                #pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int r = m0 + 16 * m + e / 2 * 8 + g;
                    if (r < G::O) out[(slice * G::O + r) * G::OROW + (2 * t + e % 2) * G::PITCH + q0 + n] = c[m][n][e];
                }
    __syncthreads();
    // All columns in the order of the result, or a thread keeps its column; it reads a few of the old sums before it writes the
    // first.
    if constexpr (G::NB >= G::CPAD / 8 * G::FH * G::FW) {
        const int total = G::O * G::C * FF, turns = (total + THREADS - 1) / THREADS, few = turns < 16 ? turns : 16;
        float* target = to + part * total;
        #pragma unroll 1
        for (int first = threadIdx.x; first < total; first += few * THREADS) {
            float v[few];
            #pragma unroll
            for (int u = 0; u < few; u++) v[u] = G::ONTO && first + u * THREADS < total ? target[first + u * THREADS] : 0.0f;
            #pragma unroll
            for (int u = 0; u < few; u++) {
                const int e = first + u * THREADS, o = e / (G::C * FF), channel = e / FF % G::C, q = channel / 8 * FF + e % FF;
                if (e >= total) continue;
                const float* p = out + o * G::OROW + channel % 8 * G::PITCH + q;
                float sum = p[0];
                #pragma unroll
                for (int s = 1; s < G::SLICES; s++) sum += p[s * G::O * G::OROW];
                target[e] = G::ONTO ? v[u] + sum : sum;
            }
        }
        return;
    }
    const int wide = 8 * G::NB, side = wide < THREADS ? THREADS / wide : 1, own = (G::O + side - 1) / side, few = own < 16 ? own : 16;
    #pragma unroll 1
    for (int e = threadIdx.x; e < side * wide; e += THREADS) {
        const int column = e % wide, q = across * G::NB + column % G::NB, channel = q / FF * 8 + column / G::NB;
        if (q >= blocks || channel >= G::C) continue;
        float* target = to + (part * G::O * G::C + channel) * FF + q % FF;
        #pragma unroll 1
        for (int first = e / wide; first < G::O; first += few * side) {
            float v[few];
            #pragma unroll
            for (int u = 0; u < few; u++) {
                const int o = first + u * side;
                v[u] = G::ONTO && o < G::O ? target[o * G::C * FF] : 0.0f;
            }
            #pragma unroll
            for (int u = 0; u < few; u++) {
                const int o = first + u * side;
                if (o >= G::O) continue;
                const float* p = out + o * G::OROW + column / G::NB * G::PITCH + column % G::NB;
                float sum = p[0];
                #pragma unroll
                for (int s = 1; s < G::SLICES; s++) sum += p[s * G::O * G::OROW];
                target[o * G::C * FF] = G::ONTO ? v[u] + sum : sum;
            }
        }
    }
}

// The same one element a thread, in the precision of T and in any shape: elements of y, of the gradient of x, and of the gradient
// of f over a part of the images. In memory x is SH by SW.
template <class G> __device__ __forceinline__ int pixel(int plane, int y, int x) {
    return (plane * G::SH + y * G::SH / G::H) * G::SW + x * G::SW / G::W;
}
template <class T, class G> __device__ __forceinline__ T plain_output(const T* x, const T* f, int e) {
    const int ox = e % G::OW, oy = e / G::OW % G::OH, o = e / (G::OW * G::OH) % G::O, n = e / (G::OW * G::OH * G::O);
    T sum = T(0);
    #pragma unroll 1
    for (int c = 0; c < G::C; c++)
        for (int i = 0; i < G::FH; i++) {
            const int y = oy * G::STRIDE + i - G::BEFORE;
            if (y >= 0 && y < G::H)
                for (int j = 0; j < G::FW; j++) {
                    const int at = ox * G::STRIDE + j - G::BEFORE;
                    if (at >= 0 && at < G::W) sum += x[pixel<G>(n * G::C + c, y, at)] * f[((o * G::C + c) * G::FH + i) * G::FW + j];
                }
        }
    return sum;
}
template <class T, class G> __device__ __forceinline__ T plain_input(const T* y, const T* f, int e) {
    const int sx = e % G::SW, sy = e / G::SW % G::SH, c = e / (G::SW * G::SH) % G::C, n = e / (G::SW * G::SH * G::C);
    T sum = T(0);
    #pragma unroll 1
    for (int iy = first_of(sy, G::H, G::SH); iy < first_of(sy + 1, G::H, G::SH); iy++)
        #pragma unroll 1
        for (int ix = first_of(sx, G::W, G::SW); ix < first_of(sx + 1, G::W, G::SW); ix++)
            #pragma unroll 1
            for (int o = 0; o < G::O; o++)
                for (int i = 0; i < G::FH; i++) {
                    const int oy = iy + G::BEFORE - i;
                    if (oy >= 0 && oy % G::STRIDE == 0 && oy / G::STRIDE < G::OH)
                        for (int j = 0; j < G::FW; j++) {
                            const int ox = ix + G::BEFORE - j;
                            if (ox >= 0 && ox % G::STRIDE == 0 && ox / G::STRIDE < G::OW)
                                sum += y[((n * G::O + o) * G::OH + oy / G::STRIDE) * G::OW + ox / G::STRIDE] * f[((o * G::C + c) * G::FH + i) * G::FW + j];
                        }
                }
    return sum;
}
template <class T, class G> __device__ __forceinline__ T plain_weight(const T* x, const T* y, int e) {
    const int j = e % G::FW, i = e / G::FW % G::FH, c = e / (G::FW * G::FH) % G::C, o = e / (G::FW * G::FH * G::C) % G::O;
    const int first = e / (G::FW * G::FH * G::C * G::O) * G::PART, last = first + G::PART < G::N ? first + G::PART : G::N;
    T sum = T(0);
    #pragma unroll 1
    for (int n = first; n < last; n++)
        #pragma unroll 1
        for (int oy = 0; oy < G::OH; oy++) {
            const int iy = oy * G::STRIDE + i - G::BEFORE;
            if (iy >= 0 && iy < G::H)
                for (int ox = 0; ox < G::OW; ox++) {
                    const int ix = ox * G::STRIDE + j - G::BEFORE;
                    if (ix >= 0 && ix < G::W) sum += x[pixel<G>(n * G::C + c, iy, ix)] * y[((n * G::O + o) * G::OH + oy) * G::OW + ox];
                }
        }
    return sum;
}

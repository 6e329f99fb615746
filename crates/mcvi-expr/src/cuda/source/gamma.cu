// lgamma, the polygamma functions and their differences without cancellation, in doubles: the scalar forms of the CPU
// (cpu/micro/gamma.rs and scalar.rs say where the coefficients come from).

#define PI 3.14159265358979323846
#define INF (1.0 / 0.0)
#define NOT_A_NUMBER (__longlong_as_double(0x7ff8000000000000ll))

__device__ __constant__ double LG[7] = {0.08333333333333333, -0.0027777777777674272, 0.0007936507864054509,
    -0.0005952358521747168, 0.000841392144946827, -0.0018863996521408784, 0.004987580333611265};
__device__ __constant__ double DG[7] = {0.08333333333333316, -0.00833333333304068, 0.003968253804289715,
    -0.004166622944965859, 0.007569475515194266, -0.020588891826400446, 0.061535119806012194};
__device__ __constant__ double TG[9] = {1.0, 0.16666666666666646, -0.03333333333301063, 0.023809523611556974,
    -0.03333327178573967, 0.07574662587255222, -0.25194292142405006, 1.0912216749165424, -4.2802583750535};
__device__ __constant__ double LG_DIFF[5] = {0.08333333333283127, -0.002777777636673348, 0.0007936268625905735,
    -0.0005930812177186681, 0.0007429327509931431};
__device__ __constant__ double DG_DIFF[6] = {0.08333333333328391, -0.00833333330199179, 0.0039682451372646515,
    -0.0041653738865219244, 0.007472520942994236, -0.01673602638303684};
__device__ __constant__ double TG_DIFF[6] = {0.1666666666662023, -0.03333333297704953, 0.023809415548117014,
    -0.033316797609987715, 0.07439772623489721, -0.19423382984228374};
// B_2j / (2j)!
__device__ __constant__ double BERNOULLI[12] = {8.333333333333333e-2, -1.388888888888889e-3, 3.306878306878307e-5,
    -8.267195767195768e-7, 2.08767569878681e-8, -5.284190138687493e-10, 1.3382536530684679e-11, -3.389680296322583e-13,
    8.586062056277845e-15, -2.174868698558062e-16, 5.50900282836023e-18, -1.3954464685812523e-19};

template <int N> __device__ __forceinline__ double series(double w, const double* c) {
    double p = c[N - 1];
    #pragma unroll
    for (int i = N - 2; i >= 0; i--) p = fma(p, w, c[i]);
    return p;
}

__device__ __noinline__ double lgamma_positive(double x) {
    bool small = x < 8.0;
    double y = x * (x + 7.0);
    double p = y * (y + 6.0) * (y + 10.0) * (y + 12.0);
    double z = small ? x + 8.0 : x, u = 1.0 / z;
    double s = fma(u, series<7>(u * u, LG), 0.4189385332046727);
    return fma(z - 0.5, log(z) - 1.0, s) - (small ? log(p) : 0.0);
}
__device__ __noinline__ double digamma_positive(double x) {
    bool small = x < 8.0;
    double y = x * (x + 7.0), y1 = y + 6.0, y2 = y + 10.0, y3 = y + 12.0;
    double p = y * y1, q = y2 * y3;
    double sum = (x + (x + 7.0)) * fma(y + y1, q, (y2 + y3) * p) / (small ? p * q : 1.0);
    double z = small ? x + 8.0 : x, u = 1.0 / z;
    return fma(-u, fma(u, series<7>(u * u, DG), 0.5), log(z)) - (small ? sum : 0.0);
}
__device__ __noinline__ double trigamma_positive(double x) {
    bool small = x < 8.0;
    double y = x * (x + 7.0);
    double n = y + y + 49.0, d = y * y;
    const double c[3] = {6.0, 10.0, 12.0};
    #pragma unroll
    for (int i = 0; i < 3; i++) {
        double q = (y + c[i]) * (y + c[i]);
        n = fma(n, q, d * (y + y + (49.0 - 2.0 * c[i])));
        d *= q;
    }
    double z = small ? x + 8.0 : x, u = 1.0 / z;
    return u * fma(u, 0.5, series<9>(u * u, TG)) + (small ? n / d : 0.0);
}

__device__ __noinline__ double g_lgamma(double x) {
    if (x != x) return x;
    if (isinf(x) || (x <= 0.0 && x == floor(x))) return INF;
    if (fabs(x) < 1e-20) return -log(fabs(x));
    if (x > 0.0) return lgamma_positive(x);
    return log(PI / fabs(sinpi(x))) - lgamma_positive(1.0 - x);
}
__device__ __noinline__ double g_digamma(double x) {
    if (x != x || x == INF) return x;
    if (fabs(x) < 1e-20) return -1.0 / x;
    if (x > 0.0) return digamma_positive(x);
    if (x == floor(x)) return NOT_A_NUMBER;
    return digamma_positive(1.0 - x) - PI * (cospi(x) / sinpi(x));
}
__device__ __noinline__ double g_trigamma(double x) {
    if (x != x || x == -INF) return NOT_A_NUMBER;
    if (x == INF) return 0.0;
    if (fabs(x) < 1e-20) return 1.0 / x / x;
    if (x > 0.0) return trigamma_positive(x);
    if (x == floor(x)) return INF;
    double s = PI / sinpi(x);
    return s * s - trigamma_positive(1.0 - x);
}

// m! times the sum of (x+i)^-(m+1), or (with n) the same at x + n less that at x, by Euler-Maclaurin summation.
__device__ __noinline__ double zeta_sum(int m, double x, bool diff, double n) {
    double s = m + 1.0, base = 1.0 / x;
    for (int j = 1; j <= m; j++) base *= j / x;
    #define LOG(y) (diff ? log1p(n / (y)) : 0.0)
    #define FACTOR(p, l) (diff ? expm1(-(p) * (l)) : 1.0)
    if (isinf(base)) return base * FACTOR(s, LOG(x));
    double top = 12.0 + 0.5 * s, sum = 0.0, y = x;
    for (; y < top; y += 1.0) sum += pow(x / y, s) * FACTOR(s, LOG(y));
    double l = LOG(y);
    double tail = y / (s - 1.0) * FACTOR(s - 1.0, l) + 0.5 * FACTOR(s, l);
    double c = s / y;
    for (int j = 0; j < 12; j++) {
        double p = s + 2.0 * j + 1.0;
        double term = BERNOULLI[j] * c * FACTOR(p, l);
        tail += term;
        if (fabs(term) < 1e-17 * fabs(tail)) break;
        c *= p / y * ((p + 1.0) / y);
    }
    #undef LOG
    #undef FACTOR
    return base * (sum + pow(x / y, s) * tail);
}

__device__ __noinline__ double g_polygamma(int m, double x) {
    if (m == 0) return g_digamma(x);
    if (m == 1) return g_trigamma(x);
    bool odd = m % 2 == 1;
    double sign = odd ? 1.0 : -1.0;
    if (x != x || x == -INF) return NOT_A_NUMBER;
    if (x == INF) return sign * 0.0;
    if (x > 0.0) return sign * zeta_sum(m, x, false, 0.0);
    if (x == 0.0) return sign * (odd ? INF : 1.0 / x);
    if (x == floor(x)) return odd ? INF : NOT_A_NUMBER;
    if (m > 20) return NOT_A_NUMBER;
    // The m-th derivative of cot(pi x) as a polynomial in c = cot(pi x): p becomes -pi (1 + c^2) p'.
    double p[24], q[24];
    for (int i = 0; i < 24; i++) p[i] = 0.0;
    p[1] = 1.0;
    for (int k = 0; k < m; k++) {
        for (int i = 0; i < 24; i++) q[i] = 0.0;
        for (int i = 1; i < k + 2; i++) {
            double d = -PI * p[i] * i;
            q[i - 1] += d;
            q[i + 1] += d;
        }
        for (int i = 0; i < 24; i++) p[i] = q[i];
    }
    double c = cospi(x) / sinpi(x), r = 0.0;
    for (int i = m + 1; i >= 0; i--) r = r * c + p[i];
    return (odd ? -1.0 : 1.0) * sign * zeta_sum(m, 1.0 - x, false, 0.0) - PI * r;
}

template <int N> __device__ __forceinline__ void ends(double p, double q, const double* c, double* g, double* next) {
    double b = c[N - 1], a = fma(b, p, c[N - 2]);
    #pragma unroll
    for (int i = N - 3; i >= 0; i--) {
        double rest = fma(-q, b, c[i]);
        b = a;
        a = fma(a, p, rest);
    }
    *g = a;
    *next = b;
}

// The difference of order 0, 1 or 2 for any positive finite a and b = a + n.
__device__ __noinline__ double diff_far(int k, double a, double n) {
    double b = a + n, sum = 0.0;
    if (a < 8.0 || b < 8.0) {
        for (int i = 0; i < 8; i++) {
            double x = a + i, y = b + i, t = n / x;
            sum += k == 0 ? (t < INF ? -log1p(t) : log(x) - log(y)) : k == 1 ? t / y : -(t / y) * (1.0 / x + 1.0 / y);
        }
        a += 8.0;
        b += 8.0;
    }
    double t = n / a, ua = 1.0 / a, ub = 1.0 / b, prod = ua * ub, total = ua + ub;
    double p = ua * ua + ub * ub, q = prod * prod, g, next;
    if (k == 0) {
        ends<5>(p, q, LG_DIFF, &g, &next);
        double small = n * (1.0 - 0.5 * ua) * (1.0 - 0.5 * t);
        double first = fabs(t) < 1e-9 ? small : (a - 0.5) * log1p(t);
        return first + n * ((log(b) - 1.0) - prod * fma(prod, next, g)) + sum;
    }
    if (k == 1) {
        ends<6>(p, q, DG_DIFF, &g, &next);
        return log1p(t) + t * ub * fma(total, g, 0.5) + sum;
    }
    ends<6>(p, q, TG_DIFF, &g, &next);
    double cubes = fma(p + prod, g, -q * next);
    return -(t * ub) * (fma(total, 0.5, cubes) + 1.0) + sum;
}

__device__ __noinline__ double g_polygamma_diff(int k, double a, double n) {
    double b = a + n;
    bool inside = a > 0.0 && b > 0.0 && a < INF && b < INF;
    if (inside && n == 0.0) return 0.0;
    if (a == INF && b == a) return k == 0 && n != 0.0 ? n * a : 0.0;
    if (k <= 2) {
        if (inside) return diff_far(k, a, n);
        if (k == 0) return g_lgamma(b) - g_lgamma(a);
        return g_polygamma(k - 1, b) - g_polygamma(k - 1, a);
    }
    if (!inside) return g_polygamma(k - 1, b) - g_polygamma(k - 1, a);
    double flip = 1.0;
    // The smaller argument is the base.
    if (n < 0.0) { flip = -1.0; a = b; n = -n; }
    return flip * ((k - 1) % 2 == 1 ? 1.0 : -1.0) * zeta_sum(k - 1, a, true, n);
}

// Short vectors of doubles, with their exponentials and logarithms.
//
// GCC and Clang lower these types to whatever the target has: a Vector<8> is one AVX-512
// register, two of AVX2 or four of SSE2 / NEON.
#pragma once

#include <cstdint>
#include <cstring>

#define ALWAYS_INLINE [[gnu::always_inline]] static inline
#define INLINED __attribute__((always_inline))  // a lambda: between its parameters and its body

namespace fanbayes {
namespace {

#if defined(__AVX512F__)
constexpr int NATIVE = 8;  // doubles in a register
#elif defined(__AVX__)
constexpr int NATIVE = 4;
#else
constexpr int NATIVE = 2;
#endif

template <int W>
struct Lanes;

#define DEFINE_LANES(W)                                                              \
    template <>                                                                      \
    struct Lanes<W> {                                                                \
        typedef double Real __attribute__((vector_size(W * 8)));                     \
        typedef int64_t Bits __attribute__((vector_size(W * 8)));                    \
        typedef double RealAnywhere __attribute__((vector_size(W * 8), aligned(8))); \
    };
DEFINE_LANES(2)
DEFINE_LANES(4)
DEFINE_LANES(8)
#undef DEFINE_LANES

template <int W>
using Vector = typename Lanes<W>::Real;

template <int W>
ALWAYS_INLINE Vector<W> load(const double* p) {
    return *reinterpret_cast<const typename Lanes<W>::RealAnywhere*>(p);
}

template <int W>
ALWAYS_INLINE void store(double* p, Vector<W> v) {
    *reinterpret_cast<typename Lanes<W>::RealAnywhere*>(p) = v;
}

template <int W>
ALWAYS_INLINE Vector<W> broadcast(double x) {
    return x - Vector<W>{};
}

// exp(x) = 2^k exp(r), k = round(x / ln 2), |r| <= ln(2) / 2; exp(r) = 1 + r + r^2 q(r), with q the Chebyshev
// approximation of degree 9 to its power series (error < 2^-56). Turns x into exp(r), and gives k. N vectors take each
// step together: a step has to wait for the one before it, but not for that of another vector.
template <int W, int N>
ALWAYS_INLINE void reduced_exp(Vector<W>* x, typename Lanes<W>::Bits* k) {
    using Bits = typename Lanes<W>::Bits;
    constexpr double log2_e = 0x1.71547652b82fep+0;
    constexpr double ln2_high = 0x1.62e42fefa3800p-1;  // 42 bits: k * ln2_high is exact
    constexpr double ln2_low = 0x1.ef35793c76730p-45;
    constexpr double to_integer = 0x1.8p52;  // adding it rounds to an integer, in the low bits
    constexpr double coefficients[] = {0x1.289185613a3d6p-22, 0x1.71de0dae63bb3p-19, 0x1.a019b90d2ae7ap-16,
                                       0x1.a01a01a7c41d5p-13, 0x1.6c16c1788bd90p-10, 0x1.11111111109b3p-7,
                                       0x1.5555555553d63p-5,  0x1.5555555555556p-3,  0x1.0000000000001p-1};
    Vector<W> r[N], q[N];
    for (int i = 0; i < N; ++i) {
        const Vector<W> shifted = x[i] * log2_e + to_integer;
        const Vector<W> integer = shifted - to_integer;
        k[i] = (Bits)shifted - (Bits)broadcast<W>(to_integer);
        r[i] = (x[i] - integer * ln2_high) - integer * ln2_low;
        q[i] = broadcast<W>(0x1.af38a9b0ec855p-26);
    }
    for (double coefficient : coefficients)
        for (int i = 0; i < N; ++i) q[i] = q[i] * r[i] + coefficient;
    for (int i = 0; i < N; ++i) x[i] = (q[i] * r[i]) * r[i] + r[i] + 1.0;
}

// Within 2 ulp; subnormal results, 0, infinity and NaN come out as they should.
template <int W>
ALWAYS_INLINE Vector<W> exp(Vector<W> x) {
    using Bits = typename Lanes<W>::Bits;
    // Below -745.2 the result is 0, above 710 infinity; NaN fails both comparisons and stays. What is 0 is not
    // computed by underflow, which is slow.
    const auto vanishes = x < broadcast<W>(-745.2);
    x = vanishes ? Vector<W>{} : x;
    x = x > broadcast<W>(710.0) ? broadcast<W>(710.0) : x;
    Bits k;
    reduced_exp<W, 1>(&x, &k);
    // 2^k in two halves, so that a subnormal result is rounded once and k = 1024 can overflow.
    Bits half = k >> 1;
    Vector<W> scale_a = (Vector<W>)((half + 1023) << 52);
    Vector<W> scale_b = (Vector<W>)((k - half + 1023) << 52);
    return vanishes ? Vector<W>{} : (x * scale_a) * scale_b;
}

// The same in place for N vectors of x <= 0, with 0 for what would be subnormal (x < -708).
template <int W, int N>
ALWAYS_INLINE void exp_of_negatives(Vector<W>* x) {
    using Bits = typename Lanes<W>::Bits;
    const Vector<W> least = broadcast<W>(-708.0);
    Bits vanishes[N], k[N];
    for (int i = 0; i < N; ++i) {
        vanishes[i] = x[i] < least;
        x[i] = vanishes[i] ? least : x[i];
    }
    reduced_exp<W, N>(x, k);
    for (int i = 0; i < N; ++i) x[i] = vanishes[i] ? Vector<W>{} : x[i] * (Vector<W>)((k[i] + 1023) << 52);
}

// log(x) for normal x > 0, and NaN: x = 2^k m, sqrt(1/2) <= m < sqrt(2), s = (m - 1) / (m + 1),
// log m = 2 (s + s^3 / 3 + s^5 / 5 + ...), to s^23 (|s| < 0.1716: remainder < 2^-60).
template <int W>
ALWAYS_INLINE Vector<W> log(Vector<W> x) {
    using Bits = typename Lanes<W>::Bits;
    constexpr double ln2_high = 0x1.62e42fefa3800p-1;
    constexpr double ln2_low = 0x1.ef35793c76730p-45;
    constexpr int64_t sqrt_half = 0x3fe6a09e667f3bcd;
    constexpr double integer = 0x1.8p52;
    constexpr double coefficients[] = {2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13,
                                       2.0 / 11, 2.0 / 9,  2.0 / 7,  2.0 / 5,  2.0 / 3};

    Bits shifted = (Bits)x - sqrt_half;
    Bits k = shifted >> 52;
    Vector<W> m = (Vector<W>)((shifted & 0x000fffffffffffff) + sqrt_half);
    Vector<W> exponent = (Vector<W>)(k + (Bits)broadcast<W>(integer)) - integer;

    Vector<W> f = m - 1.0;
    Vector<W> s = f / (f + 2.0);
    Vector<W> z = s * s;
    Vector<W> q = broadcast<W>(2.0 / 23);
    for (double coefficient : coefficients) q = q * z + coefficient;
    // 2 s = f - s f, written so that the leading term f stays exact.
    return x == x ? exponent * ln2_high + (f - (s * (f - q * z) - exponent * ln2_low)) : x;
}

// Maximum, sum, ... of all lanes, by halves.
template <int W, typename Op>
ALWAYS_INLINE double reduce(Vector<W> v, Op op) {
    if constexpr (W == 2) {
        return op(v[0], v[1]);
    } else {
        Vector<W / 2> low, high;
        std::memcpy(&low, &v, sizeof low);
        std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof high);
        return reduce<W / 2>(op(low, high), op);
    }
}

// The same of four vectors at once, by transposition: one vector of four results.
template <int W, typename Op>
ALWAYS_INLINE Vector<4> reduce4(Vector<W> a, Vector<W> b, Vector<W> c, Vector<W> d, Op op) {
    if constexpr (W == 8) {
        auto fold = [&](Vector<8> v) {
            Vector<4> low = __builtin_shufflevector(v, v, 0, 1, 2, 3), high = __builtin_shufflevector(v, v, 4, 5, 6, 7);
            return op(low, high);
        };
        return reduce4<4>(fold(a), fold(b), fold(c), fold(d), op);
    } else if constexpr (W == 4) {
        Vector<4> ab = op(__builtin_shufflevector(a, b, 0, 4, 2, 6), __builtin_shufflevector(a, b, 1, 5, 3, 7));
        Vector<4> cd = op(__builtin_shufflevector(c, d, 0, 4, 2, 6), __builtin_shufflevector(c, d, 1, 5, 3, 7));
        return op(__builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
    } else {
        Vector<2> ab = op(__builtin_shufflevector(a, b, 0, 2), __builtin_shufflevector(a, b, 1, 3));
        Vector<2> cd = op(__builtin_shufflevector(c, d, 0, 2), __builtin_shufflevector(c, d, 1, 3));
        return __builtin_shufflevector(ab, cd, 0, 1, 2, 3);
    }
}

// ---------------------------------------------------------------- arrays of any length

constexpr auto LARGER = [](auto x, auto y) { return x > y ? x : y; };
constexpr auto PLUS = [](auto x, auto y) { return x + y; };

// `neutral` is what the lanes beyond the end are given.
template <typename Function>
ALWAYS_INLINE void map_array(const double* x, double* out, int64_t n, double neutral, Function function) {
    int64_t i = 0;
    for (; i + NATIVE <= n; i += NATIVE) store<NATIVE>(out + i, function(load<NATIVE>(x + i)));
    if (i == n) return;
    double lane[NATIVE];
    for (int k = 0; k < NATIVE; ++k) lane[k] = i + k < n ? x[i + k] : neutral;
    store<NATIVE>(lane, function(load<NATIVE>(lane)));
    for (int k = 0; i + k < n; ++k) out[i + k] = lane[k];
}

void exp_array(const double* x, double* out, int64_t n) {
    map_array(x, out, n, 0.0, [](Vector<NATIVE> v) { return exp<NATIVE>(v); });
}

void log_array(const double* x, double* out, int64_t n) {
    map_array(x, out, n, 1.0, [](Vector<NATIVE> v) { return log<NATIVE>(v); });
}

// In place, x[0 .. n) <= 0; up to the next multiple of 4 * NATIVE there must be room.
void exp_of_negatives(double* x, int n) {
    for (int i = 0; i < n; i += 4 * NATIVE) {
        for (int k = n; k < i + 4 * NATIVE; ++k) x[k] = 0;
        Vector<NATIVE> y[4];
        for (int k = 0; k < 4; ++k) y[k] = load<NATIVE>(x + i + k * NATIVE);
        exp_of_negatives<NATIVE, 4>(y);
        for (int k = 0; k < 4; ++k) store<NATIVE>(x + i + k * NATIVE, y[k]);
    }
}

// Maximum, sum, ... of n >= 1 numbers.
template <typename Op>
ALWAYS_INLINE double reduce_array(const double* x, int n, Op op) {
    int i = 1;
    double out = x[0];
    if (n >= NATIVE) {
        Vector<NATIVE> lanes = load<NATIVE>(x);
        for (i = NATIVE; i + NATIVE <= n; i += NATIVE) lanes = op(lanes, load<NATIVE>(x + i));
        out = reduce<NATIVE>(lanes, op);
    }
    for (; i < n; ++i) out = op(out, x[i]);
    return out;
}

}  // namespace
}  // namespace fanbayes

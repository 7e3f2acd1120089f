// Short vectors of doubles, with the exponential and the logarithm of one.
//
// GCC and Clang lower these types to whatever the target has: a Vector<8> is one AVX-512
// register, two of AVX2 or four of SSE2 / NEON.
#pragma once

#include <cstdint>
#include <cstring>

#define ALWAYS_INLINE [[gnu::always_inline]] static inline

namespace {

template <int W>
struct Lanes;

#define DEFINE_LANES(W)                                                                  \
    template <>                                                                          \
    struct Lanes<W> {                                                                    \
        typedef double Real __attribute__((vector_size(W * 8)));                         \
        typedef int64_t Bits __attribute__((vector_size(W * 8)));                        \
        typedef double RealAnywhere __attribute__((vector_size(W * 8), aligned(8)));     \
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

// exp(x) = 2^k exp(r), k = round(x / ln 2), |r| <= ln(2) / 2, Taylor to r^13 (remainder < 2^-57).
// Within 2 ulp; subnormal results, 0, infinity and NaN come out as they should.
template <int W>
ALWAYS_INLINE Vector<W> exp(Vector<W> x) {
    using Bits = typename Lanes<W>::Bits;
    constexpr double log2_e = 0x1.71547652b82fep+0;
    constexpr double ln2_high = 0x1.62e42fefa3800p-1;  // 42 bits: k * ln2_high is exact
    constexpr double ln2_low = 0x1.ef35793c76730p-45;
    constexpr double to_integer = 0x1.8p52;  // adding it rounds to an integer, in the low bits

    // Outside of [-746, 710] the result no longer changes; NaN fails both comparisons and stays.
    Vector<W> low = broadcast<W>(-746.0), high = broadcast<W>(710.0);
    x = x < low ? low : x;
    x = x > high ? high : x;

    Vector<W> shifted = x * log2_e + to_integer;
    Vector<W> k = shifted - to_integer;
    Vector<W> r = (x - k * ln2_high) - k * ln2_low;

    Vector<W> q = broadcast<W>(1.0 / 6227020800.0);
    q = q * r + 1.0 / 479001600.0;
    q = q * r + 1.0 / 39916800.0;
    q = q * r + 1.0 / 3628800.0;
    q = q * r + 1.0 / 362880.0;
    q = q * r + 1.0 / 40320.0;
    q = q * r + 1.0 / 5040.0;
    q = q * r + 1.0 / 720.0;
    q = q * r + 1.0 / 120.0;
    q = q * r + 1.0 / 24.0;
    q = q * r + 1.0 / 6.0;
    q = q * r + 0.5;
    Vector<W> e = (q * r) * r + r + 1.0;

    // 2^k in two halves, so that a subnormal result is rounded once and k = 1024 can overflow.
    Bits n = (Bits)shifted - (Bits)broadcast<W>(to_integer);
    Bits half = n >> 1;
    Vector<W> scale_a = (Vector<W>)((half + 1023) << 52);
    Vector<W> scale_b = (Vector<W>)((n - half + 1023) << 52);
    return (e * scale_a) * scale_b;
}

// log(x) for normal x > 0: x = 2^k m, sqrt(1/2) <= m < sqrt(2), s = (m - 1) / (m + 1),
// log m = 2 (s + s^3 / 3 + s^5 / 5 + ...), to s^23 (|s| < 0.1716: remainder < 2^-60).
template <int W>
ALWAYS_INLINE Vector<W> log(Vector<W> x) {
    using Bits = typename Lanes<W>::Bits;
    constexpr double ln2_high = 0x1.62e42fefa3800p-1;
    constexpr double ln2_low = 0x1.ef35793c76730p-45;
    constexpr int64_t sqrt_half = 0x3fe6a09e667f3bcd;
    constexpr double integer = 0x1.8p52;

    Bits shifted = (Bits)x - sqrt_half;
    Bits k = shifted >> 52;
    Vector<W> m = (Vector<W>)((shifted & 0x000fffffffffffff) + sqrt_half);
    Vector<W> exponent = (Vector<W>)(k + (Bits)broadcast<W>(integer)) - integer;

    Vector<W> f = m - 1.0;
    Vector<W> s = f / (f + 2.0);
    Vector<W> z = s * s;
    Vector<W> q = broadcast<W>(2.0 / 23.0);
    q = q * z + 2.0 / 21.0;
    q = q * z + 2.0 / 19.0;
    q = q * z + 2.0 / 17.0;
    q = q * z + 2.0 / 15.0;
    q = q * z + 2.0 / 13.0;
    q = q * z + 2.0 / 11.0;
    q = q * z + 2.0 / 9.0;
    q = q * z + 2.0 / 7.0;
    q = q * z + 2.0 / 5.0;
    q = q * z + 2.0 / 3.0;
    // 2 s = f - s f, written so that the leading term f stays exact.
    return exponent * ln2_high + (f - (s * (f - q * z) - exponent * ln2_low));
}

// Horizontal reductions by halves.
template <int W>
ALWAYS_INLINE double sum(Vector<W> v) {
    if constexpr (W == 2) {
        return v[0] + v[1];
    } else {
        Vector<W / 2> low, high;
        std::memcpy(&low, &v, sizeof low);
        std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof high);
        return sum<W / 2>(low + high);
    }
}

template <int W>
ALWAYS_INLINE double maximum(Vector<W> v) {
    if constexpr (W == 2) {
        return v[0] > v[1] ? v[0] : v[1];
    } else {
        Vector<W / 2> low, high;
        std::memcpy(&low, &v, sizeof low);
        std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof high);
        return maximum<W / 2>(low > high ? low : high);
    }
}

}  // namespace

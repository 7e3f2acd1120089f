// Numbers as a view shows them (data/views.py): normal scores, decorrelated.
#pragma once

#include "kernel.hpp"
#include "vector.hpp"

namespace fanbayes {
namespace {

// The greatest k, of n - 1 at most, with at[k] <= x, or 0; n a power of two. Without a branch that depends on x.
ALWAYS_INLINE int64_t place_among(const double* at, int64_t n, double x) {
    int64_t k = 0;
    for (int64_t half = n / 2; half > 0; half /= 2) k += at[k + half] <= x ? half : 0;
    return k;
}

// Linear between knots, and on from the first and last two, within bounds; NaN stays. The numbers are `stride` apart.
void scores_of_column(const Scores& s, const double* at, const double* to, int64_t stride, int64_t n, double* x) {
    const int64_t last = s.n_knots - 1;
    for (int64_t i = 0; i < n * stride; i += stride) {
        int64_t k = place_among(at, s.n_knots, x[i]);
        k = k < last ? k : last - 1;
        const double score = to[k] + (to[k + 1] - to[k]) / (at[k + 1] - at[k]) * (x[i] - at[k]);
        const double above = score < -s.furthest ? -s.furthest : score;
        x[i] = above > s.furthest ? s.furthest : above;
    }
}

void to_scores(const Scores& s, int64_t n_rows, double* numbers) {
    for (int64_t j = 0; j < s.n_numbers; ++j) {
        const double* at = s.knots + 2 * j * s.n_knots;
        scores_of_column(s, at, at + s.n_knots, s.n_numbers, n_rows, numbers + j);
    }
}

// z W of N rows, NaN counting as 0 and coming out as NaN; `mixing` (n, padded) is a whole number of vectors a row.
template <int N>
ALWAYS_INLINE void mix_rows(const double* mixing, int64_t n, int64_t padded, const double* z, double* out) {
    for (int64_t at = 0; at < padded; at += NATIVE) {
        Vector<NATIVE> sum[N] = {};
        for (int64_t i = 0; i < n; ++i) {
            const Vector<NATIVE> of = load<NATIVE>(mixing + i * padded + at);
            for (int r = 0; r < N; ++r) {
                const double x = z[r * n + i];
                sum[r] += (x == x ? x : 0.0) * of;
            }
        }
        for (int r = 0; r < N; ++r)
            for (int k = 0; k < NATIVE && at + k < n; ++k) {
                const double x = z[r * n + at + k];
                out[r * n + at + k] = x == x ? sum[r][k] : x;
            }
    }
}

void mix(const double* mixing, int64_t n, int64_t padded, const double* z, int64_t n_rows, double* out) {
    constexpr int together = 4;
    int64_t i = 0;
    for (; i + together <= n_rows; i += together) mix_rows<together>(mixing, n, padded, z + i * n, out + i * n);
    for (; i < n_rows; ++i) mix_rows<1>(mixing, n, padded, z + i * n, out + i * n);
}

}  // namespace
}  // namespace fanbayes

// Trees of columns as codes (coded_trees.hpp): which of their ends rows reach, and what is said there.
#pragma once

#include "kernel.hpp"
#include "vector.hpp"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace fanbayes {
namespace {

#if defined(__AVX512F__)

// Tables of up to 64 words are looked up in registers, 16 rows at a time.
template <int N>
ALWAYS_INLINE void keep_ends_of(const uint8_t* codes, const uint32_t* words, uint32_t* left, int64_t n) {
    __m512i table[N];
    for (int k = 0; k < N; ++k) table[k] = _mm512_loadu_si512(words + 16 * k);
    for (int64_t i = 0; i < n; i += TREE_ROWS) {
        const __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i)));
        __m512i found;
        if constexpr (N == 1) {
            found = _mm512_permutexvar_epi32(code, table[0]);
        } else {
            found = _mm512_permutex2var_epi32(table[0], code, table[1]);
            if constexpr (N == 4) {
                const __mmask16 is_high = _mm512_test_epi32_mask(code, _mm512_set1_epi32(32));
                found = _mm512_mask_mov_epi32(found, is_high, _mm512_permutex2var_epi32(table[2], code, table[3]));
            }
        }
        _mm512_storeu_si512(left + i, _mm512_and_si512(_mm512_loadu_si512(left + i), found));
    }
}

void keep_ends(const uint8_t* codes, const uint32_t* words, int64_t n_words, uint32_t* left, int64_t n) {
    if (n_words <= 16) keep_ends_of<1>(codes, words, left, n);
    else if (n_words <= 32) keep_ends_of<2>(codes, words, left, n);
    else keep_ends_of<4>(codes, words, left, n);
}

void add_ends(const uint32_t* left, const float* values, int64_t n_classes, double* sums, int64_t n) {
    for (int64_t i = 0; i < n; i += TREE_ROWS) {
        const __m512i bit = _mm512_loadu_si512(left + i);
        const __mmask16 some = _mm512_test_epi32_mask(bit, bit);
        if (!some) continue;
        // The place of the only bit is the exponent of the number that it stands for.
        const __m512i exponent = _mm512_srli_epi32(_mm512_castps_si512(_mm512_cvtepu32_ps(bit)), 23);
        const __m512i end = _mm512_sub_epi32(exponent, _mm512_set1_epi32(127));
        for (int64_t c = 0; c < n_classes; ++c) {
            const float* own = values + c * MOST_ENDS;
            const __m512 said =
                _mm512_maskz_permutex2var_ps(some, _mm512_loadu_ps(own), end, _mm512_loadu_ps(own + 16));
            double* to = sums + c * n + i;
            const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(said));
            const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(said, 1));
            _mm512_storeu_pd(to, _mm512_add_pd(_mm512_loadu_pd(to), low));
            _mm512_storeu_pd(to + 8, _mm512_add_pd(_mm512_loadu_pd(to + 8), high));
        }
    }
}

// Single numbers of up to W classes as doubles; those of no class are neither read nor written.
template <int W>
struct Singles;

template <>
struct Singles<4> {
    using Sum = __m256d;
    __mmask8 classes;
    explicit Singles(int64_t n) : classes(n < 4 ? __mmask8((1 << n) - 1) : __mmask8(15)) {}
    Sum of(const float* p, bool is_there) const {
        return _mm256_cvtps_pd(_mm_maskz_loadu_ps(is_there ? classes : __mmask8(0), p));
    }
    Sum load(const double* p) const { return _mm256_maskz_loadu_pd(classes, p); }
    void store(double* p, Sum x) const { _mm256_mask_storeu_pd(p, classes, x); }
};

template <>
struct Singles<8> {
    using Sum = __m512d;
    __mmask8 classes;
    explicit Singles(int64_t n) : classes(n < 8 ? __mmask8((1 << n) - 1) : __mmask8(255)) {}
    Sum of(const float* p, bool is_there) const {
        return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(is_there ? classes : __mmask8(0), p));
    }
    Sum load(const double* p) const { return _mm512_maskz_loadu_pd(classes, p); }
    void store(double* p, Sum x) const { _mm512_mask_storeu_pd(p, classes, x); }
};

#else

void keep_ends(const uint8_t* codes, const uint32_t* words, int64_t, uint32_t* left, int64_t n) {
    for (int64_t i = 0; i < n; ++i) left[i] &= words[codes[i]];
}

void add_ends(const uint32_t* left, const float* values, int64_t n_classes, double* sums, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        if (left[i] == 0) continue;
        const int end = __builtin_ctz(left[i]);
        for (int64_t c = 0; c < n_classes; ++c) sums[c * n + i] += double(values[c * MOST_ENDS + end]);
    }
}

template <int W>
struct Singles {
    typedef float Anywhere __attribute__((vector_size(W * 4), aligned(4)));
    using Sum = Vector<W>;
    explicit Singles(int64_t) {}
    Sum of(const float* p, bool is_there) const {
        static const float nothing[W] = {};
        return __builtin_convertvector(*reinterpret_cast<const Anywhere*>(is_there ? p : nothing), Sum);
    }
    Sum load(const double* p) const { return fanbayes::load<W>(p); }
    void store(double* p, Sum x) const { fanbayes::store<W>(p, x); }
};

template <>
struct Singles<1> {
    using Sum = double;
    explicit Singles(int64_t) {}
    Sum of(const float* p, bool is_there) const { return is_there ? double(*p) : 0.0; }
    Sum load(const double* p) const { return *p; }
    void store(double* p, Sum x) const { *p = x; }
};

#endif

// Of up to W classes, the first of them `at`. A row's sum has to wait for the term before, but not for those of other
// rows.
template <int W>
void add_networks_of(const TreeNetworks& tree, int64_t at, double* sums) {
    constexpr int together = 4;
    const int64_t K = tree.n_classes;
    const Singles<W> classes(K - at);
    for (int64_t i = 0; i < tree.n_rows; i += together) {
        typename Singles<W>::Sum sum[together];
        const float* table[together];
        for (int r = 0; r < together; ++r) {
            sum[r] = classes.load(sums + (i + r) * K + at) + classes.of(tree.values[i + r] + at, true);
            table[r] = tree.tables[i + r] + at;
        }
        for (int64_t k = 0; k < tree.n_known; ++k) {
            const uint8_t* level = tree.levels + tree.known[k] * tree.n_rows + i;
            const int64_t first = tree.first_level[k];
            for (int r = 0; r < together; ++r)
                sum[r] += classes.of(table[r] + (first + level[r]) * K, level[r] != NO_LEVEL);
        }
        for (int r = 0; r < together; ++r) classes.store(sums + (i + r) * K + at, sum[r]);
    }
}

void add_networks(const TreeNetworks& tree, double* sums) {
    int64_t at = 0;
#if defined(__AVX512F__)
    for (; tree.n_classes - at > 4; at += 8) add_networks_of<8>(tree, at, sums);
    if (at < tree.n_classes) add_networks_of<4>(tree, at, sums);
#else
    for (; at + 8 <= tree.n_classes; at += 8) add_networks_of<8>(tree, at, sums);
    for (; at + 4 <= tree.n_classes; at += 4) add_networks_of<4>(tree, at, sums);
    for (; at + 2 <= tree.n_classes; at += 2) add_networks_of<2>(tree, at, sums);
    for (; at < tree.n_classes; ++at) add_networks_of<1>(tree, at, sums);
#endif
}

}  // namespace
}  // namespace fanbayes

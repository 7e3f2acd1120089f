// Scores of stars: sums of terms of pairs of columns, and what they add up to.
#pragma once

#include "kernel.hpp"
#include "vector.hpp"

namespace fanbayes {
namespace {

// Pairs of `B` columns, the first of them i, with each other and with all behind them, for W classes of a row, the first
// of them `at`: a term belongs to the stars of both columns. Terms of the B columns are added up before they go to
// another.
template <int W, int B>
ALWAYS_INLINE void add_pairs_of(const StarTile& tile, int64_t i, int64_t at, const uint32_t* levels, double* scores) {
    const int64_t n = tile.n_columns, P = W == 2 ? 2 : tile.width;
    const double* pairs[B];  // of the row's level of each of the B columns, by level
    Vector<W> own[B];
    for (int b = 0; b < B; ++b) {
        const int64_t behind = tile.first_level[n] - tile.first_level[i + b + 1];
        const int64_t level = int64_t(levels[i + b]) - tile.first_level[i + b] * P;
        pairs[b] = tile.pair + at + (tile.first_pair[i + b] * P + level * behind);
        own[b] = load<W>(scores + (i + b) * P);
    }
    auto term = [&](int b, int64_t j) INLINED {
        return load<W>(pairs[b] + (int64_t(levels[j]) - tile.first_level[i + b + 1] * P));
    };
    for (int b = 0; b < B; ++b)
        for (int a = 0; a < b; ++a) {
            const Vector<W> x = term(a, i + b);
            own[a] += x;
            own[b] += x;
        }
    for (int64_t j = i + B; j < n; ++j) {
        Vector<W> sum{};
        for (int b = 0; b < B; ++b) {
            const Vector<W> x = term(b, j);
            own[b] += x;
            sum += x;
        }
        store<W>(scores + j * P, load<W>(scores + j * P) + sum);
    }
    for (int b = 0; b < B; ++b) store<W>(scores + (i + b) * P, own[b]);
}

// Column by column, whose pairs stay in a near cache while all rows of the tile go through them.
template <int W, int B>
void add_pairs(const StarTile& tile, int64_t first, int64_t last) {
    const int64_t n = tile.n_columns, P = W == 2 ? 2 : tile.width;
    for (int64_t i = first; i < last; i += B)
        for (int64_t t = 0; t < tile.n_rows; ++t)
            for (int64_t at = 0; at < P; at += W)
                add_pairs_of<W, B>(tile, i, at, tile.levels + t * n, tile.scores + t * n * P + at);
}

template <int W>
void add_star_pairs(const StarTile& tile) {
    constexpr int together = 4;
    const int64_t whole = tile.n_columns / together * together;
    add_pairs<W, together>(tile, 0, whole);
    add_pairs<W, 1>(tile, whole, tile.n_columns);
}

template <int W>
void sum_stars(const StarTile& tile) {
    const int64_t n = tile.n_columns, P = tile.width;
    for (int64_t t = 0; t < tile.n_rows; ++t)
        for (int64_t at = 0; at < P; at += W) {
            double* scores = tile.scores + t * n * P + at;
            Vector<W> most = load<W>(scores);
            for (int64_t i = 1; i < n; ++i) most = LARGER(most, load<W>(scores + i * P));
            for (int64_t i = 0; i < n; ++i) store<W>(scores + i * P, load<W>(scores + i * P) - most);
            store<W>(tile.most + t * P + at, most);
        }
    exp_of_negatives(tile.scores, int(tile.n_rows * n * P));
    for (int64_t t = 0; t < tile.n_rows; ++t)
        for (int64_t at = 0; at < P; at += W) {
            Vector<W> sum{};
            for (int64_t i = 0; i < n; ++i) sum += load<W>(tile.scores + (t * n + i) * P + at);
            store<W>(tile.sums + t * P + at, sum);
        }
}

void add_star_pairs_of_any_width(const StarTile& tile) {
    if (tile.width == 2) add_star_pairs<2>(tile);
    else add_star_pairs<4>(tile);
}

void sum_stars_of_any_width(const StarTile& tile) {
    if (tile.width == 2) sum_stars<2>(tile);
    else sum_stars<4>(tile);
}

}  // namespace
}  // namespace fanbayes

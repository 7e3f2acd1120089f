// A mean of stars (AODE): in star i every other column depends on the class and on column i, its root.
#pragma once

#include "kernel.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fanbayes {

// Logs of counts, whose sums are the logs of the stars' probabilities. With L levels of n columns, "missing" the last
// of each, and a whole number P of vectors for the classes,
//
//     log p_i(c, x) = root[x_i][c] + sum_(j != i) pair[x_i, x_j][c] .
//
// pair[u, w] = log(F(c, u, w) + alpha) serves the stars of both columns, so half of the pairs do. root[u] is
// log p(c, u) - sum_j log(F(c, u; x_j observed) + alpha r_j), the denominators of all j; where x_j is missing, its
// denominator is given back, as pair[u, missing].
class Stars {
    const std::vector<int64_t> first_level_;  // (n + 1,)
    std::vector<int64_t> first_pair_;         // (n + 1,) where the pairs of a column and those behind it begin
    const size_t n_, C_, P_;
    size_t most_levels_ = 0;

    size_t behind(size_t i) const { return size_t(first_level_[n_] - first_level_[i + 1]); }

  public:
    const double* root = nullptr;  // (L, P)
    // For each column (its levels, levels of all columns behind it, P).
    const double* pair = nullptr;
    const uint8_t* part = nullptr;        // (L,) 0: a star with this root takes no part; 1: it does; 2: sum it out
    const double* independent = nullptr;  // (L, P): log p(x_j | c), 0 where missing: for rows that have no star
    const double* prior = nullptr;        // (P,): log p(c)

    // What a thread works in: a tile of rows.
    struct Room {
        std::vector<uint32_t> levels;          // (rows, n) of the flat axis, times P
        std::vector<uint8_t> is_plain;         // (rows,) whether all stars have a root, and take part
        std::vector<double> scores;            // (rows, n, P), and what the kernel needs behind it
        std::vector<double> work, most, sums;  // (most levels of a column, P), (rows, P), (rows, P)
    };

    // Doubles that the classes take up in the tables.
    static size_t width(size_t n_classes) { return n_classes <= 2 ? 2 : (n_classes + 3) / 4 * 4; }

    Stars(const std::vector<int64_t>& first_level, size_t n_classes);

    size_t n_columns() const { return n_; }
    size_t n_levels() const { return size_t(first_level_[n_]); }
    size_t n_pairs() const { return size_t(first_pair_[n_]); }
    // Rows that go through the pairs of a column together, while these are in a near cache.
    size_t tile() const;
    Room room(size_t n_rows) const;  // of so many rows at most

    // Log of the mean of the stars that take part, or what follows from it, of rows [begin, end): (C) a row.
    void posterior(const Table& rows, size_t begin, size_t end, Posterior what, double* out, Room& room) const;

  private:
    void load(const Table& rows, size_t begin, size_t n_rows, Room& room) const;
    size_t settle(size_t t, Room& room) const;
    void sum_out_root(size_t i, const uint32_t* levels, double* score, double* work) const;
};

}  // namespace fanbayes

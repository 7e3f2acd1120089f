// Statistics of pairs of columns within states: what arcs between features are learnt from.
#pragma once

#include "rows.hpp"
#include "thread_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fanbayes {

// Rows, each in one state and of a weight, as columns that lie one after the other: loops over rows stream.
//
// The statistics of a column v and of some others are blocks, one after the other in the order of `columns`, and are
// added to `out`. Threads share the other columns, and each sees the rows in their order: their number changes nothing.
class Pairs {
    using Columns = std::vector<size_t>;

    const size_t n_rows_, n_narrow_;
    std::vector<size_t> n_levels_;  // of the discrete columns, "missing" included
    std::vector<uint8_t> narrow_;   // (n_narrow, n_rows)
    std::vector<uint16_t> wide_;    // (n_wide, n_rows)
    std::vector<double> numbers_;   // (n_numbers, n_rows)
    std::vector<int32_t> states_;   // (n_rows,)
    std::vector<double> weights_;   // (n_rows,), or empty: all 1

    const double* number(size_t j) const { return numbers_.data() + j * n_rows_; }
    double weight(size_t i) const { return weights_.empty() ? 1.0 : weights_[i]; }
    template <typename Function>
    void with_codes(size_t j, const Function& function) const;

  public:
    const size_t n_discrete, n_numbers, n_states;

    // Rows of which each code stands for one column; their labels are the states.
    Pairs(const Rows& rows, int n_states);
    Pairs(const Pairs&) = delete;

    size_t n_levels(size_t j) const { return n_levels_[j]; }

    // Two discrete columns: (levels of v, levels of j, states), weights.
    void counts(size_t v, const Columns& columns, double* out, ThreadPool& pool) const;
    // A discrete column and a number: (levels of v, 3, states), N, sum x and sum x^2 where x is there.
    void moments(size_t v, const Columns& columns, double* out, ThreadPool& pool) const;
    // Two numbers: (6, states), N, sum x_v, sum x_j, sum x_v^2, sum x_j^2 and sum x_v x_j where both are there.
    void products(size_t v, const Columns& columns, double* out, ThreadPool& pool) const;
};

}  // namespace fanbayes

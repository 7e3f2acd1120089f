// Encoded rows and states, checked: what the kernels are told to work on.
#pragma once

#include "kernel.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace fanbayes {

void require(bool condition, const char* message);  // throws std::invalid_argument

inline void add(const double* from, size_t n, double* to) {
    for (size_t i = 0; i < n; ++i) to[i] += from[i];
}

// Encoded rows; whoever makes them keeps the arrays alive. A narrow code may stand for several discrete columns at
// once, its *group*: columns group[g] .. group[g + 1] - 1, the first of them the most significant digit.
class Rows {
    std::vector<int64_t> first_level_;  // of the columns, and the end
    std::vector<int32_t> group_;
    std::vector<int64_t> first_fused_;  // of the groups and of the wide columns, and the end
    std::vector<uint8_t> incomplete_;   // empty if no number and no pair is missing

    void set_levels();
    void check_codes() const;
    void find_incomplete();
    void check_labels();
    int64_t levels_of(int column) const { return first_level_[size_t(column) + 1] - first_level_[size_t(column)]; }
    std::pair<int, int> columns_of(size_t code) const;  // the first, and the one after the last

  public:
    const int64_t n_rows;
    Table table;
    int64_t last_label = -1;  // the largest

    // `arrays` is the table without what is found out here: `first_level` and `incomplete`.
    Rows(int64_t n_rows, const Table& arrays, std::vector<int64_t> first_level, std::vector<int32_t> group);
    Rows(const Rows&) = delete;

    size_t n_levels() const { return size_t(first_level_.back()); }
    size_t n_fused() const { return size_t(first_fused_.back()); }
    size_t n_numbers() const { return size_t(table.n_numbers); }
    size_t n_regressions() const { return size_t(table.n_regressions); }
    size_t n_cell_statistics() const { return n_levels() + 3 * n_numbers() + 6 * n_regressions(); }

    // Where the levels of each discrete column end; the last of them is "missing".
    std::span<const int64_t> level_ends() const { return std::span(first_level_).subspan(1); }

    // Rows of `width` doubles, one a level of the columns -> one a level of the fused axis: the sum of its columns'.
    void fuse(const double* levels, size_t width, double* fused) const;
    // Statistics of the fused axis, which are spoilt -> of the columns' levels, by summation over the other columns.
    void unfuse(double* fused, size_t width, double* levels) const;
};

struct States {
    std::vector<int32_t> first_state, first_cell;
    int n_cells, n_components = 0;
    bool common;

    States(std::vector<int32_t> first_state, std::vector<int32_t> first_cell, int n_cells, bool common);

    Shape shape() const {
        return {int(first_cell.size()), first_state.back(), n_cells, n_components, common,
                first_state.data(),     first_cell.data()};
    }
};

}  // namespace fanbayes

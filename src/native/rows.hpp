// Tables and states as Python gives them, checked: what the kernels are told to look at.
#pragma once

#include "kernel.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace nb = nanobind;

template <typename T, int D>
using In = nb::ndarray<const T, nb::ndim<D>, nb::c_contig, nb::device::cpu>;

inline void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

inline void add(const double* from, size_t n, double* to) {
    for (size_t i = 0; i < n; ++i) to[i] += from[i];
}

// Encoded rows. A narrow code may stand for several discrete columns at once, its *group*: columns
// group[g] .. group[g + 1] - 1, the first of them the most significant digit.
struct Rows {
    In<uint8_t, 2> narrow;
    In<uint16_t, 2> wide;
    In<double, 2> numbers;
    std::vector<int64_t> first_level;  // of the columns
    std::vector<int64_t> first_fused;  // of the groups and of the wide columns
    std::vector<int32_t> group;
    std::optional<In<int32_t, 1>> labels;
    std::optional<In<double, 1>> weights;
    std::vector<uint8_t> incomplete;  // 1 where a row lacks a number; empty if none does
    int64_t n_rows, n_levels, last_label = -1;

    Rows(In<uint8_t, 2> narrow_, In<uint16_t, 2> wide_, In<double, 2> numbers_, std::vector<int64_t> first_level_,
         std::vector<int32_t> group_, std::optional<In<int32_t, 1>> labels_, std::optional<In<double, 1>> weights_)
        : narrow(narrow_),
          wide(wide_),
          numbers(numbers_),
          first_level(std::move(first_level_)),
          group(std::move(group_)),
          labels(labels_),
          weights(weights_) {
        n_rows = int64_t(narrow.shape(0));
        require(wide.shape(0) == narrow.shape(0) && numbers.shape(0) == narrow.shape(0) &&
                    (!labels || labels->shape(0) == narrow.shape(0)) &&
                    (!weights || weights->shape(0) == narrow.shape(0)),
                "all blocks of a table need the same number of rows");
        const size_t n_narrow = narrow.shape(1), n_wide = wide.shape(1);
        require(group.size() == n_narrow + 1 && group[0] == 0, "group needs one entry more than narrow codes");
        require(first_level.size() == size_t(group.back()) + n_wide + 1 && first_level[0] == 0,
                "first_level needs one entry more than discrete columns");
        for (size_t j = 0; j + 1 < first_level.size(); ++j)
            require(first_level[j + 1] > first_level[j], "first_level must increase");
        n_levels = first_level.back();
        first_fused.push_back(0);
        for (size_t g = 0; g < n_narrow; ++g) {
            require(group[g + 1] > group[g], "a group needs a column");
            int64_t size = 1;
            for (int j = group[g]; j < group[g + 1]; ++j) {
                size *= levels_of(j);
                require(size <= 1 << 20, "a group has too many levels");
            }
            first_fused.push_back(first_fused.back() + size);
        }
        for (size_t j = 0; j < n_wide; ++j)
            first_fused.push_back(first_fused.back() + levels_of(group.back() + int(j)));
        // A code outside of its levels would read and write foreign memory: looked at once, here.
        bool inside = true;
        for (size_t i = 0; i < size_t(n_rows); ++i) {
            for (size_t g = 0; g < n_narrow; ++g)
                inside &= narrow.data()[i * n_narrow + g] < first_fused[g + 1] - first_fused[g];
            for (size_t j = 0; j < n_wide; ++j)
                inside &= wide.data()[i * n_wide + j] < first_fused[n_narrow + j + 1] - first_fused[n_narrow + j];
        }
        const size_t n_numbers = numbers.shape(1);
        incomplete.resize(n_numbers ? size_t(n_rows) : 0);
        bool complete = true;
        for (size_t i = 0; i < incomplete.size(); ++i) {
            int missing = 0;
            for (size_t j = 0; j < n_numbers; ++j) missing += std::isnan(numbers.data()[i * n_numbers + j]);
            incomplete[i] = missing > 0;
            complete &= missing == 0;
        }
        if (complete) std::vector<uint8_t>().swap(incomplete);
        require(inside, "a code lies outside of its column's levels");
        if (labels)
            for (size_t i = 0; i < size_t(n_rows); ++i) {
                require((*labels)(i) >= -1, "labels are -1 or a class");
                last_label = std::max<int64_t>(last_label, (*labels)(i));
            }
    }

    int64_t levels_of(int column) const { return first_level[size_t(column) + 1] - first_level[size_t(column)]; }
    int64_t n_fused() const { return first_fused.back(); }

    Table view() const {
        return {narrow.data(),
                wide.data(),
                numbers.data(),
                incomplete.empty() ? nullptr : incomplete.data(),
                labels ? labels->data() : nullptr,
                weights ? weights->data() : nullptr,
                first_fused.data(),
                int(narrow.shape(1)),
                int(wide.shape(1)),
                int(numbers.shape(1))};
    }

    // Rows of `width` doubles, one a level of the columns -> one a level of the fused axis: the sum of its columns'.
    void fuse(const double* levels, size_t width, double* fused) const {
        for (size_t g = 0; g + 1 < first_fused.size(); ++g) {
            double* out = fused + size_t(first_fused[g]) * width;
            const auto [begin, end] = columns_of(g);
            size_t done = size_t(levels_of(begin));
            std::copy_n(levels + size_t(first_level[size_t(begin)]) * width, done * width, out);
            for (int j = begin + 1; j < end; ++j) {
                // From the back, so that nothing is overwritten before it is read.
                const double* digit = levels + size_t(first_level[size_t(j)]) * width;
                const size_t size = size_t(levels_of(j));
                for (size_t f = done; f-- > 0;)
                    for (size_t v = size; v-- > 0;)
                        for (size_t k = 0; k < width; ++k)
                            out[(f * size + v) * width + k] = out[f * width + k] + digit[v * width + k];
                done *= size;
            }
        }
    }

    // Statistics of the fused axis, which are spoilt -> of the columns' levels, by summation over the other columns.
    void unfuse(double* fused, size_t width, double* levels) const {
        std::fill_n(levels, size_t(n_levels) * width, 0.0);
        for (size_t g = 0; g + 1 < first_fused.size(); ++g) {
            double* in = fused + size_t(first_fused[g]) * width;
            size_t left = size_t(first_fused[g + 1] - first_fused[g]);
            const auto [begin, end] = columns_of(g);
            for (int j = end - 1; j > begin; --j) {
                double* digit = levels + size_t(first_level[size_t(j)]) * width;
                const size_t size = size_t(levels_of(j));
                left /= size;
                for (size_t f = 0; f < left; ++f) {
                    const double* from = in + f * size * width;
                    add(from, size * width, digit);
                    std::copy_n(from, width, in + f * width);
                    for (size_t v = 1; v < size; ++v) add(from + v * width, width, in + f * width);
                }
            }
            std::copy_n(in, left * width, levels + size_t(first_level[size_t(begin)]) * width);
        }
    }

    // First column of a code, and the one after its last.
    std::pair<int, int> columns_of(size_t code) const {
        const size_t n_narrow = group.size() - 1;
        if (code < n_narrow) return {group[code], group[code + 1]};
        const int column = group.back() + int(code - n_narrow);
        return {column, column + 1};
    }
};

struct States {
    std::vector<int32_t> first_state, first_cell;
    int n_cells, n_components = 0;
    bool common;

    States(std::vector<int32_t> first_state_, std::vector<int32_t> first_cell_, int n_cells_, bool common_)
        : first_state(std::move(first_state_)), first_cell(std::move(first_cell_)), n_cells(n_cells_), common(common_) {
        require(!first_cell.empty() && first_state.size() == first_cell.size() + 1 && first_state[0] == 0,
                "first_state needs one entry more than classes");
        const bool shared = n_cells < first_state.back();
        for (size_t c = 0; c < first_cell.size(); ++c) {
            const int states = first_state[c + 1] - first_state[c];
            require(states > 0, "a class needs at least one state");
            require(!shared || states == n_cells, "cells are shared by classes that have a state for each");
            require(first_cell[c] == (shared ? 0 : first_state[c]) && first_cell[c] + states <= n_cells,
                    "cells are either one per state or shared by all classes");
            n_components = std::max(n_components, states);
        }
    }

    Shape view(int64_t n_levels) const {
        return {int(first_cell.size()), first_state.back(), n_cells, n_components, common, n_levels,
                first_state.data(), first_cell.data()};
    }
};

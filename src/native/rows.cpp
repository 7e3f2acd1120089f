#include "rows.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace fanbayes {

void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

Rows::Rows(int64_t n_rows_, const Table& arrays, std::vector<int64_t> first_level, std::vector<int32_t> group)
    : first_level_(std::move(first_level)), group_(std::move(group)), n_rows(n_rows_), table(arrays) {
    set_levels();
    check_codes();
    find_incomplete();
    check_labels();
}

void Rows::set_levels() {
    const size_t n_narrow = size_t(table.n_narrow), n_wide = size_t(table.n_wide);
    require(group_.size() == n_narrow + 1 && group_[0] == 0, "group needs one entry more than narrow codes");
    require(first_level_.size() == size_t(group_.back()) + n_wide + 1 && first_level_[0] == 0,
            "first_level needs one entry more than discrete columns");
    for (size_t g = 0; g < n_narrow; ++g) require(group_[g + 1] > group_[g], "a group needs a column");
    for (size_t j = 0; j + 1 < first_level_.size(); ++j)
        require(first_level_[j + 1] > first_level_[j], "first_level must increase");
    first_fused_.push_back(0);
    for (size_t g = 0; g < n_narrow + n_wide; ++g) {
        const auto [begin, end] = columns_of(g);
        int64_t size = 1;
        for (int j = begin; j < end; ++j) {
            size *= levels_of(j);
            require(size <= 1 << 20, "a group has too many levels");
        }
        first_fused_.push_back(first_fused_.back() + size);
    }
    table.first_level = first_fused_.data();
}

// A code outside of its levels would read and write foreign memory: checked once, here.
void Rows::check_codes() const {
    bool inside = true;
    auto check = [&](const auto* codes, size_t n, const int64_t* first) {
        for (size_t i = 0; i < size_t(n_rows); ++i)
            for (size_t j = 0; j < n; ++j) inside &= codes[i * n + j] < first[j + 1] - first[j];
    };
    check(table.narrow, size_t(table.n_narrow), table.first_level);
    check(table.wide, size_t(table.n_wide), table.first_level + table.n_narrow);
    require(inside, "a code lies outside of its column's levels");
}

void Rows::find_incomplete() {
    const size_t J = n_numbers(), P = n_regressions();
    std::vector<uint8_t> incomplete(J + P ? size_t(n_rows) : 0);
    bool any = false;
    for (size_t i = 0; i < incomplete.size(); ++i) {
        int missing = 0;
        for (size_t j = 0; j < J; ++j) missing += std::isnan(table.numbers[i * J + j]);
        for (size_t j = 0; j < P; ++j) {
            const double* pair = table.pairs + 2 * (i * P + j);
            require(std::isnan(pair[0]) == std::isnan(pair[1]), "a pair is missing as a whole");
            missing += std::isnan(pair[0]);
        }
        incomplete[i] = missing > 0;
        any |= missing > 0;
    }
    if (any) incomplete_ = std::move(incomplete);
    table.incomplete = any ? incomplete_.data() : nullptr;
}

void Rows::check_labels() {
    for (int64_t i = 0; i < n_rows && table.labels; ++i) {
        require(table.labels[i] >= -1, "labels are -1 or a class");
        last_label = std::max<int64_t>(last_label, table.labels[i]);
    }
}

std::pair<int, int> Rows::columns_of(size_t code) const {
    const size_t n_narrow = group_.size() - 1;
    if (code < n_narrow) return {group_[code], group_[code + 1]};
    const int column = group_.back() + int(code - n_narrow);
    return {column, column + 1};
}

void Rows::fuse(const double* levels, size_t width, double* fused) const {
    for (size_t g = 0; g + 1 < first_fused_.size(); ++g) {
        double* out = fused + size_t(first_fused_[g]) * width;
        const auto [begin, end] = columns_of(g);
        size_t done = size_t(levels_of(begin));
        std::copy_n(levels + size_t(first_level_[size_t(begin)]) * width, done * width, out);
        for (int j = begin + 1; j < end; ++j) {
            // From the back, so that nothing is overwritten before it is read.
            const double* digit = levels + size_t(first_level_[size_t(j)]) * width;
            const size_t size = size_t(levels_of(j));
            for (size_t f = done; f-- > 0;)
                for (size_t v = size; v-- > 0;)
                    for (size_t k = 0; k < width; ++k)
                        out[(f * size + v) * width + k] = out[f * width + k] + digit[v * width + k];
            done *= size;
        }
    }
}

void Rows::unfuse(double* fused, size_t width, double* levels) const {
    std::fill_n(levels, n_levels() * width, 0.0);
    for (size_t g = 0; g + 1 < first_fused_.size(); ++g) {
        double* in = fused + size_t(first_fused_[g]) * width;
        size_t left = size_t(first_fused_[g + 1] - first_fused_[g]);
        const auto [begin, end] = columns_of(g);
        for (int j = end - 1; j > begin; --j) {
            double* digit = levels + size_t(first_level_[size_t(j)]) * width;
            const size_t size = size_t(levels_of(j));
            left /= size;
            for (size_t f = 0; f < left; ++f) {
                const double* from = in + f * size * width;
                add(from, size * width, digit);
                std::copy_n(from, width, in + f * width);
                for (size_t v = 1; v < size; ++v) add(from + v * width, width, in + f * width);
            }
        }
        std::copy_n(in, left * width, levels + size_t(first_level_[size_t(begin)]) * width);
    }
}

States::States(std::vector<int32_t> first_state_, std::vector<int32_t> first_cell_, int n_cells_, bool common_)
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

}  // namespace fanbayes

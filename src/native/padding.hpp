// Memory for the kernels: aligned, with the states of each class padded to whole vectors.
#pragma once

#include "kernel.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <vector>

namespace fanbayes {

// Doubles on a boundary of 64 bytes, not initialised but for the SLACK behind them.
class Buffer {
    struct Free {
        void operator()(double* p) const { ::operator delete[](p, std::align_val_t(64)); }
    };
    std::unique_ptr<double[], Free> data_;

  public:
    explicit Buffer(size_t n) : data_(static_cast<double*>(::operator new[]((n + SLACK) * 8, std::align_val_t(64)))) {
        std::fill_n(data_.get() + n, SLACK, 0.0);
    }
    double* data() const { return data_.get(); }
};

inline size_t aligned(size_t n) { return (n + 7) / 8 * 8; }

// Copies between arrays whose classes have their own numbers of states (Python's) and arrays in which
// each class has the same, padded, number (what the E-step wants).
class Padding {
    Shape from_;
    std::vector<int32_t> first_state_, first_cell_;

    template <typename Copy>
    void for_states(Copy copy) const {
        for (int c = 0; c < shape.n_classes; ++c)
            copy(from_.first_state[c], first_state_[size_t(c)], from_.first_state[c + 1] - from_.first_state[c]);
    }

    template <typename Copy>
    void for_cells(size_t rows, Copy copy) const {
        const size_t K = size_t(from_.n_cells), wide = size_t(shape.n_cells);
        for (size_t i = 0; i < rows; ++i) {
            if (from_.n_cells < from_.n_states) copy(i * K, i * wide, K);
            else for_states([&](int a, int b, int n) { copy(i * K + size_t(a), i * wide + size_t(b), size_t(n)); });
        }
    }

  public:
    Shape shape;

    explicit Padding(const Shape& from) : from_(from), shape(from) {
        const int width = kernel->padded_components(from.n_components), C = from.n_classes;
        const bool shared = from.n_cells < from.n_states;
        for (int c = 0; c <= C; ++c) first_state_.push_back(c * width);
        for (int c = 0; c < C; ++c) first_cell_.push_back(shared ? 0 : c * width);
        shape.n_states = C * width;
        shape.n_cells = shared ? width : C * width;
        shape.n_components = width;
        shape.first_state = first_state_.data();
        shape.first_cell = first_cell_.data();
    }

    void widen_states(const double* narrow, double* wide) const {
        std::fill_n(wide, shape.n_states, -INFINITY);
        for_states([&](int a, int b, int n) { std::copy_n(narrow + a, n, wide + b); });
    }

    void narrow_states(const double* wide, double* narrow) const {
        for_states([&](int a, int b, int n) { std::copy_n(wide + b, n, narrow + a); });
    }

    void widen_cells(size_t rows, const double* narrow, double* wide) const {
        for_cells(rows, [&](size_t a, size_t b, size_t n) { std::copy_n(narrow + a, n, wide + b); });
    }

    void narrow_cells(size_t rows, const double* wide, double* narrow) const {
        for_cells(rows, [&](size_t a, size_t b, size_t n) { std::copy_n(wide + b, n, narrow + a); });
    }
};

}  // namespace fanbayes

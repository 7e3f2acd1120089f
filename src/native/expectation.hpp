// The E-step of several networks: blocks of rows, shared by threads.
#pragma once

#include "crew.hpp"
#include "rows.hpp"

#include <memory>
#include <new>

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
// each class has the same, padded, number (what `expect` wants).
class Padding {
    Shape from_;
    std::vector<int32_t> first_state_, first_cell_;

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

    template <typename Copy>
    void for_states(Copy copy) const {
        for (int c = 0; c < shape.n_classes; ++c)
            copy(from_.first_state[c], first_state_[size_t(c)], from_.first_state[c + 1] - from_.first_state[c]);
    }

    void widen_states(const double* narrow, double* wide) const {
        std::fill_n(wide, shape.n_states, -INFINITY);
        for_states([&](int a, int b, int n) { std::copy_n(narrow + a, n, wide + b); });
    }

    void narrow_states(const double* wide, double* narrow) const {
        for_states([&](int a, int b, int n) { std::copy_n(wide + b, n, narrow + a); });
    }

    template <typename Copy>
    void for_cells(size_t rows, Copy copy) const {
        const size_t K = size_t(from_.n_cells), wide = size_t(shape.n_cells);
        for (size_t i = 0; i < rows; ++i) {
            if (from_.n_cells < from_.n_states)
                copy(i * K, i * wide, K);
            else
                for_states([&](int a, int b, int n) { copy(i * K + size_t(a), i * wide + size_t(b), size_t(n)); });
        }
    }

    void widen_cells(size_t rows, const double* narrow, double* wide) const {
        for_cells(rows, [&](size_t a, size_t b, size_t n) { std::copy_n(narrow + a, n, wide + b); });
    }

    void narrow_cells(size_t rows, const double* wide, double* narrow) const {
        for_cells(rows, [&](size_t a, size_t b, size_t n) { std::copy_n(wide + b, n, narrow + a); });
    }
};

// How many rows E-steps have looked at so far, once for each network.
inline std::atomic<int64_t> rows_visited{0};

// Rows of a network whose state is in doubt, and what the others add up to: they need not be looked at each time.
struct Doubt {
    std::vector<int32_t> rows;  // the first `n_rows` of it
    int64_t n_rows = 0;
    Statistics settled{};       // of all other rows, at the parameters that they were looked at with
};

// All rows, all with the doubtful parted from the settled, or the doubtful rows only.
enum class Sight { all, parting, doubtful };

struct Visit {
    Network network;
    Statistics* out;  // is overwritten; without the settled rows, unless all rows go to one place
    Sight sight = Sight::all;
    Doubt* doubt = nullptr;
};

// Pass after pass over the same rows, without allocation. Rows are cut into blocks, and statistics added up in the
// order of the blocks: the result does not depend on the crew.
class Expectation {
    const Rows& rows_;
    const Table table_;
    const Padding padding_;
    Crew& crew_;
    size_t n_networks_, n_blocks_;
    int64_t begin_, end_;
    // Parameters of a network, then statistics of a block: states, classes, numbers, fused levels; and room to work in.
    size_t at_classes_, at_numbers_, at_levels_, at_rest_, size_of_network_, n_collectors_, size_of_block_;
    Buffer networks_, blocks_;

    struct Task {
        size_t visit, block, n_blocks;
        bool parts;
        Statistics statistics, settled;
        Look look;
    };
    std::vector<Task> tasks_;         // the blocks of each visit in turn
    std::vector<size_t> first_task_;  // of each visit, and the end

    double* network(size_t s) const { return networks_.data() + s * size_of_network_; }
    double* block(size_t s, size_t b) const { return blocks_.data() + (s * n_blocks_ + b) * size_of_block_; }
    Statistics collector(double* at) const {
        return {at, at + at_levels_, at + at_numbers_, at + at_classes_, 0, 0, 0};
    }
    void finish(double* wide, double* levels, Statistics& to) const;

  public:
    const Shape shape;

    // `parts`: whether rows will be parted.
    Expectation(const Rows& rows, const States& states, size_t n_networks, int64_t begin, int64_t end, size_t n_blocks,
                bool parts, Crew& crew);
    Expectation(const Expectation&) = delete;

    int64_t n_rows() const { return end_ - begin_; }
    void operator()(std::vector<Visit>& visits, bool hard);
};

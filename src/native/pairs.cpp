#include "pairs.hpp"

#include <algorithm>
#include <cmath>

namespace fanbayes {
namespace {

// Columns that are counted in one loop. An addition to a cell waits for the one before to the same cell, which in one
// column alone is often that of the row before.
constexpr size_t TOGETHER = 4;

template <typename T>
std::vector<T> by_column(const T* rows, size_t n_rows, size_t n_columns) {
    constexpr size_t tile = 64;
    std::vector<T> columns(n_rows * n_columns);
    for (size_t begin = 0; begin < n_rows; begin += tile)
        for (size_t j = 0, end = std::min(begin + tile, n_rows); j < n_columns; ++j)
            for (size_t i = begin; i < end; ++i) columns[j * n_rows + i] = rows[i * n_columns + j];
    return columns;
}

std::vector<size_t> differences(const int64_t* first, size_t n) {
    std::vector<size_t> sizes(n);
    for (size_t j = 0; j < n; ++j) sizes[j] = size_t(first[j + 1] - first[j]);
    return sizes;
}

template <typename J>
struct Counted {
    const J* codes;
    size_t n_levels;
    double* out;
};

template <size_t N, typename V, typename J>
void count(size_t n_rows, const V* v, const int32_t* states, size_t n_states, const double* weights,
           const Counted<J>* columns) {
    Counted<J> to[N];
    std::copy_n(columns, N, to);
    auto loop = [&](auto weight) {
        for (size_t i = 0; i < n_rows; ++i) {
            const size_t value = v[i], state = size_t(states[i]);
            const double w = weight(i);
            for (size_t k = 0; k < N; ++k)
                to[k].out[(value * to[k].n_levels + to[k].codes[i]) * n_states + state] += w;
        }
    };
    if (weights) loop([=](size_t i) { return weights[i]; });
    else loop([](size_t) { return 1.0; });
}

template <typename V, typename J>
void count_some(size_t n, size_t n_rows, const V* v, const int32_t* states, size_t n_states, const double* weights,
                const Counted<J>* columns) {
    static_assert(TOGETHER == 4);
    switch (n) {
        case 1: return count<1>(n_rows, v, states, n_states, weights, columns);
        case 2: return count<2>(n_rows, v, states, n_states, weights, columns);
        case 3: return count<3>(n_rows, v, states, n_states, weights, columns);
        default: return count<4>(n_rows, v, states, n_states, weights, columns);
    }
}

}  // namespace

Pairs::Pairs(const Rows& rows, int n_states_)
    : n_rows_(size_t(rows.n_rows)),
      n_narrow_(size_t(rows.table.n_narrow)),
      n_levels_(differences(rows.table.first_level, n_narrow_ + size_t(rows.table.n_wide))),
      narrow_(by_column(rows.table.narrow, n_rows_, n_narrow_)),
      wide_(by_column(rows.table.wide, n_rows_, size_t(rows.table.n_wide))),
      numbers_(by_column(rows.table.numbers, n_rows_, rows.n_numbers())),
      n_discrete(n_levels_.size()),
      n_numbers(rows.n_numbers()),
      n_states(size_t(n_states_)) {
    const Table& table = rows.table;
    // With at most 2^20 levels of a column (Rows), no size overflows.
    require(0 < n_states_ && n_states_ <= 1 << 16, "one state at least, and 65536 at most");
    require(table.labels != nullptr, "a state for each row");
    states_.assign(table.labels, table.labels + n_rows_);
    for (int32_t state : states_) require(0 <= state && state < n_states_, "a state lies outside of the states");
    if (table.weights) weights_.assign(table.weights, table.weights + n_rows_);
}

template <typename Function>
void Pairs::with_codes(size_t j, const Function& function) const {
    if (j < n_narrow_) function(narrow_.data() + j * n_rows_);
    else function(wide_.data() + (j - n_narrow_) * n_rows_);
}

void Pairs::counts(size_t v, const Columns& columns, double* out, ThreadPool& pool) const {
    // Columns of one kind of code that are counted together, and where.
    struct Batch {
        size_t n = 0, columns[TOGETHER];
        double* out[TOGETHER];
    };
    std::vector<Batch> narrow, wide;
    for (size_t j : columns) {
        std::vector<Batch>& batches = j < n_narrow_ ? narrow : wide;
        if (batches.empty() || batches.back().n == TOGETHER) batches.emplace_back();
        Batch& batch = batches.back();
        batch.columns[batch.n] = j;
        batch.out[batch.n++] = out;
        out += n_levels_[v] * n_levels_[j] * n_states;
    }
    narrow.insert(narrow.end(), wide.begin(), wide.end());
    pool.run(int64_t(narrow.size()), [&](int64_t task) {
        const Batch& batch = narrow[size_t(task)];
        with_codes(v, [&](const auto* of_v) {
            with_codes(batch.columns[0], [&]<typename J>(const J* first) {
                Counted<J> counted[TOGETHER];
                for (size_t k = 0; k < batch.n; ++k) {
                    const size_t j = batch.columns[k];
                    counted[k] = {first + (j - batch.columns[0]) * n_rows_, n_levels_[j], batch.out[k]};
                }
                count_some(batch.n, n_rows_, of_v, states_.data(), n_states,
                           weights_.empty() ? nullptr : weights_.data(), counted);
            });
        });
    });
}

void Pairs::moments(size_t v, const Columns& columns, double* out, ThreadPool& pool) const {
    const size_t size = n_levels_[v] * 3 * n_states;
    pool.run(int64_t(columns.size()), [&](int64_t k) {
        const double* x = number(columns[size_t(k)]);
        double* block = out + size_t(k) * size;
        with_codes(v, [&](const auto* codes) {
            for (size_t i = 0; i < n_rows_; ++i) {
                if (std::isnan(x[i])) continue;
                double* to = block + codes[i] * 3 * n_states + size_t(states_[i]);
                const double w = weight(i), wx = w * x[i];
                to[0] += w;
                to[n_states] += wx;
                to[2 * n_states] += wx * x[i];
            }
        });
    });
}

void Pairs::products(size_t v, const Columns& columns, double* out, ThreadPool& pool) const {
    const double* x = number(v);
    pool.run(int64_t(columns.size()), [&](int64_t k) {
        const double* y = number(columns[size_t(k)]);
        double* block = out + size_t(k) * 6 * n_states;
        for (size_t i = 0; i < n_rows_; ++i) {
            if (std::isnan(x[i]) || std::isnan(y[i])) continue;
            const double w = weight(i), wx = w * x[i], wy = w * y[i];
            const double terms[6] = {w, wx, wy, wx * x[i], wy * y[i], wx * y[i]};
            double* to = block + size_t(states_[i]);
            for (size_t t = 0; t < 6; ++t) to[t * n_states] += terms[t];
        }
    });
}

}  // namespace fanbayes

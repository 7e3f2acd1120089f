// log p(s, x) of several rows at once: the loop that the E-step and the posterior share.
#pragma once

#include "kernel.hpp"
#include "vector.hpp"

namespace fanbayes {
namespace {

constexpr int MOST_IN_TILE = 32, TILE = 2048;  // rows, and numbers, that are kept in the nearest cache

inline int padded(int n) { return (n + NATIVE - 1) / NATIVE * NATIVE; }

int rows_in_tile(int n_states) {
    const int fit = TILE / n_states;
    return fit < 4 ? 4 : fit > MOST_IN_TILE ? MOST_IN_TILE : fit;
}

// Doubles for the states of a tile; exponentials are taken of several vectors at once.
int64_t room_for_tile(int n_states) { return (4 * n_states > TILE ? 4 * n_states : TILE) + 4 * NATIVE; }

template <int N>
struct Number {
    constexpr operator int() const { return N; }
};

// The states that a row may be in: those of its class, or all. In what follows, R rows are taken at once, and NV
// vectors of W states.
struct StateRange {
    int state, base;        // first state, first cell
    int n_states, n_cells;  // fewer cells if classes share them
    const double* start;  // (n_cells,) what the scores begin with: log weights, -infinity where there is no such state
    const double* complete;  // the same plus the log norms of all numbers and regressions, for rows that lack none;
                             // null: not used, so that no row depends on its neighbours to the last bit
    const double* weight;  // (n_states,) log weights where classes share cells, and the scores begin with 0; else null

    StateRange from(int k) const {
        return {state, base + k, n_states, n_cells, start + k, complete ? complete + k : nullptr, weight};
    }
};

// Rows of a table, one after the other ...
struct Consecutive {
    int64_t begin;

    int64_t operator[](int r) const { return begin + r; }
    Consecutive from(int r) const { return {begin + r}; }
};

// ... or in some order.
struct Ordered {
    int32_t* order;
    int64_t begin;

    int64_t operator[](int r) const { return begin + order[r]; }
    Ordered from(int r) const { return {order + r, begin}; }
};

// How n states are cut into vectors: each(W, NV, first). All at once ...
template <int W, int NV>
struct Whole {
    static constexpr int STATES = W * NV;
    template <typename Each>
    ALWAYS_INLINE void cut(int, Each each) {
        each(Number<W>{}, Number<NV>{}, 0);
    }
};

// ... or any even number, piece by piece.
struct Pieces {
    static constexpr int STATES = 0;
    template <typename Each>
    ALWAYS_INLINE void cut(int n, Each each) {
        int at = 0;
        for (; at + 4 * NATIVE <= n; at += 4 * NATIVE) each(Number<NATIVE>{}, Number<4>{}, at);
        for (; at + NATIVE <= n; at += NATIVE) each(Number<NATIVE>{}, Number<1>{}, at);
        if constexpr (NATIVE > 4)
            for (; at + 4 <= n; at += 4) each(Number<4>{}, Number<1>{}, at);
        for (; at + 2 <= n; at += 2) each(Number<2>{}, Number<1>{}, at);
    }
};

// Rows in flight while their sums fit into the registers.
template <int W, int NV>
constexpr int ROWS_AT_ONCE = W * NV <= 2 * NATIVE ? 4
                             : NV <= 4            ? 2
                                                  : 1;

template <int R, typename Each>
ALWAYS_INLINE void in_groups(int n, Each each) {  // of R, then single ones
    int i = 0;
    for (; i + R <= n; i += R) each(Number<R>{}, i);
    for (; i < n; ++i) each(Number<1>{}, i);
}

template <typename Rows>
ALWAYS_INLINE bool any_missing(const Table& t, Rows rows, int n) {
    uint8_t missing = 0;
    for (int r = 0; t.incomplete && r < n; ++r) missing |= t.incomplete[rows[r]];
    return missing != 0;
}

// out = log p(s, x) (R, NV * W), rows `stride` apart. `COMPLETE`: no number or pair of the rows is missing. But for the
// terms of regressions, which `add_regressions` adds: most tables have none, and registers are few.
template <int W, int NV, int R, bool COMPLETE, typename Rows>
ALWAYS_INLINE void score(const Inputs& in, const StateRange& range, Rows rows, double* out, int stride) {
    const Table& t = in.table;
    const int64_t K = in.shape.n_cells;
    const uint8_t* narrow[R];
    const uint16_t* wide[R];
    const double* numbers[R];
    Vector<W> a[R][NV];
    for (int r = 0; r < R; ++r) {
        narrow[r] = t.narrow + rows[r] * t.n_narrow;
        wide[r] = t.wide + rows[r] * t.n_wide;
        numbers[r] = t.numbers + rows[r] * t.n_numbers;
        for (int v = 0; v < NV; ++v) a[r][v] = load<W>((COMPLETE ? range.complete : range.start) + v * W);
    }
    auto look_up = [&](const auto* const* codes, int n, const int64_t* first_level) {
        for (int j = 0; j < n; ++j) {
            const double* table = in.network.log_table + first_level[j] * K + range.base;
            for (int r = 0; r < R; ++r)
                for (int v = 0; v < NV; ++v) a[r][v] += load<W>(table + codes[r][j] * K + v * W);
        }
    };
    look_up(narrow, t.n_narrow, t.first_level);
    look_up(wide, t.n_wide, t.first_level + t.n_narrow);
    // A missing number has no factor: without a branch, which nobody could foretell.
    auto add_numbers = [&](int begin, int end, auto exponent) {  // exponent(terms, x): log p(x) - log_norm
        for (int j = begin; j < end; ++j)
            for (int v = 0; v < NV; ++v) {
                const double* terms = in.network.numeric + 3 * j * K + range.base + v * W;
                const Vector<W> slope = load<W>(terms), intercept = load<W>(terms + K);
                for (int r = 0; r < R; ++r) {
                    const Vector<W> x = broadcast<W>(numbers[r][j]), e = exponent(slope, intercept, x);
                    if (COMPLETE) a[r][v] += e;
                    else a[r][v] += x == x ? load<W>(terms + 2 * K) + e : Vector<W>{};
                }
            }
    };
    const int n_normal = t.n_numbers - in.network.n_linear;
    add_numbers(0, n_normal, [](Vector<W> slope, Vector<W> intercept, Vector<W> x) {
        const Vector<W> d = slope * x + intercept;
        return -(d * d);
    });
    add_numbers(n_normal, t.n_numbers, [](Vector<W> slope, Vector<W>, Vector<W> x) { return slope * x; });
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < NV; ++v) store<W>(out + r * stride + v * W, a[r][v]);
}

template <int W, int NV, int R, bool COMPLETE, typename Rows>
ALWAYS_INLINE void add_regressions(const Inputs& in, const StateRange& range, Rows rows, double* out, int stride) {
    const int64_t K = in.shape.n_cells, J = in.table.n_regressions;
    Vector<W> a[R][NV];
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < NV; ++v) a[r][v] = load<W>(out + r * stride + v * W);
    for (int64_t j = 0; j < J; ++j)
        for (int v = 0; v < NV; ++v) {
            const double* terms = in.network.regression + 4 * j * K + range.base + v * W;
            const Vector<W> slope = load<W>(terms), intercept = load<W>(terms + K), coefficient = load<W>(terms + 3 * K);
            for (int r = 0; r < R; ++r) {
                const double* pair = in.table.pairs + 2 * (rows[r] * J + j);
                const Vector<W> x = broadcast<W>(pair[0]), p = broadcast<W>(pair[1]);
                const Vector<W> d = slope * x + (coefficient * p + intercept);
                if (COMPLETE) a[r][v] -= d * d;
                else a[r][v] += x == x ? load<W>(terms + 2 * K) - d * d : Vector<W>{};
            }
        }
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < NV; ++v) store<W>(out + r * stride + v * W, a[r][v]);
}

template <typename Cut, typename Rows>
[[gnu::noinline]] void add_regressions_to_tile(const Inputs& in, const StateRange& range, int n_cells, Rows rows, int n,
                                               double* out, int stride) {
    Cut::cut(n_cells, [&](auto W, auto NV, int at) {
        in_groups<ROWS_AT_ONCE<W, NV>>(n, [&](auto R, int i) INLINED {
            const StateRange part = range.from(at);
            if (!range.complete || any_missing(in.table, rows.from(i), R))
                add_regressions<W, NV, R, false>(in, part, rows.from(i), out + i * stride + at, stride);
            else add_regressions<W, NV, R, true>(in, part, rows.from(i), out + i * stride + at, stride);
        });
    });
}

// The same of n rows and the first n_cells cells of a range, out (n, stride).
template <typename Cut, typename Rows>
ALWAYS_INLINE void score_tile(const Inputs& in, const StateRange& range, int n_cells, Rows rows, int n, double* out,
                              int stride) {
    Cut::cut(n_cells, [&](auto W, auto NV, int at) {
        in_groups<ROWS_AT_ONCE<W, NV>>(n, [&](auto R, int i) INLINED {
            const StateRange part = range.from(at);
            if (!range.complete || any_missing(in.table, rows.from(i), R))
                score<W, NV, R, false>(in, part, rows.from(i), out + i * stride + at, stride);
            else score<W, NV, R, true>(in, part, rows.from(i), out + i * stride + at, stride);
        });
    });
    if (in.table.n_regressions) add_regressions_to_tile<Cut>(in, range, n_cells, rows, n, out, stride);
}

}  // namespace
}  // namespace fanbayes

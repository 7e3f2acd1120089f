// The E-step, fused with the collection of sufficient statistics.
#pragma once

#include "kernel_scoring.hpp"

namespace fanbayes {
namespace {

constexpr int CHUNK = 512;  // rows that the E-step orders by class and finishes together

// 1 / total is the probability of the most probable state.
constexpr double MOST_TOTAL = 1.0 / (1.0 - UNCERTAIN);

// Columns in flight while their moments fit into the registers.
template <int NV>
constexpr int COLUMNS_AT_ONCE = NV == 1   ? 4
                                : NV <= 3 ? 2
                                          : 1;

// Where statistics go, and the responsibilities of those rows that lack no number and no pair.
struct Collector {
    Statistics* statistics;  // null: there are none
    double* complete_mass;   // (n_states,)
};

// What the rows of an E-step have in common.
struct Job {
    const Inputs& in;
    Shares shares;
    Collector active, frozen;
    const double* complete;  // (n_states,) what the scores of complete rows begin with
    double* tile;            // (rows of a tile, states): scores, then responsibilities

    double weight(int64_t row) const { return in.table.weights ? in.table.weights[row] : 1.0; }

    StateRange states_of(int c) const {
        const int H = in.shape.n_components, s = c * H;
        return {s, in.shape.first_cell[c], H, H, in.network.log_weight + s, complete + s, nullptr};
    }
};

// Of each row: top = max_s log p(s, x), total = sum_s p(s, x) / exp(top) and, if it has no label,
// most = max_h sum_c p(c, h, x) / exp(top), or sum_c max_h where components are not common.
struct RowSums {
    double *top, *total, *most;

    RowSums from(int i) const { return {top + i, total + i, most + i}; }
};

// Maximum, sum, ... of each of R rows of `a`, (R, NV * W).
template <int W, int NV, int R, typename Op>
ALWAYS_INLINE void reduce_rows(const double* a, double* out, Op op) {
    Vector<W> lanes[R];
    for (int r = 0; r < R; ++r) {
        lanes[r] = load<W>(a + r * NV * W);
        for (int v = 1; v < NV; ++v) lanes[r] = op(lanes[r], load<W>(a + (r * NV + v) * W));
    }
    if constexpr (R == 4) store<4>(out, reduce4<W>(lanes[0], lanes[1], lanes[2], lanes[3], op));
    else
        for (int r = 0; r < R; ++r) out[r] = reduce<W>(lanes[r], op);
}

// The same of n rows of S states.
template <typename Cut, typename Op>
ALWAYS_INLINE void reduce_tile(const double* a, int S, int n, double* out, Op op) {
    if constexpr (Cut::STATES != 0) {
        Cut::cut(S, [&](auto W, auto NV, int) {
            in_groups<ROWS_AT_ONCE<W, NV>>(n, [&](auto R, int i) { reduce_rows<W, NV, R>(a + i * S, out + i, op); });
        });
    } else {
        for (int i = 0; i < n; ++i) {
            out[i] = op(a[i * S], a[i * S + 1]);
            Cut::cut(S - 2, [&](auto W, auto NV, int at) {
                double part;
                reduce_rows<W, NV, 1>(a + i * S + 2 + at, &part, op);
                out[i] = op(out[i], part);
            });
        }
    }
}

// x = function(i, x), of all S states of n rows.
template <typename Cut, typename Function>
ALWAYS_INLINE void change_tile(double* a, int S, int n, Function function) {
    Cut::cut(S, [&](auto W, auto NV, int at) {
        for (int i = 0; i < n; ++i)
            for (int v = 0; v < NV; ++v) {
                double* x = a + i * S + at + v * W;
                store<W>(x, function(i, load<W>(x)));
            }
    });
}

// Adds the first n_lanes of n rows, which are S apart, to `to` and, unless it is null, to `and_to`.
template <typename Cut>
ALWAYS_INLINE void add_rows(const double* a, int S, int n_lanes, int n, double* to, double* and_to) {
    Cut::cut(n_lanes, [&](auto W, auto NV, int at) {
        for (int v = 0; v < NV; ++v) {
            auto row = [&](int i) { return load<W>(a + i * S + at + v * W); };
            Vector<W> sum = Vector<W>{}, other = Vector<W>{};
            int i = 0;
            for (; i + 4 <= n; i += 4) {
                sum += row(i) + row(i + 1);
                other += row(i + 2) + row(i + 3);
            }
            for (; i < n; ++i) sum += row(i);
            sum += other;
            auto add = [&](double* p) { store<W>(p, load<W>(p) + sum); };
            add(to + at + v * W);
            if (and_to) add(and_to + at + v * W);
        }
    });
}

// Adds responsibilities of R rows, (R, NV * W), to the counts of discrete columns.
template <int W, int NV, int R>
ALWAYS_INLINE void count(const Inputs& in, const StateRange& range, Ordered rows, const double* responsibilities,
                         int stride, Statistics& s) {
    const Table& t = in.table;
    const int64_t K = in.shape.n_cells;
    const uint8_t* narrow[R];
    const uint16_t* wide[R];
    Vector<W> a[R][NV];
    for (int r = 0; r < R; ++r) {
        narrow[r] = t.narrow + rows[r] * t.n_narrow;
        wide[r] = t.wide + rows[r] * t.n_wide;
        for (int v = 0; v < NV; ++v) a[r][v] = load<W>(responsibilities + r * stride + v * W);
    }
    auto add = [&](const auto* const* codes, int n, const int64_t* first_level) {
        for (int j = 0; j < n; ++j) {
            double* counts = s.counts + first_level[j] * K + range.base;
            for (int r = 0; r < R; ++r) {
                double* p = counts + codes[r][j] * K;
                for (int v = 0; v < NV; ++v) store<W>(p + v * W, load<W>(p + v * W) + a[r][v]);
            }
        }
    };
    add(narrow, t.n_narrow, t.first_level);
    add(wide, t.n_wide, t.first_level + t.n_narrow);
}

// Adds responsibilities of n rows, (n, NV * W), to the moments of J numeric columns from column j on.
template <int W, int NV, int J, bool COMPLETE>
ALWAYS_INLINE void add_moments(const Inputs& in, const StateRange& range, Ordered rows, int n, int j,
                               const double* responsibilities, int stride, Statistics& s) {
    const Table& t = in.table;
    const int64_t K = in.shape.n_cells;
    Vector<W> cases[J][NV], first[J][NV], second[J][NV];
    for (int i = 0; i < J; ++i)
        for (int v = 0; v < NV; ++v) cases[i][v] = first[i][v] = second[i][v] = Vector<W>{};
    for (int r = 0; r < n; ++r) {
        const double* numbers = t.numbers + rows[r] * t.n_numbers + j;
        for (int v = 0; v < NV; ++v) {
            const Vector<W> a = load<W>(responsibilities + r * stride + v * W);
            for (int i = 0; i < J; ++i) {
                Vector<W> x = broadcast<W>(numbers[i]);
                if (!COMPLETE) {
                    cases[i][v] += x == x ? a : Vector<W>{};
                    x = x == x ? x : Vector<W>{};
                }
                const Vector<W> product = a * x;
                first[i][v] += product;
                second[i][v] += product * x;
            }
        }
    }
    for (int i = 0; i < J; ++i)
        for (int v = 0; v < NV; ++v) {
            double* p = s.moments + 3 * (j + i) * K + range.base + v * W;
            if (!COMPLETE) store<W>(p, load<W>(p) + cases[i][v]);
            store<W>(p + K, load<W>(p + K) + first[i][v]);
            store<W>(p + 2 * K, load<W>(p + 2 * K) + second[i][v]);
        }
}

// Adds responsibilities of n rows, W states, to the products of pair j.
template <int W, bool COMPLETE>
ALWAYS_INLINE void add_products(const Inputs& in, const StateRange& range, Ordered rows, int n, int j,
                                const double* responsibilities, int stride, Statistics& s) {
    const int64_t K = in.shape.n_cells, width = 2 * in.table.n_regressions;
    Vector<W> cases{}, x1{}, x2{}, p1{}, p2{}, xp{};
    for (int r = 0; r < n; ++r) {
        const double* pair = in.table.pairs + rows[r] * width + 2 * j;
        const Vector<W> a = load<W>(responsibilities + r * stride);
        Vector<W> x = broadcast<W>(pair[0]), p = broadcast<W>(pair[1]);
        if (!COMPLETE) {
            cases += x == x ? a : Vector<W>{};
            x = x == x ? x : Vector<W>{};
            p = p == p ? p : Vector<W>{};
        }
        const Vector<W> ax = a * x, ap = a * p;
        x1 += ax;
        x2 += ax * x;
        p1 += ap;
        p2 += ap * p;
        xp += ax * p;
    }
    auto add = [&](int k, Vector<W> sum) {
        double* to = s.regression + (6 * j + k) * K + range.base;
        store<W>(to, load<W>(to) + sum);
    };
    if (!COMPLETE) add(0, cases);
    add(1, x1);
    add(2, x2);
    add(3, p1);
    add(4, p2);
    add(5, xp);
}

// RowSums::most of n rows of p(s, x) / exp(top).
void most_probable_components(const Shape& shape, const double* a, int S, int n, double* most) {
    const int H = shape.n_components;
    for (int i = 0; i < n; ++i, a += S) {
        most[i] = 0;
        if (shape.common)
            for (int h = 0; h < H; ++h) {
                double mass = 0;
                for (int k = h; k < S; k += H) mass += a[k];
                most[i] = LARGER(most[i], mass);
            }
        else
            for (int c = 0; c < S; c += H) {
                double best = 0;
                for (int k = c; k < c + H; ++k) best = LARGER(best, a[k]);
                most[i] += best;
            }
    }
}

// From scores of n rows to responsibilities p(s | x) (8), or all to the most probable state (9); times their weights.
template <typename Cut>
void complete_tile(const Job& job, Ordered rows, int S, int n, RowSums sums) {
    double* a = job.tile;
    const bool hard = job.shares == Shares::most_probable;
    double share[MOST_IN_TILE];
    int32_t best[MOST_IN_TILE];
    reduce_tile<Cut>(a, S, n, sums.top, LARGER);
    change_tile<Cut>(a, S, n, [&](int i, auto x) { return x - sums.top[i]; });
    if (hard)
        for (int i = 0; i < n; ++i)
            for (best[i] = 0; best[i] < S - 1 && a[i * S + best[i]] != 0;) ++best[i];
    exp_of_negatives(a, n * S);
    reduce_tile<Cut>(a, S, n, sums.total, PLUS);
    if (S > job.in.shape.n_components) most_probable_components(job.in.shape, a, S, n, sums.most);
    for (int i = 0; i < n; ++i) share[i] = job.weight(rows[i]) / (hard ? 1.0 : sums.total[i]);
    if (hard)
        for (int i = 0; i < n; ++i)
            for (int k = 0; k < S; ++k) a[i * S + k] = k == best[i] ? share[i] : 0.0;
    else change_tile<Cut>(a, S, n, [&](int i, auto x) { return x * share[i]; });
}

// Below this, what a class has beside the other states is found from its own scores: its states may underflow.
constexpr double IMPROBABLE = 0x1p-900;

// p(s | x, c) of one row times its weight, into `own`, by scores of its own; and log p(x, c) as top + log(total).
[[gnu::noinline]] void complete_class(const Job& job, int c, Ordered row, double* own, double& top, double& total) {
    const int H = job.in.shape.n_components;
    score_tile<Pieces>(job.in, job.states_of(c), H, row, 1, own, H);
    top = reduce_array(own, H, LARGER);
    for (int h = 0; h < H; ++h) own[h] -= top;
    exp_array(own, own, H);
    total = reduce_array(own, H, PLUS);
    for (int h = 0; h < H; ++h) own[h] *= job.weight(row[0]) / total;
}

// From scores of n rows of class c to `Shares::contrast`; top + log(total) is log p(c | x).
template <typename Cut>
void contrast_tile(const Job& job, int c, Ordered rows, int S, int n, RowSums sums) {
    double* a = job.tile;
    const int H = job.in.shape.n_components;
    double share[MOST_IN_TILE], ratio[MOST_IN_TILE];
    reduce_tile<Cut>(a, S, n, sums.top, LARGER);
    change_tile<Cut>(a, S, n, [&](int i, auto x) { return x - sums.top[i]; });
    exp_of_negatives(a, n * S);
    reduce_tile<Cut>(a, S, n, sums.total, PLUS);
    for (int i = 0; i < n; ++i) {
        ratio[i] = reduce_array(a + i * S + c * H, H, PLUS) / sums.total[i];  // p(c | x)
        share[i] = -job.weight(rows[i]) / sums.total[i];
    }
    change_tile<Cut>(a, S, n, [&](int i, auto x) { return x * share[i]; });
    for (int i = 0; i < n; ++i) {
        double *own = a + i * S + c * H, top = sums.top[i], total = ratio[i] * sums.total[i];
        if (ratio[i] < IMPROBABLE) complete_class(job, c, rows.from(i), own, top, total);
        else
            for (int h = 0; h < H; ++h) own[h] *= 1 - 1 / ratio[i];
        sums.top[i] = top - sums.top[i];
        sums.total[i] = total / sums.total[i];
    }
}

// Moves the rows that can be frozen to the front; returns how many there are.
int partition_tile(double* a, Ordered rows, int S, int n, bool labelled, RowSums sums) {
    auto exchange = [](auto& x, auto& y) {
        const auto z = x;
        x = y;
        y = z;
    };
    int n_frozen = 0;
    for (int i = 0; i < n; ++i) {
        if (!(sums.total[i] <= MOST_TOTAL)) continue;
        const int to = n_frozen++;
        if (to == i) continue;
        exchange(rows.order[i], rows.order[to]);
        exchange(sums.top[i], sums.top[to]);
        exchange(sums.total[i], sums.total[to]);
        if (!labelled) exchange(sums.most[i], sums.most[to]);
        for (int k = 0; k < S; k += 2) {
            const Vector<2> x = load<2>(a + i * S + k);
            store<2>(a + i * S + k, load<2>(a + to * S + k));
            store<2>(a + to * S + k, x);
        }
    }
    return n_frozen;
}

// Adds the responsibilities `a` of n rows, (n, S), to all statistics.
template <typename Cut>
void collect(const Inputs& in, const StateRange& range, Ordered rows, int n, double* a, const Collector& to) {
    const int S = Cut::STATES ? Cut::STATES : range.n_states, K = Cut::STATES ? Cut::STATES : range.n_cells;
    const bool complete = !any_missing(in.table, rows, n);
    double* complete_mass = complete ? to.complete_mass + range.state : nullptr;
    if (range.weight) {
        add_rows<Cut>(a, S, S, n, to.statistics->states, nullptr);
        for (int i = 0; i < n; ++i)
            for (int k = K; k < S; ++k) a[i * S + k % K] += a[i * S + k];
        if (complete) add_rows<Cut>(a, S, K, n, complete_mass, nullptr);
    } else {
        add_rows<Cut>(a, S, S, n, to.statistics->states + range.state, complete_mass);
    }
    Cut::cut(K, [&](auto W, auto NV, int at) {
        const StateRange part = range.from(at);
        in_groups<ROWS_AT_ONCE<W, NV>>(
            n, [&](auto R, int i) { count<W, NV, R>(in, part, rows.from(i), a + i * S + at, S, *to.statistics); });
        in_groups<COLUMNS_AT_ONCE<NV>>(in.table.n_numbers, [&](auto J, int j) {
            if (complete) add_moments<W, NV, J, true>(in, part, rows, n, j, a + at, S, *to.statistics);
            else add_moments<W, NV, J, false>(in, part, rows, n, j, a + at, S, *to.statistics);
        });
    });
}

// Adds what `collect` has left in `a` to the statistics of regressions.
template <typename Cut>
[[gnu::noinline]] void collect_products(const Inputs& in, const StateRange& range, Ordered rows, int n, const double* a,
                                        const Collector& to) {
    if (n == 0) return;
    const bool complete = !any_missing(in.table, rows, n);
    Cut::cut(range.n_cells, [&](auto W, auto NV, int at) {
        for (int j = 0; j < in.table.n_regressions; ++j)
            for (int k = at; k < at + W * NV; k += W) {
                const StateRange part = range.from(k);
                if (complete) add_products<W, true>(in, part, rows, n, j, a + k, range.n_states, *to.statistics);
                else add_products<W, false>(in, part, rows, n, j, a + k, range.n_states, *to.statistics);
            }
    });
}

// Rows of one class c, or without a label (-1), a tile at a time: scores, responsibilities and statistics one after the
// other, so that the exponentials of many rows overlap. If frozen rows are collected apart, rows change places in their
// tile.
template <typename Cut>
void e_step_rows(const Job& job, const StateRange& range, int c, Ordered rows, int n_rows, RowSums sums) {
    const int S = Cut::STATES ? Cut::STATES : range.n_states, K = Cut::STATES ? Cut::STATES : range.n_cells;
    const int n_tile = Cut::STATES ? MOST_IN_TILE : rows_in_tile(S);
    double* a = job.tile;
    for (int done = 0; done < n_rows; done += n_tile) {
        const int n = n_rows - done < n_tile ? n_rows - done : n_tile;
        const Ordered own = rows.from(done);
        score_tile<Cut>(job.in, range, K, own, n, a, S);
        if (range.weight)
            for (int i = 0; i < n; ++i)
                for (int k = S - 1; k >= 0; --k) a[i * S + k] = a[i * S + k % K] + range.weight[k];
        if (job.shares == Shares::contrast) contrast_tile<Cut>(job, c, own, S, n, sums.from(done));
        else complete_tile<Cut>(job, own, S, n, sums.from(done));
        const bool labelled = S == job.in.shape.n_components;
        const int n_frozen = job.frozen.statistics ? partition_tile(a, own, S, n, labelled, sums.from(done)) : 0;
        if (n_frozen) collect<Cut>(job.in, range, own, n_frozen, a, job.frozen);
        if (n_frozen < n) collect<Cut>(job.in, range, own.from(n_frozen), n - n_frozen, a + n_frozen * S, job.active);
        if (job.in.table.n_regressions) {
            collect_products<Cut>(job.in, range, own, n_frozen, a, job.frozen);
            collect_products<Cut>(job.in, range, own.from(n_frozen), n - n_frozen, a + n_frozen * S, job.active);
        }
    }
}

using RowsFunction = decltype(&e_step_rows<Pieces>);

RowsFunction rows_function(int n_states) {
    if (n_states == 2) return e_step_rows<Whole<2, 1>>;
    if constexpr (NATIVE > 2)
        if (n_states == 4) return e_step_rows<Whole<4, 1>>;
    if constexpr (NATIVE == 8)
        if (n_states == 12) return e_step_rows<Whole<4, 3>>;
    if (n_states % NATIVE == 0) switch (n_states / NATIVE) {
            case 1: return e_step_rows<Whole<NATIVE, 1>>;
            case 2: return e_step_rows<Whole<NATIVE, 2>>;
            case 3: return e_step_rows<Whole<NATIVE, 3>>;
            case 4: return e_step_rows<Whole<NATIVE, 4>>;
            case 5: return e_step_rows<Whole<NATIVE, 5>>;
            case 6: return e_step_rows<Whole<NATIVE, 6>>;
        }
    return e_step_rows<Pieces>;
}

int padded_components(int n) { return n <= 2 ? 2 : n <= 4 ? 4 : n > 8 && n <= 12 ? 12 : padded(n); }

// Numbers 0 .. n - 1 in the order of their labels, -1 first; bucket[c + 1] is the end of class c in it.
template <typename Label>
void sort_by_class(Label label, int n, int n_classes, int32_t* order, int32_t* bucket) {
    bool same = true;
    for (int i = 1; i < n; ++i) same &= label(i) == label(0);
    if (same) {
        const int c = label(0);
        for (int k = 0; k <= n_classes; ++k) bucket[k] = k > c ? n : 0;
        for (int i = 0; i < n; ++i) order[i] = i;
        return;
    }
    for (int c = 0; c < n_classes + 2; ++c) bucket[c] = 0;
    for (int i = 0; i < n; ++i) ++bucket[label(i) + 2];
    for (int c = 1; c < n_classes + 2; ++c) bucket[c] += bucket[c - 1];
    // bucket[c + 1] is now where class c begins; filling moves it to its end.
    for (int i = 0; i < n; ++i) order[bucket[label(i) + 1]++] = i;
}

// Adds the logarithms of the rows of class c (-1: of none) to the sums; notes which rows are active.
void add_log_likelihood(const Job& job, RowRange& range, int c, Ordered rows, int n, RowSums sums) {
    const double* weights = job.in.table.weights;
    const bool several = c < 0 && job.in.shape.n_classes > 1;
    uint8_t is_active[CHUNK];
    for (int i = 0; i < n && range.frozen; ++i) {
        is_active[i] = !(sums.total[i] <= MOST_TOTAL);
        if (is_active[i]) range.active[range.n_active++] = int32_t(rows[i]);
    }
    log_array(sums.total, sums.total, n);
    if (several) log_array(sums.most, sums.most, n);
    for (int i = 0; i < n && weights; ++i) {
        const double weight = weights[rows[i]];
        sums.top[i] *= weight;
        sums.total[i] *= weight;
        if (several) sums.most[i] *= weight;
    }
    auto add = [&](Statistics& to, double top, double total, double most) {
        to.log_likelihood += top + total;
        to.joint += top;
        to.classification += top + most;
        if (c >= 0) to.class_log_likelihood[c] += top + total;
    };
    if (range.frozen)
        for (int i = 0; i < n; ++i)
            add(is_active[i] ? *job.active.statistics : *range.frozen, sums.top[i], sums.total[i],
                several ? sums.most[i] : 0.0);
    else
        add(*job.active.statistics, reduce_array(sums.top, n, PLUS), reduce_array(sums.total, n, PLUS),
            several ? reduce_array(sums.most, n, PLUS) : 0.0);
}

// Adds what starts at `from`, (n_terms, stride), to n doubles.
void add_terms(const double* from, int n_terms, int64_t stride, int n, double* to) {
    for (int j = 0; j < n_terms; ++j)
        for (int k = 0; k < n; ++k) to[k] += from[j * stride + k];
}

// What the scores of complete rows begin with, for the n cells from `first` on: the log norms of all numbers and
// regressions, plus `weight` unless it is null.
void start_values(const Inputs& in, const double* weight, int first, int n, double* out) {
    const int64_t K = in.shape.n_cells;
    for (int k = 0; k < n; ++k) out[k] = weight ? weight[k] : 0;
    add_terms(in.network.numeric + 2 * K + first, in.table.n_numbers, 3 * K, n, out);
    add_terms(in.network.regression + 2 * K + first, in.table.n_regressions, 4 * K, n, out);
}

// Rows that lack no number and no pair count in all of them.
void add_cases(const Inputs& in, const Collector& from) {
    if (!from.statistics) return;
    const int64_t K = in.shape.n_cells, H = in.shape.n_components;
    auto add = [&](double* to, int n, int64_t stride) {
        for (int c = 0; c < in.shape.n_classes; ++c)
            for (int j = 0; j < n; ++j)
                for (int h = 0; h < H; ++h) to[j * stride + in.shape.first_cell[c] + h] += from.complete_mass[c * H + h];
    };
    add(from.statistics->moments, in.table.n_numbers, 3 * K);
    add(from.statistics->regression, in.table.n_regressions, 6 * K);
}

int64_t e_step_scratch(const Shape& shape) {
    return room_for_tile(shape.n_states) + 3 * int64_t(shape.n_states) + 2 * shape.n_components + 4 * CHUNK +
           shape.n_classes + 2;
}

void e_step(const Inputs& in, RowRange& range, Shares shares, Statistics& out, double* scratch) {
    const Shape& shape = in.shape;
    const int H = shape.n_components, C = shape.n_classes, S = shape.n_states;
    const bool shared_cells = shape.n_cells < S;
    double* complete = scratch + room_for_tile(S);  // (n_states)
    double* complete_mass = complete + S;           // (2, n_states) of active rows, of frozen ones
    double* nothing = complete_mass + 2 * S;        // (n_components) 0, then the log norms of cells
    double* norms = nothing + H;
    const RowSums sums{norms + H, norms + H + CHUNK, norms + H + 2 * CHUNK};
    int32_t* order = reinterpret_cast<int32_t*>(sums.most + CHUNK);
    int32_t* bucket = order + CHUNK;  // (n_classes + 2): where a class's rows begin in `order`

    const double* log_weight = in.network.log_weight;
    for (int c = 0; c < C; ++c) start_values(in, log_weight + c * H, shape.first_cell[c], H, complete + c * H);
    start_values(in, nullptr, 0, H, norms);
    for (int i = 0; i < 2 * S + H; ++i) complete_mass[i] = 0;  // and `nothing`
    const StateRange all = shared_cells ? StateRange{0, 0, S, H, nothing, norms, log_weight}
                                        : StateRange{0, 0, S, S, log_weight, complete, nullptr};
    const RowsFunction of_class = rows_function(H), of_all = shared_cells ? e_step_rows<Pieces> : rows_function(S);
    const Job job{in, shares, {&out, complete_mass}, {range.frozen, complete_mass + S}, complete, scratch};

    const int32_t* labels = in.table.labels;
    for (int64_t at = range.begin; at < range.end; at += CHUNK) {
        const int n = int(range.end - at < CHUNK ? range.end - at : CHUNK);
        // Rows of one class together, unlabelled ones first: parameters stay in the nearest cache.
        auto label = [&](int i) { return !labels ? -1 : labels[range.chosen ? range.chosen[at + i] : at + i]; };
        sort_by_class(label, n, C, order, bucket);
        for (int i = 0; range.chosen && i < n; ++i) order[i] = range.chosen[at + order[i]];
        for (int c = -1, first = 0; c < C; first = bucket[c + 1], ++c) {
            const int n_rows = bucket[c + 1] - first;
            const bool contrasts = shares == Shares::contrast;
            if (n_rows == 0 || (c < 0 && contrasts)) continue;
            const Ordered rows{order + first, range.chosen ? 0 : at};
            if (c < 0 || contrasts) of_all(job, all, c, rows, n_rows, sums);
            else of_class(job, job.states_of(c), c, rows, n_rows, sums);
            add_log_likelihood(job, range, c, rows, n_rows, sums);
        }
    }
    add_cases(in, job.active);
    add_cases(in, job.frozen);
}

}  // namespace
}  // namespace fanbayes

// The E-step, fused with the collection of sufficient statistics, and the posterior.
//
// Compiled once per instruction set (see CMakeLists.txt): KERNEL_ISA names the namespace. No
// library template is used here, so that no code of one instruction set can leak into another.
#include "kernel.hpp"
#include "vector.hpp"

#include <cmath>

namespace {

#if defined(__AVX512F__)
constexpr int NATIVE = 8;  // doubles in a register
#elif defined(__AVX__)
constexpr int NATIVE = 4;
#else
constexpr int NATIVE = 2;
#endif
constexpr int CHUNK = 512;  // rows that the E-step orders by class and finishes together
constexpr int ROWS = 64;    // rows that the posterior finishes together
constexpr int MOST_IN_TILE = 32, TILE = 2048;  // rows, and numbers, that the E-step keeps in the nearest cache

constexpr auto LARGER = [](auto x, auto y) { return x > y ? x : y; };
constexpr auto PLUS = [](auto x, auto y) { return x + y; };

inline int padded(int n) { return (n + NATIVE - 1) / NATIVE * NATIVE; }

int rows_in_tile(int n_states) {
    const int fit = TILE / n_states;
    return fit < 4 ? 4 : fit > MOST_IN_TILE ? MOST_IN_TILE : fit;
}

// Doubles for the states of a tile; exponentials are taken of several vectors at once.
int64_t room_for_tile(int n_states) { return (4 * n_states > TILE ? 4 * n_states : TILE) + 4 * NATIVE; }

// ---------------------------------------------------------------- arrays of any length

#define OVER_ARRAY(function, neutral)                                                      \
    void function##_array(const double* x, double* out, int64_t n) {                       \
        int64_t i = 0;                                                                     \
        for (; i + NATIVE <= n; i += NATIVE) store<NATIVE>(out + i, function<NATIVE>(load<NATIVE>(x + i)));    \
        if (i == n) return;                                                                \
        double lane[NATIVE];                                                                   \
        for (int k = 0; k < NATIVE; ++k) lane[k] = i + k < n ? x[i + k] : neutral;             \
        store<NATIVE>(lane, function<NATIVE>(load<NATIVE>(lane)));                                     \
        for (int k = 0; i + k < n; ++k) out[i + k] = lane[k];                              \
    }
OVER_ARRAY(exp, 0.0)
OVER_ARRAY(log, 1.0)
#undef OVER_ARRAY

// In place, x[0 .. n) <= 0; up to the next multiple of 4 * NATIVE there must be room.
void exp_of_negatives(double* x, int n) {
    for (int i = 0; i < n; i += 4 * NATIVE) {
        for (int k = n; k < i + 4 * NATIVE; ++k) x[k] = 0;
        Vector<NATIVE> y[4];
        for (int k = 0; k < 4; ++k) y[k] = load<NATIVE>(x + i + k * NATIVE);
        exp_of_negatives<NATIVE, 4>(y);
        for (int k = 0; k < 4; ++k) store<NATIVE>(x + i + k * NATIVE, y[k]);
    }
}

double sum_array(const double* x, int n) {
    Vector<NATIVE> total = Vector<NATIVE>{};
    int i = 0;
    for (; i + NATIVE <= n; i += NATIVE) total += load<NATIVE>(x + i);
    double rest = reduce<NATIVE>(total, PLUS);
    for (; i < n; ++i) rest += x[i];
    return rest;
}

// ---------------------------------------------------------------- one row, any number of cells

// out[k] = sum_i log p(x_i | first + k), lanes [0, NV * NATIVE); a missing value has no factor.
template <int NV>
ALWAYS_INLINE void score_lanes(const Table& t, const Shape& shape, const Network& net, int64_t row, int first,
                               double* out) {
    const int64_t K = shape.n_cells;
    Vector<NATIVE> a[NV];
    for (int v = 0; v < NV; ++v) a[v] = Vector<NATIVE>{};
    const uint8_t* narrow = t.narrow + row * t.n_narrow;
    for (int j = 0; j < t.n_narrow; ++j) {
        const double* p = net.log_table + (t.first_level[j] + narrow[j]) * K + first;
        for (int v = 0; v < NV; ++v) a[v] += load<NATIVE>(p + v * NATIVE);
    }
    const uint16_t* wide = t.wide + row * t.n_wide;
    for (int j = 0; j < t.n_wide; ++j) {
        const double* p = net.log_table + (t.first_level[t.n_narrow + j] + wide[j]) * K + first;
        for (int v = 0; v < NV; ++v) a[v] += load<NATIVE>(p + v * NATIVE);
    }
    const double* numbers = t.numbers + row * t.n_numbers;
    for (int j = 0; j < t.n_numbers; ++j) {
        double x = numbers[j];
        if (x != x) continue;
        int64_t at = j * K + first;
        for (int v = 0; v < NV; ++v) {
            Vector<NATIVE> d = load<NATIVE>(net.slope + at + v * NATIVE) * x + load<NATIVE>(net.intercept + at + v * NATIVE);
            a[v] += load<NATIVE>(net.log_norm + at + v * NATIVE) - d * d;
        }
    }
    for (int v = 0; v < NV; ++v) store<NATIVE>(out + v * NATIVE, a[v]);
}

void score_cells(const Table& t, const Shape& shape, const Network& net, int64_t row, double* out) {
    const int n = shape.n_cells;
    int done = 0;
    for (; done + 3 * NATIVE < n; done += 4 * NATIVE) score_lanes<4>(t, shape, net, row, done, out + done);
    for (; done + NATIVE < n; done += 2 * NATIVE) score_lanes<2>(t, shape, net, row, done, out + done);
    for (; done < n; done += NATIVE) score_lanes<1>(t, shape, net, row, done, out + done);
}

ALWAYS_INLINE double log_sum_exp(const double* x, int n, double top) {
    double total = 0;
    for (int i = 0; i < n; ++i) total += std::exp(x[i] - top);
    return top + std::log(total);
}

// ---------------------------------------------------------------- rows of one class, or without a label

template <int N>
struct Number {
    constexpr operator int() const { return N; }
};

// The states that a row may be in: those of its class, or all. In what follows, R rows are looked at at once, and NV
// vectors of W states.
struct View {
    int state, base;         // first state, first cell
    int n_states, n_cells;   // fewer cells if classes share them
    const double* prior;     // (n_cells,) what the scores begin with: log weights, -infinity where there is no such state
    const double* complete;  // the same plus the Gaussian norms of all columns
    const double* weight;    // (n_states,) log weights where classes share cells, and the scores begin with 0; else null

    View from(int k) const { return {state, base + k, n_states, n_cells, prior + k, complete + k, weight}; }
};

struct Rows {
    int32_t* order;
    int64_t begin;

    int64_t operator[](int r) const { return begin + order[r]; }
    Rows from(int r) const { return {order + r, begin}; }
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

// Rows in flight while their sums fit into the registers, and columns while their moments do.
template <int W, int NV>
constexpr int ROWS_AT_ONCE = W * NV <= 2 * NATIVE ? 4 : NV <= 4 ? 2 : 1;
template <int NV>
constexpr int COLUMNS_AT_ONCE = NV == 1 ? 4 : NV <= 3 ? 2 : 1;

template <int R, typename Each>
ALWAYS_INLINE void in_groups(int n, Each each) {  // of R, then single ones
    int i = 0;
    for (; i + R <= n; i += R) each(Number<R>{}, i);
    for (; i < n; ++i) each(Number<1>{}, i);
}

// out = log p(s, x) (R, NV * W), rows `stride` apart. `COMPLETE`: no number of the rows is missing.
template <int W, int NV, int R, bool COMPLETE>
ALWAYS_INLINE void score(const Table& t, const Shape& shape, const Network& net, const View& view, Rows rows,
                         double* out, int stride) {
    const int64_t K = shape.n_cells;
    const uint8_t* narrow[R];
    const uint16_t* wide[R];
    const double* numbers[R];
    for (int r = 0; r < R; ++r) {
        narrow[r] = t.narrow + rows[r] * t.n_narrow;
        wide[r] = t.wide + rows[r] * t.n_wide;
        numbers[r] = t.numbers + rows[r] * t.n_numbers;
    }
    Vector<W> a[R][NV];
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < NV; ++v) a[r][v] = load<W>((COMPLETE ? view.complete : view.prior) + v * W);
    for (int j = 0; j < t.n_narrow; ++j) {
        const double* table = net.log_table + t.first_level[j] * K + view.base;
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < NV; ++v) a[r][v] += load<W>(table + narrow[r][j] * K + v * W);
    }
    for (int j = 0; j < t.n_wide; ++j) {
        const double* table = net.log_table + t.first_level[t.n_narrow + j] * K + view.base;
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < NV; ++v) a[r][v] += load<W>(table + wide[r][j] * K + v * W);
    }
    for (int j = 0; j < t.n_numbers; ++j) {
        int64_t at = j * K + view.base;
        for (int v = 0; v < NV; ++v) {
            Vector<W> slope = load<W>(net.slope + at + v * W), intercept = load<W>(net.intercept + at + v * W);
            for (int r = 0; r < R; ++r) {
                const double x = numbers[r][j];
                if (COMPLETE) {
                    const Vector<W> d = slope * x + intercept;
                    a[r][v] -= d * d;
                } else {  // without a branch, which nobody could foretell
                    const Vector<W> y = broadcast<W>(x), d = slope * y + intercept;
                    a[r][v] += y == y ? load<W>(net.log_norm + at + v * W) - d * d : Vector<W>{};
                }
            }
        }
    }
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < NV; ++v) store<W>(out + r * stride + v * W, a[r][v]);
}

// Maximum, sum, ... of each of R rows of `a`, (R, NV * W).
template <int W, int NV, int R, typename Op>
ALWAYS_INLINE void reduce_rows(const double* a, double* out, Op op) {
    Vector<W> lanes[R];
    for (int r = 0; r < R; ++r) {
        lanes[r] = load<W>(a + r * NV * W);
        for (int v = 1; v < NV; ++v) lanes[r] = op(lanes[r], load<W>(a + (r * NV + v) * W));
    }
    if constexpr (R == 4)
        store<4>(out, reduce4<W>(lanes[0], lanes[1], lanes[2], lanes[3], op));
    else
        for (int r = 0; r < R; ++r) out[r] = reduce<W>(lanes[r], op);
}

// The same of n rows of S states.
template <typename Cut, typename Op>
ALWAYS_INLINE void reduce_tile(const double* a, int S, int n, double* out, Op op) {
    if constexpr (Cut::STATES != 0) {
        Cut::cut(S, [&](auto W, auto NV, int) {
            in_groups<ROWS_AT_ONCE<W, NV>>(
                n, [&](auto R, int i) { reduce_rows<W, NV, R>(a + i * S, out + i, op); });
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

// Adds responsibilities of R rows, (R, NV * W), to the counts of discrete columns.
template <int W, int NV, int R>
ALWAYS_INLINE void count(const Table& t, const Shape& shape, const View& view, Rows rows,
                         const double* responsibilities, int stride, Statistics& s) {
    const int64_t K = shape.n_cells;
    const uint8_t* narrow[R];
    const uint16_t* wide[R];
    Vector<W> a[R][NV];
    for (int r = 0; r < R; ++r) {
        narrow[r] = t.narrow + rows[r] * t.n_narrow;
        wide[r] = t.wide + rows[r] * t.n_wide;
        for (int v = 0; v < NV; ++v) a[r][v] = load<W>(responsibilities + r * stride + v * W);
    }
    for (int j = 0; j < t.n_narrow; ++j) {
        double* counts = s.counts + t.first_level[j] * K + view.base;
        for (int r = 0; r < R; ++r) {
            double* p = counts + narrow[r][j] * K;
            for (int v = 0; v < NV; ++v) store<W>(p + v * W, load<W>(p + v * W) + a[r][v]);
        }
    }
    for (int j = 0; j < t.n_wide; ++j) {
        double* counts = s.counts + t.first_level[t.n_narrow + j] * K + view.base;
        for (int r = 0; r < R; ++r) {
            double* p = counts + wide[r][j] * K;
            for (int v = 0; v < NV; ++v) store<W>(p + v * W, load<W>(p + v * W) + a[r][v]);
        }
    }
}

// Adds responsibilities of n rows, (n, NV * W), to the moments of J numeric columns from column j on.
template <int W, int NV, int J, bool COMPLETE>
ALWAYS_INLINE void add_moments(const Table& t, const Shape& shape, const View& view, Rows rows, int n, int j,
                               const double* responsibilities, int stride, Statistics& s) {
    const int64_t K = shape.n_cells, plane = int64_t(t.n_numbers) * K;
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
            double* p = s.moments + (j + i) * K + view.base + v * W;
            if (!COMPLETE) store<W>(p, load<W>(p) + cases[i][v]);
            store<W>(p + plane, load<W>(p + plane) + first[i][v]);
            store<W>(p + 2 * plane, load<W>(p + 2 * plane) + second[i][v]);
        }
}

// Where statistics go, and the responsibilities of those rows that lack no number.
struct Collector {
    Statistics* statistics;
    double* complete_mass;  // (n_states,)
};

template <typename T>
ALWAYS_INLINE void exchange(T& x, T& y) {
    const T z = x;
    x = y;
    y = z;
}

// 1 / total is the probability of the most probable state.
constexpr double MOST_TOTAL = 1.0 / (1.0 - DOUBT);

// A tile of rows at a time: scores, responsibilities and statistics one after the other, so that the exponentials of
// many rows overlap. `a` has room for them. Of each row: top = max_s log p(s, x), total = sum_s p(s, x) / exp(top) and,
// if it has no label, most = max_h sum_c p(c, h, x) / exp(top), or sum_c max_h where components are not common. If
// settled rows are collected apart, rows change places within their tile.
template <typename Cut>
void visit(const Table& t, const Shape& shape, const Network& net, const View& view, Rows rows, int n_rows, bool hard,
           const Collector& doubtful, const Collector& settled, double* a, double* top, double* total, double* most) {
    const int S = Cut::STATES ? Cut::STATES : view.n_states, K = Cut::STATES ? Cut::STATES : view.n_cells;
    const int H = shape.n_components, n_tile = Cut::STATES ? MOST_IN_TILE : rows_in_tile(S);
    double share[MOST_IN_TILE];
    int32_t best[MOST_IN_TILE];
    auto change = [&](int n, auto function) {  // x = function(i, x), of all states of all rows
        Cut::cut(S, [&](auto W, auto NV, int at) {
            for (int i = 0; i < n; ++i)
                for (int v = 0; v < NV; ++v) {
                    double* x = a + i * S + at + v * W;
                    store<W>(x, function(i, load<W>(x)));
                }
        });
    };
    auto add_rows = [&](const double* first, int n_lanes, int n, double* to, double* and_to) {  // `and_to` may be null
        Cut::cut(n_lanes, [&](auto W, auto NV, int at) {
            for (int v = 0; v < NV; ++v) {
                auto row = [&](int i) { return load<W>(first + i * S + at + v * W); };
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
    };
    for (int done = 0; done < n_rows; done += n_tile, top += n_tile, total += n_tile, most += n_tile) {
        const int n = n_rows - done < n_tile ? n_rows - done : n_tile;
        const Rows tile = rows.from(done);
        auto any_missing = [&](int i, int size) {
            uint8_t missing = 0;
            for (int r = 0; t.incomplete && r < size; ++r) missing |= t.incomplete[tile[i + r]];
            return missing != 0;
        };
        Cut::cut(K, [&](auto W, auto NV, int at) {
            in_groups<ROWS_AT_ONCE<W, NV>>(n, [&](auto R, int i) {
                if (any_missing(i, R))
                    score<W, NV, R, false>(t, shape, net, view.from(at), tile.from(i), a + i * S + at, S);
                else
                    score<W, NV, R, true>(t, shape, net, view.from(at), tile.from(i), a + i * S + at, S);
            });
        });
        if (view.weight)
            for (int i = 0; i < n; ++i)
                for (int k = S - 1; k >= 0; --k) a[i * S + k] = a[i * S + k % K] + view.weight[k];

        // Responsibilities p(s | x) (8), or all to the most probable state (9); times the row's weight.
        reduce_tile<Cut>(a, S, n, top, LARGER);
        change(n, [&](int i, auto x) { return x - top[i]; });
        if (hard)
            for (int i = 0; i < n; ++i)
                for (best[i] = 0; best[i] < S - 1 && a[i * S + best[i]] != 0;) ++best[i];
        exp_of_negatives(a, n * S);
        reduce_tile<Cut>(a, S, n, total, PLUS);
        for (int i = 0; i < n && S > H; ++i) {
            most[i] = 0;
            if (shape.common)
                for (int h = 0; h < H; ++h) {
                    double mass = 0;
                    for (int k = h; k < S; k += H) mass += a[i * S + k];
                    most[i] = LARGER(most[i], mass);
                }
            else
                for (int c = 0; c < S; c += H) {
                    double best = 0;
                    for (int k = c; k < c + H; ++k) best = LARGER(best, a[i * S + k]);
                    most[i] += best;
                }
        }
        for (int i = 0; i < n; ++i) share[i] = (t.weights ? t.weights[tile[i]] : 1.0) / (hard ? 1.0 : total[i]);
        if (hard)
            for (int i = 0; i < n; ++i)
                for (int k = 0; k < S; ++k) a[i * S + k] = k == best[i] ? share[i] : 0.0;
        else
            change(n, [&](int i, auto x) { return x * share[i]; });

        auto collect = [&](int first, int n, const Collector& to) {  // of rows [first, first + n) of the tile
            double* p = a + first * S;
            const bool complete = !any_missing(first, n);
            double* of_complete = complete ? to.complete_mass + view.state : nullptr;
            if (view.weight) {
                add_rows(p, S, n, to.statistics->states, nullptr);
                for (int i = 0; i < n; ++i)
                    for (int k = K; k < S; ++k) p[i * S + k % K] += p[i * S + k];
                if (complete) add_rows(p, K, n, of_complete, nullptr);
            } else {
                add_rows(p, S, n, to.statistics->states + view.state, of_complete);
            }
            const Rows own = tile.from(first);
            Cut::cut(K, [&](auto W, auto NV, int at) {
                in_groups<ROWS_AT_ONCE<W, NV>>(n, [&](auto R, int i) {
                    count<W, NV, R>(t, shape, view.from(at), own.from(i), p + i * S + at, S, *to.statistics);
                });
                in_groups<COLUMNS_AT_ONCE<NV>>(t.n_numbers, [&](auto J, int j) {
                    if (complete)
                        add_moments<W, NV, J, true>(t, shape, view.from(at), own, n, j, p + at, S, *to.statistics);
                    else
                        add_moments<W, NV, J, false>(t, shape, view.from(at), own, n, j, p + at, S, *to.statistics);
                });
            });
        };
        int n_settled = 0;
        if (settled.statistics)  // they go to the front
            for (int i = 0; i < n; ++i) {
                if (!(total[i] <= MOST_TOTAL)) continue;
                const int to = n_settled++;
                if (to == i) continue;
                exchange(tile.order[i], tile.order[to]);
                exchange(top[i], top[to]);
                exchange(total[i], total[to]);
                if (S > H) exchange(most[i], most[to]);
                for (int k = 0; k < S; k += 2) {
                    const Vector<2> x = load<2>(a + i * S + k);
                    store<2>(a + i * S + k, load<2>(a + to * S + k));
                    store<2>(a + to * S + k, x);
                }
            }
        if (n_settled) collect(0, n_settled, settled);
        if (n_settled < n) collect(n_settled, n - n_settled, doubtful);
    }
}

using Visit = decltype(&visit<Pieces>);

Visit visitor(int n_states) {
    if (n_states == 2) return visit<Whole<2, 1>>;
    if constexpr (NATIVE > 2)
        if (n_states == 4) return visit<Whole<4, 1>>;
    if constexpr (NATIVE == 8)
        if (n_states == 12) return visit<Whole<4, 3>>;
    if (n_states % NATIVE == 0) switch (n_states / NATIVE) {
            case 1: return visit<Whole<NATIVE, 1>>;
            case 2: return visit<Whole<NATIVE, 2>>;
            case 3: return visit<Whole<NATIVE, 3>>;
            case 4: return visit<Whole<NATIVE, 4>>;
            case 5: return visit<Whole<NATIVE, 5>>;
            case 6: return visit<Whole<NATIVE, 6>>;
        }
    return visit<Pieces>;
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

void expect(const Table& t, const Shape& shape, const Network& net, Look& look, bool hard, Statistics& s,
            double* scratch) {
    const int H = shape.n_components, C = shape.n_classes, S = shape.n_states;
    const bool shared_cells = shape.n_cells < S;
    double* a = scratch;
    double* complete = a + room_for_tile(S);  // (n_states)
    double* complete_mass = complete + S;     // (2, n_states) of doubtful rows, of settled ones
    double* nothing = complete_mass + 2 * S;  // (n_components) 0, then the Gaussian norms of cells
    double* norms = nothing + H;
    double* top = norms + H;
    double* total = top + CHUNK;
    double* most = total + CHUNK;
    int32_t* order = reinterpret_cast<int32_t*>(most + CHUNK);
    int32_t* bucket = order + CHUNK;  // (n_classes + 2): where a class's rows begin in `order`

    for (int i = 0; i < S; ++i) {
        complete[i] = net.log_weight[i];
        const int cell = shape.first_cell[i / H] + i % H;
        for (int j = 0; j < t.n_numbers; ++j) complete[i] += net.log_norm[int64_t(j) * shape.n_cells + cell];
        complete_mass[i] = complete_mass[S + i] = 0;
    }
    for (int h = 0; h < H; ++h) {
        nothing[h] = norms[h] = 0;
        for (int j = 0; j < t.n_numbers; ++j) norms[h] += net.log_norm[int64_t(j) * shape.n_cells + h];
    }
    const View all = shared_cells ? View{0, 0, S, H, nothing, norms, net.log_weight}
                                  : View{0, 0, S, S, net.log_weight, complete, nullptr};
    const Visit visit_class = visitor(H), visit_all = shared_cells ? visit<Pieces> : visitor(S);

    const Collector doubtful{&s, complete_mass}, settled{look.settled, complete_mass + S};
    for (int64_t at = look.begin; at < look.end; at += CHUNK) {
        const int n = int(look.end - at < CHUNK ? look.end - at : CHUNK);
        // Rows of one class together, unlabelled ones first: parameters stay in the nearest cache.
        auto label = [&](int i) { return !t.labels ? -1 : t.labels[look.chosen ? look.chosen[at + i] : at + i]; };
        sort_by_class(label, n, C, order, bucket);
        for (int i = 0; look.chosen && i < n; ++i) order[i] = look.chosen[at + order[i]];
        for (int c = -1, first = 0; c < C; first = bucket[c + 1], ++c) {
            const int n_rows = bucket[c + 1] - first;
            if (n_rows == 0) continue;
            const bool labelled = c >= 0;
            const View own{c * H, labelled ? shape.first_cell[c] : 0, H, H, net.log_weight + c * H, complete + c * H, nullptr};
            const Rows rows{order + first, look.chosen ? 0 : at};
            (labelled ? visit_class : visit_all)(t, shape, net, labelled ? own : all, rows, n_rows, hard, doubtful,
                                                 settled, a, top, total, most);
            uint8_t in_doubt[CHUNK];
            for (int i = 0; i < n_rows && look.settled; ++i) {
                in_doubt[i] = !(total[i] <= MOST_TOTAL);
                if (in_doubt[i]) look.doubtful[look.n_doubtful++] = int32_t(rows[i]);
            }
            log_array(total, total, n_rows);
            const bool several = !labelled && C > 1;
            if (several) log_array(most, most, n_rows);
            for (int i = 0; i < n_rows && t.weights; ++i) {
                const double weight = t.weights[rows[i]];
                top[i] *= weight;
                total[i] *= weight;
                if (several) most[i] *= weight;
            }
            auto tally = [&](Statistics& to, double joint, double rest, double of_most) {
                to.log_likelihood += joint + rest;
                to.joint += joint;
                to.classification += joint + of_most;
                if (labelled) to.of_class[c] += joint + rest;
            };
            if (look.settled)
                for (int i = 0; i < n_rows; ++i)
                    tally(in_doubt[i] ? s : *look.settled, top[i], total[i], several ? most[i] : 0.0);
            else
                tally(s, sum_array(top, n_rows), sum_array(total, n_rows), several ? sum_array(most, n_rows) : 0.0);
        }
    }
    // Rows without a missing number count in every numeric column.
    auto add_cases = [&](const Collector& from) {
        for (int i = 0; i < shape.n_states && from.statistics; ++i)
            for (int j = 0; j < t.n_numbers; ++j)
                from.statistics->moments[int64_t(j) * shape.n_cells + shape.first_cell[i / H] + i % H] +=
                    from.complete_mass[i];
    };
    add_cases(doubtful);
    add_cases(settled);
}

void posterior(const Table& t, const Shape& shape, const Network& net, int64_t begin, int64_t end, Posterior what,
               double* out, double* scratch) {
    const int C = shape.n_classes, S = shape.n_states;
    double* cells = scratch;
    double* joint = cells + padded(shape.n_cells);
    double* top = joint + padded(S);
    double* total = top + int64_t(ROWS) * C;
    for (int k = S; k < padded(S); ++k) joint[k] = 0;
    for (int64_t at = begin; at < end; at += ROWS) {
        const int n = int(end - at < ROWS ? end - at : ROWS);
        for (int r = 0; r < n; ++r) {
            score_cells(t, shape, net, at + r, cells);
            double* row_out = what == Posterior::states ? out + (at - begin + r) * S : joint;
            for (int c = 0; c < C; ++c) {
                const double* from = cells + shape.first_cell[c];
                double m = -INFINITY;
                const int first = shape.first_state[c], states = shape.first_state[c + 1] - first;
                for (int k = 0; k < states; ++k) {
                    double value = net.log_weight[first + k] + from[k];
                    row_out[first + k] = value;
                    m = value > m ? value : m;
                }
                top[r * C + c] = m;
                total[r * C + c] = 1;
                if (what != Posterior::states && states > 1)
                    for (int k = 0; k < states; ++k) joint[first + k] -= m;
            }
            if (what == Posterior::states || S == C) continue;
            for (int k = 0; k < S; k += NATIVE) store<NATIVE>(joint + k, exp<NATIVE>(load<NATIVE>(joint + k)));
            for (int c = 0; c < C; ++c) {
                const int first = shape.first_state[c], states = shape.first_state[c + 1] - first;
                if (states == 1) continue;
                double mass = 0;
                for (int k = 0; k < states; ++k) mass += joint[first + k];
                total[r * C + c] = mass;
            }
        }
        if (what == Posterior::states) continue;
        const int64_t size = int64_t(n) * C;
        double* rows = out + (at - begin) * C;
        log_array(total, total, size);
        for (int64_t i = 0; i < size; ++i) rows[i] = top[i] + total[i];
        if (what == Posterior::log_joint) continue;
        for (int r = 0; r < n; ++r) {
            double* row = rows + int64_t(r) * C;
            double m = row[0];
            for (int c = 1; c < C; ++c) m = row[c] > m ? row[c] : m;
            // First the largest, then the norm: in one, the norm would be lost beside a log density of -1e17.
            for (int c = 0; c < C; ++c) row[c] -= m;
            if (what == Posterior::log_proba) {
                const double norm = log_sum_exp(row, C, 0.0);
                for (int c = 0; c < C; ++c) row[c] -= norm;
            }
        }
        if (what == Posterior::log_proba) continue;
        exp_array(rows, rows, size);
        for (int r = 0; r < n; ++r) {
            double* row = rows + int64_t(r) * C;
            double mass = 0;
            for (int c = 0; c < C; ++c) mass += row[c];
            for (int c = 0; c < C; ++c) row[c] /= mass;
        }
    }
}

double gather(const Table& t, const double* table, int64_t rows) {
    constexpr int NV = 8 / NATIVE, R = 4;
    Vector<NATIVE> total = Vector<NATIVE>{};
    for (int64_t at = 0; at + R <= rows; at += R) {
        Vector<NATIVE> a[R][NV] = {};
        for (int j = 0; j < t.n_narrow; ++j)
            for (int r = 0; r < R; ++r)
                for (int v = 0; v < NV; ++v)
                    a[r][v] += load<NATIVE>(table + (t.first_level[j] + t.narrow[(at + r) * t.n_narrow + j]) * 8 + v * NATIVE);
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < NV; ++v) total += a[r][v];
    }
    return reduce<NATIVE>(total, PLUS);
}

int64_t scratch_size(const Shape& shape) {
    const int64_t C = shape.n_classes, S = shape.n_states;
    const int64_t of_expect = room_for_tile(shape.n_states) + 3 * S + 2 * shape.n_components + 4 * CHUNK + C + 2;
    const int64_t of_posterior = padded(shape.n_cells) + padded(shape.n_states) + 2 * ROWS * C;
    return of_expect > of_posterior ? of_expect : of_posterior;
}

}  // namespace

#define STRING_OF(x) #x
#define NAME_OF(x) STRING_OF(x)
namespace KERNEL_ISA {
extern const Kernel kernel = {NAME_OF(KERNEL_ISA), scratch_size, padded_components, expect, posterior, gather, exp_array, log_array};
}

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

constexpr auto LARGER = [](auto x, auto y) { return x > y ? x : y; };
constexpr auto PLUS = [](auto x, auto y) { return x + y; };

inline int padded(int n) { return (n + NATIVE - 1) / NATIVE * NATIVE; }

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

// out[k] = sum_i log p(x_i | base + k), lanes [0, NV * NATIVE); a missing value has no factor.
template <int NV>
ALWAYS_INLINE void score_lanes(const Table& t, const Shape& shape, const Network& net, int64_t row, int base,
                               double* out) {
    const int64_t K = shape.n_cells;
    Vector<NATIVE> a[NV];
    for (int v = 0; v < NV; ++v) a[v] = Vector<NATIVE>{};
    const uint8_t* narrow = t.narrow + row * t.n_narrow;
    for (int j = 0; j < t.n_narrow; ++j) {
        const double* p = net.log_table + (t.first_level[j] + narrow[j]) * K + base;
        for (int v = 0; v < NV; ++v) a[v] += load<NATIVE>(p + v * NATIVE);
    }
    const uint16_t* wide = t.wide + row * t.n_wide;
    for (int j = 0; j < t.n_wide; ++j) {
        const double* p = net.log_table + (t.first_level[t.n_narrow + j] + wide[j]) * K + base;
        for (int v = 0; v < NV; ++v) a[v] += load<NATIVE>(p + v * NATIVE);
    }
    const double* numbers = t.numbers + row * t.n_numbers;
    for (int j = 0; j < t.n_numbers; ++j) {
        double x = numbers[j];
        if (x != x) continue;
        int64_t at = j * K + base;
        for (int v = 0; v < NV; ++v) {
            Vector<NATIVE> d = load<NATIVE>(net.slope + at + v * NATIVE) * x + load<NATIVE>(net.intercept + at + v * NATIVE);
            a[v] += load<NATIVE>(net.log_norm + at + v * NATIVE) - d * d;
        }
    }
    for (int v = 0; v < NV; ++v) store<NATIVE>(out + v * NATIVE, a[v]);
}

void score_cells(const Table& t, const Shape& shape, const Network& net, int64_t row, int base, int n,
                 double* out) {
    int done = 0;
    for (; done + 3 * NATIVE < n; done += 4 * NATIVE) score_lanes<4>(t, shape, net, row, base + done, out + done);
    for (; done + NATIVE < n; done += 2 * NATIVE) score_lanes<2>(t, shape, net, row, base + done, out + done);
    for (; done < n; done += NATIVE) score_lanes<1>(t, shape, net, row, base + done, out + done);
}

// Adds responsibilities r[0..n) of cells base.. to the statistics.
void collect_cells(const Table& t, const Shape& shape, int64_t row, int base, int n, const double* r,
                   Statistics& s) {
    const int64_t K = shape.n_cells, plane = int64_t(t.n_numbers) * K;
    const uint8_t* narrow = t.narrow + row * t.n_narrow;
    for (int j = 0; j < t.n_narrow; ++j) {
        double* p = s.counts + (t.first_level[j] + narrow[j]) * K + base;
        for (int k = 0; k < n; ++k) p[k] += r[k];
    }
    const uint16_t* wide = t.wide + row * t.n_wide;
    for (int j = 0; j < t.n_wide; ++j) {
        double* p = s.counts + (t.first_level[t.n_narrow + j] + wide[j]) * K + base;
        for (int k = 0; k < n; ++k) p[k] += r[k];
    }
    const double* numbers = t.numbers + row * t.n_numbers;
    for (int j = 0; j < t.n_numbers; ++j) {
        double x = numbers[j];
        if (x != x) continue;
        double* p = s.moments + j * K + base;
        for (int k = 0; k < n; ++k) {
            p[k] += r[k];
            p[plane + k] += r[k] * x;
            p[2 * plane + k] += r[k] * x * x;
        }
    }
}

ALWAYS_INLINE double log_sum_exp(const double* x, int n, double top) {
    double total = 0;
    for (int i = 0; i < n; ++i) total += std::exp(x[i] - top);
    return top + std::log(total);
}

// ---------------------------------------------------------------- rows of one class, few states

struct ClassView {
    int c, base;             // class, first cell of its states
    const double* prior;     // (n_components,) log weight, -infinity where there is no such state
    const double* complete;  // the same plus the Gaussian norms of all columns
};

template <int N>
struct Number {
    constexpr operator int() const { return N; }
};

// Some rows of one class; in what follows, R of them at once, and the states of the class are NV vectors of W lanes.
struct Rows {
    const int32_t* order;
    int64_t begin;

    int64_t operator[](int r) const { return begin + order[r]; }
    Rows from(int r) const { return {order + r, begin}; }
};

// out = log p(s, x) for the states of the class, (R, NV * W). `COMPLETE`: no number of the rows is missing.
template <int W, int NV, int R, bool COMPLETE>
ALWAYS_INLINE void score(const Table& t, const Shape& shape, const Network& net, const ClassView& view, Rows rows,
                         double* out) {
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
        for (int v = 0; v < NV; ++v) store<W>(out + (r * NV + v) * W, a[r][v]);
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

// Adds responsibilities of R rows, (R, NV * W), to the counts of states and of discrete columns.
template <int W, int NV, int R>
ALWAYS_INLINE void count(const Table& t, const Shape& shape, const ClassView& view, Rows rows,
                         const double* responsibilities, Statistics& s) {
    const int64_t K = shape.n_cells;
    const uint8_t* narrow[R];
    const uint16_t* wide[R];
    Vector<W> a[R][NV];
    for (int r = 0; r < R; ++r) {
        narrow[r] = t.narrow + rows[r] * t.n_narrow;
        wide[r] = t.wide + rows[r] * t.n_wide;
        for (int v = 0; v < NV; ++v) a[r][v] = load<W>(responsibilities + (r * NV + v) * W);
    }
    double* states = s.states + shape.first_state[view.c];
    for (int v = 0; v < NV; ++v) {
        Vector<W> cases = a[0][v];
        for (int r = 1; r < R; ++r) cases += a[r][v];
        store<W>(states + v * W, load<W>(states + v * W) + cases);
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
ALWAYS_INLINE void add_moments(const Table& t, const Shape& shape, const ClassView& view, Rows rows, int n, int j,
                               const double* responsibilities, Statistics& s) {
    const int64_t K = shape.n_cells, plane = int64_t(t.n_numbers) * K;
    Vector<W> cases[J][NV], first[J][NV], second[J][NV];
    for (int i = 0; i < J; ++i)
        for (int v = 0; v < NV; ++v) cases[i][v] = first[i][v] = second[i][v] = Vector<W>{};
    for (int r = 0; r < n; ++r) {
        const double* numbers = t.numbers + rows[r] * t.n_numbers + j;
        for (int v = 0; v < NV; ++v) {
            const Vector<W> a = load<W>(responsibilities + (r * NV + v) * W);
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

// Rows of one class, a tile at a time: scores, responsibilities and statistics one after the other, so that the
// exponentials of many rows overlap.
template <int W, int NV, int R>
void visit_class(const Table& t, const Shape& shape, const Network& net, const ClassView& view, Rows rows, int n_rows,
                 bool hard, Statistics& s, double* complete_mass, double* top, double* total) {
    constexpr int TILE = 32;
    constexpr int J = NV == 1 ? 4 : NV <= 3 ? 2 : 1;  // columns whose moments fit into the registers
    alignas(64) double a[TILE * NV * W];  // of each state, one after the other: log p, p / max p, responsibility
    double share[TILE];
    int32_t best[TILE];
    auto for_lanes = [&](int n, auto each) {
        for (int i = 0; i < n; ++i)
            for (int v = 0; v < NV; ++v) store<W>(a + (i * NV + v) * W, each(i, load<W>(a + (i * NV + v) * W)));
    };
    auto in_groups = [&](int n, auto each) {  // of R rows, then single ones
        int i = 0;
        for (; i + R <= n; i += R) each(Number<R>{}, i);
        for (; i < n; ++i) each(Number<1>{}, i);
    };
    for (int done = 0; done < n_rows; done += TILE, top += TILE, total += TILE) {
        const int n = n_rows - done < TILE ? n_rows - done : TILE;
        const Rows tile = rows.from(done);
        auto any_missing = [&](int i, int size) {
            uint8_t missing = 0;
            for (int r = 0; t.incomplete && r < size; ++r) missing |= t.incomplete[tile[i + r]];
            return missing != 0;
        };
        in_groups(n, [&](auto size, int i) {
            if (any_missing(i, size))
                score<W, NV, size, false>(t, shape, net, view, tile.from(i), a + i * NV * W);
            else
                score<W, NV, size, true>(t, shape, net, view, tile.from(i), a + i * NV * W);
        });
        in_groups(n, [&](auto size, int i) {
            reduce_rows<W, NV, size>(a + i * NV * W, top + i, LARGER);
        });
        for_lanes(n, [&](int i, Vector<W> x) { return x - top[i]; });
        if (hard)
            for (int i = 0; i < n; ++i)
                for (best[i] = 0; best[i] < NV * W - 1 && a[i * NV * W + best[i]] != 0;) ++best[i];
        exp_of_negatives(a, n * NV * W);
        in_groups(n, [&](auto size, int i) {
            reduce_rows<W, NV, size>(a + i * NV * W, total + i, PLUS);
        });
        for (int i = 0; i < n; ++i) share[i] = (t.weights ? t.weights[tile[i]] : 1.0) / (hard ? 1.0 : total[i]);
        if (hard)
            for (int i = 0; i < n; ++i)
                for (int k = 0; k < NV * W; ++k) a[i * NV * W + k] = k == best[i] ? share[i] : 0.0;
        else
            for_lanes(n, [&](int i, Vector<W> x) { return x * share[i]; });
        in_groups(n, [&](auto size, int i) { count<W, NV, size>(t, shape, view, tile.from(i), a + i * NV * W, s); });
        int j = 0;
        if (any_missing(0, n)) {
            for (; j + J <= t.n_numbers; j += J) add_moments<W, NV, J, false>(t, shape, view, tile, n, j, a, s);
            for (; j < t.n_numbers; ++j) add_moments<W, NV, 1, false>(t, shape, view, tile, n, j, a, s);
        } else {
            for (int i = 0; i < n; ++i)
                for (int v = 0; v < NV; ++v)
                    store<W>(complete_mass + v * W, load<W>(complete_mass + v * W) + load<W>(a + (i * NV + v) * W));
            for (; j + J <= t.n_numbers; j += J) add_moments<W, NV, J, true>(t, shape, view, tile, n, j, a, s);
            for (; j < t.n_numbers; ++j) add_moments<W, NV, 1, true>(t, shape, view, tile, n, j, a, s);
        }
    }
}

using VisitClass = void (*)(const Table&, const Shape&, const Network&, const ClassView&, Rows, int, bool, Statistics&,
                            double*, double*, double*);

// Four rows in flight while their sums fit into the registers.
template <int W, int NV>
constexpr VisitClass visit_class_of = visit_class<W, NV, (NV <= 2 ? 4 : NV <= 4 ? 2 : 1)>;

VisitClass visitor(int n_components) {
    if (n_components == 2) return visit_class_of<2, 1>;
    if constexpr (NATIVE > 2)
        if (n_components == 4) return visit_class_of<4, 1>;
    if constexpr (NATIVE == 8)
        if (n_components == 12) return visit_class<4, 3, 4>;
    switch (n_components / NATIVE) {
        case 1: return visit_class_of<NATIVE, 1>;
        case 2: return visit_class_of<NATIVE, 2>;
        case 3: return visit_class_of<NATIVE, 3>;
        case 4: return visit_class_of<NATIVE, 4>;
        case 5: return visit_class_of<NATIVE, 5>;
        case 6: return visit_class_of<NATIVE, 6>;
        default: return nullptr;
    }
}

int padded_components(int n) { return n <= 2 ? 2 : n <= 4 ? 4 : n > 8 && n <= 12 ? 12 : padded(n); }

// ---------------------------------------------------------------- a row over several classes

// One row over the states of classes [c_begin, c_end): all of them if it is unlabelled. Returns its log-likelihood.
double visit_row(const Table& t, const Shape& shape, const Network& net, int64_t row, int c_begin, int c_end,
               bool hard, Statistics& s, double* cells, double* joint, double* by_component) {
    const int H = shape.n_components, s_begin = c_begin * H, n = (c_end - c_begin) * H;
    const bool shared_cells = shape.n_cells < shape.n_states;
    const int base = shared_cells ? 0 : s_begin, n_cells = shared_cells ? H : n;
    score_cells(t, shape, net, row, base, n_cells, cells);
    double top = -INFINITY;
    int best = 0;
    for (int i = 0; i < n; ++i) {
        joint[i] = net.log_weight[s_begin + i] + cells[shared_cells ? i % H : i];
        if (joint[i] > top) {
            top = joint[i];
            best = i;
        }
    }
    const double weight = t.weights ? t.weights[row] : 1.0;
    double* r = joint;  // from here on responsibilities
    for (int i = 0; i < n; ++i) r[i] = joint[i] - top;
    exp_array(r, r, n);
    for (int k = 0; k < H; ++k) by_component[k] = 0;
    for (int i = 0; i < n; ++i) by_component[i % H] += r[i];
    double total = 0, most = 0;
    for (int k = 0; k < H; ++k) {
        total += by_component[k];
        most = by_component[k] > most ? by_component[k] : most;
    }
    const double fit = weight * (top + std::log(total));
    s.log_likelihood += fit;
    s.joint += weight * top;
    s.classification += weight * (top + std::log(most));
    for (int i = 0; i < n; ++i) r[i] = hard ? (i == best ? weight : 0.0) : r[i] * (weight / total);
    for (int i = 0; i < n; ++i) s.states[s_begin + i] += r[i];
    if (shared_cells) {
        for (int k = 0; k < H; ++k) cells[k] = 0;
        for (int i = 0; i < n; ++i) cells[i % H] += r[i];
        r = cells;
    }
    collect_cells(t, shape, row, base, n_cells, r, s);
    return fit;
}

// Numbers 0 .. n - 1 in the order of their labels, -1 first; bucket[c + 1] is the end of class c in it.
void sort_by_class(const int32_t* labels, int n, int n_classes, int32_t* order, int32_t* bucket) {
    bool same = true;
    for (int i = 1; labels && i < n; ++i) same &= labels[i] == labels[0];
    if (same) {
        const int c = labels ? labels[0] : -1;
        for (int k = 0; k <= n_classes; ++k) bucket[k] = k > c ? n : 0;
        for (int i = 0; i < n; ++i) order[i] = i;
        return;
    }
    for (int c = 0; c < n_classes + 2; ++c) bucket[c] = 0;
    for (int i = 0; i < n; ++i) ++bucket[labels[i] + 2];
    for (int c = 1; c < n_classes + 2; ++c) bucket[c] += bucket[c - 1];
    // bucket[c + 1] is now where class c begins; filling moves it to its end.
    for (int i = 0; i < n; ++i) order[bucket[labels[i] + 1]++] = i;
}

void expect(const Table& t, const Shape& shape, const Network& net, int64_t begin, int64_t end, bool hard,
            Statistics& s, double* scratch) {
    const int H = shape.n_components, C = shape.n_classes;
    double* cells = scratch;
    double* joint = cells + padded(shape.n_cells);
    double* by_component = joint + padded(shape.n_states);
    double* complete = by_component + padded(H);        // (n_states)
    double* complete_mass = complete + shape.n_states;  // (n_states)
    double* top = complete_mass + shape.n_states;
    double* total = top + CHUNK;
    int32_t* order = reinterpret_cast<int32_t*>(total + CHUNK);
    int32_t* bucket = order + CHUNK;  // (n_classes + 2): where a class's rows begin in `order`

    for (int i = 0; i < shape.n_states; ++i) {
        complete[i] = net.log_weight[i];
        const int cell = shape.first_cell[i / H] + i % H;
        for (int j = 0; j < t.n_numbers; ++j) complete[i] += net.log_norm[int64_t(j) * shape.n_cells + cell];
        complete_mass[i] = 0;
    }
    const VisitClass visit_few = visitor(H);

    for (int64_t at = begin; at < end; at += CHUNK) {
        const int n = int(end - at < CHUNK ? end - at : CHUNK);
        // Rows of one class together, unlabelled ones first: parameters stay in the nearest cache.
        sort_by_class(t.labels ? t.labels + at : nullptr, n, C, order, bucket);
        for (int c = -1, first = 0; c < C; first = bucket[c + 1], ++c) {
            const int n_rows = bucket[c + 1] - first;
            if (n_rows == 0) continue;
            if (c < 0 || !visit_few) {
                for (int i = first; i < first + n_rows; ++i) {
                    const double fit = visit_row(t, shape, net, at + order[i], c < 0 ? 0 : c, c < 0 ? C : c + 1, hard,
                                                 s, cells, joint, by_component);
                    if (c >= 0) s.of_class[c] += fit;
                }
                continue;
            }
            ClassView view{c, shape.first_cell[c], net.log_weight + c * H, complete + c * H};
            visit_few(t, shape, net, view, Rows{order + first, at}, n_rows, hard, s, complete_mass + c * H, top, total);
            log_array(total, total, n_rows);
            if (t.weights)
                for (int i = 0; i < n_rows; ++i) {
                    top[i] *= t.weights[at + order[first + i]];
                    total[i] *= t.weights[at + order[first + i]];
                }
            const double joint_sum = sum_array(top, n_rows);
            const double fit = joint_sum + sum_array(total, n_rows);
            s.log_likelihood += fit;
            s.of_class[c] += fit;
            s.joint += joint_sum;
            s.classification += joint_sum;
        }
    }
    // Rows without a missing number count in every numeric column.
    for (int i = 0; i < shape.n_states; ++i)
        for (int j = 0; j < t.n_numbers; ++j)
            s.moments[int64_t(j) * shape.n_cells + shape.first_cell[i / H] + i % H] += complete_mass[i];
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
            score_cells(t, shape, net, at + r, 0, shape.n_cells, cells);
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
            if (what == Posterior::log_proba) {
                double norm = log_sum_exp(row, C, m);
                for (int c = 0; c < C; ++c) row[c] -= norm;
            } else {
                for (int c = 0; c < C; ++c) row[c] -= m;
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
    const int64_t C = shape.n_classes;
    const int64_t row = padded(shape.n_cells) + padded(shape.n_states) + padded(shape.n_components);
    const int64_t of_expect = 2 * shape.n_states + 3 * CHUNK + C + 2, of_posterior = 2 * ROWS * C;
    return row + (of_expect > of_posterior ? of_expect : of_posterior);
}

}  // namespace

#define STRING_OF(x) #x
#define NAME_OF(x) STRING_OF(x)
namespace KERNEL_ISA {
extern const Kernel kernel = {NAME_OF(KERNEL_ISA), scratch_size, padded_components, expect, posterior, gather, exp_array, log_array};
}

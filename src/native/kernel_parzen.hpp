// Kernel densities of the classes, each row without the kernels of its own kind, and the loss that they make.
#pragma once

#include "kernel.hpp"
#include "vector.hpp"

#include <cmath>

namespace fanbayes {
namespace {

// Vectors of centres that are in flight at once.
constexpr int IN_FLIGHT = 4, CENTRES_AT_ONCE = IN_FLIGHT * NATIVE;
static_assert(PARZEN_MULTIPLE % CENTRES_AT_ONCE == 0);

// A row whose loss has a smaller derivative by all scores adds nothing to the gradient.
constexpr double SATURATED = 1e-10;

// Densities of classes, beside that of the likeliest, are not taken to be less, so that they have a logarithm.
constexpr double LEAST_DENSITY = 1e-300;

// log r(x, m) of all centres, (stride,); 0 beyond the last.
void parzen_scores(const Parzen& p, const ParzenTerms& t, const double* x, double* scores) {
    using V = Vector<NATIVE>;
    for (int64_t at = 0; at < p.stride; at += CENTRES_AT_ONCE) {
        V sum[IN_FLIGHT] = {};
        auto add_column = [&](int64_t i, auto term) INLINED {  // term(centre's value)
            const double* own = p.centres + i * p.stride + at;
            for (int v = 0; v < IN_FLIGHT; ++v) {
                const V m = load<NATIVE>(own + v * NATIVE);
                sum[v] += m == m ? term(m) : V{};
            }
        };
        for (int64_t i = 0; i < p.n_numbers; ++i) {
            if (x[i] != x[i]) continue;
            const double *own = t.numbers + 3 * i, a = own[0];
            const V value = broadcast<NATIVE>(x[i]), constant = broadcast<NATIVE>(own[2] + own[1] * x[i] * x[i]);
            add_column(i, [&](V m) INLINED { return constant - a * (value - m) * (value - m); });
        }
        for (int64_t i = p.n_numbers; i < p.n_columns; ++i) {
            if (x[i] != x[i]) continue;
            const int64_t j = i - p.n_numbers;
            const V value = broadcast<NATIVE>(x[i]), other = broadcast<NATIVE>(t.other[j]),
                    same = broadcast<NATIVE>(t.same[p.first_level[j] + int64_t(x[i])]);
            add_column(i, [&](V m) INLINED { return m == value ? same : other; });
        }
        for (int v = 0; v < IN_FLIGHT; ++v) store<NATIVE>(scores + at + v * NATIVE, sum[v]);
    }
}

// Sums over the centres that have a column of G (stride,), and of G times what `weight` makes of the centre's value.
template <typename Weight>
ALWAYS_INLINE void weighted_sums(const Parzen& p, int64_t i, const double* G, Weight weight, double& all, double& some) {
    using V = Vector<NATIVE>;
    const double* own = p.centres + i * p.stride;
    V sum_all[IN_FLIGHT] = {}, sum_some[IN_FLIGHT] = {};
    for (int64_t at = 0; at < p.stride; at += CENTRES_AT_ONCE)
        for (int v = 0; v < IN_FLIGHT; ++v) {
            const V m = load<NATIVE>(own + at + v * NATIVE), G_m = load<NATIVE>(G + at + v * NATIVE);
            const V known = m == m ? G_m : V{};
            sum_all[v] += known;
            sum_some[v] += m == m ? weight(m, known) : V{};
        }
    for (int v = 1; v < IN_FLIGHT; ++v) {
        sum_all[0] += sum_all[v];
        sum_some[0] += sum_some[v];
    }
    all = reduce<NATIVE>(sum_all[0], PLUS);
    some = reduce<NATIVE>(sum_some[0], PLUS);
}

// Adds the derivative of a row's loss by the terms of the columns, given that by the scores, G (stride,).
void add_parzen_gradient(const Parzen& p, const double* x, const double* G, ParzenGradient& out) {
    using V = Vector<NATIVE>;
    double all, some;
    for (int64_t i = 0; i < p.n_numbers; ++i) {
        if (x[i] != x[i]) continue;
        const V value = broadcast<NATIVE>(x[i]);
        weighted_sums(p, i, G, [&](V m, V g) INLINED { return g * (value - m) * (value - m); }, all, some);
        out.numbers[3 * i] -= some;
        out.numbers[3 * i + 1] += all * x[i] * x[i];
        out.numbers[3 * i + 2] += all;
    }
    for (int64_t i = p.n_numbers; i < p.n_columns; ++i) {
        if (x[i] != x[i]) continue;
        const V value = broadcast<NATIVE>(x[i]);
        const int64_t j = i - p.n_numbers;
        weighted_sums(p, i, G, [&](V m, V g) INLINED { return m == value ? g : V{}; }, all, some);
        out.same[p.first_level[j] + int64_t(x[i])] += some;
        out.other[j] += all - some;
    }
}

// Of a row, -log((1 - noise) p(y | x) + noise p(y)) and its gradient, given p(x | c) / b(x) of the classes in units of exp(top); `vouched` holds
// share_m r(x, m) of the centres in the same units, and becomes the derivative by the scores.
void add_parzen_loss(const Parzen& p, const ParzenRows& rows, int64_t n, double background, const double* density,
                     const double* left, double* vouched, ParzenGradient& out) {
    const int label = rows.labels[n];
    double total = 0, most = 0;
    for (int c = 0; c < p.n_classes; ++c) total += p.prior[c] * density[c];
    const double right = (1 - rows.noise) * p.prior[label] * density[label] / total, floor = rows.noise * p.prior[label];
    out.loss -= rows.weights[n] * std::log(right + floor);
    const double weight = rows.weights[n] * right / (right + floor);
    for (int c = 0; c < p.n_classes; ++c) {
        const double by_density = weight * (p.prior[c] / total - (c == label ? 1 / density[c] : 0.0));
        const double each = left[c] > 0 ? by_density / left[c] : 0.0;
        out.background += by_density * background;
        most = LARGER(most, std::abs(by_density * density[c]));
        for (int64_t m = p.first_centre[c]; m < p.first_centre[c + 1]; ++m) vouched[m] *= each;
    }
    if (most >= SATURATED) add_parzen_gradient(p, rows.values + n * p.n_columns, vouched, out);
}

void parzen_row(const Parzen& p, const ParzenTerms& t, const ParzenRows& rows, int64_t n, double* joint,
                ParzenGradient* loss, double* room) {
    const int C = p.n_classes, N = int(p.n_centres);
    const double* x = rows.values + n * p.n_columns;
    double *scores = room, *density = room + p.stride, *left = density + C;
    parzen_scores(p, t, x, scores);
    for (int c = 0; c < C; ++c) left[c] = p.share_of_class[c];
    if (const int32_t kind = rows.kind[n]; kind >= 0)
        for (int64_t k = p.first_of_kind[kind]; k < p.first_of_kind[kind + 1]; ++k) {
            const int32_t m = p.of_kind[k];
            scores[m] += p.log_kept[m];
            left[p.class_of[m]] -= p.share[m] * (1 - std::exp(p.log_kept[m]));
        }
    const double top = N ? LARGER(t.log_background, reduce_array(scores, N, LARGER)) : t.log_background;
    for (int m = 0; m < N; ++m) scores[m] -= top;
    exp_of_negatives(scores, N);
    for (int64_t m = 0; m < p.stride; ++m) scores[m] *= p.share[m];
    const double background = std::exp(t.log_background - top);
    for (int c = 0; c < C; ++c) {
        const int64_t first = p.first_centre[c];
        density[c] = background;
        if (left[c] > 0) density[c] += reduce_array(scores + first, int(p.first_centre[c + 1] - first), PLUS) / left[c];
        density[c] = LARGER(density[c], LEAST_DENSITY);
        if (joint) joint[c] = std::log(p.prior[c] * density[c]) + top;
    }
    if (loss) add_parzen_loss(p, rows, n, background, density, left, scores, *loss);
}

void parzen_rows(const Parzen& p, const ParzenTerms& t, const ParzenRows& rows, int64_t begin, int64_t end,
                 double* joint, ParzenGradient* loss, double* room) {
    for (int64_t n = begin; n < end; ++n)
        parzen_row(p, t, rows, n, joint ? joint + (n - begin) * p.n_classes : nullptr, loss, room);
}

}  // namespace
}  // namespace fanbayes

#include "tree_weights.hpp"

#include "coded_trees.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace fanbayes::tree_weights {
namespace {

constexpr size_t C = N_COMPONENTS;
using Weights = std::array<double, C>;
constexpr double MOST_WEIGHT = 30.0, TOLERANCE = 1e-8;
constexpr int MOST_STEPS = 100, MOST_HALVINGS = 40;

struct Slope {
    double loss = 0;
    Weights gradient{};
    std::array<Weights, C> curvature{};
};

// Loss, gradient and second derivatives at w, without the cases of a fold.
Slope slope_at(const Judged& in, int32_t fold, const Weights& w, const Weights& usual, const Weights& scale) {
    const size_t K = in.log_prior.size();
    std::vector<double> p(K);
    Slope out;
    for (size_t i = 0; i < in.n; ++i) {
        if (in.folds[i] == fold) continue;
        const float* x = in.components + i * C * K;
        double most = -INFINITY, sum = 0;
        for (size_t k = 0; k < K; ++k) {
            p[k] = in.log_prior[k];
            for (size_t s = 0; s < C; ++s) p[k] += w[s] * double(x[s * K + k]);
            most = std::max(most, p[k]);
        }
        const size_t y = size_t(in.labels[i]);
        const double of_label = p[y];
        for (double& one : p) sum += one = std::exp(one - most);
        out.loss += in.weights[i] * (std::log(sum) + most - of_label);
        Weights mean{};
        for (size_t s = 0; s < C; ++s) {
            for (size_t k = 0; k < K; ++k) mean[s] += p[k] / sum * double(x[s * K + k]);
            out.gradient[s] += in.weights[i] * (mean[s] - double(x[s * K + y]));
        }
        for (size_t s = 0; s < C; ++s)
            for (size_t r = 0; r <= s; ++r) {
                double product = 0;
                for (size_t k = 0; k < K; ++k) product += p[k] / sum * double(x[s * K + k]) * double(x[r * K + k]);
                out.curvature[s][r] += in.weights[i] * (product - mean[s] * mean[r]);
            }
    }
    for (size_t s = 0; s < C; ++s) {
        const double away = (w[s] - usual[s]) / scale[s];
        out.loss += away * away;
        out.gradient[s] += 2 * away / scale[s];
        out.curvature[s][s] += 2 / (scale[s] * scale[s]);
        for (size_t r = 0; r < s; ++r) out.curvature[r][s] = out.curvature[s][r];
    }
    return out;
}

// -curvature^-1 gradient over the free weights, 0 for the others; the curvature is positive definite.
Weights newton_step(Slope at, const std::array<bool, C>& is_free) {
    for (size_t s = 0; s < C; ++s) {
        if (is_free[s]) continue;
        at.gradient[s] = 0;
        for (size_t r = 0; r < C; ++r) at.curvature[s][r] = at.curvature[r][s] = double(r == s);
    }
    Weights step = at.gradient;
    auto& a = at.curvature;
    for (size_t s = 0; s < C; ++s)  // Gauss, without exchanges
        for (size_t r = s + 1; r < C; ++r) {
            const double factor = a[r][s] / a[s][s];
            for (size_t q = s; q < C; ++q) a[r][q] -= factor * a[s][q];
            step[r] -= factor * step[s];
        }
    for (size_t s = C; s-- > 0;) {
        for (size_t q = s + 1; q < C; ++q) step[s] -= a[s][q] * step[q];
        step[s] /= a[s][s];
    }
    for (double& one : step) one = -one;
    return step;
}

// Newton's method, projected on what weights may be.
Weights learn_weights(const Judged& in, int32_t fold, const Weights& usual, const Weights& scale, Weights w) {
    Slope at = slope_at(in, fold, w, usual, scale);
    for (int step = 0; step < MOST_STEPS; ++step) {
        std::array<bool, C> is_free;
        for (size_t s = 0; s < C; ++s)
            is_free[s] = !(w[s] <= 0 && at.gradient[s] > 0) && !(w[s] >= MOST_WEIGHT && at.gradient[s] < 0);
        const Weights direction = newton_step(at, is_free);
        double length = 1;
        Weights next;
        Slope there;
        for (int halving = 0; halving < MOST_HALVINGS; ++halving, length /= 2) {
            for (size_t s = 0; s < C; ++s) next[s] = std::clamp(w[s] + length * direction[s], 0.0, MOST_WEIGHT);
            there = slope_at(in, fold, next, usual, scale);
            if (there.loss <= at.loss) break;
        }
        const double gain = at.loss - there.loss;
        if (!(gain > 0)) break;
        w = next, at = there;
        if (gain <= TOLERANCE * (1 + std::abs(at.loss))) break;
    }
    return w;
}

}  // namespace

std::vector<double> learn(const Judged& judged, const std::vector<double>& usual, const std::vector<double>& scale,
                          ThreadPool& pool) {
    Weights from, by;
    std::copy_n(usual.begin(), C, from.begin());
    std::copy_n(scale.begin(), C, by.begin());
    const Weights all = learn_weights(judged, -1, from, by, from);
    std::vector<double> out(all.begin(), all.end());
    out.resize((1 + judged.n_folds) * C);
    coded_trees::run(pool, judged.n_folds, [&](size_t fold) {
        const Weights found = learn_weights(judged, int32_t(fold), from, by, all);
        std::copy(found.begin(), found.end(), out.begin() + ptrdiff_t((1 + fold) * C));
    });
    return out;
}

}  // namespace fanbayes::tree_weights

#include "discriminative.hpp"

#include "lbfgs.hpp"
#include "sums.hpp"

#include <cmath>
#include <numbers>

namespace fanbayes {

StepShape::StepShape(const Rows& rows, const Shape& shape, const std::vector<Factor>& factors, const Network& network)
    : n_factors(0),
      n_moved(rows.n_levels() + rows.n_numbers() - size_t(network.n_linear) + 2 * rows.n_regressions()),
      n_cells(size_t(shape.n_cells)) {
    for (const Factor& f : factors) n_factors += f.parent.size();
}

namespace {

// of a step of one standard deviation, on slope x + intercept
constexpr double UNIT = 1 / std::numbers::sqrt2;

// The penalised conditional log-likelihood of a network that has moved.
class Conditional {
    const Rows& rows_;
    const std::vector<Factor>& factors_;
    const Network origin_;
    EStep e_step_;
    const StepShape shape_;
    const size_t n_states_, n_normal_, n_pairs_;
    const Buffer room_, statistics_room_;
    double *log_weight_, *table_, *numeric_, *regression_;  // of the network that has moved
    Statistics statistics_;
    std::vector<Pass> passes_{1};

    size_t levels() const { return rows_.n_levels() * shape_.n_cells; }

    void move(const double* steps) {
        const size_t K = shape_.n_cells;
        std::copy_n(origin_.log_weight, n_states_, log_weight_);
        for (const Factor& f : factors_) {
            for (size_t s = 0; s < n_states_; ++s) log_weight_[s] += steps[f.entry[s]];
            steps += f.parent.size();
        }
        for (size_t i = 0; i < levels(); ++i) table_[i] = origin_.log_table[i] + steps[i];
        steps += levels();
        auto shift = [&](double* to, const double* from) {
            for (size_t k = 0; k < K; ++k) to[k] = from[k] - UNIT * steps[k];
            steps += K;
        };
        for (size_t j = 0; j < n_normal_; ++j) shift(numeric_ + (3 * j + 1) * K, origin_.numeric + (3 * j + 1) * K);
        for (size_t which : {1, 3})  // intercept, coefficient
            for (size_t j = 0; j < n_pairs_; ++j)
                shift(regression_ + (4 * j + which) * K, origin_.regression + (4 * j + which) * K);
    }

    // Of the log-likelihood by the steps: statistics of the factors' entries and of the levels; and, with
    // d = slope x + intercept, the derivative of -d^2 is sqrt(2) d.
    void derivatives(double* to) const {
        const size_t K = shape_.n_cells;
        for (const Factor& f : factors_) {
            std::fill_n(to, f.parent.size(), 0.0);
            for (size_t s = 0; s < n_states_; ++s) to[f.entry[s]] += statistics_.states[s];
            to += f.parent.size();
        }
        std::copy_n(statistics_.counts, levels(), to);
        for (int64_t end : rows_.level_ends())  // "missing" does not move
            std::fill_n(to + size_t(end - 1) * K, K, 0.0);
        to += levels();
        for (size_t j = 0; j < n_normal_; ++j, to += K) {
            const double *N = statistics_.moments + 3 * j * K, *x = N + K, *slope = numeric_ + 3 * j * K,
                         *intercept = slope + K;
            for (size_t k = 0; k < K; ++k) to[k] = 2 * UNIT * (slope[k] * x[k] + intercept[k] * N[k]);
        }
        double *by_intercept = to, *by_slope = to + n_pairs_ * K;
        for (size_t j = 0; j < n_pairs_; ++j, by_intercept += K, by_slope += K) {
            const double *N = statistics_.regression + 6 * j * K, *x = N + K, *p = x + 2 * K, *pp = p + K, *xp = pp + K,
                         *slope = regression_ + 4 * j * K, *intercept = slope + K, *coefficient = slope + 3 * K;
            for (size_t k = 0; k < K; ++k) {
                by_intercept[k] = 2 * UNIT * (slope[k] * x[k] + coefficient[k] * p[k] + intercept[k] * N[k]);
                by_slope[k] = 2 * UNIT * (slope[k] * xp[k] + coefficient[k] * pp[k] + intercept[k] * p[k]);
            }
        }
    }

  public:
    double strength = 0;

    Conditional(const Rows& rows, const States& states, const std::vector<Factor>& factors, const Network& origin,
                size_t n_blocks, ThreadPool& pool)
        : rows_(rows),
          factors_(factors),
          origin_(origin),
          e_step_(rows, states, 1, n_blocks, false, pool),
          shape_(rows, states.shape(), factors, origin),
          n_states_(size_t(states.shape().n_states)),
          n_normal_(rows.n_numbers() - size_t(origin.n_linear)),
          n_pairs_(rows.n_regressions()),
          room_(n_states_ + (rows.n_levels() + 3 * rows.n_numbers() + 4 * n_pairs_) * shape_.n_cells),
          statistics_room_(e_step_.n_statistics()),
          log_weight_(room_.data()),
          table_(log_weight_ + n_states_),
          numeric_(table_ + levels()),
          regression_(numeric_ + 3 * rows.n_numbers() * shape_.n_cells),
          statistics_(e_step_.statistics(statistics_room_.data())) {
        std::copy_n(origin.numeric, 3 * rows.n_numbers() * shape_.n_cells, numeric_);
        std::copy_n(origin.regression, 4 * n_pairs_ * shape_.n_cells, regression_);
        passes_[0].network = {log_weight_, table_, numeric_, origin.n_linear, regression_};
        passes_[0].out = &statistics_;
    }

    size_t size() const { return shape_.size(); }

    // Minus the objective, and its gradient.
    double loss(const double* steps, double* gradient) {
        move(steps);
        e_step_(passes_, Shares::contrast);
        derivatives(gradient);
        for (size_t i = 0; i < size(); ++i) gradient[i] = strength * steps[i] - gradient[i];
        return 0.5 * strength * dot(steps, steps, size()) - statistics_.log_likelihood;
    }
};

}  // namespace

void fine_tune(const Rows& rows, const States& states, const std::vector<Factor>& factors, const Network& network,
               const FineTuning& options, size_t n_blocks, ThreadPool& pool, const std::function<void()>& between,
               double* out) {
    Conditional conditional(rows, states, factors, network, n_blocks, pool);
    const size_t n = conditional.size();
    std::vector<double> steps(n);
    for (double strength : options.strengths) {
        conditional.strength = strength;
        minimise({n, [&](const double* at, double* gradient) { return conditional.loss(at, gradient); },
                  options.tolerance, options.most_steps, between},
                 steps.data());
        out = std::copy(steps.begin(), steps.end(), out);
    }
}

}  // namespace fanbayes

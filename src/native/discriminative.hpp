// Discriminative fine-tuning (D1): the conditional log-likelihood, and how it is maximised.
//
// What may move are the log factors of the states' weights, the log probabilities of levels and the means, the latter in
// standard deviations: in terms of the kernel, slope x + intercept then becomes slope x + intercept - step / sqrt(2).
// So all that has to be known of a network are its terms and its factors. Regressions move by intercept and slope; linear
// terms stay.
#pragma once

#include "e_step.hpp"
#include "m_step.hpp"

#include <functional>
#include <vector>

namespace fanbayes {

struct FineTuning {
    std::vector<double> strengths;  // how much it costs to move
    double tolerance;               // the search ends when a step gains less than this share of the loss
    int most_steps;
};

// Steps of a network: entries of its factors, one after the other, then for each cell levels, normal numbers, intercepts
// and slopes of regressions, (..., n_cells).
struct StepShape {
    size_t n_factors, n_moved, n_cells;

    StepShape(const Rows&, const Shape&, const std::vector<Factor>&, const Network&);
    size_t size() const { return n_factors + n_moved * n_cells; }
};

// For each strength in turn, going on from the steps of the one before, the steps that maximise
// sum_l w_l log p(c_l | x_l) - (strength / 2) |steps|^2; out: (strengths, steps). `between` is called after each step of
// the search, and may throw.
void fine_tune(const Rows&, const States&, const std::vector<Factor>&, const Network&, const FineTuning&,
               size_t n_blocks, ThreadPool&, const std::function<void()>& between, double* out);

}  // namespace fanbayes

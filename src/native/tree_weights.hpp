// Weights of what trees say, learnt from the cases that they have left out (learning/ensembles/left_out.py, T2).
#pragma once

#include "thread_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fanbayes::tree_weights {

constexpr size_t N_COMPONENTS = 5;

// Cases that were left out, and what was said of them.
struct Judged {
    const float* components;  // (n, N_COMPONENTS, n_classes)
    const int32_t *labels, *folds;
    const double* weights;
    size_t n, n_folds;
    std::vector<double> log_prior;
};

// Weights w of the components: none negative, and such that the sum over cases of -log p(label) with
// log p(c) = log_prior + w . components + const, plus the sum of ((w - usual) / scale)^2, is least. First by all cases,
// then by those outside of each fold: (1 + n_folds, N_COMPONENTS).
std::vector<double> learn(const Judged& judged, const std::vector<double>& usual, const std::vector<double>& scale,
                          ThreadPool& pool);

}  // namespace fanbayes::tree_weights

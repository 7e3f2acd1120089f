// The cross-validated loss of naive Bayes in the branches of a split: what a tree with naive Bayes in its leaves is
// grown by.
#pragma once

#include "thread_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fanbayes::nb_tree {

// Cases of a node: rows of discrete columns, each with its class, the fold that holds it out, and its weight.
struct Cases {
    const int32_t* levels;  // (n, n_columns), on the flat axis of all levels
    const int32_t *labels, *folds;
    const double* weights;
    size_t n;
    std::vector<int64_t> first_level;  // of each column, and the end; the last of a column is "missing"
    size_t n_classes, n_folds;

    size_t n_columns() const { return first_level.size() - 1; }
    size_t n_levels() const { return size_t(first_level.back()); }
    size_t missing(size_t j) const { return size_t(first_level[j + 1]) - 1; }
};

// What is added to the counts of a branch, of the cases outside of each fold; 0 for levels that a branch cannot have.
struct PseudoCounts {
    const double* levels;   // (n_folds, n_levels, n_classes)
    const double* classes;  // (n_folds, n_classes)
};

// A branch for each level of a column, or, with a threshold, one for the codes up to it and one for those beyond; no
// column: all cases are one branch.
struct Split {
    int column = -1, threshold = -1;
};

enum class Loss { error, log_loss };

// Sum of the losses of all cases, each predicted by naive Bayes of its branch without the cases of its fold. A case
// whose value of the column is missing is in all branches, by their shares of the others. Infinite where there are
// fewer than two branches, or fewer cases than `least` a branch in the mean.
std::vector<double> split_losses(const Cases& cases, const PseudoCounts& pseudo, const std::vector<Split>& splits,
                                 Loss loss, double least, ThreadPool& pool);

}  // namespace fanbayes::nb_tree

// Forests of randomised trees with naive Bayes in their nodes (learning/ensembles/nb_forest.py has the model).
#pragma once

#include "thread_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fanbayes::nb_forest {

constexpr size_t MOST_CODES = 64;  // of a column, "missing" included: a set of codes is a word
constexpr size_t N_SHARES = 3;     // components of a node: what its class shares say, in three ways
constexpr size_t N_COMPONENTS = N_SHARES + 2;  // and what its network and the root's say
constexpr size_t N_PARTS = 3;      // of the cases, each of which one tree of a group leaves out

// What columns are to the trees, by codes, and to the networks, by levels.
struct Columns {
    std::vector<uint8_t> n_codes;     // of values; the next code is "missing"
    std::vector<uint8_t> is_ordered;  // cut in two by the order of the codes, not by class shares
    const uint8_t* level;             // (n_columns, MOST_CODES), of each code; n_levels for "missing"
    std::vector<uint8_t> n_levels;

    size_t size() const { return n_codes.size(); }
};

struct Cases {
    const uint8_t* codes;   // (n_columns, n)
    const int32_t* labels;  // (n)
    const double* weights;  // (n)
    const int32_t* parts;   // (n_groups, n); N_PARTS + k: judged with those of part k, and not learnt from
    size_t n, n_groups;
};

struct Settings {
    double min_split, min_network;  // least cases of a node that is split, and of one that has its own network
    size_t n_known;                 // columns that the networks of a tree know
    uint64_t seed;
};

// Trees one after the other, the nodes of each before those below them: the left one of a node comes next.
struct Trees {
    size_t n_classes = 0, n_known = 0;
    std::vector<int64_t> first_node{0}, first_number{0};  // of each tree, and the end; numbers are those of `tables`
    std::vector<int32_t> column, right, network;          // of nodes; column -1: a leaf; right: from the tree's first
    std::vector<uint64_t> to_left, to_right;              // codes that go there; a case of neither stays
    std::vector<float> shares;                            // (n_nodes, N_SHARES, n_classes)
    std::vector<int32_t> known;                           // (n_trees, n_known), columns of the networks, increasing
    std::vector<float> tables;                            // log p(level | class), (networks, levels, classes)

    size_t n_trees() const { return first_node.size() - 1; }
};

// Grows the trees of all groups. `held_out` (n, N_COMPONENTS, n_classes) is the mean over the trees that have left out
// a case; zeros when it comes.
Trees grow(const Cases& cases, const Columns& columns, const std::vector<double>& prior, const Settings& settings,
           float* held_out, ThreadPool& pool);

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
std::vector<double> learn_weights(const Judged& judged, const std::vector<double>& usual,
                                  const std::vector<double>& scale, ThreadPool& pool);

// Trees that predict: one vector a node, one table a network, both weighted.
struct Forest {
    const int64_t *first_node, *first_number;
    const int32_t *column, *right, *network;
    const uint64_t *to_left, *to_right;
    const float* values;  // (n_nodes, n_classes)
    const int32_t* known;
    const float* tables;
    size_t n_trees, n_known, n_classes;
};

// Adds to `out` (n, n_classes) what the trees say of rows of codes (n, n_columns).
void add_scores(const Forest& forest, const Columns& columns, const uint8_t* codes, size_t n, double* out,
                ThreadPool& pool);
// The same by column: `out` (n, n_columns, n_classes).
void add_terms(const Forest& forest, const Columns& columns, const uint8_t* codes, size_t n, double* out,
               ThreadPool& pool);

}  // namespace fanbayes::nb_forest

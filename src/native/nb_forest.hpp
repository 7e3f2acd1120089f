// Forests of randomised trees with naive Bayes in their nodes (learning/ensembles/nb_forest.py has the model).
#pragma once

#include "coded_trees.hpp"
#include "thread_pool.hpp"
#include "tree_weights.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fanbayes::nb_forest {

// Components of a node are what its class shares say, in three ways, and what its network and the root's say.
constexpr size_t N_SHARES = 3;
constexpr size_t N_PARTS = 3;  // of the cases, each of which one tree of a group leaves out

using coded_trees::Columns;
using tree_weights::N_COMPONENTS;
static_assert(N_COMPONENTS == N_SHARES + 2);

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

}  // namespace fanbayes::nb_forest

// Sequences of small trees, each grown on what those before it leave unexplained
// (learning/ensembles/boosted_trees.py has the model).
#pragma once

#include "coded_trees.hpp"
#include "tree_weights.hpp"

namespace fanbayes::boosted_trees {

using coded_trees::Columns;

constexpr size_t N_STAGES = tree_weights::N_COMPONENTS;  // rounds are weighed in so many stages

struct Cases {
    const uint8_t* codes;   // (n_columns, n)
    const int32_t* labels;  // (n)
    const double* weights;  // (n)
    const int32_t* units;   // (n); those of a unit are drawn together
    const int32_t* parts;   // (n); n_parts + k: judged with those of part k, and not learnt from
    size_t n, n_parts;
    bool has_others;  // whether there are such: then they alone are judged
};

struct Settings {
    std::vector<size_t> ends;  // rounds at the end of each stage
    size_t depth;              // most steps from the root of a tree to a leaf
    double rate;               // by which the step of a tree is multiplied
    double shrinkage;          // added to the curvature, in cases
    double min_cases;          // least cases of a node
    double share;              // of the cases of a sequence, that a tree is grown on
    size_t n_tried;            // columns that a node takes the best of
    uint64_t seed;
};

// Trees one after the other, the nodes of each before those below them: the left one of a node comes next.
struct Trees {
    std::vector<int64_t> first_node{0};       // of each tree, and the end
    std::vector<int32_t> stage;               // of each tree
    std::vector<int32_t> column, right;       // of nodes; column -1: a leaf; right: from the tree's first
    std::vector<uint64_t> to_left, to_right;  // codes that go there; a case of neither stays
    std::vector<float> values;                // (n_nodes, n_classes), 0 of a root

    size_t n_trees() const { return first_node.size() - 1; }
};

// Grows one sequence for each part, from the cases outside of it, stage after stage until the cases left out are not
// predicted better any more. `held_out` (n, N_STAGES, n_classes) is what the trees of a stage add for a case that they
// have left out; zeros when it comes.
Trees grow(const Cases& cases, const Columns& columns, const std::vector<double>& prior, const Settings& settings,
           float* held_out, ThreadPool& pool);

}  // namespace fanbayes::boosted_trees

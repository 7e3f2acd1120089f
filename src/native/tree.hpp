// Exact inference where values are missing, in models with a forest of arcs between the columns:
// log p(x | cell) = sum_i log p(x_i | x_pa(i), cell).
//
// A node is *live* in a row if it is observed or has an observed descendant. The others sum to 1, drop out, and get no
// statistics. Live nodes that are not observed are *hidden*: they are summed or integrated out from the leaves up, and
// their expected statistics are collected from the roots down.
#pragma once

#include "kernel.hpp"
#include "thread_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fanbayes {

// What a node adds to log p(x | cell), and where its parameters and statistics begin.
enum class TreeTerm {
    lookup,      // log_table[place + u (levels + 1) + v], u the value of a discrete parent, 0 without one
    normal,      // number place + u: log_norm - (slope x + intercept)^2
    linear,      // number place + u: log_norm + slope x; it has no children
    regression,  // regression `place`: log_norm - (slope x + coefficient p + intercept)^2, p a continuous parent
};

struct TreeNode {
    int parent;  // -1: none
    int levels;  // 0: a number
    TreeTerm term;
    size_t place;
    size_t column;  // of the codes, or of the numbers
};

// The arrays that the places of the nodes are in.
struct TreeSizes {
    int64_t n_levels, n_numbers, n_linear, n_regressions;

    // Counts; N, sum x, sum x^2 of each number; N, sum x, sum x^2, sum p, sum p^2, sum x p of each regression.
    size_t n_statistics() const { return size_t(n_levels + 3 * n_numbers + 6 * n_regressions); }
};

struct TreeParameters {
    const double* log_table;   // (n_levels, n_cells)
    const double* numeric;     // (n_numbers, 3, n_cells): slope, intercept, log_norm
    const double* regression;  // (n_regressions, 4, n_cells): slope, intercept, log_norm, coefficient
    size_t n_cells;
};

struct TreeRows {
    int64_t n_rows;
    const int64_t* codes;   // (n_rows, discrete nodes), `levels` = missing
    const double* numbers;  // (n_rows, continuous nodes), NaN = missing
    const int32_t* labels;  // (n_rows,), -1 = unlabelled; null: none is labelled
    const double* weights;  // (n_rows,); null: all 1
};

// As `Statistics`, in one array: states, (n_statistics, n_cells), classes, and the three sums.
struct TreeStatistics {
    size_t cells, classes, sums, size;

    TreeStatistics(const TreeSizes& sizes, const Shape& shape)
        : cells(size_t(shape.n_states)),
          classes(cells + sizes.n_statistics() * size_t(shape.n_cells)),
          sums(classes + size_t(shape.n_classes)),
          size(sums + 3) {}
};

// Discrete nodes and continuous nodes have the columns of the codes and of the numbers in their order.
class Tree {
  public:
    const TreeSizes sizes;
    std::vector<TreeNode> nodes;  // parents before their children
    size_t n_discrete = 0, n_continuous = 0;

    // Of each node: its levels (0: a number), its parent (-1: none), the place of its parameters.
    Tree(const std::vector<int64_t>& levels, const std::vector<int64_t>& parent, const std::vector<int64_t>& place,
         const TreeSizes& sizes);

    // All values and labels; throws.
    void check(const TreeRows& rows, int n_classes) const;

    // Fills out (n_rows, n_cells): log p(x | cell).
    void log_cells(const TreeRows& rows, const TreeParameters& parameters, double* out, ThreadPool& pool) const;
    // Fills out (TreeStatistics): those of all rows, expected or, if `hard`, of the most probable state. Rows are cut
    // into blocks, which are added up in their order: the result does not depend on the pool.
    void e_step(const TreeRows& rows, const Shape& shape, const double* log_weight, const TreeParameters& parameters,
                bool hard, size_t n_blocks, double* out, ThreadPool& pool) const;

  private:
    TreeNode node(int64_t levels, int64_t parent, int64_t parent_levels, int64_t place);
    void sort_nodes();
};

}  // namespace fanbayes

#include "coded_trees.hpp"

#include <algorithm>

namespace fanbayes::coded_trees {
namespace {

constexpr size_t ROWS_AT_ONCE = 256;

// For rows in blocks, tree after tree: say(row, tree, first levels of its networks).
template <typename Say>
void each_row_and_tree(const Forest& forest, const Columns& columns, size_t n, ThreadPool& pool, Say say) {
    run(pool, (n + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, [&](size_t block) {
        std::vector<size_t> first;
        for (size_t t = 0; t < forest.n_trees; ++t) {
            set_first(columns, forest.known + t * forest.n_known, forest.n_known, first);
            for (size_t i = block * ROWS_AT_ONCE; i < std::min(n, (block + 1) * ROWS_AT_ONCE); ++i) say(i, t, first);
        }
    });
}

const float* table_of(const Forest& forest, size_t t, size_t node, size_t n_levels) {
    return forest.tables + size_t(forest.first_number[t]) + size_t(forest.network[node]) * n_levels * forest.n_classes;
}

}  // namespace

void add_scores(const Forest& forest, const Columns& columns, const uint8_t* codes, size_t n, double* out,
                ThreadPool& pool) {
    const size_t K = forest.n_classes, M = columns.size();
    each_row_and_tree(forest, columns, n, pool, [&](size_t i, size_t t, const std::vector<size_t>& first) {
        const uint8_t* row = codes + i * M;
        double* to = out + i * K;
        const size_t node = descend(forest, size_t(forest.first_node[t]), [row](size_t j) { return row[j]; });
        for (size_t c = 0; c < K; ++c) to[c] += double(forest.values[node * K + c]);
        each_term(columns, forest.known + t * forest.n_known, forest.n_known, first,
                  table_of(forest, t, node, first.back()), K, row, [&](size_t, const float* p) {
                      for (size_t c = 0; c < K; ++c) to[c] += double(p[c]);
                  });
    });
}

void add_terms(const Forest& forest, const Columns& columns, const uint8_t* codes, size_t n, double* out,
               ThreadPool& pool) {
    const size_t K = forest.n_classes, M = columns.size();
    each_row_and_tree(forest, columns, n, pool, [&](size_t i, size_t t, const std::vector<size_t>& first) {
        const uint8_t* row = codes + i * M;
        double* to = out + i * M * K;
        const size_t end = descend(
            forest, size_t(forest.first_node[t]), [row](size_t j) { return row[j]; },
            [&](size_t node, size_t next) {
                double* of_column = to + size_t(forest.column[node]) * K;
                for (size_t c = 0; c < K; ++c)
                    of_column[c] += double(forest.values[next * K + c]) - double(forest.values[node * K + c]);
            });
        each_term(columns, forest.known + t * forest.n_known, forest.n_known, first,
                  table_of(forest, t, end, first.back()), K, row, [&](size_t j, const float* p) {
                      for (size_t c = 0; c < K; ++c) to[j * K + c] += double(p[c]);
                  });
    });
}

}  // namespace fanbayes::coded_trees

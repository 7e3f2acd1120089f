#include "coded_trees.hpp"

#include <algorithm>

namespace fanbayes::coded_trees {
namespace {

constexpr size_t ROWS_AT_ONCE = 256;
constexpr size_t MOST_ENDS = 32;  // bits of a word

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

Ends::Ends(const Forest& forest, const Columns& columns) : first_test_(1), first_end_(1) {
    for (size_t t = 0; t < forest.n_trees; ++t) {
        add_tree(forest, columns, t);
        first_test_.push_back(tests_.size()), first_end_.push_back(ends_.size());
    }
}

void Ends::add_tree(const Forest& forest, const Columns& columns, size_t t) {
    const size_t first = size_t(forest.first_node[t]), n = size_t(forest.first_node[t + 1]) - first;
    const auto own = [&](size_t node) {  // whether a row can end there
        const int32_t j = forest.column[node];
        const uint64_t leading = forest.to_left[node] | forest.to_right[node];
        return j < 0 || (~leading & bits_below(size_t(columns.n_codes[size_t(j)]) + 1)) != 0;
    };
    std::vector<uint32_t> below(n), self(n);  // ends at a node or under it, and the node itself
    for (size_t k = 0, n_ends = 0; k < n; ++k) {
        if (!own(first + k)) continue;
        if (n_ends == MOST_ENDS) {
            ends_.resize(first_end_[t]);
            return;
        }
        self[k] = uint32_t(1) << n_ends++;
        ends_.push_back(first + k);
    }
    std::vector<size_t> test_of(columns.size(), tests_.size() + columns.size());
    for (size_t k = n; k-- > 0;) {
        below[k] = self[k];
        if (forest.column[first + k] < 0) continue;
        const size_t node = first + k, j = size_t(forest.column[node]), right = size_t(forest.right[node]);
        below[k] |= below[k + 1] | below[right];
        const size_t n_codes = size_t(columns.n_codes[j]) + 1;
        if (test_of[j] >= tests_.size()) {
            test_of[j] = tests_.size();
            tests_.push_back({j, words_.size()});
            words_.resize(words_.size() + n_codes, ~uint32_t(0));
        }
        uint32_t* words = words_.data() + tests_[test_of[j]].table;
        for (size_t code = 0; code < n_codes; ++code) {
            const uint32_t led = forest.to_left[node] & bit(code)    ? below[k + 1]
                                 : forest.to_right[node] & bit(code) ? below[right]
                                                                     : self[k];
            words[code] &= ~below[k] | led;
        }
    }
}

void Ends::find(size_t t, const uint8_t* codes, size_t stride, size_t n, uint32_t* left, size_t* node) const {
    std::fill(left, left + n, ~uint32_t(0));
    for (size_t k = first_test_[t]; k < first_test_[t + 1]; ++k) {
        const uint8_t* code = codes + tests_[k].column * stride;
        const uint32_t* words = words_.data() + tests_[k].table;
        for (size_t i = 0; i < n; ++i) left[i] &= words[code[i]];
    }
    const size_t* ends = ends_.data() + first_end_[t];
    for (size_t i = 0; i < n; ++i) node[i] = ends[std::countr_zero(left[i])];
}

void add_scores(const Forest& forest, const Ends& ends, const Columns& columns, const uint8_t* codes, size_t n,
                double* out, ThreadPool& pool) {
    const size_t K = forest.n_classes, M = columns.size();
    run(pool, (n + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, [&](size_t block) {
        const size_t begin = block * ROWS_AT_ONCE, n_here = std::min(n - begin, ROWS_AT_ONCE);
        const uint8_t* rows = codes + begin * M;
        std::vector<uint8_t> by_column(M * n_here);
        for (size_t i = 0; i < n_here; ++i)
            for (size_t j = 0; j < M; ++j) by_column[j * n_here + i] = rows[i * M + j];
        std::vector<uint32_t> left(n_here);
        std::vector<size_t> node(n_here), first;
        for (size_t t = 0; t < forest.n_trees; ++t) {
            if (ends.knows(t)) {
                ends.find(t, by_column.data(), n_here, n_here, left.data(), node.data());
            } else {
                for (size_t i = 0; i < n_here; ++i)
                    node[i] = descend(forest, size_t(forest.first_node[t]), [&](size_t j) { return rows[i * M + j]; });
            }
            set_first(columns, forest.known + t * forest.n_known, forest.n_known, first);
            for (size_t i = 0; i < n_here; ++i) {
                double* to = out + (begin + i) * K;
                for (size_t c = 0; c < K; ++c) to[c] += double(forest.values[node[i] * K + c]);
                each_term(columns, forest.known + t * forest.n_known, forest.n_known, first,
                          table_of(forest, t, node[i], first.back()), K, rows + i * M, [&](size_t, const float* p) {
                              for (size_t c = 0; c < K; ++c) to[c] += double(p[c]);
                          });
            }
        }
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

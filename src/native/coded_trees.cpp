#include "coded_trees.hpp"

#include <algorithm>
#include <bit>

namespace fanbayes::coded_trees {
namespace {

constexpr size_t ROWS_AT_ONCE = 1024;  // the networks of all trees are read once for them
// Of a tree; in larger ones, and where words take so many times the room of the tree, rows descend.
constexpr size_t MOST_WORDS = 16, MOST_ROOM = 16;

const float* table_of(const Forest& forest, size_t t, size_t node, size_t n_levels) {
    return forest.tables + size_t(forest.first_number[t]) + size_t(forest.network[node]) * n_levels * forest.n_classes;
}

// Bytes of the nodes of a tree, and bytes that a word of its ends takes at most.
size_t room_of_tree(const Forest& forest, size_t t) {
    const size_t of_node = 3 * sizeof(int32_t) + 2 * sizeof(uint64_t) + forest.n_classes * sizeof(float);
    return size_t(forest.first_node[t + 1] - forest.first_node[t]) * of_node;
}

size_t room_of_word(const Forest& forest, const Columns& columns, size_t t) {
    std::vector<uint8_t> is_tested(columns.size());
    for (int64_t node = forest.first_node[t]; node < forest.first_node[t + 1]; ++node)
        if (forest.column[node] >= 0) is_tested[size_t(forest.column[node])] = 1;
    size_t n_codes = 0;
    for (size_t j = 0; j < columns.size(); ++j)
        if (is_tested[j]) n_codes += columns.n_codes[j] + size_t(1);
    return n_codes * sizeof(uint32_t) + MOST_ENDS * (forest.n_known > 0 ? 1 : forest.n_classes) * sizeof(float);
}

}  // namespace

Ends::Ends(const Forest& forest, const Columns& columns)
    : n_classes_(forest.n_classes), has_networks_(forest.n_known > 0), first_word_(1) {
    for (size_t t = 0; t < forest.n_trees; ++t) {
        add_tree(forest, columns, t);
        first_word_.push_back(words_.size());
    }
    tables_.resize(tables_.size() + MOST_CODES);  // they are read beyond their ends
}

void Ends::add_tree(const Forest& forest, const Columns& columns, size_t t) {
    const auto is_end = [&](size_t node) {
        const int32_t j = forest.column[node];
        const uint64_t leading = forest.to_left[node] | forest.to_right[node];
        return j < 0 || (~leading & bits_below(size_t(columns.n_codes[size_t(j)]) + 1)) != 0;
    };
    std::vector<size_t> ends;
    for (size_t node = size_t(forest.first_node[t]); node < size_t(forest.first_node[t + 1]); ++node)
        if (is_end(node)) ends.push_back(node);
    const size_t n_words = (ends.size() + MOST_ENDS - 1) / MOST_ENDS;
    if (n_words > MOST_WORDS || n_words * room_of_word(forest, columns, t) > MOST_ROOM * room_of_tree(forest, t))
        return;
    for (size_t k = 0; k < ends.size(); k += MOST_ENDS)
        add_word(forest, columns, t,
                 {ends.begin() + ptrdiff_t(k), ends.begin() + ptrdiff_t(std::min(k + MOST_ENDS, ends.size()))});
}

void Ends::add_word(const Forest& forest, const Columns& columns, size_t t, const std::vector<size_t>& ends) {
    const size_t first = size_t(forest.first_node[t]), n = size_t(forest.first_node[t + 1]) - first;
    const size_t first_test = tests_.size(), none = size_t(-1);
    std::vector<uint32_t> below(n), self(n);  // ends at a node or under it, and the node itself
    for (size_t k = 0; k < ends.size(); ++k) self[ends[k] - first] = uint32_t(1) << k;
    std::vector<size_t> test_of(columns.size(), none);
    for (size_t k = n; k-- > 0;) {
        below[k] = self[k];
        if (forest.column[first + k] < 0) continue;
        const size_t node = first + k, j = size_t(forest.column[node]), right = size_t(forest.right[node]);
        below[k] |= below[k + 1] | below[right];
        if (below[k] == 0) continue;  // all of its ends are in other words
        const size_t n_codes = size_t(columns.n_codes[j]) + 1;
        if (test_of[j] == none) {
            test_of[j] = tests_.size();
            tests_.push_back({j, tables_.size(), n_codes});
            tables_.resize(tables_.size() + n_codes, ~uint32_t(0));
        }
        uint32_t* table = tables_.data() + tests_[test_of[j]].table;
        for (size_t code = 0; code < n_codes; ++code) {
            const uint32_t led = forest.to_left[node] & bit(code)    ? below[k + 1]
                                 : forest.to_right[node] & bit(code) ? below[right]
                                                                     : self[k];
            table[code] &= ~below[k] | led;
        }
    }
    words_.push_back({first_test, tests_.size() - first_test, uint32_t(bits_below(ends.size()))});
    if (has_networks_) {
        nodes_.resize(words_.size() * MOST_ENDS);
        for (size_t k = 0; k < ends.size(); ++k) nodes_[(words_.size() - 1) * MOST_ENDS + k] = int32_t(ends[k]);
        return;
    }
    values_.resize(words_.size() * n_classes_ * MOST_ENDS);
    float* values = values_.data() + (words_.size() - 1) * n_classes_ * MOST_ENDS;
    for (size_t k = 0; k < ends.size(); ++k)
        for (size_t c = 0; c < n_classes_; ++c) values[c * MOST_ENDS + k] = forest.values[ends[k] * n_classes_ + c];
}

void Ends::keep(const Word& word, const uint8_t* codes, size_t n, uint32_t* left) const {
    std::fill(left, left + n, word.all);
    for (size_t k = word.first_test; k < word.first_test + word.n_tests; ++k) {
        const Test& test = tests_[k];
        kernel->keep_ends(codes + test.column * n, tables_.data() + test.table, int64_t(test.n_codes), left,
                          int64_t(n));
    }
}

void Ends::find(size_t t, const uint8_t* codes, size_t n, uint32_t* left, int32_t* nodes) const {
    for (size_t w = first_word_[t]; w < first_word_[t + 1]; ++w) {
        keep(words_[w], codes, n, left);
        const int32_t* ends = nodes_.data() + w * MOST_ENDS;
        for (size_t i = 0; i < n; ++i)
            if (left[i] != 0) nodes[i] = ends[std::countr_zero(left[i])];
    }
}

void Ends::add_values(size_t t, const uint8_t* codes, size_t n, uint32_t* left, double* sums) const {
    for (size_t w = first_word_[t]; w < first_word_[t + 1]; ++w) {
        keep(words_[w], codes, n, left);
        kernel->add_ends(left, values_.data() + w * n_classes_ * MOST_ENDS, int64_t(n_classes_), sums, int64_t(n));
    }
}

namespace {

// Rows of a block, column by column; those that fill up the last TREE_ROWS have the first code.
struct Block {
    size_t n;                    // rows, those included
    std::vector<uint8_t> codes;  // (n_columns, n)
    std::vector<uint32_t> left;
    std::vector<int32_t> nodes;

    Block(const Columns& columns, const uint8_t* rows, size_t n_rows)
        : n((n_rows + TREE_ROWS - 1) / TREE_ROWS * TREE_ROWS), codes(columns.size() * n), left(n), nodes(n) {
        for (size_t i = 0; i < n_rows; ++i)
            for (size_t j = 0; j < columns.size(); ++j) codes[j * n + i] = rows[i * columns.size() + j];
    }

    void find(const Forest& forest, const Ends& ends, size_t t) {
        if (ends.knows(t)) return ends.find(t, codes.data(), n, left.data(), nodes.data());
        for (size_t i = 0; i < n; ++i) nodes[i] = int32_t(descend_to(forest, t, i));
    }

    size_t descend_to(const Forest& forest, size_t t, size_t i) const {
        return descend(forest, size_t(forest.first_node[t]), [&](size_t j) { return codes[j * n + i]; });
    }
};

// Of trees without networks: `sums` (n_classes, n).
void add_values(const Forest& forest, const Ends& ends, Block& block, double* sums) {
    const size_t K = forest.n_classes, n = block.n;
    for (size_t t = 0; t < forest.n_trees; ++t) {
        if (ends.knows(t)) {
            ends.add_values(t, block.codes.data(), n, block.left.data(), sums);
            continue;
        }
        for (size_t i = 0; i < n; ++i) {
            const float* values = forest.values + block.descend_to(forest, t, i) * K;
            for (size_t c = 0; c < K; ++c) sums[c * n + i] += double(values[c]);
        }
    }
}

// Of trees with networks: `sums` (n, n_classes).
void add_networks(const Forest& forest, const Ends& ends, const Columns& columns, Block& block, double* sums) {
    const size_t K = forest.n_classes, n = block.n;
    std::vector<uint8_t> levels(columns.size() * n);
    for (size_t j = 0; j < columns.size(); ++j)
        for (size_t i = 0; i < n; ++i) {
            const uint8_t level = columns.level[j * MOST_CODES + block.codes[j * n + i]];
            levels[j * n + i] = level < columns.n_levels[j] ? level : NO_LEVEL;
        }
    std::vector<size_t> first;
    std::vector<int64_t> first_level;
    std::vector<const float*> values(n), tables(n);
    for (size_t t = 0; t < forest.n_trees; ++t) {
        const int32_t* known = forest.known + t * forest.n_known;
        set_first(columns, known, forest.n_known, first);
        first_level.assign(first.begin(), first.end());
        block.find(forest, ends, t);
        for (size_t i = 0; i < n; ++i) {
            const size_t node = size_t(block.nodes[i]);
            values[i] = forest.values + node * K;
            tables[i] = table_of(forest, t, node, first.back());
        }
        kernel->add_networks({known, first_level.data(), levels.data(), values.data(), tables.data(),
                              int64_t(forest.n_known), int64_t(K), int64_t(n)},
                             sums);
    }
}

}  // namespace

void find_scores(const Forest& forest, const Ends& ends, const Columns& columns, const uint8_t* codes, size_t n,
                 double* out, ThreadPool& pool) {
    const size_t K = forest.n_classes;
    run(pool, (n + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, [&](size_t k) {
        const size_t begin = k * ROWS_AT_ONCE, n_here = std::min(n - begin, ROWS_AT_ONCE);
        Block block(columns, codes + begin * columns.size(), n_here);
        std::vector<double> sums(block.n * K);
        double* to = out + begin * K;
        if (forest.n_known > 0) {
            add_networks(forest, ends, columns, block, sums.data());
            std::copy(sums.begin(), sums.begin() + ptrdiff_t(n_here * K), to);
        } else {
            add_values(forest, ends, block, sums.data());
            for (size_t i = 0; i < n_here; ++i)
                for (size_t c = 0; c < K; ++c) to[i * K + c] = sums[c * block.n + i];
        }
    });
}

void add_terms(const Forest& forest, const Columns& columns, const uint8_t* codes, size_t n, double* out,
               ThreadPool& pool) {
    const size_t K = forest.n_classes, M = columns.size();
    run(pool, (n + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, [&](size_t block) {
        std::vector<size_t> first;
        for (size_t t = 0; t < forest.n_trees; ++t) {
            const int32_t* known = forest.known + t * forest.n_known;
            set_first(columns, known, forest.n_known, first);
            for (size_t i = block * ROWS_AT_ONCE; i < std::min(n, (block + 1) * ROWS_AT_ONCE); ++i) {
                const uint8_t* row = codes + i * M;
                double* to = out + i * M * K;
                const size_t end = descend(
                    forest, size_t(forest.first_node[t]), [row](size_t j) { return row[j]; },
                    [&](size_t node, size_t next) {
                        double* of_column = to + size_t(forest.column[node]) * K;
                        for (size_t c = 0; c < K; ++c)
                            of_column[c] += double(forest.values[next * K + c]) - double(forest.values[node * K + c]);
                    });
                each_term(columns, known, forest.n_known, first, table_of(forest, t, end, first.back()), K, row,
                          [&](size_t j, const float* p) {
                              for (size_t c = 0; c < K; ++c) to[j * K + c] += double(p[c]);
                          });
            }
        }
    });
}

}  // namespace fanbayes::coded_trees

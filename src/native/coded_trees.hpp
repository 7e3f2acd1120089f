// What trees of columns as codes have in common (learning/ensembles/coded_trees.py).
#pragma once

#include "kernel.hpp"
#include "thread_pool.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

namespace fanbayes::coded_trees {

constexpr size_t MOST_CODES = 64;  // of a column, "missing" included: a set of codes is a word

// What columns are to the trees, by codes, and to the networks in their nodes, by levels.
struct Columns {
    std::vector<uint8_t> n_codes;     // of values; the next code is "missing"
    std::vector<uint8_t> is_ordered;  // cut in two by the order of the codes, not by that of what they say of a class
    const uint8_t* level;             // (n_columns, MOST_CODES), of each code; n_levels for "missing"
    std::vector<uint8_t> n_levels;

    size_t size() const { return n_codes.size(); }
};

class Random {  // splitmix64
    uint64_t state_;

  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t operator()() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    }
    size_t below(size_t n) { return size_t((unsigned __int128)((*this)()) * n >> 64); }
};

struct Split {
    int32_t column = -1;
    double score = 0;
    uint64_t to_left = 0, to_right = 0;
};

inline uint64_t bit(size_t code) { return uint64_t(1) << code; }
inline uint64_t bits_below(size_t n) { return n >= 64 ? ~uint64_t(0) : bit(n) - 1; }

// The node in which a case ends, `code_of(column)` being its codes; `visit(node, next)` is told of every step.
template <typename Nodes, typename CodeOf, typename Visit>
size_t descend(const Nodes& nodes, size_t first, CodeOf code_of, Visit visit) {
    size_t node = first;
    while (nodes.column[node] >= 0) {
        const uint64_t code = bit(code_of(size_t(nodes.column[node])));
        size_t next = node;
        if (nodes.to_left[node] & code) next = node + 1;
        else if (nodes.to_right[node] & code) next = first + size_t(nodes.right[node]);
        if (next == node) break;
        visit(node, next);
        node = next;
    }
    return node;
}

template <typename Nodes, typename CodeOf>
size_t descend(const Nodes& nodes, size_t first, CodeOf code_of) {
    return descend(nodes, first, code_of, [](size_t, size_t) {});
}

// The levels of the columns that the networks of a tree know: where each begins, and the end.
inline void set_first(const Columns& columns, const int32_t* known, size_t n_known, std::vector<size_t>& first) {
    first.assign(1, 0);
    for (size_t k = 0; k < n_known; ++k) first.push_back(first.back() + columns.n_levels[size_t(known[k])]);
}

// add(column, K numbers) for each known column that is not missing.
template <typename Add>
void each_term(const Columns& columns, const int32_t* known, size_t n_known, const std::vector<size_t>& first,
               const float* table, size_t K, const uint8_t* codes, Add add) {
    for (size_t k = 0; k < n_known; ++k) {
        const size_t j = size_t(known[k]), level = columns.level[j * MOST_CODES + codes[j]];
        if (level < columns.n_levels[j]) add(j, table + (first[k] + level) * K);
    }
}

// Moves the entries from `begin` to `end` that go to the left before the others, each side in its order, and tells
// where the right one begins; `code_of(entry)` is that of the column split on, `others` room to work in.
template <typename Entry, typename CodeOf>
size_t divide(const Split& split, std::vector<Entry>& entries, size_t begin, size_t end, std::vector<Entry>& others,
              CodeOf code_of) {
    size_t middle = begin;
    others.clear();
    for (size_t k = begin; k < end; ++k) {
        if (split.to_left & bit(code_of(entries[k]))) entries[middle++] = entries[k];
        else others.push_back(entries[k]);
    }
    std::copy(others.begin(), others.end(), entries.begin() + ptrdiff_t(middle));
    return middle;
}

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
}

// Tasks that may throw.
template <typename Task>
void run(ThreadPool& pool, size_t n, Task task) {
    std::vector<std::exception_ptr> failed(n);
    pool.run(int64_t(n), [&](int64_t k) {
        try {
            task(size_t(k));
        } catch (...) {
            failed[size_t(k)] = std::current_exception();
        }
    });
    for (const std::exception_ptr& error : failed)
        if (error) std::rethrow_exception(error);
}

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

// In which node rows end, of trees that are not too large, without a step from node to node (after QuickScorer,
// Lucchese et al. 2015).
//
// The nodes in which a row can end are bits of words, MOST_ENDS each. A node and a code leave those that are not below
// it, and of the others those to which the code leads; what all nodes leave is one bit of one word. Nodes that look at
// the same column share a table of words by code, so a row takes a look-up for each column of a word, and no branch
// that is hard to foresee.
class Ends {
    struct Test {
        size_t column, table, n_codes;  // where the words of its codes begin
    };
    struct Word {
        size_t first_test, n_tests;
        uint32_t all;  // ends
    };
    size_t n_classes_;
    bool has_networks_;
    std::vector<size_t> first_word_;  // (n_trees + 1,)
    std::vector<Word> words_;
    std::vector<Test> tests_;
    std::vector<uint32_t> tables_;
    std::vector<float> values_;   // (n_words, n_classes, MOST_ENDS), where there are no networks
    std::vector<int32_t> nodes_;  // (n_words, MOST_ENDS), where there are

    void add_tree(const Forest& forest, const Columns& columns, size_t t);
    void add_word(const Forest& forest, const Columns& columns, size_t t, const std::vector<size_t>& ends);
    void keep(const Word& word, const uint8_t* codes, size_t n, uint32_t* left) const;

  public:
    Ends(const Forest& forest, const Columns& columns);
    // Whether the tree is small enough.
    bool knows(size_t t) const { return first_word_[t] < first_word_[t + 1]; }
    // For `n` rows, a multiple of TREE_ROWS, of `codes` (n_columns, n); `left` is room to work in, (n,): their nodes,
    // or what the trees say, added to `sums` (n_classes, n).
    void find(size_t t, const uint8_t* codes, size_t n, uint32_t* left, int32_t* nodes) const;
    void add_values(size_t t, const uint8_t* codes, size_t n, uint32_t* left, double* sums) const;
};

// Writes what the trees say of rows of codes (n, n_columns) to `out` (n, n_classes).
void find_scores(const Forest& forest, const Ends& ends, const Columns& columns, const uint8_t* codes, size_t n,
                 double* out, ThreadPool& pool);
// Adds the same by column to `out` (n, n_columns, n_classes).
void add_terms(const Forest& forest, const Columns& columns, const uint8_t* codes, size_t n, double* out,
               ThreadPool& pool);

}  // namespace fanbayes::coded_trees

#include "nb_forest.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace fanbayes::nb_forest {
namespace {

using namespace coded_trees;

// Shares of a node are shrunk towards those of the node above as by so many cases: a vote, and two logarithms.
constexpr double SHRINKAGE[N_SHARES] = {0.3, 0.03, 3.0};
// So are the tables of its network.
constexpr double TABLE_SHRINKAGE = 5.0;
// No probability becomes smaller, however long the way from the root.
constexpr double LEAST = 1e-6;
// A node takes the best of a third of the columns, and of no more than these.
constexpr size_t MOST_TRIED = 128;
constexpr size_t TREES_AT_ONCE = 12;
constexpr size_t MOST_TABULATED = 1 << 18;

// x log x, from a table where all weights are whole.
class Entropy {
    std::vector<double> table_;

    static double compute(double x) { return x > 0 ? x * std::log(x) : 0.0; }

  public:
    explicit Entropy(const Cases& cases) {
        double total = 0;
        bool whole = true;
        for (size_t i = 0; i < cases.n; ++i) {
            total += cases.weights[i];
            whole = whole && cases.weights[i] == std::floor(cases.weights[i]);
        }
        if (!whole) return;
        table_.resize(size_t(std::min(total, double(MOST_TABULATED))) + 1);
        for (size_t x = 0; x < table_.size(); ++x) table_[x] = compute(double(x));
    }
    double operator()(double x) const {
        return x < double(table_.size()) && !table_.empty() ? table_[size_t(x)] : compute(x);
    }
};

struct Entry {
    uint32_t row;
    int32_t label;
    double weight;
};

// One tree.
class Grower {
    const Cases& cases_;
    const Columns& columns_;
    const std::vector<double>& prior_;
    const Settings& settings_;
    const Entropy& entropy_;
    const size_t K_;
    Random random_;
    const size_t n_tried_;
    std::vector<Entry> entries_, others_;
    std::vector<size_t> order_;  // of the columns
    std::vector<double> counts_, histogram_, levels_, left_;
    std::vector<double> shares_;  // (n_nodes, N_SHARES, K)
    std::vector<size_t> first_;   // of the levels of the known columns, and the end
    Trees tree_;

    struct Waiting {
        size_t begin, end;
        int32_t parent;
        bool is_right;
    };

    // ------------------------------------------------------------ splits

    // Sums of x log x over the classes of both sides, as codes move from the right to the left.
    struct Sides {
        double left = 0, right = 0, n_left = 0, n_right = 0;
        double score(const Entropy& f) const { return left + right - f(n_left) - f(n_right); }
    };

    void move(Sides& sides, size_t code) {
        const double* h = histogram_.data() + code * K_;
        for (size_t c = 0; c < K_; ++c) {
            if (h[c] == 0) continue;
            const double before = counts_[c] - left_[c];
            sides.left += entropy_(left_[c] + h[c]) - entropy_(left_[c]);
            sides.right += entropy_(std::max(before - h[c], 0.0)) - entropy_(before);
            left_[c] += h[c];
            sides.n_left += h[c];
            sides.n_right -= h[c];
        }
    }

    // Codes in the order in which they are cut: their own, or that of their shares of a class that is drawn.
    size_t ordered(size_t j, uint64_t present, uint8_t* codes) {
        size_t n = 0;
        const uint64_t missing = bit(columns_.n_codes[j]);
        const uint64_t sorted = columns_.is_ordered[j] ? present & ~missing : present;
        for (uint64_t rest = sorted; rest; rest &= rest - 1) codes[n++] = uint8_t(std::countr_zero(rest));
        if (columns_.is_ordered[j]) {
            if (present & missing) codes[n++] = columns_.n_codes[j];
            return n;
        }
        const size_t chosen = size_t(random_class());
        double share[MOST_CODES];
        for (size_t k = 0; k < n; ++k) {
            const double* h = histogram_.data() + codes[k] * K_;
            share[codes[k]] = (h[chosen] + prior_[chosen]) / (std::accumulate(h, h + K_, 0.0) + 1.0);
        }
        for (size_t k = 1; k < n; ++k)  // they are few
            for (size_t m = k; m > 0 && share[codes[m]] < share[codes[m - 1]]; --m) std::swap(codes[m], codes[m - 1]);
        return n;
    }

    int32_t random_class() { return entries_[begin_ + random_.below(end_ - begin_)].label; }

    // Counts the cases of each code and class of a column, where all is zero; tells which codes there are.
    uint64_t count(size_t j) {
        const uint8_t* codes = cases_.codes + j * cases_.n;
        uint64_t present = 0;
        for (size_t i = begin_; i < end_; ++i) {
            const Entry& e = entries_[i];
            const size_t code = codes[e.row];
            histogram_[code * K_ + size_t(e.label)] += e.weight;
            present |= bit(code);
        }
        return present;
    }

    void clear(uint64_t present) {
        for (; present; present &= present - 1)
            std::fill_n(histogram_.begin() + ptrdiff_t(size_t(std::countr_zero(present)) * K_), K_, 0.0);
    }

    // The best cut of a column; -1 where it is constant.
    Split best_cut(size_t j, double total, double of_total) {
        const uint64_t present = count(j);
        const bool is_constant = !(present & (present - 1));
        const Split best = is_constant ? Split{} : best_cut(j, present, total, of_total);
        clear(present);
        return best;
    }

    Split best_cut(size_t j, uint64_t present, double total, double of_total) {
        const size_t n_codes = columns_.n_codes[j];
        uint8_t order[MOST_CODES];
        const size_t n = ordered(j, present, order);
        std::fill(left_.begin(), left_.end(), 0.0);
        Sides sides{0, of_total, 0, total};
        Split best{int32_t(j), -INFINITY, 0, 0};
        size_t last = 0;
        for (size_t k = 0; k + 1 < n; ++k) {
            move(sides, order[k]);
            const double score = sides.score(entropy_);
            if (score > best.score + 1e-9) best.score = score, last = k;
        }
        if (columns_.is_ordered[j]) {
            const size_t cut = order[last] + 1u;  // first code of the right side
            best.to_left = bits_below(cut), best.to_right = bits_below(n_codes) & ~best.to_left;
            if (present & bit(n_codes)) place_missing(order, n, last, total, of_total, best);
        } else {
            for (size_t k = 0; k < n; ++k) (k <= last ? best.to_left : best.to_right) |= bit(order[k]);
        }
        return best;
    }

    // What is missing comes last in the order; it may be better on the left.
    void place_missing(const uint8_t* order, size_t n, size_t last, double total, double of_total, Split& best) {
        const uint64_t missing = bit(order[n - 1]);
        best.to_right |= missing;
        if (last + 2 == n) {  // known on the left, missing on the right: no value has a place on the right
            best.to_left |= bits_below(order[n - 1]), best.to_right = missing;
            return;
        }
        std::fill(left_.begin(), left_.end(), 0.0);
        Sides sides{0, of_total, 0, total};
        for (size_t k = 0; k <= last; ++k) move(sides, order[k]);
        move(sides, order[n - 1]);
        const double score = sides.score(entropy_);
        if (score <= best.score + 1e-9) return;
        best.score = score, best.to_left |= missing, best.to_right &= ~missing;
    }

    Split best_split() {
        double total = 0, of_total = 0;
        for (double n : counts_) total += n, of_total += entropy_(n);
        const bool is_pure = std::count_if(counts_.begin(), counts_.end(), [](double n) { return n > 0; }) < 2;
        if (is_pure || end_ - begin_ < 2 || total < settings_.min_split) return {};
        Split best;
        for (size_t k = 0, tried = 0; k < order_.size() && tried < n_tried_; ++k) {
            std::swap(order_[k], order_[k + random_.below(order_.size() - k)]);
            const Split found = best_cut(order_[k], total, of_total);
            if (found.column < 0) continue;
            ++tried;
            if (best.column < 0 || found.score > best.score + 1e-9) best = found;
        }
        return best;
    }

    // ------------------------------------------------------------ what nodes say

    void add_shares(int32_t parent) {
        const double total = std::accumulate(counts_.begin(), counts_.end(), 0.0);
        const size_t at = shares_.size();
        shares_.resize(at + N_SHARES * K_);
        for (size_t s = 0; s < N_SHARES; ++s)
            for (size_t c = 0; c < K_; ++c) {
                double& share = shares_[at + s * K_ + c];
                share = prior_[c];  // of the root
                if (parent >= 0) {
                    const double above = shares_[(size_t(parent) * N_SHARES + s) * K_ + c];
                    share = std::max((counts_[c] + SHRINKAGE[s] * above) / (total + SHRINKAGE[s]), LEAST);
                }
                tree_.shares.push_back(float(s == 0 ? share - prior_[c] : std::log(share / prior_[c])));
            }
    }

    // p(level | class) of the cases of a node; kept as they are until the tree is grown.
    void add_network(int32_t parent) {
        const size_t width = first_.back() * K_, at = tree_.tables.size();
        tree_.tables.resize(at + width);
        float* table = tree_.tables.data() + at;
        const float* above = parent < 0 ? nullptr : tree_.tables.data() + size_t(tree_.network[size_t(parent)]) * width;
        const int32_t* known = tree_.known.data();
        std::vector<double>& sums = left_;
        for (size_t k = 0; k < settings_.n_known; ++k) {
            const size_t j = size_t(known[k]), n_levels = columns_.n_levels[j];
            const uint8_t* codes = cases_.codes + j * cases_.n;
            const uint8_t* level = columns_.level + j * MOST_CODES;
            std::fill_n(levels_.begin(), (n_levels + 1) * K_, 0.0);
            for (size_t i = begin_; i < end_; ++i) {
                const Entry& e = entries_[i];
                levels_[level[codes[e.row]] * K_ + size_t(e.label)] += e.weight;
            }
            std::fill(sums.begin(), sums.end(), TABLE_SHRINKAGE);
            for (size_t l = 0; l < n_levels; ++l)
                for (size_t c = 0; c < K_; ++c) sums[c] += levels_[l * K_ + c];
            for (size_t l = 0; l < n_levels; ++l)
                for (size_t c = 0; c < K_; ++c) {
                    const size_t place = (first_[k] + l) * K_ + c;
                    const double p = above ? double(above[place]) : 1.0 / double(n_levels);
                    table[place] = float(std::max((levels_[l * K_ + c] + TABLE_SHRINKAGE * p) / sums[c], LEAST));
                }
        }
    }

    void choose_known() {
        const size_t M = columns_.size();
        std::vector<int32_t> all(M);
        std::iota(all.begin(), all.end(), 0);
        for (size_t k = 0; k < settings_.n_known; ++k) std::swap(all[k], all[k + random_.below(M - k)]);
        tree_.known.assign(all.begin(), all.begin() + ptrdiff_t(settings_.n_known));
        std::sort(tree_.known.begin(), tree_.known.end());
        first_.assign(1, 0);
        for (int32_t j : tree_.known) first_.push_back(first_.back() + columns_.n_levels[size_t(j)]);
    }

    size_t begin_ = 0, end_ = 0;  // cases of the node that is looked at

    void add_node(const Waiting& from) {
        begin_ = from.begin, end_ = from.end;
        const int32_t node = int32_t(tree_.column.size());
        std::fill(counts_.begin(), counts_.end(), 0.0);
        double total = 0;
        for (size_t i = begin_; i < end_; ++i) counts_[size_t(entries_[i].label)] += entries_[i].weight;
        for (double n : counts_) total += n;
        add_shares(from.parent);
        if (from.parent < 0 || total >= settings_.min_network) {
            tree_.network.push_back(n_networks_++);
            add_network(from.parent);
        } else {
            tree_.network.push_back(tree_.network[size_t(from.parent)]);
        }
        if (from.is_right) tree_.right[size_t(from.parent)] = node;
        const Split split = best_split();
        tree_.column.push_back(split.column);
        tree_.right.push_back(-1);
        tree_.to_left.push_back(split.to_left);
        tree_.to_right.push_back(split.to_right);
        if (split.column < 0) return;
        const uint8_t* codes = cases_.codes + size_t(split.column) * cases_.n;
        const size_t middle =
            divide(split, entries_, begin_, end_, others_, [codes](const Entry& e) { return codes[e.row]; });
        waiting_.push_back({middle, from.end, node, true});
        waiting_.push_back({from.begin, middle, node, false});
    }

    int32_t n_networks_ = 0;
    std::vector<Waiting> waiting_;

  public:
    Grower(const Cases& cases, const Columns& columns, const std::vector<double>& prior, const Settings& settings,
           const Entropy& entropy, uint64_t seed)
        : cases_(cases),
          columns_(columns),
          prior_(prior),
          settings_(settings),
          entropy_(entropy),
          K_(prior.size()),
          random_(seed),
          n_tried_(std::clamp<size_t>((columns.size() + 2) / 3, 1, MOST_TRIED)),
          order_(columns.size()),
          counts_(K_),
          histogram_(MOST_CODES * K_),
          levels_(MOST_CODES * K_),
          left_(K_) {
        std::iota(order_.begin(), order_.end(), size_t(0));
    }

    // From the cases that are not of the part.
    Trees operator()(const int32_t* parts, int32_t part) {
        for (size_t i = 0; i < cases_.n; ++i)
            if (parts[i] != part && parts[i] < int32_t(N_PARTS))
                entries_.push_back({uint32_t(i), cases_.labels[i], cases_.weights[i]});
        choose_known();
        waiting_.push_back({0, entries_.size(), -1, false});
        while (!waiting_.empty()) {
            const Waiting next = waiting_.back();
            waiting_.pop_back();
            add_node(next);
        }
        for (float& p : tree_.tables) p = std::log(p);
        tree_.n_classes = K_, tree_.n_known = settings_.n_known;
        tree_.first_node.push_back(int64_t(tree_.column.size()));
        tree_.first_number.push_back(int64_t(tree_.tables.size()));
        return std::move(tree_);
    }
};

// What a tree says of the cases that it has not seen (n_held_out, N_COMPONENTS, K).
std::vector<float> judge(const Trees& tree, const Cases& cases, const Columns& columns, const int32_t* parts,
                         int32_t part) {
    const size_t K = tree.n_classes, M = columns.size();
    std::vector<size_t> first;
    set_first(columns, tree.known.data(), tree.n_known, first);
    const size_t width = first.back() * K;
    std::vector<uint8_t> codes(M);
    std::vector<float> out;
    for (size_t i = 0; i < cases.n; ++i) {
        if (parts[i] % int32_t(N_PARTS) != part) continue;
        for (size_t j = 0; j < M; ++j) codes[j] = cases.codes[j * cases.n + i];
        const size_t node = descend(tree, 0, [&](size_t j) { return codes[j]; }), at = out.size();
        out.insert(out.end(), tree.shares.begin() + ptrdiff_t(node * N_SHARES * K),
                   tree.shares.begin() + ptrdiff_t((node + 1) * N_SHARES * K));
        out.resize(at + N_COMPONENTS * K);
        for (size_t own = 0; own < 2; ++own) {
            float* to = out.data() + at + (own ? N_SHARES : N_SHARES + 1) * K;
            const float* table = tree.tables.data() + (own ? size_t(tree.network[node]) * width : 0);
            each_term(columns, tree.known.data(), tree.n_known, first, table, K, codes.data(),
                      [&](size_t, const float* p) {
                          for (size_t c = 0; c < K; ++c) to[c] += p[c];
                      });
        }
    }
    return out;
}

void append(Trees& all, const Trees& tree) {
    using coded_trees::append;
    all.first_node.push_back(all.first_node.back() + tree.first_node.back());
    all.first_number.push_back(all.first_number.back() + tree.first_number.back());
    append(all.column, tree.column), append(all.right, tree.right), append(all.network, tree.network);
    append(all.to_left, tree.to_left), append(all.to_right, tree.to_right);
    append(all.shares, tree.shares), append(all.known, tree.known), append(all.tables, tree.tables);
}

}  // namespace

Trees grow(const Cases& cases, const Columns& columns, const std::vector<double>& prior, const Settings& settings,
           float* held_out, ThreadPool& pool) {
    const Entropy entropy(cases);
    const size_t n_trees = cases.n_groups * N_PARTS, width = N_COMPONENTS * prior.size();
    Trees all;
    all.n_classes = prior.size(), all.n_known = settings.n_known;
    for (size_t begin = 0; begin < n_trees; begin += TREES_AT_ONCE) {
        const size_t n = std::min(TREES_AT_ONCE, n_trees - begin);
        std::vector<Trees> grown(n);
        std::vector<std::vector<float>> judged(n);
        run(pool, n, [&](size_t k) {
            const size_t number = begin + k, group = number / N_PARTS;
            const int32_t* parts = cases.parts + group * cases.n;
            const int32_t part = int32_t(number % N_PARTS);
            Random random(settings.seed + number);
            Grower grower(cases, columns, prior, settings, entropy, random());
            grown[k] = grower(parts, part);
            judged[k] = judge(grown[k], cases, columns, parts, part);
        });
        for (size_t k = 0; k < n; ++k) {  // in their order: the same bits for any number of threads
            const int32_t* parts = cases.parts + (begin + k) / N_PARTS * cases.n;
            const float* from = judged[k].data();
            for (size_t i = 0; i < cases.n; ++i) {
                if (parts[i] % int32_t(N_PARTS) != int32_t((begin + k) % N_PARTS)) continue;
                for (size_t m = 0; m < width; ++m) held_out[i * width + m] += from[m];
                from += width;
            }
            append(all, grown[k]);
        }
    }
    for (size_t m = 0; m < cases.n * width; ++m) held_out[m] /= float(cases.n_groups);
    return all;
}

}  // namespace fanbayes::nb_forest

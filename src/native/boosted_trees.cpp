#include "boosted_trees.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fanbayes::boosted_trees {
namespace {

using namespace coded_trees;

// Of more classes, so many are drawn for a tree, by how much is unexplained of them: its cuts are chosen by these.
constexpr size_t MOST_SCORED = 4;
// Of as many cases, those are drawn of which less is unexplained than this part of what is of the mean case, each with
// at least this chance.
constexpr size_t MANY_CASES = 1'000;
constexpr double MUCH_LESS = 0.5, LEAST_CHANCE = 0.1;
// Least gain of a cut.
constexpr double LEAST_GAIN = 1e-6;
// A stage that lowers the loss by less than this part of it is the last one.
constexpr double LEAST_HELP = 0.005;
// Of classes of next to no share a step may be any size; none is larger.
constexpr double MOST_STEP = 100.0;

// First and second derivatives of the loss by the score of a class, of one case.
struct Derivatives {
    float first = 0, second = 0;

    void scale(double by) { first = float(double(first) * by), second = float(double(second) * by); }
};

// The same, summed over cases.
struct Slope {
    double gradient = 0, curvature = 0;

    void operator+=(const Slope& other) { gradient += other.gradient, curvature += other.curvature; }
    void operator-=(const Slope& other) { gradient -= other.gradient, curvature -= other.curvature; }
    void operator+=(const Derivatives& d) { gradient += double(d.first), curvature += double(d.second); }
    double gain(double shrinkage) const { return gradient * gradient / (curvature + shrinkage); }
};

// The trees that leave out one part of the cases.
class Sequence {
    const Cases& cases_;
    const Columns& columns_;
    const Settings& settings_;
    const size_t K_;
    const size_t n_free_;    // classes whose scores are free: of two, the second; else all
    const size_t n_scored_;  // classes that a cut is chosen by
    Random random_;
    std::vector<uint32_t> learnt_, judged_;   // cases
    std::vector<float> scores_;               // log p(c | x) + constant, (n, K)
    std::vector<uint32_t> entries_, others_;  // cases that the tree is grown on, those of a node side by side
    std::vector<uint32_t> not_drawn_;         // cases that are learnt from, but not by this tree
    std::vector<double> unexplained_;         // (n), sum over the classes of |first derivative|
    std::vector<Derivatives> slopes_;         // (n, n_free)
    std::vector<Derivatives> drawn_;          // (n, n_scored), of the classes drawn
    const Derivatives* scored_ = nullptr;     // (n, n_scored), of the classes that cuts are chosen by
    std::vector<Slope> histogram_;            // (MOST_CODES, n_scored)
    std::vector<double> counts_;              // (MOST_CODES), cases
    std::vector<Slope> total_, left_;         // (n_scored)
    std::vector<Slope> of_nodes_;             // (n_nodes of the tree, n_free)
    std::vector<int32_t> parent_;             // of the nodes of the tree
    std::vector<size_t> order_;               // of the columns
    std::vector<double> p_;                   // (K)

    struct Waiting {
        size_t begin, end, depth;
        int32_t parent;
        bool is_right;
    };
    std::vector<Waiting> waiting_;
    struct Leaf {
        size_t begin, end, node;
    };
    std::vector<Leaf> leaves_;
    size_t begin_ = 0, end_ = 0;  // cases of the node that is looked at
    double n_cases_ = 0;

    // ------------------------------------------------------------ gradients

    // p(c | x) of a case by its scores.
    void set_posterior(size_t i) {
        const float* score = scores_.data() + i * K_;
        if (K_ == 2) {
            const double away = double(score[1]) - double(score[0]), e = std::exp(-std::abs(away));
            p_[away > 0] = 1 / (1 + e), p_[away <= 0] = e / (1 + e);
            return;
        }
        const double most = double(*std::max_element(score, score + K_));
        double sum = 0;
        for (size_t c = 0; c < K_; ++c) sum += p_[c] = std::exp(double(score[c]) - most);
        for (double& p : p_) p /= sum;
    }

    // The cases that a tree is grown on, and their derivatives. Of many cases, those of which much less is unexplained
    // than of the mean case are drawn with a probability in proportion, and count as many times as it is less than one
    // (importance sampling, as of Ibragimov & Gusev 2019): where most cases are certain, few are looked at.
    void draw_cases() {
        const uint64_t limit = uint64_t(std::ldexp(std::min(settings_.share, 1.0), 63)), seed = random_();
        entries_.clear(), not_drawn_.clear();
        double sum = 0;
        for (uint32_t i : learnt_) {
            if (settings_.share < 1 && Random(seed ^ uint64_t(cases_.units[i]))() >> 1 >= limit) {
                not_drawn_.push_back(i);
                continue;
            }
            entries_.push_back(i);
            set_posterior(i);
            const double w = cases_.weights[i];
            double unexplained = 0;
            for (size_t f = 0; f < n_free_; ++f) {
                const size_t c = K_ - n_free_ + f;
                const double p = p_[c], is_label = double(size_t(cases_.labels[i]) == c);
                slopes_[i * n_free_ + f] = {float(w * (p - is_label)), float(w * p * (1 - p))};
                unexplained += w * std::abs(p - is_label);
            }
            unexplained_[i] = unexplained;
            sum += unexplained;
        }
        if (entries_.size() < MANY_CASES || !(sum > 0)) return;
        const double enough = MUCH_LESS * sum / double(entries_.size());
        const uint64_t other = random_();
        size_t n = 0;
        for (uint32_t i : entries_) {
            const double chance = std::max(unexplained_[i] / enough, LEAST_CHANCE);
            if (chance < 1) {
                const uint64_t drawn = Random(other ^ uint64_t(cases_.units[i]))() >> 11;
                if (std::ldexp(double(drawn), -53) >= chance) {
                    not_drawn_.push_back(i);
                    continue;
                }
                for (size_t f = 0; f < n_free_; ++f) slopes_[i * n_free_ + f].scale(1 / chance);
            }
            entries_[n++] = i;
        }
        entries_.resize(n);
    }

    void choose_classes() {
        scored_ = slopes_.data();
        if (n_scored_ == n_free_) return;
        std::vector<double> left(n_free_);
        for (size_t i : entries_)
            for (size_t f = 0; f < n_free_; ++f) left[f] += double(std::abs(slopes_[i * n_free_ + f].first));
        size_t chosen[MOST_SCORED];
        for (size_t s = 0; s < n_scored_; ++s) {
            double at = std::ldexp(double(random_() >> 11), -53) * std::accumulate(left.begin(), left.end(), 0.0);
            size_t f = 0;
            while (f + 1 < n_free_ && at >= left[f]) at -= left[f++];
            chosen[s] = f;
            left[f] = 0;
        }
        for (size_t i : entries_)
            for (size_t s = 0; s < n_scored_; ++s) drawn_[i * n_scored_ + s] = slopes_[i * n_free_ + chosen[s]];
        scored_ = drawn_.data();
    }

    // ------------------------------------------------------------ cuts

    // Sums the cases of each code of a column, where all is zero; tells which codes there are.
    uint64_t count(size_t j) { return n_scored_ == 1 ? count<1>(j) : count<0>(j); }

    // N classes that cuts are chosen by; 0: as many as there are.
    template <size_t N>
    uint64_t count(size_t j) {
        const size_t n_scored = N ? N : n_scored_;
        const uint8_t* codes = cases_.codes + j * cases_.n;
        Slope* histogram = histogram_.data();
        double* counts = counts_.data();
        uint64_t present = 0;
        for (size_t k = begin_; k < end_; ++k) {
            const size_t i = entries_[k], code = codes[i];
            for (size_t s = 0; s < n_scored; ++s) histogram[code * n_scored + s] += scored_[i * n_scored + s];
            counts[code] += cases_.weights[i];
            present |= bit(code);
        }
        return present;
    }

    void clear(uint64_t present) {
        for (; present; present &= present - 1) {
            const size_t code = size_t(std::countr_zero(present));
            std::fill_n(histogram_.begin() + ptrdiff_t(code * n_scored_), n_scored_, Slope{});
            counts_[code] = 0;
        }
    }

    // Codes in the order in which they are cut: their own, what is missing last, or that of what they say of a class.
    size_t ordered(size_t j, uint64_t present, uint8_t* codes) {
        size_t n = 0;
        for (uint64_t rest = present; rest; rest &= rest - 1) codes[n++] = uint8_t(std::countr_zero(rest));
        if (columns_.is_ordered[j]) return n;
        const size_t s = n_scored_ > 1 ? random_.below(n_scored_) : 0;
        double step[MOST_CODES];
        for (size_t k = 0; k < n; ++k) {
            const Slope& of_code = histogram_[codes[k] * n_scored_ + s];
            step[codes[k]] = of_code.gradient / (of_code.curvature + settings_.shrinkage);
        }
        for (size_t k = 1; k < n; ++k)  // they are few
            for (size_t m = k; m > 0 && step[codes[m]] < step[codes[m - 1]]; --m) std::swap(codes[m], codes[m - 1]);
        return n;
    }

    // What a cut gains, with `left_` on one side.
    double gain() const {
        double sum = 0;
        for (size_t s = 0; s < n_scored_; ++s) {
            const Slope right{total_[s].gradient - left_[s].gradient, total_[s].curvature - left_[s].curvature};
            sum += left_[s].gain(settings_.shrinkage) + right.gain(settings_.shrinkage);
        }
        return sum;
    }

    void move(size_t code) {
        for (size_t s = 0; s < n_scored_; ++s) left_[s] += histogram_[code * n_scored_ + s];
    }

    Split best_cut(size_t j) {
        const uint64_t present = count(j);
        Split best;
        if (present & (present - 1)) best = best_cut(j, present);
        clear(present);
        return best;
    }

    // The best cut of a column of several codes; of no column where no cut leaves enough cases on both sides.
    Split best_cut(size_t j, uint64_t present) {
        const size_t missing = columns_.n_codes[j];
        uint8_t order[MOST_CODES];
        const size_t n = ordered(j, present, order);
        const bool may_move = columns_.is_ordered[j] && (present & bit(missing));  // what is missing, to the left
        Split best;
        std::fill(left_.begin(), left_.end(), Slope{});
        double n_left = 0;
        for (size_t k = 0; k + 1 < n; ++k) {
            move(order[k]);
            n_left += counts_[order[k]];
            consider(j, present, order, n, k, n_left, false, best);
            if (!may_move || k + 2 == n) continue;
            move(missing);
            consider(j, present, order, n, k, n_left + counts_[missing], true, best);
            for (size_t s = 0; s < n_scored_; ++s) left_[s] -= histogram_[missing * n_scored_ + s];
        }
        return best;
    }

    // The cut after the k-th code of the order, if it is better.
    void consider(size_t j, uint64_t present, const uint8_t* order, size_t n, size_t k, double n_left,
                  bool missing_left, Split& best) const {
        if (n_left < settings_.min_cases || n_cases_ - n_left < settings_.min_cases) return;
        const double score = gain();
        if (best.column >= 0 && score <= best.score + 1e-12 * std::abs(best.score)) return;
        best = {int32_t(j), score, 0, 0};
        const size_t missing = columns_.n_codes[j];
        if (!columns_.is_ordered[j]) {
            for (size_t m = 0; m < n; ++m) (m <= k ? best.to_left : best.to_right) |= bit(order[m]);
            return;
        }
        const uint64_t values = bits_below(missing);
        best.to_left = bits_below(order[k] + 1u) & values, best.to_right = values & ~best.to_left;
        if (!(present & bit(missing))) return;
        if (order[k + 1] == missing) best.to_left = values, best.to_right = 0;  // what is known is on the left
        (missing_left ? best.to_left : best.to_right) |= bit(missing);
    }

    Split best_split() {
        double now = 0;
        std::fill(total_.begin(), total_.end(), Slope{});
        n_cases_ = 0;
        for (size_t k = begin_; k < end_; ++k) {
            for (size_t s = 0; s < n_scored_; ++s) total_[s] += scored_[entries_[k] * n_scored_ + s];
            n_cases_ += cases_.weights[entries_[k]];
        }
        for (const Slope& of_class : total_) now += of_class.gain(settings_.shrinkage);
        Split best;
        if (n_cases_ < 2 * settings_.min_cases) return best;
        for (size_t k = 0, tried = 0; k < order_.size() && tried < settings_.n_tried; ++k) {
            std::swap(order_[k], order_[k + random_.below(order_.size() - k)]);
            const Split found = best_cut(order_[k]);
            if (found.column < 0) continue;
            ++tried;
            if (found.score > now + LEAST_GAIN && (best.column < 0 || found.score > best.score)) best = found;
        }
        return best;
    }

    // ------------------------------------------------------------ a tree

    void add_node(const Waiting& from) {
        begin_ = from.begin, end_ = from.end;
        const size_t first = size_t(trees.first_node.back());
        const int32_t node = int32_t(trees.column.size() - first);
        if (from.is_right) trees.right[first + size_t(from.parent)] = node;
        const Split split = from.depth < settings_.depth ? best_split() : Split{};
        trees.column.push_back(split.column);
        trees.right.push_back(-1);
        trees.to_left.push_back(split.to_left);
        trees.to_right.push_back(split.to_right);
        parent_.push_back(from.parent);
        of_nodes_.resize(of_nodes_.size() + n_free_);
        if (split.column < 0) {
            Slope* of_leaf = of_nodes_.data() + size_t(node) * n_free_;
            for (size_t k = begin_; k < end_; ++k)
                for (size_t f = 0; f < n_free_; ++f) of_leaf[f] += slopes_[entries_[k] * n_free_ + f];
            leaves_.push_back({begin_, end_, first + size_t(node)});
            return;
        }
        const uint8_t* codes = cases_.codes + size_t(split.column) * cases_.n;
        const size_t middle = divide(split, entries_, begin_, end_, others_, [codes](uint32_t i) { return codes[i]; });
        waiting_.push_back({middle, from.end, from.depth + 1, node, true});
        waiting_.push_back({from.begin, middle, from.depth + 1, node, false});
    }

    // (B1), of the nodes of the tree that has been grown last.
    void add_values() {
        for (size_t node = parent_.size(); node-- > 1;)
            for (size_t f = 0; f < n_free_; ++f)
                of_nodes_[size_t(parent_[node]) * n_free_ + f] += of_nodes_[node * n_free_ + f];
        const double rate = settings_.rate * double(K_ - 1) / double(K_);
        for (size_t node = 0; node < parent_.size(); ++node) {
            const size_t at = trees.values.size();
            trees.values.resize(at + K_);
            for (size_t f = 0; f < n_free_ && node > 0; ++f) {
                const Slope& slope = of_nodes_[node * n_free_ + f];
                const double newton = -rate * slope.gradient / (slope.curvature + settings_.shrinkage);
                const double step = std::clamp(newton, -MOST_STEP, MOST_STEP);
                trees.values[at + K_ - n_free_ + f] = float(step);
                if (K_ == 2) trees.values[at] = float(-step);
            }
        }
    }

    size_t end_of(size_t i, size_t first) const {
        return descend(trees, first, [&](size_t j) { return cases_.codes[j * cases_.n + i]; });
    }

    void grow_tree(size_t stage, float* held_out) {
        draw_cases();
        choose_classes();
        of_nodes_.clear(), parent_.clear(), leaves_.clear();
        waiting_.push_back({0, entries_.size(), 0, -1, false});
        while (!waiting_.empty()) {
            const Waiting next = waiting_.back();
            waiting_.pop_back();
            add_node(next);
        }
        add_values();
        const size_t first = size_t(trees.first_node.back());
        for (const Leaf& leaf : leaves_)
            for (size_t k = leaf.begin; k < leaf.end; ++k) add_to(scores_.data() + entries_[k] * K_, leaf.node);
        for (uint32_t i : not_drawn_) add_to(scores_.data() + i * K_, end_of(i, first));
        for (uint32_t i : judged_) {
            const size_t node = end_of(i, first);
            add_to(scores_.data() + i * K_, node);
            add_to(held_out + (i * N_STAGES + stage) * K_, node);
        }
        trees.first_node.push_back(int64_t(trees.column.size()));
        trees.stage.push_back(int32_t(stage));
    }

    void add_to(float* to, size_t node) const {
        for (size_t c = 0; c < K_; ++c) to[c] += trees.values[node * K_ + c];
    }

  public:
    Trees trees;

    Sequence(const Cases& cases, const Columns& columns, const std::vector<double>& prior, const Settings& settings,
             size_t part)
        : cases_(cases),
          columns_(columns),
          settings_(settings),
          K_(prior.size()),
          n_free_(K_ == 2 ? 1 : K_),
          n_scored_(std::min(n_free_, MOST_SCORED)),
          random_(Random(settings.seed + part)()),
          scores_(cases.n * K_),
          unexplained_(cases.n),
          slopes_(cases.n * n_free_),
          drawn_(n_scored_ < n_free_ ? cases.n * n_scored_ : 0),
          histogram_(MOST_CODES * n_scored_),
          counts_(MOST_CODES),
          total_(n_scored_),
          left_(n_scored_),
          order_(columns.size()),
          p_(K_) {
        std::iota(order_.begin(), order_.end(), size_t(0));
        const int32_t n_parts = int32_t(cases.n_parts);
        for (size_t i = 0; i < cases.n; ++i) {
            if (cases.parts[i] % n_parts == int32_t(part)) judged_.push_back(uint32_t(i));
            else if (cases.parts[i] < n_parts) learnt_.push_back(uint32_t(i));
            for (size_t c = 0; c < K_; ++c) scores_[i * K_ + c] = float(std::log(prior[c]));
        }
    }

    void grow_stage(size_t stage, size_t n_rounds, float* held_out) {
        for (size_t round = 0; round < n_rounds; ++round) grow_tree(stage, held_out);
    }

    // - log p of the labels of the cases left out, or of those that are judged in their place, summed.
    double loss() {
        double sum = 0;
        for (uint32_t i : judged_) {
            if (cases_.has_others && cases_.parts[i] < int32_t(cases_.n_parts)) continue;
            set_posterior(i);
            sum -= cases_.weights[i] * std::log(std::max(p_[size_t(cases_.labels[i])], 1e-300));
        }
        return sum;
    }
};

void append(Trees& all, const Trees& sequence) {
    using coded_trees::append;
    const int64_t before = all.first_node.back();
    for (size_t t = 1; t < sequence.first_node.size(); ++t) all.first_node.push_back(before + sequence.first_node[t]);
    append(all.stage, sequence.stage), append(all.column, sequence.column), append(all.right, sequence.right);
    append(all.to_left, sequence.to_left), append(all.to_right, sequence.to_right);
    append(all.values, sequence.values);
}

}  // namespace

Trees grow(const Cases& cases, const Columns& columns, const std::vector<double>& prior, const Settings& settings,
           float* held_out, ThreadPool& pool) {
    std::vector<Sequence> sequences;
    for (size_t part = 0; part < cases.n_parts; ++part) sequences.emplace_back(cases, columns, prior, settings, part);
    std::vector<double> losses(cases.n_parts);
    double before = INFINITY;
    for (size_t stage = 0, begin = 0; stage < settings.ends.size(); begin = settings.ends[stage++]) {
        const size_t n_rounds = settings.ends[stage] - begin;
        run(pool, cases.n_parts, [&](size_t part) {
            sequences[part].grow_stage(stage, n_rounds, held_out);
            losses[part] = sequences[part].loss();
        });
        const double now = std::accumulate(losses.begin(), losses.end(), 0.0);
        if (now >= before * (1 - LEAST_HELP)) break;
        before = now;
    }
    Trees all;
    for (const Sequence& sequence : sequences) append(all, sequence.trees);
    return all;
}

}  // namespace fanbayes::boosted_trees

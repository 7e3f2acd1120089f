#include "mdl.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

namespace fanbayes::mdl {
namespace {

// whole * Ent(part / whole), the entropy of two parts in nats.
double split_entropy(double part, double whole) {
    constexpr double tiny = std::numeric_limits<double>::min();  // 0 log 0 = 0
    const double rest = whole - part;
    return -(part * std::log(std::max(part / whole, tiny)) + rest * std::log(std::max(rest / whole, tiny)));
}

// Rows in segments that no best cut divides, and the cases of each class below any of them.
class Rows {
    const Column& column_;
    const size_t window_;        // rows between two tabulated counts: as many as classes, so the table is as long as x
    std::vector<double> below_;  // (windows, n_classes), cases below the first row of each

  public:
    std::vector<size_t> first;  // row of each segment, then n

    explicit Rows(const Column& column) : column_(column), window_(std::max<size_t>(column.n_classes, 1)) {
        find_segments();
        std::vector<double> counts(column.n_classes);
        for (size_t i = 0; i <= column.n; ++i) {
            if (i % window_ == 0) below_.insert(below_.end(), counts.begin(), counts.end());
            if (i < column.n) add(i, counts.data());
        }
    }

    size_t n_classes() const { return column_.n_classes; }

    // Summed row by row, so that a class absent between two segments has exactly the same count below both, also with
    // fractional weights.
    void count_below(size_t segment, double* counts) const {
        const size_t row = first[segment], window = row / window_;
        std::copy_n(&below_[window * n_classes()], n_classes(), counts);
        for (size_t i = window * window_; i < row; ++i) add(i, counts);
    }

  private:
    void add(size_t i, double* counts) const { counts[column_.labels[i]] += column_.weights ? column_.weights[i] : 1; }

    // Boundary points are the only places where the gain can be largest. There is one between two neighbouring values
    // unless all their rows are of one class.
    void find_segments() {
        constexpr int32_t mixed = -1;
        int32_t before = mixed;
        for (size_t i = 0, end; i < column_.n; i = end) {
            int32_t own = column_.labels[i];
            for (end = i + 1; end < column_.n && column_.x[end] == column_.x[i]; ++end)
                if (column_.labels[end] != own) own = mixed;
            if (i == 0 || own == mixed || own != before) first.push_back(i);
            before = own;
        }
        first.push_back(column_.n);
    }
};

// The search for the lowest cut of largest gain in segments start .. stop - 1. Blocks of segments are halved, the most
// promising first, until none is left that can hold it.
class Search {
    struct Cut {
        size_t segment;
        double n, gain;  // cases on the left, N Gain
    };
    struct Block {
        double bound;  // of N Gain of the cuts inside
        size_t low, high;  // cuts at its ends
        bool operator<(const Block& other) const { return bound < other.bound; }
    };

    const Rows& rows_;
    std::vector<double> base_, counts_;
    std::vector<size_t> present_;            // classes
    std::vector<double> total_;              // their cases
    double n_ = 0, best_ = 0;                // all cases; the largest N Gain seen
    std::vector<Cut> cuts_;                  // that were looked at
    std::vector<double> left_, of_classes_;  // (cuts, present): cases on the left, and N_c Ent(n_c / N_c)
    std::priority_queue<Block> blocks_;

  public:
    Search(const Rows& rows, size_t start, size_t stop) : rows_(rows), base_(rows.n_classes()), counts_(base_) {
        rows.count_below(start, base_.data());
        rows.count_below(stop, counts_.data());
        for (size_t c = 0; c < base_.size(); ++c)
            if (counts_[c] > base_[c]) {
                present_.push_back(c);
                total_.push_back(counts_[c] - base_[c]);
                n_ += total_.back();
            }
        look_at(start);
        look_at(stop);
        blocks_.push({std::numeric_limits<double>::infinity(), 0, 1});
    }

    size_t lowest_best() {
        const double rounding = 8 * std::numeric_limits<double>::epsilon() * n_;  // gains are good to about 2 eps N
        while (!blocks_.empty() && blocks_.top().bound >= best_ - rounding) {
            const Block block = blocks_.top();
            blocks_.pop();
            const size_t middle = look_at(std::midpoint(cuts_[block.low].segment, cuts_[block.high].segment));
            best_ = std::max(best_, cuts_[middle].gain);
            for (const auto& [low, high] : {std::pair{block.low, middle}, std::pair{middle, block.high}})
                if (cuts_[high].segment - cuts_[low].segment > 1) blocks_.push({bound(low, high), low, high});
        }
        size_t lowest = cuts_[1].segment;
        for (size_t k = 2; k < cuts_.size(); ++k)
            if (cuts_[k].gain >= best_ - rounding) lowest = std::min(lowest, cuts_[k].segment);
        return lowest;
    }

  private:
    // What the side tells about the class is what the class tells about the side. So, with n of the N cases and n_c of
    // the N_c cases of class c on the left, N Gain = N Ent(n / N) - sum_c N_c Ent(n_c / N_c).
    size_t look_at(size_t segment) {
        rows_.count_below(segment, counts_.data());
        double n = 0, conditional = 0;
        for (size_t k = 0; k < present_.size(); ++k) {
            left_.push_back(counts_[present_[k]] - base_[present_[k]]);
            of_classes_.push_back(split_entropy(left_.back(), total_[k]));
            n += left_.back();
            conditional += of_classes_.back();
        }
        cuts_.push_back({segment, n, split_entropy(n, n_) - conditional});
        return cuts_.size() - 1;
    }

    // Ent is concave: the first term of N Gain lies below its tangent (taken halfway), and minus the others lie below
    // their chords. The sum of these lines is largest where each n_c is at one of its ends.
    double bound(size_t low, size_t high) const {
        const size_t K = present_.size();
        const double n = (cuts_[low].n + cuts_[high].n) / 2, slope = std::log((n_ - n) / n);
        if (!std::isfinite(slope)) return std::numeric_limits<double>::infinity();  // cases too light to be told apart
        double at_low = split_entropy(n, n_) - slope * (n - cuts_[low].n), rise = 0;
        for (size_t k = 0; k < K; ++k) {
            const size_t a = low * K + k, b = high * K + k;
            at_low -= of_classes_[a];
            rise += std::max(0.0, slope * (left_[b] - left_[a]) - (of_classes_[b] - of_classes_[a]));
        }
        return at_low + rise;
    }
};

// Cases of some rows by class.
struct Part {
    double n = 0, entropy = 0, n_present = 0;

    explicit Part(const std::vector<double>& counts) {
        for (double count : counts) n += count;
        for (double count : counts)
            if (count > 0) {
                const double share = count / n;
                entropy -= share * std::log(share);
                n_present += 1;
            }
    }
};

// The rule: Gain > (log2(N - 1) + Delta) / N (data/mdl.py), N-fold and in nats.
bool shortens(const Rows& rows, size_t start, size_t cut, size_t stop) {
    const size_t K = rows.n_classes();
    std::vector<double> below(K), left(K), right(K), whole(K);
    rows.count_below(start, below.data());
    rows.count_below(cut, left.data());
    rows.count_below(stop, right.data());
    for (size_t c = 0; c < K; ++c) {
        right[c] -= left[c];
        left[c] -= below[c];
        whole[c] = left[c] + right[c];
    }
    const Part s(whole), s1(left), s2(right);
    const double gain = s.n * s.entropy - s1.n * s1.entropy - s2.n * s2.entropy;
    const double log_3k_less_2 = s.n_present * std::log(3) + std::log1p(-2 * std::pow(3, -s.n_present));
    const double delta =
        log_3k_less_2 - (s.n_present * s.entropy - s1.n_present * s1.entropy - s2.n_present * s2.entropy);
    // Fractional weights may add up to less than the two cases that any cut lies between.
    return gain > std::log(std::max(s.n - 1, 1.0)) + delta;
}

}  // namespace

std::vector<int64_t> cut_rows(const Column& column) {
    const Rows rows(column);
    std::vector<int64_t> cuts;
    std::vector<std::pair<size_t, size_t>> parts{{0, rows.first.size() - 1}};
    while (!parts.empty()) {
        const auto [start, stop] = parts.back();
        parts.pop_back();
        if (stop < start + 2) continue;  // the case of every pure part, as neighbouring segments differ in class
        const size_t cut = Search(rows, start, stop).lowest_best();
        if (!shortens(rows, start, cut, stop)) continue;
        cuts.push_back(int64_t(rows.first[cut]));
        parts.push_back({start, cut});
        parts.push_back({cut, stop});
    }
    std::sort(cuts.begin(), cuts.end());
    return cuts;
}

}  // namespace fanbayes::mdl

#include "nb_tree.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <new>

namespace fanbayes::nb_tree {
namespace {

// Probabilities are multiplied, so many at a time, before the products are divided by the largest: nothing underflows.
constexpr size_t AT_ONCE = 16;
constexpr double LEAST_PROBABILITY = 1e-19, LEAST_SHARE = 1e-300;
// What is larger by no more than rounding is equal; of equal classes the first is chosen.
constexpr double AHEAD = 1 + 1e-9;

// Zeros; of a large array only what is touched costs anything.
template <typename T>
class Zeros {
    struct Free {
        void operator()(T* p) const { std::free(p); }
    };
    std::unique_ptr<T[], Free> data_;

  public:
    explicit Zeros(size_t n) : data_(static_cast<T*>(std::calloc(std::max<size_t>(n, 1), sizeof(T)))) {
        if (!data_) throw std::bad_alloc();
    }
    T* get() const { return data_.get(); }
};

struct Case {
    size_t row;
    double weight;
};

// Cases by branch: those of branch b are cases[first[b]] .. cases[first[b + 1] - 1].
struct Branches {
    std::vector<Case> cases;
    std::vector<size_t> first{0};
    std::vector<int> codes;  // the code, or the side, of each branch that has cases

    size_t size() const { return codes.size(); }
};

Branches divide(const Cases& cases, const Split& split) {
    Branches out;
    if (split.column < 0) {
        for (size_t i = 0; i < cases.n; ++i) out.cases.push_back({i, cases.weights[i]});
        out.first.push_back(cases.n);
        out.codes.push_back(0);
        return out;
    }
    const size_t v = size_t(split.column), begin = size_t(cases.first_level[v]);
    const size_t n_codes = cases.missing(v) - begin, n_sides = split.threshold < 0 ? n_codes : 2;
    auto side_of = [&](size_t i) {  // n_sides where it is missing
        const size_t code = size_t(cases.levels[i * cases.n_columns() + v]) - begin;
        if (code == n_codes) return n_sides;
        return split.threshold < 0 ? code : size_t(code > size_t(split.threshold));
    };
    std::vector<std::vector<size_t>> sides;
    std::vector<int> place(n_sides, -1);  // of a side among those that have cases
    std::vector<size_t> lost;
    for (size_t i = 0; i < cases.n; ++i) {
        const size_t side = side_of(i);
        if (side == n_sides) {
            lost.push_back(i);
            continue;
        }
        if (place[side] < 0) {
            place[side] = int(sides.size());
            sides.emplace_back();
            out.codes.push_back(int(side));
        }
        sides[size_t(place[side])].push_back(i);
    }
    std::vector<double> weight(sides.size());
    double total = 0;
    for (size_t b = 0; b < sides.size(); ++b) {
        for (size_t i : sides[b]) weight[b] += cases.weights[i];
        total += weight[b];
    }
    for (size_t b = 0; b < sides.size(); ++b) {
        for (size_t i : sides[b]) out.cases.push_back({i, cases.weights[i]});
        for (size_t i : lost) out.cases.push_back({i, cases.weights[i] * weight[b] / total});
        out.first.push_back(out.cases.size());
    }
    return out;
}

// Naive Bayes of one branch after the other.
class Scorer {
    const Cases& cases_;
    const PseudoCounts& pseudo_;
    const double* pseudo_totals_;  // (n_folds, n_columns, n_classes), sums over the levels of a column
    const size_t K_, L_, M_, F_;
    Zeros<double> all_, held_out_;                   // counts: (L, K), and of each fold (F, L, K)
    std::vector<double> classes_, inverse_, score_;  // (F + 1, K), (F, M, K), (K)
    Zeros<double> probability_;                      // (F, L, K), each level's when a case first asks for it
    Zeros<uint32_t> known_in_;                       // (F, L), the branch, counted from 1, that they are of
    uint32_t branch_ = 0;

    void count(const Case* begin, const Case* end, bool add) {
        for (const Case* c = begin; c != end; ++c) {
            const size_t y = size_t(cases_.labels[c->row]), f = size_t(cases_.folds[c->row]);
            const int32_t* levels = cases_.levels + c->row * M_;
            double* fold = held_out_.get() + f * L_ * K_;
            for (size_t j = 0; j < M_; ++j) {
                const size_t at = size_t(levels[j]) * K_ + y;
                all_.get()[at] = add ? all_.get()[at] + c->weight : 0.0;
                fold[at] = add ? fold[at] + c->weight : 0.0;
            }
            classes_[y] += add ? c->weight : 0.0;
            classes_[(f + 1) * K_ + y] += add ? c->weight : 0.0;
        }
    }

    // 1 / (N + pseudo-counts) of the cases outside of each fold that have a value of the column.
    void set_inverses(size_t v, const std::vector<double>& totals_of_v) {
        for (size_t f = 0; f < F_; ++f)
            for (size_t j = 0; j < M_; ++j) {
                const size_t missing = cases_.missing(j) * K_, at = (f * M_ + j) * K_;
                const double* fold = held_out_.get() + f * L_ * K_;
                for (size_t c = 0; c < K_; ++c) {
                    const double in_class = classes_[c] - classes_[(f + 1) * K_ + c];
                    const double n = in_class - all_.get()[missing + c] + fold[missing + c];
                    const double more = j == v ? totals_of_v[f * K_ + c] : pseudo_totals_[at + c];
                    inverse_[at + c] = 1 / (std::max(n, 0.0) + more);
                }
            }
    }

    // p(x | c) of a level (K), by the cases outside of a fold.
    const double* probability(size_t f, size_t j, size_t level) {
        double* out = probability_.get() + (f * L_ + level) * K_;
        if (known_in_.get()[f * L_ + level] == branch_) return out;
        known_in_.get()[f * L_ + level] = branch_;
        const double* all = all_.get() + level * K_;
        const double* fold = held_out_.get() + (f * L_ + level) * K_;
        const double* pseudo = pseudo_.levels + (f * L_ + level) * K_;
        const double* inverse = inverse_.data() + (f * M_ + j) * K_;
        for (size_t c = 0; c < K_; ++c)
            out[c] = std::max((all[c] - fold[c] + pseudo[c]) * inverse[c], LEAST_PROBABILITY);
        return out;
    }

    // p(c, x) of a case, up to a common factor, without what the cases of its fold tell.
    void score(size_t row, size_t left_out) {
        const size_t f = size_t(cases_.folds[row]);
        const int32_t* levels = cases_.levels + row * M_;
        double* __restrict s = score_.data();
        for (size_t c = 0; c < K_; ++c)
            s[c] = std::max(classes_[c] - classes_[(f + 1) * K_ + c], 0.0) + pseudo_.classes[f * K_ + c];
        size_t multiplied = 0;
        for (size_t j = 0; j < M_; ++j) {
            const size_t level = size_t(levels[j]);
            if (level == cases_.missing(j) || j == left_out) continue;
            const double* __restrict p = probability(f, j, level);
            for (size_t c = 0; c < K_; ++c) s[c] *= p[c];
            if (++multiplied % AT_ONCE == 0) rescale();
        }
        rescale();
    }

    void rescale() {
        const double largest = *std::max_element(score_.begin(), score_.end());
        for (double& s : score_) s = std::max(s / largest, LEAST_SHARE);
    }

    double loss_of(const Case& c, Loss loss) const {
        const size_t y = size_t(cases_.labels[c.row]);
        if (loss == Loss::error) {
            size_t best = 0;
            for (size_t k = 1; k < K_; ++k)
                if (score_[k] > score_[best] * AHEAD) best = k;
            return best == y ? 0.0 : c.weight;
        }
        double sum = 0;
        for (double s : score_) sum += s;
        return -c.weight * std::log(score_[y] / sum);
    }

    // Sums of the pseudo-counts of column v over the levels of a side (F, K).
    std::vector<double> totals_of_side(size_t v, const Split& split, int side) const {
        const size_t begin = size_t(cases_.first_level[v]), middle = begin + size_t(split.threshold) + 1;
        std::vector<double> totals(F_ * K_);
        for (size_t f = 0; f < F_; ++f)
            for (size_t l = side ? middle : begin; l < (side ? cases_.missing(v) : middle); ++l)
                for (size_t c = 0; c < K_; ++c) totals[f * K_ + c] += pseudo_.levels[(f * L_ + l) * K_ + c];
        return totals;
    }

  public:
    Scorer(const Cases& cases, const PseudoCounts& pseudo, const double* pseudo_totals)
        : cases_(cases),
          pseudo_(pseudo),
          pseudo_totals_(pseudo_totals),
          K_(cases.n_classes),
          L_(cases.n_levels()),
          M_(cases.n_columns()),
          F_(cases.n_folds),
          all_(L_ * K_),
          held_out_(F_ * L_ * K_),
          classes_((F_ + 1) * K_),
          inverse_(F_ * M_ * K_),
          score_(K_),
          probability_(F_ * L_ * K_),
          known_in_(F_ * L_) {}

    double operator()(const Branches& branches, const Split& split, Loss loss) {
        const bool has_sides = split.column >= 0 && split.threshold >= 0;
        const size_t v = has_sides ? size_t(split.column) : M_;
        const size_t left_out = split.column >= 0 && !has_sides ? size_t(split.column) : M_;  // constant in a branch
        double total = 0;
        for (size_t b = 0; b < branches.size(); ++b) {
            const Case* begin = branches.cases.data() + branches.first[b];
            const Case* end = branches.cases.data() + branches.first[b + 1];
            ++branch_;
            count(begin, end, true);
            set_inverses(v, has_sides ? totals_of_side(v, split, branches.codes[b]) : std::vector<double>());
            for (const Case* c = begin; c != end; ++c) {
                score(c->row, left_out);
                total += loss_of(*c, loss);
            }
            count(begin, end, false);
            std::fill(classes_.begin(), classes_.end(), 0.0);
        }
        return total;
    }
};

std::vector<double> totals(const Cases& cases, const PseudoCounts& pseudo) {
    const size_t K = cases.n_classes, M = cases.n_columns(), L = cases.n_levels();
    std::vector<double> out(cases.n_folds * M * K);
    for (size_t f = 0; f < cases.n_folds; ++f)
        for (size_t j = 0; j < M; ++j)
            for (size_t l = size_t(cases.first_level[j]); l < cases.missing(j); ++l)
                for (size_t c = 0; c < K; ++c) out[(f * M + j) * K + c] += pseudo.levels[(f * L + l) * K + c];
    return out;
}

}  // namespace

std::vector<double> split_losses(const Cases& cases, const PseudoCounts& pseudo, const std::vector<Split>& splits,
                                 Loss loss, double least, ThreadPool& pool) {
    const std::vector<double> pseudo_totals = totals(cases, pseudo);
    double weight = 0;
    for (size_t i = 0; i < cases.n; ++i) weight += cases.weights[i];
    std::vector<double> out(splits.size(), std::numeric_limits<double>::infinity());
    std::vector<std::exception_ptr> failed(splits.size());
    pool.run(int64_t(splits.size()), [&](int64_t k) {
        try {
            const Split& split = splits[size_t(k)];
            const Branches branches = divide(cases, split);
            const double n = double(branches.size());
            if (split.column >= 0 && (n < 2 || weight * AHEAD < least * n)) return;
            out[size_t(k)] = Scorer(cases, pseudo, pseudo_totals.data())(branches, split, loss);
        } catch (...) {
            failed[size_t(k)] = std::current_exception();
        }
    });
    for (const std::exception_ptr& error : failed)
        if (error) std::rethrow_exception(error);
    return out;
}

}  // namespace fanbayes::nb_tree

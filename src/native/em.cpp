#include "em.hpp"

#include <cmath>

namespace fanbayes {

Iterate::Iterate(const MStep& m, const EStep& e, double objective_)
    : room_(m.n_parameters() + m.n_terms() + e.n_statistics()),
      parameters(room_.data()),
      terms(parameters + m.n_parameters()),
      statistics(e.statistics(terms + m.n_terms())),
      objective(objective_) {}

namespace {

// It pays to freeze rows if the active ones are fewer than this.
constexpr double FEW = 0.6;

// Cycles of step and extrapolation that rows stay frozen, the one that freezes them included.
constexpr int CYCLES = 2;

// The numbers of active rows have to be kept, so in larger tables no row is frozen.
constexpr int64_t MOST_ROWS = 1 << 22;

struct Extrapolation {
    double wanted, taken;  // length, in steps of EM
};

// SQUAREM (Varadhan & Roland 2008, scheme S3). From theta0, EM leads to theta1 and theta2. With r = theta1 - theta0,
// v = theta2 - theta1 - r and a = |r| / |v|, go to theta0 + 2 a r + a^2 v, in the place of theta2: a = 1 is theta2
// itself. Coordinates are unconstrained: log probabilities, means, log variances; a variance counts for each cell.
Extrapolation extrapolate(const MStep& m, const double* theta0, const double* theta1, double* theta2, double reach) {
    double rr = 0, vv = 0;
    auto measure = [&](size_t i, double weight) {
        const double r = theta1[i] - theta0[i], v = theta2[i] - theta1[i] - r;
        rr += weight * r * r;
        vv += weight * v * v;
    };
    for (size_t i = 0; i < m.at_sigma2(); ++i) measure(i, 1.0);
    m.for_groups(
        [&](size_t, size_t v, size_t begin, size_t end) { measure(m.at_log_sigma2() + v, double(end - begin)); });
    const double wanted = vv > 0 ? std::max(1.0, std::sqrt(rr / vv)) : 1.0, a = std::min(wanted, reach);
    for (size_t i = 0; i < m.n_parameters(); ++i) {
        const double r = theta1[i] - theta0[i], v = theta2[i] - theta1[i] - r;
        theta2[i] = theta0[i] + 2 * a * r + a * a * v;
    }
    return {wanted, a};
}

// The run of one network.
struct Run {
    EMState& state;
    Iterate next, far;
    Extrapolation extrapolation{};
    bool must_accept = false;  // whether the extrapolation is a plain step that cannot be refused

    // Lazy EM. The state of a frozen row is taken as known, as it was when it was frozen, so these rows add
    // E[log p(x, z | theta)] + entropy to the objective, a lower bound of their log-likelihood (Neal & Hinton 1998)
    // that is tight where they were frozen: to raise it is to raise the log-likelihood.
    Iterate frozen;  // has room for their statistics
    LazyRows lazy;
    double entropy = 0;
    bool is_lazy = false;  // whether rows are frozen
    int n_cycles = 0;      // since they were

    Run(EMState& s, const MStep& m, const EStep& e, bool may_freeze) : state(s), next(m, e), far(m, e), frozen(m, e) {
        lazy.active.resize(may_freeze ? size_t(e.n_rows()) : 0);
        lazy.frozen = frozen.statistics;
    }
};

class Runs {
    const MStep& m_step_;
    EStep& e_step_;
    const EMOptions& options_;
    ThreadPool& pool_;
    const bool may_freeze_;
    std::vector<Run> runs_;
    std::vector<Pass> passes_;
    const Buffer room_;
    int64_t left_;       // passes
    bool exact_ = true;  // whether what is known of every network is known from all rows

    bool has_converged() const {
        return std::all_of(runs_.begin(), runs_.end(),
                           [&](const Run& r) { return std::abs(r.state.gain) <= options_.least_gain; });
    }

    bool is_done() const { return left_ <= 0 || (exact_ && has_converged()); }

    // One pass of each network, at parameters that `propose` makes.
    template <typename Propose>
    void pass(Iterate Run::* at, Propose propose) {
        const int64_t n = int64_t(runs_.size());
        pool_.run(n, [&](int64_t s) {
            Run& r = runs_[size_t(s)];
            Iterate& to = r.*at;
            propose(r, to.parameters, room_.data() + size_t(s) * m_step_.n_parameters());
            to.objective = m_step_.log_prior(to.parameters);
            passes_[size_t(s)].network = m_step_.network(to.parameters, to.terms);
            passes_[size_t(s)].out = &to.statistics;
        });
        e_step_(passes_, options_.hard ? Shares::most_probable : Shares::expected);
        pool_.run(n, [&](int64_t s) { complete(runs_[size_t(s)], passes_[size_t(s)], runs_[size_t(s)].*at); });
        exact_ = true;
        for (size_t s = 0; s < runs_.size(); ++s) {
            const bool few = passes_[s].scope == Scope::active;
            exact_ &= !few;
            runs_[s].state.rows.push_back(few ? runs_[s].lazy.n_active : e_step_.n_rows());
        }
        --left_;
    }

    // The objective of an iterate, and what frozen rows add to it and to the statistics.
    void complete(Run& r, const Pass& pass, Iterate& to) const {
        Statistics& s = to.statistics;
        to.objective += options_.hard ? s.joint : s.log_likelihood;
        if (pass.scope == Scope::all) {  // more is known now than is kept of frozen rows
            r.is_lazy = false;
            return;
        }
        const Statistics& frozen = r.lazy.frozen;
        const double likelihood = m_step_.log_complete_likelihood(frozen, pass.network);
        if (pass.scope == Scope::partition) {
            r.entropy = frozen.log_likelihood - likelihood;
            r.is_lazy = double(r.lazy.n_active) <= FEW * double(e_step_.n_rows());
            r.n_cycles = 0;
        }
        to.objective += likelihood + r.entropy;
        add(frozen.states, e_step_.n_statistics(), s.states);  // all arrays: they lie one after the other
        s.log_likelihood += frozen.log_likelihood;
        s.joint += frozen.joint;
        s.classification += frozen.classification;
    }

    // A step: M-step, E-step.
    void step(bool last, bool closing) {
        for (size_t s = 0; s < runs_.size(); ++s) {
            const Run& r = runs_[s];
            Scope& scope = passes_[s].scope;
            if (last || !may_freeze_) scope = Scope::all;
            else if (r.is_lazy && (closing || r.n_cycles < CYCLES)) scope = Scope::active;
            else scope = closing ? Scope::all : Scope::partition;
        }
        pass(&Run::next, [&](Run& r, double* to, double*) { m_step_.estimate(r.state.current.statistics, to); });
        for (size_t s = 0; s < runs_.size(); ++s) {
            Run& r = runs_[s];
            const bool few = passes_[s].scope == Scope::active;
            r.state.trace.push_back(r.next.objective);
            r.must_accept = closing && few;
            if (!few) r.state.gain = r.next.objective - r.state.current.objective;
        }
    }

    // An extrapolation. The last pass is over all rows; a step from frozen ones must not be refused then.
    void extrapolate_all(bool closing) {
        for (size_t s = 0; s < runs_.size(); ++s)
            passes_[s].scope = runs_[s].is_lazy && !closing ? Scope::active : Scope::all;
        pass(&Run::far, [&](Run& r, double* to, double* room) {
            m_step_.estimate(r.next.statistics, to);
            const double reach = r.must_accept ? 1.0 : r.state.reach;
            r.extrapolation = extrapolate(m_step_, r.state.current.parameters, r.next.parameters, to, reach);
            m_step_.project(to, room);
        });
        for (Run& r : runs_) {
            // Where the objective would fall, stay at the step, and go less far next time.
            const bool better = r.far.objective >= r.next.objective;  // false for NaN
            if (better && r.extrapolation.wanted > r.state.reach) r.state.reach *= 2;
            else if (!better && !r.must_accept) r.state.reach = std::max(1.0, r.extrapolation.taken / 2);
            if (r.must_accept) r.state.gain = r.far.objective - r.next.objective;
            if (better || r.must_accept) std::swap(r.next, r.far);
            r.state.trace.push_back(r.next.objective);
            ++r.n_cycles;
        }
    }

  public:
    Runs(std::vector<EMState>& states, const MStep& m_step, EStep& e_step, const EMOptions& options, ThreadPool& pool)
        : m_step_(m_step),
          e_step_(e_step),
          options_(options),
          pool_(pool),
          may_freeze_(options.accelerate && e_step.n_rows() <= MOST_ROWS),
          passes_(states.size()),
          room_(states.size() * m_step.n_parameters()),
          left_(options.n_passes) {
        runs_.reserve(states.size());
        for (EMState& s : states) runs_.emplace_back(s, m_step, e_step, may_freeze_);
        for (size_t s = 0; s < states.size(); ++s) passes_[s].lazy = &runs_[s].lazy;
    }

    void operator()(const std::function<void()>& between) {
        while (!is_done()) {
            const bool last = left_ == 1 || has_converged(), closing = left_ == 2 || last;
            step(last, closing);
            if (options_.accelerate && !is_done()) extrapolate_all(closing);
            for (Run& r : runs_) std::swap(r.state.current, r.next);
            between();
        }
    }
};

}  // namespace

void run_em(std::vector<EMState>& states, const MStep& m_step, EStep& e_step, const EMOptions& options,
            ThreadPool& pool, const std::function<void()>& between) {
    Runs(states, m_step, e_step, options, pool)(between);
}

}  // namespace fanbayes

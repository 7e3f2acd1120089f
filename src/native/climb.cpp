#include "climb.hpp"

#include <cmath>

Point::Point(const Learner& l, const Shape& shape, double objective_)
    : room_(l.n_parameters() + l.n_arguments() + l.n_statistics() + size_t(shape.n_classes)),
      parameters(room_.data()),
      arguments(parameters + l.n_parameters()),
      objective(objective_) {
    double* states = arguments + l.n_arguments();
    double* counts = states + l.n_states;
    double* moments = counts + size_t(l.first_level.back()) * l.n_cells;
    statistics = {states, counts, moments, moments + 3 * l.n_numbers * l.n_cells, 0, 0, 0};
}

namespace {

// It pays to leave settled rows out if the others are fewer than this.
constexpr double FEW = 0.6;

// Cycles of step and leap that leave them out, the one that looks at them included.
constexpr int CYCLES = 2;

// The numbers of the others have to be kept, so in larger tables all rows are looked at.
constexpr int64_t MOST_ROWS = 1 << 22;

struct Leap {
    double wanted, taken;  // length, in steps of EM
};

// SQUAREM (Varadhan & Roland 2008, scheme S3). From theta0, EM leads to theta1 and theta2. With r = theta1 - theta0,
// v = theta2 - theta1 - r and a = |r| / |v|, go to theta0 + 2 a r + a^2 v, in the place of theta2: a = 1 is theta2
// itself. Coordinates are unconstrained: log probabilities, means, log variances.
Leap extrapolate(const double* theta0, const double* theta1, double* theta2, size_t n, double reach) {
    double rr = 0, vv = 0;
    for (size_t i = 0; i < n; ++i) {
        const double r = theta1[i] - theta0[i], v = theta2[i] - theta1[i] - r;
        rr += r * r;
        vv += v * v;
    }
    const double wanted = vv > 0 ? std::max(1.0, std::sqrt(rr / vv)) : 1.0, a = std::min(wanted, reach);
    for (size_t i = 0; i < n; ++i) {
        const double r = theta1[i] - theta0[i], v = theta2[i] - theta1[i] - r;
        theta2[i] = theta0[i] + 2 * a * r + a * a * v;
    }
    return {wanted, a};
}

// A network on its way.
struct Walk {
    Climb& climb;
    Point next, far;
    Leap leap{};
    bool must_arrive = false;  // whether the leap is a plain step that cannot be refused

    // What it remembers of settled rows. Their state is taken as known, as it was when they were looked at, so they
    // add E[log p(x, z | theta)] + entropy to the objective. That is never more than their log-likelihood, and no less
    // where they were looked at: to climb it is to climb the log-likelihood.
    Point memory;  // has room for their statistics
    Doubt doubt;
    double entropy = 0;
    bool remembers = false;
    int n_cycles = 0;  // since they were looked at

    Walk(Climb& c, const Learner& l, const Shape& shape, int64_t n_rows)
        : climb(c), next(l, shape), far(l, shape), memory(l, shape) {
        doubt.rows.resize(size_t(n_rows));
        doubt.settled = memory.statistics;
    }
};

void add_statistics(const Statistics& from, const Learner& l, size_t n_classes, Statistics& to) {
    add(from.states, l.n_statistics() + n_classes, to.states);  // one array, see Point
    to.log_likelihood += from.log_likelihood;
    to.joint += from.joint;
    to.classification += from.classification;
}

}  // namespace

void advance(std::vector<Climb>& climbs, const Learner& learner, Expectation& expectation, const Rules& rules,
             Crew& crew, const std::function<void()>& between) {
    const size_t S = climbs.size();
    const int64_t n_rows = expectation.n_rows();
    const bool may_skip = rules.accelerate && n_rows <= MOST_ROWS;
    std::vector<Walk> walks;
    walks.reserve(S);
    for (Climb& c : climbs) walks.emplace_back(c, learner, expectation.shape, may_skip ? n_rows : 0);
    std::vector<Visit> visits(S);
    for (size_t s = 0; s < S; ++s) visits[s].doubt = &walks[s].doubt;
    const Buffer room(S * learner.n_parameters());

    // One look of each network, at parameters that `prepare` makes.
    auto look = [&](Point Walk::*at, auto prepare) {
        crew.run(int64_t(S), [&](int64_t task) {
            const size_t s = size_t(task);
            Point& p = walks[s].*at;
            prepare(s, p.parameters);
            p.objective = learner.log_prior(p.parameters);
            visits[s].network = learner.network(p.parameters, p.arguments);
            visits[s].out = &p.statistics;
        });
        expectation(visits, rules.hard);
        crew.run(int64_t(S), [&](int64_t task) {
            const size_t s = size_t(task);
            const Sight sight = visits[s].sight;
            Walk& w = walks[s];
            Point& p = w.*at;
            p.objective += rules.hard ? p.statistics.joint : p.statistics.log_likelihood;
            if (sight == Sight::all) {  // more is known now than is remembered
                w.remembers = false;
                return;
            }
            const double complete = learner.log_complete_likelihood(w.doubt.settled, visits[s].network);
            if (sight == Sight::parting) {
                w.entropy = w.doubt.settled.log_likelihood - complete;
                w.remembers = double(w.doubt.n_rows) <= FEW * double(n_rows);
                w.n_cycles = 0;
            }
            p.objective += complete + w.entropy;
            add_statistics(w.doubt.settled, learner, size_t(expectation.shape.n_classes), p.statistics);
        });
        for (size_t s = 0; s < S; ++s)
            climbs[s].rows.push_back(visits[s].sight == Sight::doubtful ? walks[s].doubt.n_rows : n_rows);
    };
    auto has_converged = [&] {
        return std::all_of(climbs.begin(), climbs.end(),
                           [&](const Climb& c) { return std::abs(c.gain) <= rules.least_gain; });
    };
    bool exact = true;  // whether what is known of every network is known from all rows
    for (int64_t left = rules.n_passes; left > 0 && !(exact && has_converged());) {
        const bool last = left == 1 || has_converged(), closing = left == 2 || last;
        // A step: M-step, E-step.
        for (size_t s = 0; s < S; ++s) {
            const Walk& w = walks[s];
            if (last || !may_skip) visits[s].sight = Sight::all;
            else if (w.remembers && (closing || w.n_cycles < CYCLES)) visits[s].sight = Sight::doubtful;
            else visits[s].sight = closing ? Sight::all : Sight::parting;
        }
        look(&Walk::next, [&](size_t s, double* to) { learner.maximise(climbs[s].here.statistics, to); });
        --left;
        exact = true;
        for (size_t s = 0; s < S; ++s) {
            Walk& w = walks[s];
            w.climb.trace.push_back(w.next.objective);
            w.must_arrive = closing && visits[s].sight == Sight::doubtful;
            if (visits[s].sight == Sight::doubtful) exact = false;
            else w.climb.gain = w.next.objective - w.climb.here.objective;
        }
        // A leap. In the end all rows are looked at; a step from memory must not be refused then.
        if (rules.accelerate && left > 0 && !(exact && has_converged())) {
            for (size_t s = 0; s < S; ++s)
                visits[s].sight = walks[s].remembers && !closing ? Sight::doubtful : Sight::all;
            look(&Walk::far, [&](size_t s, double* to) {
                Walk& w = walks[s];
                learner.maximise(w.next.statistics, to);
                w.leap = extrapolate(w.climb.here.parameters, w.next.parameters, to, learner.n_coordinates(),
                                     w.must_arrive ? 1.0 : w.climb.reach);
                learner.constrain(to, room.data() + s * learner.n_parameters());
            });
            --left;
            for (size_t s = 0; s < S; ++s) {
                Walk& w = walks[s];
                // Where the objective would fall, stay at the step, and leap less far next time.
                const bool better = w.far.objective >= w.next.objective;  // false for NaN
                if (better && w.leap.wanted > w.climb.reach) w.climb.reach *= 2;
                else if (!better && !w.must_arrive) w.climb.reach = std::max(1.0, w.leap.taken / 2);
                if (w.must_arrive) w.climb.gain = w.far.objective - w.next.objective;
                if (better || w.must_arrive) std::swap(w.next, w.far);
                w.climb.trace.push_back(w.next.objective);
                ++w.n_cycles;
            }
            exact = std::none_of(visits.begin(), visits.end(), [](const Visit& v) { return v.sight == Sight::doubtful; });
        }
        for (Walk& w : walks) std::swap(w.climb.here, w.next);
        between();
    }
}

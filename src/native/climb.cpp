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

// What a network knows about its settled rows. Their state is taken as known, at its expectation, so they add
// E[log p(x, z | theta)] + entropy to the objective. That is never more than their log-likelihood, and the same where
// they were looked at: to climb it is to climb the log-likelihood.
struct Memory {
    Point place;  // has room for their statistics
    Doubt doubt;
    double entropy = 0;
    bool skip = false;       // whether the next cycle looks at the doubtful rows only
    double last_whole = 0;   // the objective at the last look at all rows

    Memory(const Learner& l, const Shape& shape, int64_t n_rows, double objective) : place(l, shape), last_whole(objective) {
        doubt.rows.resize(size_t(n_rows));
        doubt.settled = place.statistics;
    }
};

void add_statistics(const Statistics& from, const Learner& l, size_t n_classes, Statistics& to) {
    add(from.states, l.n_statistics() + n_classes, to.states);  // one array, see Point
    to.log_likelihood += from.log_likelihood;
    to.joint += from.joint;
    to.classification += from.classification;
}

}  // namespace

void advance(std::vector<Climb>& climbs, const Learner& learner, Expectation& expectation, const Rules& rules, Crew& crew,
             const std::function<void()>& between) {
    const size_t S = climbs.size();
    const int64_t n_rows = expectation.n_rows();
    const bool may_skip = rules.accelerate && n_rows <= MOST_ROWS;
    std::vector<Point> next, far;
    std::vector<Memory> memories;
    for (size_t s = 0; s < S; ++s) {
        next.emplace_back(learner, expectation.shape);
        if (!rules.accelerate) continue;
        far.emplace_back(learner, expectation.shape);
        memories.emplace_back(learner, expectation.shape, may_skip ? n_rows : 0, climbs[s].here.objective);
    }
    const Buffer room(S * learner.n_parameters());
    std::vector<Visit> visits(S);
    std::vector<Leap> leaps(S);
    for (size_t s = 0; s < S && may_skip; ++s) visits[s].doubt = &memories[s].doubt;

    // One look of each network, at parameters that `prepare` makes.
    auto look = [&](std::vector<Point>& points, auto prepare) {
        crew.run(int64_t(S), [&](int64_t task) {
            const size_t s = size_t(task);
            Point& p = points[s];
            prepare(s, p);
            p.objective = learner.log_prior(p.parameters);
            visits[s].network = learner.network(p.parameters, p.arguments);
            visits[s].out = &p.statistics;
        });
        expectation(visits, rules.hard);
        crew.run(int64_t(S), [&](int64_t task) {
            const size_t s = size_t(task);
            climbs[s].rows.push_back(visits[s].sight == Sight::doubtful ? visits[s].doubt->n_rows : n_rows);
            Point& p = points[s];
            p.objective += rules.hard ? p.statistics.joint : p.statistics.log_likelihood;
            if (visits[s].sight == Sight::all) return;
            Memory& m = memories[s];
            const double complete = learner.log_complete_likelihood(m.doubt.settled, visits[s].network);
            if (visits[s].sight == Sight::parting) m.entropy = m.doubt.settled.log_likelihood - complete;
            p.objective += complete + m.entropy;
            add_statistics(m.doubt.settled, learner, size_t(expectation.shape.n_classes), p.statistics);
        });
    };
    auto has_converged = [&] {
        return std::all_of(climbs.begin(), climbs.end(),
                           [&](const Climb& c) { return std::abs(c.gain) <= rules.least_gain; });
    };
    bool exact = true;  // whether all statistics and objectives are those of all rows, none from memory
    for (int64_t left = rules.n_passes; left > 0 && !(exact && has_converged());) {
        const bool closing = left <= 2 || has_converged();
        for (size_t s = 0; s < S; ++s)
            visits[s].sight = closing || !may_skip ? Sight::all
                              : memories[s].skip   ? Sight::doubtful
                                                   : Sight::parting;
        look(next, [&](size_t s, Point& p) { learner.maximise(climbs[s].here.statistics, p.parameters); });
        --left;
        exact = true;
        for (size_t s = 0; s < S; ++s) {
            climbs[s].trace.push_back(next[s].objective);
            if (visits[s].sight == Sight::doubtful) {
                exact = false;
                continue;
            }
            climbs[s].gain = next[s].objective - (rules.accelerate ? memories[s].last_whole : climbs[s].here.objective);
            if (rules.accelerate) memories[s].last_whole = next[s].objective;
        }
        if (rules.accelerate && left > 0 && !(exact && has_converged())) {
            for (size_t s = 0; s < S; ++s) {
                // Two cycles skip the settled rows, but for the first look, which says which they are.
                const bool second = visits[s].sight == Sight::doubtful,
                           first = visits[s].sight == Sight::parting &&
                                   double(memories[s].doubt.n_rows) <= FEW * double(n_rows);
                visits[s].sight = first || second ? Sight::doubtful : Sight::all;
                memories[s].skip = first;
            }
            look(far, [&](size_t s, Point& p) {
                learner.maximise(next[s].statistics, p.parameters);
                leaps[s] = extrapolate(climbs[s].here.parameters, next[s].parameters, p.parameters,
                                       learner.n_coordinates(), climbs[s].reach);
                learner.constrain(p.parameters, room.data() + s * learner.n_parameters());
            });
            --left;
            for (size_t s = 0; s < S; ++s) {
                // Where the objective would fall, stay at the plain step, and leap less far next time.
                const bool better = far[s].objective >= next[s].objective;  // false for NaN
                if (!better) climbs[s].reach = std::max(1.0, leaps[s].taken / 2);
                else if (leaps[s].wanted > climbs[s].reach) climbs[s].reach *= 2;
                if (better) std::swap(next[s], far[s]);
                if (visits[s].sight == Sight::doubtful) exact = false;
                else memories[s].last_whole = next[s].objective;
                climbs[s].trace.push_back(next[s].objective);
            }
        }
        for (size_t s = 0; s < S; ++s) std::swap(climbs[s].here, next[s]);
        between();
    }
}

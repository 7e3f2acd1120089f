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

}  // namespace

void advance(std::vector<Climb>& climbs, const Learner& learner, Expectation& expectation, const Rules& rules, Crew& crew,
             const std::function<void()>& between) {
    const size_t S = climbs.size();
    const bool accelerate = rules.accelerate && learner.is_monotone() && !rules.hard;
    std::vector<Point> next, far, best;
    for (size_t s = 0; s < S; ++s) {
        next.emplace_back(learner, expectation.shape);
        if (accelerate) far.emplace_back(learner, expectation.shape);
    }
    const Buffer room(S * learner.n_parameters());
    std::vector<Network> networks(S);
    std::vector<Statistics> found(S);
    std::vector<Leap> leaps(S);

    // One pass, at parameters that `prepare` makes.
    auto look = [&](std::vector<Point>& points, auto prepare) {
        crew.run(int64_t(S), [&](int64_t task) {
            Point& p = points[size_t(task)];
            prepare(size_t(task), p);
            p.objective = learner.log_prior(p.parameters);
            networks[size_t(task)] = learner.network(p.parameters, p.arguments);
            found[size_t(task)] = p.statistics;
        });
        expectation(networks, rules.hard, found);
        for (size_t s = 0; s < S; ++s) {
            points[s].statistics = found[s];
            points[s].objective += rules.hard ? found[s].joint : found[s].log_likelihood;
        }
    };
    auto has_converged = [&] {
        return std::all_of(climbs.begin(), climbs.end(),
                           [&](const Climb& c) { return std::abs(c.gain) <= rules.least_gain; });
    };
    for (int64_t left = rules.n_passes; left > 0 && !has_converged();) {
        look(next, [&](size_t s, Point& p) { learner.maximise(climbs[s].here.statistics, p.parameters); });
        --left;
        for (size_t s = 0; s < S; ++s) {
            climbs[s].gain = next[s].objective - climbs[s].here.objective;
            climbs[s].trace.push_back(next[s].objective);
        }
        if (accelerate && left > 0) {
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
                if (better) std::swap(next[s], far[s]);
                if (!better) climbs[s].reach = std::max(1.0, leaps[s].taken / 2);
                else if (leaps[s].wanted > climbs[s].reach) climbs[s].reach *= 2;
                climbs[s].trace.push_back(next[s].objective);
            }
        }
        for (size_t s = 0; s < S; ++s) std::swap(climbs[s].here, next[s]);
        between();
    }
}

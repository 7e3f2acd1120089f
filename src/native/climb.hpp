// EM and CEM: several networks climb, each on its own, pass by pass together.
#pragma once

#include "expectation.hpp"
#include "maximisation.hpp"

#include <functional>
#include <vector>

// Where a network is: its parameters, and what a look at the data under them found.
class Point {
    Buffer room_;

  public:
    double* parameters;
    double* arguments;  // of the kernel
    Statistics statistics;
    double objective;

    Point(const Learner&, const Shape&, double objective = 0);
};

struct Climb {
    Point here;
    double gain;                // of the last step that ended with a look at all rows; or more, if it began from memory
    double reach;               // how far a leap may go, in steps of EM
    std::vector<double> trace;  // the objective after each look,
    std::vector<int64_t> rows;  // and how many rows it was at
};

struct Rules {
    int64_t n_passes;
    double least_gain;  // until no network gains more
    bool accelerate, hard;
};

// Climbs on from where each network is, of which statistics and objective are known, over all rows. In the end they are
// known again. `between` is called after each step or leap, and may throw.
void advance(std::vector<Climb>&, const Learner&, Expectation&, const Rules&, Crew&,
             const std::function<void()>& between);

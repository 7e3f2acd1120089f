// EM and CEM: runs of several networks, each on its own, pass by pass together.
#pragma once

#include "e_step.hpp"
#include "m_step.hpp"

#include <functional>
#include <vector>

namespace fanbayes {

// The parameters of a network, and what an E-step under them found.
class Iterate {
    Buffer room_;

  public:
    double* parameters;
    double* terms;  // of the kernel
    Statistics statistics;
    double objective;

    Iterate(const MStep&, const EStep&, double objective = 0);
};

// Where the run of a network stands.
struct EMState {
    Iterate current;
    double gain;                // of the last step that ended with a pass over all rows; or more, if rows were frozen
    double reach;               // how far an extrapolation may go, in steps of EM
    std::vector<double> trace;  // the objective after each pass; a lower bound where rows were frozen,
    std::vector<int64_t> rows;  // and how many rows it took
};

struct EMOptions {
    int64_t n_passes;
    double least_gain;  // until no network gains more
    bool accelerate, hard;
};

// Goes on from the current iterates, of which statistics and objective are known, over all rows. In the end they are
// known again. `between` is called after each step or extrapolation, and may throw.
void run_em(std::vector<EMState>&, const MStep&, EStep&, const EMOptions&, ThreadPool&,
            const std::function<void()>& between);

}  // namespace fanbayes

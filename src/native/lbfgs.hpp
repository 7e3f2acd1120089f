// Minimisation of a smooth function of many variables: L-BFGS (Liu & Nocedal 1989).
#pragma once

#include <cstddef>
#include <functional>

namespace fanbayes {

struct Descent {
    size_t n;                                            // variables
    std::function<double(const double*, double*)> loss;  // of the point (n,); writes its gradient (n,)
    double tolerance;                                    // ends when a step gains less than this share of the loss
    int most_steps;
    std::function<void()> between;  // is called after each step, and may throw
};

// Goes from the point downhill, and leaves it where it ends: never above the start, nor where the loss is not finite
// unless it begins there.
void minimise(const Descent&, double* point);

}  // namespace fanbayes

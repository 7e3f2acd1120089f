// Sums over arrays.
#pragma once

#include <cstddef>

namespace fanbayes {

// Of `of(0)` to `of(n - 1)`.
template <typename Of>
double sum_of(size_t n, Of of) {
    double total[4] = {0, 0, 0, 0};  // each waits for its own last addition only
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (size_t k = 0; k < 4; ++k) total[k] += of(i + k);
    for (; i < n; ++i) total[0] += of(i);
    return (total[0] + total[1]) + (total[2] + total[3]);
}

inline double sum(const double* x, size_t n) {
    return sum_of(n, [&](size_t i) { return x[i]; });
}

inline double dot(const double* x, const double* y, size_t n) {
    return sum_of(n, [&](size_t i) { return x[i] * y[i]; });
}

}  // namespace fanbayes

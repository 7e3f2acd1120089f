// Exponentials, logarithms and sums of arrays of any length.
#pragma once

#include "kernel_scoring.hpp"

namespace fanbayes {
namespace {

constexpr auto LARGER = [](auto x, auto y) { return x > y ? x : y; };
constexpr auto PLUS = [](auto x, auto y) { return x + y; };

// `neutral` is what the lanes beyond the end are given.
template <typename Function>
ALWAYS_INLINE void map_array(const double* x, double* out, int64_t n, double neutral, Function function) {
    int64_t i = 0;
    for (; i + NATIVE <= n; i += NATIVE) store<NATIVE>(out + i, function(load<NATIVE>(x + i)));
    if (i == n) return;
    double lane[NATIVE];
    for (int k = 0; k < NATIVE; ++k) lane[k] = i + k < n ? x[i + k] : neutral;
    store<NATIVE>(lane, function(load<NATIVE>(lane)));
    for (int k = 0; i + k < n; ++k) out[i + k] = lane[k];
}

void exp_array(const double* x, double* out, int64_t n) {
    map_array(x, out, n, 0.0, [](Vector<NATIVE> v) { return exp<NATIVE>(v); });
}

void log_array(const double* x, double* out, int64_t n) {
    map_array(x, out, n, 1.0, [](Vector<NATIVE> v) { return log<NATIVE>(v); });
}

// In place, x[0 .. n) <= 0; up to the next multiple of 4 * NATIVE there must be room.
void exp_of_negatives(double* x, int n) {
    for (int i = 0; i < n; i += 4 * NATIVE) {
        for (int k = n; k < i + 4 * NATIVE; ++k) x[k] = 0;
        Vector<NATIVE> y[4];
        for (int k = 0; k < 4; ++k) y[k] = load<NATIVE>(x + i + k * NATIVE);
        exp_of_negatives<NATIVE, 4>(y);
        for (int k = 0; k < 4; ++k) store<NATIVE>(x + i + k * NATIVE, y[k]);
    }
}

double sum_array(const double* x, int n) {
    Vector<NATIVE> total = Vector<NATIVE>{};
    int i = 0;
    for (; i + NATIVE <= n; i += NATIVE) total += load<NATIVE>(x + i);
    double rest = reduce<NATIVE>(total, PLUS);
    for (; i < n; ++i) rest += x[i];
    return rest;
}

}  // namespace
}  // namespace fanbayes

// Probabilities of classes, or of states, row by row.
#pragma once

#include "kernel_arrays.hpp"
#include "kernel_scoring.hpp"

#include <cmath>

namespace fanbayes {
namespace {

// log p(s, x) of one row from the scores of its cells.
void add_weights(const Shape& shape, const double* log_weight, const double* cells, double* out) {
    for (int c = 0; c < shape.n_classes; ++c) {
        const double* from = cells + shape.first_cell[c] - shape.first_state[c];
        for (int s = shape.first_state[c]; s < shape.first_state[c + 1]; ++s) out[s] = log_weight[s] + from[s];
    }
}

// Of each class of one row, top = max_h log p(c, h, x) and total = sum_h p(c, h, x) / exp(top), of log p(s, x), which
// is spoilt.
void sum_components(const Shape& shape, double* joint, double* top, double* total) {
    const int C = shape.n_classes, S = shape.n_states;
    for (int c = 0; c < C; ++c) {
        const int begin = shape.first_state[c], end = shape.first_state[c + 1];
        double m = -INFINITY;
        for (int s = begin; s < end; ++s) m = joint[s] > m ? joint[s] : m;
        top[c] = m;
        total[c] = 1;
        if (end - begin > 1)
            for (int s = begin; s < end; ++s) joint[s] -= m;
    }
    if (S == C) return;
    for (int s = 0; s < S; s += NATIVE) store<NATIVE>(joint + s, exp<NATIVE>(load<NATIVE>(joint + s)));
    for (int c = 0; c < C; ++c) {
        const int begin = shape.first_state[c], end = shape.first_state[c + 1];
        if (end - begin == 1) continue;
        total[c] = 0;
        for (int s = begin; s < end; ++s) total[c] += joint[s];
    }
}

// From log p(c, x) of n rows to p(c | x) or its logarithm.
void normalise(double* joint, int n, int C, bool logarithm) {
    for (double* row = joint; row < joint + int64_t(n) * C; row += C) {
        double m = row[0];
        for (int c = 1; c < C; ++c) m = row[c] > m ? row[c] : m;
        // First the largest, then the norm: in one, the norm would be lost beside a log density of -1e17.
        for (int c = 0; c < C; ++c) row[c] -= m;
        if (!logarithm) continue;
        double total = 0;
        for (int c = 0; c < C; ++c) total += std::exp(row[c]);
        const double log_total = std::log(total);
        for (int c = 0; c < C; ++c) row[c] -= log_total;
    }
    if (logarithm) return;
    exp_array(joint, joint, int64_t(n) * C);
    for (double* row = joint; row < joint + int64_t(n) * C; row += C) {
        double total = 0;
        for (int c = 0; c < C; ++c) total += row[c];
        for (int c = 0; c < C; ++c) row[c] /= total;
    }
}

int64_t posterior_scratch(const Shape& shape) {
    const int K = padded(shape.n_cells);
    return room_for_tile(K) + K + padded(shape.n_states) + 2 * int64_t(MOST_IN_TILE) * shape.n_classes;
}

void posterior(const Inputs& in, int64_t begin, int64_t end, Posterior what, double* out, double* scratch) {
    const Shape& shape = in.shape;
    const int C = shape.n_classes, S = shape.n_states, K = padded(shape.n_cells), n_tile = rows_in_tile(K);
    double* nothing = scratch + room_for_tile(K);  // (K,) 0
    double* joint = nothing + K;
    double* top = joint + padded(S);
    double* total = top + MOST_IN_TILE * C;
    for (double* x = nothing; x < top; ++x) *x = 0;
    const StateRange all{0, 0, S, K, nothing, nullptr, nullptr};
    for (int64_t at = begin; at < end; at += n_tile) {
        const int n = int(end - at < n_tile ? end - at : n_tile);
        double *cells = scratch, *rows = out + (at - begin) * (what == Posterior::states ? S : C);
        score_tile<Pieces>(in, all, K, Consecutive{at}, n, cells, K);
        for (int r = 0; r < n; ++r) {
            double* to = what == Posterior::states ? rows + int64_t(r) * S : joint;
            add_weights(shape, in.network.log_weight, cells + r * K, to);
            if (what != Posterior::states) sum_components(shape, joint, top + r * C, total + r * C);
        }
        if (what == Posterior::states) continue;
        log_array(total, total, int64_t(n) * C);
        for (int64_t i = 0; i < int64_t(n) * C; ++i) rows[i] = top[i] + total[i];
        if (what != Posterior::log_joint) normalise(rows, n, C, what == Posterior::log_proba);
    }
}

}  // namespace
}  // namespace fanbayes

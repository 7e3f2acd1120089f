// Probabilities of classes, or of states, row by row.
#pragma once

#include "kernel_scoring.hpp"

#include <cmath>

namespace fanbayes {
namespace {

// log p(s, x) of one row from the scores of its cells.
void add_weights(const Shape& shape, const double* log_weight, const double* cells, double* joint) {
    for (int c = 0; c < shape.n_classes; ++c) {
        const double* from = cells + shape.first_cell[c] - shape.first_state[c];
        for (int s = shape.first_state[c]; s < shape.first_state[c + 1]; ++s) joint[s] = log_weight[s] + from[s];
    }
}

// Of each class of n rows, top = max_h log p(c, h, x) and total = sum_h p(c, h, x) / exp(top), both (n, C), from
// log p(s, x), (n, stride), which is spoilt. Step by step for all rows: no step waits for the one before.
void sum_components(const Shape& shape, double* joint, int stride, int n, double* top, double* total) {
    const int C = shape.n_classes;
    auto for_classes = [&](auto each) {  // each(place in `top`, first state, number of states)
        for (int i = 0; i < n * C; ++i) {
            const int c = i % C, first = shape.first_state[c];
            each(i, joint + i / C * stride + first, shape.first_state[c + 1] - first);
        }
    };
    for_classes([&](int i, double* own, int size) {
        top[i] = reduce_array(own, size, LARGER);
        for (int h = 0; h < size; ++h) own[h] -= top[i];
    });
    if (shape.n_states > C) exp_of_negatives(joint, n * stride);
    for_classes([&](int i, double* own, int size) { total[i] = size == 1 ? 1.0 : reduce_array(own, size, PLUS); });
}

// From log p(c, x) of n rows to p(c | x) or its logarithm.
void normalise(double* joint, int n, int C, bool logarithm) {
    double* const end = joint + int64_t(n) * C;
    for (double* row = joint; row < end; row += C) {
        // First the largest, then the norm: in one, the norm would be lost beside a log density of -1e17.
        const double top = reduce_array(row, C, LARGER);
        for (int c = 0; c < C; ++c) row[c] -= top;
        if (!logarithm) continue;
        double total = 0;
        for (int c = 0; c < C; ++c) total += std::exp(row[c]);
        const double log_total = std::log(total);
        for (int c = 0; c < C; ++c) row[c] -= log_total;
    }
    if (logarithm) return;
    exp_array(joint, joint, end - joint);
    for (double* row = joint; row < end; row += C) {
        const double total = reduce_array(row, C, PLUS);
        for (int c = 0; c < C; ++c) row[c] /= total;
    }
}

int64_t posterior_scratch(const Shape& shape) {
    const int P = padded(shape.n_states);
    return 2 * room_for_tile(P) + padded(shape.n_cells) + 2 * int64_t(MOST_IN_TILE) * shape.n_classes;
}

void posterior(const Inputs& in, int64_t begin, int64_t end, Posterior what, double* out, double* scratch) {
    const Shape& shape = in.shape;
    const int C = shape.n_classes, S = shape.n_states, K = padded(shape.n_cells), P = padded(S),
              n_tile = rows_in_tile(P);
    double* cells = scratch;                     // (n_tile, K)
    double* joint = cells + room_for_tile(P);    // (n_tile, P)
    double* nothing = joint + room_for_tile(P);  // (K,) 0
    double* top = nothing + K;
    double* total = top + MOST_IN_TILE * C;
    for (double* x = joint; x < top; ++x) *x = 0;
    const StateRange all{0, 0, S, K, nothing, nullptr, nullptr};
    for (int64_t at = begin; at < end; at += n_tile) {
        const int n = int(end - at < n_tile ? end - at : n_tile);
        const bool states = what == Posterior::states;
        double* rows = out + (at - begin) * (states ? S : C);
        score_tile<Pieces>(in, all, K, Consecutive{at}, n, cells, K);
        for (int r = 0; r < n; ++r)
            add_weights(shape, in.network.log_weight, cells + r * K, states ? rows + int64_t(r) * S : joint + r * P);
        if (states) continue;
        sum_components(shape, joint, P, n, top, total);
        log_array(total, total, int64_t(n) * C);
        for (int64_t i = 0; i < int64_t(n) * C; ++i) rows[i] = top[i] + total[i];
        if (what != Posterior::log_joint) normalise(rows, n, C, what == Posterior::log_proba);
    }
}

}  // namespace
}  // namespace fanbayes

// Cut points that tell the classes apart: entropy with the MDL stopping rule (Fayyad & Irani 1993; data/mdl.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fanbayes::mdl {

// Observed, labelled rows of one column by increasing x.
struct Column {
    const double* x;
    const int32_t* labels;
    const double* weights;  // positive; null: 1 each
    size_t n, n_classes;
};

// The rows right of each cut, increasing.
std::vector<int64_t> cut_rows(const Column&);

}  // namespace fanbayes::mdl

// Kernel densities: what the kernel needs of centres, kept in one place.
#pragma once

#include "kernel.hpp"
#include "padding.hpp"

#include <cstddef>
#include <vector>

namespace fanbayes {

// Centres of kernels, those of a class together.
class Centres {
    Buffer values_, share_;
    std::vector<double> log_kept_, share_of_class_, prior_;
    std::vector<int64_t> first_level_, first_centre_, first_of_kind_;
    std::vector<int32_t> class_of_, of_kind_;
    Parzen parzen_;

  public:
    // values (n_columns, n_centres): numbers, then codes, NaN where missing; first_centre (n_classes + 1,); share, kept and
    // kind (n_centres,): kept is what is left of the share for rows of the same kind.
    Centres(const double* values, size_t n_columns, size_t n_numbers, std::vector<int64_t> first_level,
            std::vector<int64_t> first_centre, const double* share, const double* kept, const int32_t* kind,
            size_t n_kinds, std::vector<double> prior);
    Centres(const Centres&) = delete;

    const Parzen& parzen() const { return parzen_; }
    size_t n_kinds() const { return first_of_kind_.size() - 1; }
    size_t n_levels() const { return size_t(first_level_.back()); }
};

}  // namespace fanbayes

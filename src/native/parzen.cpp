#include "parzen.hpp"

#include <cmath>
#include <limits>
#include <utility>

namespace fanbayes {
namespace {

constexpr double NOTHING = -1e300;  // logarithm of a share of which nothing is left

size_t padded_centres(size_t n) {
    const size_t multiple = size_t(PARZEN_MULTIPLE);
    return (n + multiple - 1) / multiple * multiple;
}

}  // namespace

Centres::Centres(const double* values, size_t n_columns, size_t n_numbers, std::vector<int64_t> first_level,
                 std::vector<int64_t> first_centre, const double* share, const double* kept, const int32_t* kind,
                 size_t n_kinds, std::vector<double> prior)
    : values_(n_columns * padded_centres(size_t(first_centre.back()))),
      share_(padded_centres(size_t(first_centre.back()))),
      prior_(std::move(prior)),
      first_level_(std::move(first_level)),
      first_centre_(std::move(first_centre)),
      first_of_kind_(n_kinds + 1) {
    const size_t n = size_t(first_centre_.back()), stride = padded_centres(n), n_classes = prior_.size();
    std::fill_n(values_.data(), n_columns * stride, std::numeric_limits<double>::quiet_NaN());
    for (size_t i = 0; i < n_columns; ++i) std::copy_n(values + i * n, n, values_.data() + i * stride);
    std::fill_n(share_.data(), stride, 0.0);
    std::copy_n(share, n, share_.data());
    for (size_t c = 0; c < n_classes; ++c) {
        double sum = 0;
        for (int64_t m = first_centre_[c]; m < first_centre_[c + 1]; ++m) {
            sum += share[m];
            class_of_.push_back(int32_t(c));
        }
        share_of_class_.push_back(sum);
    }
    for (size_t m = 0; m < n; ++m) {
        log_kept_.push_back(kept[m] > 0 ? std::log(kept[m] / share[m]) : NOTHING);
        ++first_of_kind_[size_t(kind[m]) + 1];
    }
    for (size_t k = 0; k < n_kinds; ++k) first_of_kind_[k + 1] += first_of_kind_[k];
    of_kind_.resize(n);
    std::vector<int64_t> next(first_of_kind_.begin(), first_of_kind_.end() - 1);
    for (size_t m = 0; m < n; ++m) of_kind_[size_t(next[size_t(kind[m])]++)] = int32_t(m);
    parzen_ = {values_.data(),       int64_t(n),       int64_t(stride),       int64_t(n_columns),     int64_t(n_numbers),
               first_level_.data(),  share_.data(),    log_kept_.data(),      class_of_.data(),       first_of_kind_.data(),
               of_kind_.data(),      int(n_classes),   first_centre_.data(),  share_of_class_.data(), prior_.data()};
}

}  // namespace fanbayes

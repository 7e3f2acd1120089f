// The M-step: the parameters of a network that maximise the posterior, given statistics.
#pragma once

#include "kernel.hpp"

#include <cstddef>
#include <vector>

namespace fanbayes {

// A conditional probability table of the states, flat.
struct Factor {
    std::vector<int32_t> entry;   // (n_states,) which entry each state takes
    std::vector<int32_t> parent;  // (n_entries,) which distribution each entry belongs to, increasing
};

// Normal-inverse-gamma prior of mean and variance, and the fewest observations for which (7) is used.
struct GaussianPrior {
    double kappa, a, b, least_for_paper;
};

struct MStep {
    std::vector<int64_t> first_level;  // of each discrete column, and the end
    size_t n_numbers, n_states, n_cells;
    std::vector<Factor> factors;
    double alpha;
    std::vector<double> level_prior;  // what is added to the count of each level in each cell; empty: alpha
    bool paper;  // variances by (7) instead of the mode of the posterior
    double floor;
    bool tied;  // whether cells [first_cell[g], first_cell[g + 1]) share variance g of each number; else each has its
                // own
    std::vector<size_t> first_cell;
    GaussianPrior prior;

    // The parameters of a network are one array: log probabilities of factors and of the table, means, variances; then
    // the logarithms of these, which take their place among the coordinates without constraints.
    size_t n_levels() const { return size_t(first_level.back()); }
    size_t n_groups() const { return first_cell.size() - 1; }
    size_t n_variances() const { return n_numbers * n_groups(); }
    size_t at_table() const {
        size_t n = 0;
        for (const Factor& f : factors) n += f.parent.size();
        return n;
    }
    size_t at_mean() const { return at_table() + n_levels() * n_cells; }
    size_t at_sigma2() const { return at_mean() + n_numbers * n_cells; }
    size_t at_log_sigma2() const { return at_sigma2() + n_variances(); }
    size_t n_parameters() const { return at_log_sigma2() + n_variances(); }
    // What the kernel wants of them beside the table: weights of states, terms of numbers.
    size_t n_terms() const { return n_states + 3 * n_numbers * n_cells; }
    size_t n_statistics() const { return n_states + (n_levels() + 3 * n_numbers) * n_cells; }

    // of(j, v, begin, end) for each number j and each variance v of it, which cells [begin, end) share.
    template <typename Of>
    void for_groups(Of of) const {
        const size_t G = n_groups();
        for (size_t j = 0; j < n_numbers; ++j)
            for (size_t g = 0; g < G; ++g) of(j, j * G + g, first_cell[g], first_cell[g + 1]);
    }

    // Parameters that maximise the posterior, given statistics.
    void estimate(const Statistics&, double* parameters) const;
    void estimate_factors(const double* states, double* theta) const;
    void estimate_table(const double* counts, double* table) const;
    void estimate_normals(const double* moments, double* mean, double* sigma2) const;
    // Any coordinates to the nearest that are parameters: probabilities that add up to 1, variances above the floor.
    // `room` is for as many again.
    void project(double* parameters, double* room) const;
    // Completes parameters of which the variances are known, but not their logarithms.
    void complete(double* parameters) const;
    double log_prior(const double* parameters) const;
    // log p(D' | theta) of data that are completed as the statistics say.
    double log_complete_likelihood(const Statistics&, const Network&) const;
    // What the kernel is to see, with the room for it.
    Network network(const double* parameters, double* terms) const;
};

}  // namespace fanbayes

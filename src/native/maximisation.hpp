// The M-step: parameters of a network from its statistics, as in `fanbayes.model.network`, which has the equations.
#pragma once

#include "kernel.hpp"

#include <cstddef>
#include <vector>

// A conditional probability table of the states, flat.
struct Factor {
    std::vector<int32_t> entry;   // (n_states,) which entry each state takes
    std::vector<int32_t> parent;  // (n_entries,) which distribution each entry belongs to, increasing
};

enum class Variance { map, tied, paper };

// Normal-inverse-gamma prior of mean and variance, and what (7) needs.
struct GaussianPrior {
    double kappa, a, b, least_for_paper;
};

struct Learner {
    std::vector<int64_t> first_level;  // of each discrete column, and the end
    size_t n_numbers, n_states, n_cells;
    std::vector<Factor> factors;
    double alpha;
    Variance variance;
    double floor;
    std::vector<int32_t> group;  // (n_cells,) cells that share a variance, increasing; empty: none do
    GaussianPrior gaussian;

    // The parameters of a network are one array: coordinates without constraints, then variances.
    size_t at_table() const;
    size_t at_mean() const { return at_table() + size_t(first_level.back()) * n_cells; }
    size_t at_log_sigma2() const { return at_mean() + n_numbers * n_cells; }
    size_t n_coordinates() const { return at_log_sigma2() + n_numbers * n_cells; }
    size_t at_sigma2() const { return n_coordinates(); }
    size_t n_parameters() const { return n_coordinates() + n_numbers * n_cells; }
    // What the kernel wants of them beside the table: weights of states, slopes, intercepts, norms.
    size_t n_arguments() const { return n_states + 3 * n_numbers * n_cells; }
    size_t n_statistics() const { return n_states + (size_t(first_level.back()) + 3 * n_numbers) * n_cells; }

    // Parameters that maximise the posterior, given statistics.
    void maximise(const Statistics&, double* parameters) const;
    // Any coordinates to the nearest that are parameters: probabilities that add up to 1, variances above the floor.
    // `room` is for as many again.
    void constrain(double* parameters, double* room) const;
    // Completes parameters of which the variances are known, but not their logarithms.
    void complete(double* parameters) const;
    double log_prior(const double* parameters) const;
    // log p(D' | theta) of data that are completed as the statistics say.
    double log_complete_likelihood(const Statistics&, const Network&) const;
    // What the kernel is to see, with the room for it.
    Network network(const double* parameters, double* arguments) const;
};

#include "m_step.hpp"

#include "sums.hpp"

#include <algorithm>
#include <cmath>

namespace fanbayes {
namespace {

const double LOG_2PI = std::log(2.0 * M_PI);

// The entries [begin, end) of each parent, which are neighbours.
template <typename Of>
void for_parents(const Factor& f, Of of) {
    for (size_t begin = 0, end = 0; begin < f.parent.size(); begin = end) {
        while (end < f.parent.size() && f.parent[end] == f.parent[begin]) ++end;
        of(begin, end);
    }
}

// The rows of the table, of K cells each, that are the levels of each column: the first, and the last, "missing".
template <typename Of>
void for_columns(const std::vector<int64_t>& first_level, double* table, size_t K, Of of) {
    for (size_t j = 0; j + 1 < first_level.size(); ++j)
        of(table + size_t(first_level[j]) * K, table + size_t(first_level[j + 1] - 1) * K);
}

// f(x, y) for each level's x [begin, end) and y (K,), cell by cell.
template <typename F>
void with_each_level(double* begin, const double* end, double* y, size_t K, F f) {
    for (double* x = begin; x < end; x += K)
        for (size_t k = 0; k < K; ++k) f(x[k], y[k]);
}

}  // namespace

void MStep::estimate(const Statistics& s, double* parameters) const {
    estimate_factors(s.states, parameters);
    estimate_table(s.counts, parameters + at_table());
    estimate_normals(s.moments, parameters + at_mean(), parameters + at_sigma2());
    complete(parameters);
}

// Log of (5), (alpha + N_jk) / (alpha r + N_j).
void MStep::estimate_factors(const double* states, double* theta) const {
    for (const Factor& f : factors) {
        std::fill_n(theta, f.parent.size(), alpha);
        for (size_t i = 0; i < n_states; ++i) theta[f.entry[i]] += states[i];
        for_parents(f, [&](size_t begin, size_t end) {
            const double log_total = std::log(sum(theta + begin, end - begin));
            for (size_t k = begin; k < end; ++k) theta[k] = std::log(theta[k]) - log_total;
        });
        theta += f.parent.size();
    }
}

// Log of (5) again, the last level of each column being "missing", whose factor is 1.
void MStep::estimate_table(const double* counts, double* table) const {
    const size_t K = n_cells, n = n_levels() * K;
    for (size_t i = 0; i < n; ++i) table[i] = counts[i] + (level_prior.empty() ? alpha : level_prior[i]);
    for_columns(first_level, table, K, [&](double* begin, double* missing) {  // which holds the sum for a while
        std::fill_n(missing, K, 0.0);
        with_each_level(begin, missing, missing, K, [](double& count, double& total) { total += count; });
    });
    kernel->log(table, table, int64_t(n));
    for_columns(first_level, table, K, [&](double* begin, double* missing) {
        with_each_level(begin, missing, missing, K, [](double& x, double& log_total) { x -= log_total; });
        std::fill_n(missing, K, 0.0);
    });
}

// The mode of the posterior of means and variances; (7) where it is asked for and defined.
void MStep::estimate_normals(const double* moments, double* mean, double* sigma2) const {
    const size_t K = n_cells;
    for_groups([&](size_t j, size_t v, size_t begin, size_t end) {
        const double *N = moments + 3 * j * K, *first = N + K, *second = first + K;
        double *m = mean + j * K, n = 0, spread = 0;
        for (size_t k = begin; k < end; ++k) {
            m[k] = first[k] / (prior.kappa + N[k]);
            n += N[k];
            spread += std::max(second[k] - first[k] * m[k], 0.0);
        }
        sigma2[v] = (2 * prior.b + spread) / (n + (2 * prior.a + 2 + double(end - begin)));
        if (paper && n >= prior.least_for_paper) {  // of one cell
            m[begin] = first[begin] / n;
            sigma2[v] = (n - 1) / (n * (n - 3)) * std::max(second[begin] - first[begin] * m[begin], 0.0);
        }
        sigma2[v] = sigma2[v] < floor ? floor : sigma2[v];  // NaN stays
    });
}

void MStep::complete(double* parameters) const {
    kernel->log(parameters + at_sigma2(), parameters + at_log_sigma2(), int64_t(n_variances()));
}

void MStep::project(double* parameters, double* room) const {
    double* theta = parameters;
    for (const Factor& f : factors) {
        for_parents(f, [&](size_t begin, size_t end) {
            const double top = *std::max_element(theta + begin, theta + end);
            double total = 0;
            for (size_t k = begin; k < end; ++k) total += std::exp(theta[k] - top);
            for (size_t k = begin; k < end; ++k) theta[k] -= top + std::log(total);
        });
        theta += f.parent.size();
    }
    const size_t K = n_cells;
    double* table = theta;
    for_columns(first_level, table, K, [&](double* begin, double* missing) {  // which holds the maximum, then the sum
        std::copy_n(begin, K, missing);
        with_each_level(begin, missing, missing, K, [](double& x, double& top) { top = std::max(top, x); });
        with_each_level(begin, missing, missing, K, [](double& x, double& top) { x -= top; });
    });
    kernel->exp(table, room, int64_t(n_levels() * K));
    for_columns(first_level, table, K, [&](double* begin, double* missing) {
        std::fill_n(missing, K, 0.0);
        with_each_level(room + (begin - table), room + (missing - table), missing, K,
                        [](double& p, double& total) { total += p; });
        kernel->log(missing, missing, int64_t(K));
        with_each_level(begin, missing, missing, K, [](double& x, double& log_total) { x -= log_total; });
        std::fill_n(missing, K, 0.0);
    });
    double *log_sigma2 = parameters + at_log_sigma2(), *sigma2 = parameters + at_sigma2();
    for (size_t i = 0; i < n_variances(); ++i) log_sigma2[i] = std::clamp(log_sigma2[i], -600.0, 600.0);
    kernel->exp(log_sigma2, sigma2, int64_t(n_variances()));
    const double log_floor = std::log(floor);
    for (size_t i = 0; i < n_variances(); ++i)
        if (sigma2[i] < floor) {
            sigma2[i] = floor;
            log_sigma2[i] = log_floor;
        }
}

double MStep::log_prior(const double* parameters) const {
    // Factors and table: (5) is the mode of Dirichlet(alpha + 1).
    const bool alike = level_prior.empty();
    double total = alpha * sum(parameters, alike ? at_mean() : at_table());
    if (!alike) total += dot(level_prior.data(), parameters + at_table(), level_prior.size());
    if (paper || n_numbers == 0) return total;
    const double *mean = parameters + at_mean(), *log_sigma2 = parameters + at_log_sigma2(),
                 *sigma2 = parameters + at_sigma2();
    const double n_means = double(n_numbers * n_cells), n = double(n_variances());
    double squares = 0, logs = 0;
    for_groups([&](size_t j, size_t v, size_t begin, size_t end) {  // N(mean; 0, sigma2 / kappa) of each cell
        const double* m = mean + j * n_cells + begin;
        squares += dot(m, m, end - begin) / sigma2[v];
        logs += double(end - begin) * log_sigma2[v];
    });
    total += -0.5 * (n_means * (LOG_2PI - std::log(prior.kappa)) + logs + prior.kappa * squares);
    // IG(sigma2; a, b) of each variance
    const double inverse = sum_of(n_variances(), [&](size_t v) { return 1 / sigma2[v]; });
    return total + n * (prior.a * std::log(prior.b) - std::lgamma(prior.a)) -
           (prior.a + 1) * sum(log_sigma2, n_variances()) - prior.b * inverse;
}

double MStep::log_complete_likelihood(const Statistics& s, const Network& net) const {
    const size_t K = n_cells;
    double total = dot(s.states, net.log_weight, n_states) + dot(s.counts, net.log_table, n_levels() * K);
    // sum over values of log_norm - (slope x + intercept)^2, around their mean: nothing large cancels
    for (size_t j = 0; j < n_numbers; ++j) {
        const double *N = s.moments + 3 * j * K, *first = N + K, *second = first + K;
        const double *slope = net.numeric + 3 * j * K, *intercept = slope + K, *log_norm = intercept + K;
        for (size_t k = 0; k < K; ++k) {
            if (!(N[k] > 0)) continue;
            const double mean = first[k] / N[k], d = slope[k] * mean + intercept[k];
            const double squares = std::max(second[k] - first[k] * mean, 0.0);
            total += N[k] * (log_norm[k] - d * d) - slope[k] * slope[k] * squares;
        }
    }
    return total;
}

Network MStep::network(const double* parameters, double* terms) const {
    std::fill_n(terms, n_states, 0.0);
    const double* theta = parameters;
    for (const Factor& f : factors) {
        for (size_t i = 0; i < n_states; ++i) terms[i] += theta[f.entry[i]];
        theta += f.parent.size();
    }
    const size_t K = n_cells;
    const double *mean = parameters + at_mean(), *log_sigma2 = parameters + at_log_sigma2(),
                 *sigma2 = parameters + at_sigma2();
    double* numeric = terms + n_states;
    for_groups([&](size_t j, size_t v, size_t begin, size_t end) {
        double *slope = numeric + 3 * j * K, *intercept = slope + K, *log_norm = intercept + K;
        const double each = std::sqrt(0.5 / sigma2[v]), norm = -0.5 * (LOG_2PI + log_sigma2[v]);
        for (size_t k = begin; k < end; ++k) {
            slope[k] = each;
            intercept[k] = -each * mean[j * K + k];
            log_norm[k] = norm;
        }
    });
    return {terms, parameters + at_table(), numeric, 0, nullptr};
}

}  // namespace fanbayes

#include "maximisation.hpp"

#include <algorithm>
#include <cmath>

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

double sum(const double* x, size_t n) {
    return sum_of(n, [&](size_t i) { return x[i]; });
}

double dot(const double* x, const double* y, size_t n) {
    return sum_of(n, [&](size_t i) { return x[i] * y[i]; });
}

}  // namespace

size_t Learner::at_table() const {
    size_t n = 0;
    for (const Factor& f : factors) n += f.parent.size();
    return n;
}

void Learner::maximise(const Statistics& s, double* parameters) const {
    // Factors: log of (5), (alpha + N_jk) / (alpha r + N_j).
    double* theta = parameters;
    for (const Factor& f : factors) {
        std::fill_n(theta, f.parent.size(), alpha);
        for (size_t i = 0; i < n_states; ++i) theta[f.entry[i]] += s.states[i];
        for_parents(f, [&](size_t begin, size_t end) {
            const double log_total = std::log(sum(theta + begin, end - begin));
            for (size_t k = begin; k < end; ++k) theta[k] = std::log(theta[k]) - log_total;
        });
        theta += f.parent.size();
    }
    // Discrete columns: log of (5) again, the last level of each being "missing", whose factor is 1.
    const size_t K = n_cells;
    const size_t n_levels = size_t(first_level.back());
    double* table = theta;
    for (size_t i = 0; i < n_levels * K; ++i) table[i] = s.counts[i] + alpha;
    for_columns(first_level, table, K, [&](double* begin, double* missing) {  // which holds the sum for a while
        std::fill_n(missing, K, 0.0);
        with_each_level(begin, missing, missing, K, [](double& count, double& total) { total += count; });
    });
    kernel->log(table, table, int64_t(n_levels * K));
    for_columns(first_level, table, K, [&](double* begin, double* missing) {
        with_each_level(begin, missing, missing, K, [](double& x, double& log_total) { x -= log_total; });
        std::fill_n(missing, K, 0.0);
    });
    // Numbers: the mode of the posterior of mean and variance; (7) where it is asked for and defined.
    const size_t plane = n_numbers * K;
    const double *N = s.moments, *first = N + plane, *second = first + plane;
    double *mean = parameters + at_mean(), *sigma2 = parameters + at_sigma2();
    const GaussianPrior& p = gaussian;
    for (size_t i = 0; i < plane; ++i) {
        mean[i] = first[i] / (p.kappa + N[i]);
        const double spread = std::max(second[i] - first[i] * mean[i], 0.0);
        sigma2[i] = variance == Variance::tied ? spread : (2 * p.b + spread) / (N[i] + (2 * p.a + 3));
    }
    if (variance == Variance::tied)
        for (size_t j = 0; j < plane; j += K)
            for (size_t begin = 0, end = 0; begin < K; begin = end) {
                while (end < K && group[end] == group[begin]) ++end;
                const double each = (2 * p.b + sum(sigma2 + j + begin, end - begin)) /
                                    (sum(N + j + begin, end - begin) + 2 * p.a + 2 + double(end - begin));
                std::fill(sigma2 + j + begin, sigma2 + j + end, each);
            }
    if (variance == Variance::paper)
        for (size_t i = 0; i < plane; ++i)
            if (N[i] >= p.least_for_paper) {
                mean[i] = first[i] / N[i];
                sigma2[i] = (N[i] - 1) / (N[i] * (N[i] - 3)) * std::max(second[i] - first[i] * mean[i], 0.0);
            }
    for (size_t i = 0; i < plane; ++i) sigma2[i] = sigma2[i] < floor ? floor : sigma2[i];  // NaN stays
    complete(parameters);
}

void Learner::complete(double* parameters) const {
    kernel->log(parameters + at_sigma2(), parameters + at_log_sigma2(), int64_t(n_numbers * n_cells));
}

void Learner::constrain(double* parameters, double* room) const {
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
    kernel->exp(table, room, first_level.back() * int64_t(K));
    for_columns(first_level, table, K, [&](double* begin, double* missing) {
        std::fill_n(missing, K, 0.0);
        with_each_level(room + (begin - table), room + (missing - table), missing, K,
                        [](double& p, double& total) { total += p; });
        kernel->log(missing, missing, int64_t(K));
        with_each_level(begin, missing, missing, K, [](double& x, double& log_total) { x -= log_total; });
        std::fill_n(missing, K, 0.0);
    });
    const size_t plane = n_numbers * K;
    double *log_sigma2 = parameters + at_log_sigma2(), *sigma2 = parameters + at_sigma2();
    for (size_t i = 0; i < plane; ++i) log_sigma2[i] = std::clamp(log_sigma2[i], -600.0, 600.0);
    kernel->exp(log_sigma2, sigma2, int64_t(plane));
    const double log_floor = std::log(floor);
    for (size_t i = 0; i < plane; ++i)
        if (sigma2[i] < floor) {
            sigma2[i] = floor;
            log_sigma2[i] = log_floor;
        }
}

double Learner::log_prior(const double* parameters) const {
    double total = alpha * sum(parameters, at_mean());  // factors and table: (5) is the mode of Dirichlet(alpha + 1)
    if (variance == Variance::paper || n_numbers == 0) return total;
    const size_t K = n_cells, plane = n_numbers * K;
    const double *mean = parameters + at_mean(), *log_sigma2 = parameters + at_log_sigma2(),
                 *sigma2 = parameters + at_sigma2();
    const GaussianPrior& p = gaussian;
    double squares = 0, inverse = 0;
    for (size_t i = 0; i < plane; ++i) squares += mean[i] * mean[i] / sigma2[i];
    double logs = sum(log_sigma2, plane), n = double(plane);
    total += -0.5 * (n * (LOG_2PI - std::log(p.kappa)) + logs + p.kappa * squares);
    if (variance == Variance::tied) {  // one variance a group
        logs = n = 0;
        for (size_t i = 0; i < plane; ++i)
            if (i % K == 0 || group[i % K] != group[i % K - 1]) {
                logs += log_sigma2[i];
                inverse += 1 / sigma2[i];
                n += 1;
            }
    } else {
        for (size_t i = 0; i < plane; ++i) inverse += 1 / sigma2[i];
    }
    return total + n * (p.a * std::log(p.b) - std::lgamma(p.a)) - (p.a + 1) * logs - p.b * inverse;
}

double Learner::log_complete_likelihood(const Statistics& s, const Network& net) const {
    const size_t plane = n_numbers * n_cells;
    double total = dot(s.states, net.log_weight, n_states);
    total += dot(s.counts, net.log_table, size_t(first_level.back()) * n_cells);
    // sum over values of log_norm - (slope x + intercept)^2, around their mean: nothing large cancels
    const double *N = s.moments, *first = N + plane, *second = first + plane;
    for (size_t i = 0; i < plane; ++i) {
        if (!(N[i] > 0)) continue;
        const double mean = first[i] / N[i], d = net.slope[i] * mean + net.intercept[i];
        const double squares = std::max(second[i] - first[i] * mean, 0.0);
        total += N[i] * (net.log_norm[i] - d * d) - net.slope[i] * net.slope[i] * squares;
    }
    return total;
}

Network Learner::network(const double* parameters, double* arguments) const {
    double* weight = arguments;
    std::fill_n(weight, n_states, 0.0);
    const double* theta = parameters;
    for (const Factor& f : factors) {
        for (size_t i = 0; i < n_states; ++i) weight[i] += theta[f.entry[i]];
        theta += f.parent.size();
    }
    const size_t plane = n_numbers * n_cells;
    const double *mean = parameters + at_mean(), *log_sigma2 = parameters + at_log_sigma2(),
                 *sigma2 = parameters + at_sigma2();
    double *slope = weight + n_states, *intercept = slope + plane, *log_norm = intercept + plane;
    for (size_t i = 0; i < plane; ++i) {
        slope[i] = std::sqrt(0.5 / sigma2[i]);
        intercept[i] = -slope[i] * mean[i];
        log_norm[i] = -0.5 * (LOG_2PI + log_sigma2[i]);
    }
    return {weight, theta, slope, intercept, log_norm};
}

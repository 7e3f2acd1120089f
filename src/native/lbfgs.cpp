#include "lbfgs.hpp"

#include "sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace fanbayes {
namespace {

// Steps that are remembered.
constexpr size_t MEMORY = 10;

// Wolfe's conditions: a step gains at least this share of what the slope promises, and leaves at most this share of it.
constexpr double LEAST_GAIN = 1e-4, MOST_SLOPE = 0.9;
constexpr int MOST_TRIALS = 30;

using Vector = std::vector<double>;

// A point of a line: how far along it, the loss there and its derivative along the line.
struct Trial {
    double t, loss, slope;
};

// Where the cubic through two trials is least, well between them; their middle if the loss is not finite.
double between(const Trial& a, const Trial& b) {
    const double width = b.t - a.t, chord = 3 * (a.loss - b.loss) / width + a.slope + b.slope,
                 root = std::sqrt(std::max(0.0, chord * chord - a.slope * b.slope)),
                 share = 1 - (b.slope + root - chord) / (b.slope - a.slope + 2 * root);
    return a.t + width * (std::isfinite(share) ? std::clamp(share, 0.1, 0.9) : 0.5);
}

class Minimisation {
    const Descent& task_;
    const size_t n_;
    double loss_;
    Vector gradient_, direction_, next_, next_gradient_;
    // The last steps, and how the gradient changed by them; number k is at k % MEMORY.
    Vector moves_[MEMORY], changes_[MEMORY];
    double products_[MEMORY];  // of the two
    size_t n_known_ = 0;
    double scale_ = 1;  // of the inverse of the second derivatives, by the last step

    // Minus the gradient times what is known of the inverse of the second derivatives; returns the slope along it.
    double aim() {
        double share[MEMORY];
        direction_ = gradient_;
        const size_t oldest = n_known_ - std::min(n_known_, MEMORY);
        for (size_t k = n_known_; k-- > oldest;) {
            const size_t m = k % MEMORY;
            share[m] = dot(moves_[m].data(), direction_.data(), n_) / products_[m];
            for (size_t i = 0; i < n_; ++i) direction_[i] -= share[m] * changes_[m][i];
        }
        for (double& d : direction_) d *= scale_;
        for (size_t k = oldest; k < n_known_; ++k) {
            const size_t m = k % MEMORY;
            const double missing = share[m] - dot(changes_[m].data(), direction_.data(), n_) / products_[m];
            for (size_t i = 0; i < n_; ++i) direction_[i] += missing * moves_[m][i];
        }
        for (double& d : direction_) d = -d;
        return dot(gradient_.data(), direction_.data(), n_);
    }

    Trial evaluate(const double* point, double t) {
        for (size_t i = 0; i < n_; ++i) next_[i] = point[i] + t * direction_[i];
        const double loss = task_.loss(next_.data(), next_gradient_.data());
        return {t, loss, dot(next_gradient_.data(), direction_.data(), n_)};
    }

    // Looks along the direction for a point that fulfils Wolfe's conditions; whether there is one, the next.
    bool search(const double* point, double slope, double& loss) {
        Trial low{0, loss_, slope}, high{std::numeric_limits<double>::infinity(), 0, 0};
        for (double t = 1, k = 0; k < MOST_TRIALS; ++k) {
            const Trial trial = evaluate(point, t);
            const bool gains = trial.loss <= loss_ + LEAST_GAIN * t * slope;  // false for NaN
            if (gains && trial.slope >= MOST_SLOPE * slope) {
                loss = trial.loss;
                return true;
            }
            (gains ? low : high) = trial;
            t = std::isinf(high.t) ? 4 * t : between(low, high);
        }
        return false;
    }

    void remember(const double* point) {
        const size_t m = n_known_ % MEMORY;
        moves_[m].resize(n_);
        changes_[m].resize(n_);
        for (size_t i = 0; i < n_; ++i) {
            moves_[m][i] = next_[i] - point[i];
            changes_[m][i] = next_gradient_[i] - gradient_[i];
        }
        products_[m] = dot(moves_[m].data(), changes_[m].data(), n_);
        if (!(products_[m] > 0)) return;  // by rounding alone
        scale_ = products_[m] / dot(changes_[m].data(), changes_[m].data(), n_);
        ++n_known_;
    }

  public:
    explicit Minimisation(const Descent& task)
        : task_(task), n_(task.n), gradient_(n_), direction_(n_), next_(n_), next_gradient_(n_) {}

    void operator()(double* point) {
        loss_ = task_.loss(point, gradient_.data());
        scale_ = 1 / std::sqrt(dot(gradient_.data(), gradient_.data(), n_));  // the first trial goes a unit far
        for (int step = 0; step < task_.most_steps; ++step) {
            double loss = loss_;
            const double slope = aim();
            if (!(slope < 0) || !search(point, slope, loss)) return;
            remember(point);
            std::copy(next_.begin(), next_.end(), point);
            std::swap(gradient_, next_gradient_);
            const double gain = loss_ - loss;
            loss_ = loss;
            task_.between();
            if (gain <= task_.tolerance * std::max(1.0, std::abs(loss_))) return;
        }
    }
};

}  // namespace

void minimise(const Descent& task, double* point) { Minimisation{task}(point); }

}  // namespace fanbayes

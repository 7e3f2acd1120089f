#include "stars.hpp"

#include "rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fanbayes {
namespace {

constexpr double NEVER = -std::numeric_limits<double>::infinity();

// Rows of log p(c, x), (n_rows, C) -> what is wanted of them.
void finish(double* out, size_t n_rows, size_t C, Posterior what) {
    if (what == Posterior::log_joint) return;
    for (size_t t = 0; t < n_rows; ++t) {
        double* row = out + t * C;
        const double largest = *std::max_element(row, row + C);
        for (size_t c = 0; c < C; ++c) row[c] -= largest;
    }
    if (what == Posterior::proba) kernel->exp(out, out, int64_t(n_rows * C));
    for (size_t t = 0; t < n_rows; ++t) {
        double *row = out + t * C, total = 0.0;
        for (size_t c = 0; c < C; ++c) total += what == Posterior::proba ? row[c] : std::exp(row[c]);
        if (what == Posterior::proba) std::for_each(row, row + C, [=](double& p) { p /= total; });
        else std::for_each(row, row + C, [log_total = std::log(total)](double& p) { p -= log_total; });
    }
}

}  // namespace

Stars::Stars(const std::vector<int64_t>& first_level, size_t n_classes)
    : first_level_(first_level), n_(first_level.size() - 1), C_(n_classes), P_(width(n_classes)) {
    require(C_ > 0 && !first_level.empty() && first_level[0] == 0, "levels of columns, and a class");
    for (size_t i = 0; i < n_; ++i) {
        require(first_level[i + 1] > first_level[i], "first_level must increase");
        most_levels_ = std::max(most_levels_, size_t(first_level[i + 1] - first_level[i]));
    }
    constexpr size_t most = std::numeric_limits<uint32_t>::max();
    require(n_levels() <= most && P_ <= most / std::max<size_t>(1, n_levels()), "too many levels and classes");
    first_pair_.push_back(0);
    for (size_t i = 0; i < n_; ++i)
        first_pair_.push_back(first_pair_[i] + (first_level[i + 1] - first_level[i]) * int64_t(behind(i)));
}

size_t Stars::tile() const { return std::clamp<size_t>((1 << 18) / std::max<size_t>(1, n_ * P_), 16, 256); }

Stars::Room Stars::room(size_t n_rows) const {
    n_rows = std::min(n_rows, tile());
    return {std::vector<uint32_t>(n_rows * n_), std::vector<uint8_t>(n_rows),
            std::vector<double>(n_rows * n_ * P_ + STAR_SLACK), std::vector<double>(most_levels_ * P_),
            std::vector<double>(n_rows * P_), std::vector<double>(n_rows * P_)};
}

void Stars::load(const Table& rows, size_t begin, size_t n_rows, Room& room) const {
    const size_t n_narrow = size_t(rows.n_narrow), n_wide = size_t(rows.n_wide), P = P_;
    for (size_t t = 0; t < n_rows; ++t) {
        uint32_t* levels = room.levels.data() + t * n_;
        for (size_t j = 0; j < n_narrow; ++j) levels[j] = rows.narrow[(begin + t) * n_narrow + j];
        for (size_t j = 0; j < n_wide; ++j) levels[n_narrow + j] = rows.wide[(begin + t) * n_wide + j];
        double* score = room.scores.data() + t * n_ * P;
        bool is_plain = true;
        for (size_t j = 0; j < n_; ++j, score += P) {
            const size_t level = size_t(first_level_[j]) + levels[j];
            is_plain &= part[level] == 1;
            levels[j] = uint32_t(level * P);
            for (size_t c = 0; c < P; c += 2) {
                score[c] = root[level * P + c];
                score[c + 1] = root[level * P + c + 1];
            }
        }
        room.is_plain[t] = is_plain;
    }
}

// The star of a root that is missing: the sum over all its levels, as if it had each of them.
void Stars::sum_out_root(size_t i, const uint32_t* levels, double* score, double* work) const {
    const size_t first = size_t(first_level_[i]), n_levels = size_t(first_level_[i + 1]) - first - 1;
    std::copy_n(root + first * P_, n_levels * P_, work);
    for (size_t j = 0; j < i; ++j) {
        const size_t given = size_t(first_pair_[j]) * P_ + (levels[j] - size_t(first_level_[j]) * P_) * behind(j);
        add(pair + given + (first - size_t(first_level_[j + 1])) * P_, n_levels * P_, work);
    }
    for (size_t v = 0; v < n_levels; ++v) {
        const double* given = pair + (size_t(first_pair_[i]) + v * behind(i)) * P_;
        for (size_t j = i + 1; j < n_; ++j)
            add(given + (levels[j] - size_t(first_level_[i + 1]) * P_), C_, work + v * P_);
    }
    for (size_t c = 0; c < C_; ++c) {
        double largest = NEVER, sum = 0.0;
        for (size_t v = 0; v < n_levels; ++v) largest = std::max(largest, work[v * P_ + c]);
        for (size_t v = 0; v < n_levels; ++v) sum += std::exp(work[v * P_ + c] - largest);
        score[c] = largest + std::log(sum);
    }
}

// Scores of the stars of a row whose root is missing, and of those that take no part; how many do take part. Where
// none does, naive Bayes takes the place of the first.
size_t Stars::settle(size_t t, Room& room) const {
    if (room.is_plain[t]) return n_;
    const uint32_t* levels = room.levels.data() + t * n_;
    double* scores = room.scores.data() + t * n_ * P_;
    size_t n_stars = 0;
    for (size_t i = 0; i < n_; ++i) {
        const uint8_t does = part[levels[i] / P_];
        n_stars += does > 0;
        if (does == 0) std::fill_n(scores + i * P_, P_, NEVER);
        if (does == 2) sum_out_root(i, levels, scores + i * P_, room.work.data());
    }
    if (n_stars > 0) return n_stars;
    std::copy_n(prior, P_, scores);
    for (size_t j = 0; j < n_; ++j) add(independent + levels[j], P_, scores);
    return 1;
}

void Stars::posterior(const Table& rows, size_t begin, size_t end, Posterior what, double* out, Room& room) const {
    if (n_ == 0) {
        for (size_t t = 0; t < end - begin; ++t) std::copy_n(prior, C_, out + t * C_);
        return finish(out, end - begin, C_, what);
    }
    const size_t step = tile();
    std::vector<double>&most = room.most, &sums = room.sums;
    for (size_t at = begin; at < end; at += step, out += step * C_) {
        const size_t n_rows = std::min(step, end - at);
        const StarTile tile{pair,
                            first_pair_.data(),
                            first_level_.data(),
                            room.levels.data(),
                            int64_t(n_rows),
                            int64_t(n_),
                            int64_t(P_),
                            room.scores.data(),
                            most.data(),
                            sums.data()};
        load(rows, at, n_rows, room);
        kernel->add_star_pairs(tile);
        for (size_t t = 0; t < n_rows; ++t) std::fill_n(out + t * C_, C_, double(settle(t, room)));
        kernel->sum_stars(tile);
        for (size_t t = 0; t < n_rows; ++t)
            for (size_t c = 0; c < C_; ++c) out[t * C_ + c] = sums[t * P_ + c] / out[t * C_ + c];
        kernel->log(out, out, int64_t(n_rows * C_));
        for (size_t t = 0; t < n_rows; ++t) add(most.data() + t * P_, C_, out + t * C_);
        finish(out, n_rows, C_, what);
    }
}

}  // namespace fanbayes

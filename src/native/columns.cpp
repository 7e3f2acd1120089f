#include "columns.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace columns {
namespace {

constexpr int64_t BLOCK = 2048;  // rows; a block of some dozens of columns fits into the second cache

// Calls visit(c, first row of the block, its end, pointer to column c's first value there, stride).
template <typename Visit>
void for_blocks(const std::vector<Column>& columns, int64_t rows, Visit visit) {
    for (int64_t at = 0; at < rows; at += BLOCK) {
        const int64_t until = std::min(at + BLOCK, rows);
        for (size_t c = 0; c < columns.size(); ++c) {
            const Column& column = columns[c];
            auto typed = [&]<typename T>(const T* data) {
                visit(c, at, until, data + at * column.stride, column.stride);
            };
            switch (column.type) {
                case Type::float64: typed(static_cast<const double*>(column.data)); break;
                case Type::float32: typed(static_cast<const float*>(column.data)); break;
                case Type::int64: typed(static_cast<const int64_t*>(column.data)); break;
                case Type::int32: typed(static_cast<const int32_t*>(column.data)); break;
                case Type::uint8: typed(static_cast<const uint8_t*>(column.data)); break;
            }
        }
    }
}

// x * 2^exponent without intermediate overflow: exact unless the result is subnormal.
struct PowerOfTwo {
    double first, second;
    explicit PowerOfTwo(int exponent)
        : first(std::ldexp(1.0, exponent / 2)), second(std::ldexp(1.0, exponent - exponent / 2)) {}
    double operator()(double x) const { return x * first * second; }
};

}  // namespace

std::vector<Summary> summarise(const std::vector<Column>& columns, int64_t rows) {
    constexpr double inf = std::numeric_limits<double>::infinity(), exact = 9007199254740992.0;
    std::vector<Summary> out(columns.size());
    for (Summary& s : out) s.low = inf, s.high = -inf;
    for_blocks(columns, rows, [&](size_t c, int64_t at, int64_t until, auto* x, int64_t stride) {
        Summary& s = out[c];
        double low = s.low, high = s.high;
        int64_t missing = 0, fractional = 0;
        for (int64_t i = 0; i < until - at; ++i) {
            const double v = double(x[i * stride]);
            missing += v != v;
            fractional += v != std::nearbyint(v) && v == v;
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        s.low = low, s.high = high;
        s.missing += missing;
        s.integral &= fractional == 0;
    });
    for (Summary& s : out) {
        s.infinite = s.low == -inf || s.high == inf;
        if (s.low > s.high) s.infinite = false;  // nothing observed
        s.integral &= s.low > -exact && s.high < exact;
    }
    return out;
}

std::vector<Centre> centre(const std::vector<Column>& columns, int64_t rows, const std::vector<int>& exponent,
                           const double* weight) {
    struct Moments {
        double n = 0, mean = 0, squares = 0;
    };
    std::vector<Moments> total(columns.size());
    std::vector<double> z(BLOCK), w(BLOCK);
    for_blocks(columns, rows, [&](size_t c, int64_t at, int64_t until, auto* x, int64_t stride) {
        // Two passes over the block, then merged with what came before (Chan, Golub & LeVeque 1983).
        const PowerOfTwo scaled(-exponent[c]);
        Moments block;
        int64_t n = 0;
        double sum = 0;
        for (int64_t i = 0; i < until - at; ++i) {
            const double v = double(x[i * stride]);
            if (v != v) continue;
            z[size_t(n)] = scaled(v);
            w[size_t(n)] = weight ? weight[at + i] : 1.0;
            block.n += w[size_t(n)];
            sum += w[size_t(n)] * z[size_t(n)];
            ++n;
        }
        if (n == 0) return;
        block.mean = sum / block.n;
        for (size_t i = 0; i < size_t(n); ++i) block.squares += w[i] * (z[i] - block.mean) * (z[i] - block.mean);
        Moments& t = total[c];
        const double both = t.n + block.n, gap = block.mean - t.mean;
        t.squares += block.squares + gap * gap * t.n * block.n / both;
        t.mean += gap * block.n / both;
        t.n = both;
    });
    std::vector<Centre> out;
    for (const Moments& t : total) out.push_back({t.mean, t.n > 0 ? std::sqrt(t.squares / t.n) : 0.0});
    return out;
}

void standardise(const std::vector<Column>& columns, int64_t rows, const std::vector<int>& exponent,
                 const std::vector<Centre>& centre, Block<double> out) {
    for_blocks(columns, rows, [&](size_t c, int64_t at, int64_t until, auto* x, int64_t stride) {
        const PowerOfTwo scaled(-exponent[c]);
        const double mean = centre[c].mean, deviation = centre[c].deviation;
        double* to = out.data + at * out.width + out.place[c];
        for (int64_t i = 0; i < until - at; ++i) {
            double z = (scaled(double(x[i * stride])) - mean) / deviation;
            z = z > 1e100 ? 1e100 : z;  // so that its square is finite; false for NaN
            to[i * out.width] = z < -1e100 ? -1e100 : z;
        }
    });
}

template <typename Code>
void look_up(const std::vector<Column>& columns, int64_t rows, const std::vector<int64_t>& low,
             const std::vector<std::vector<uint16_t>>& table, Block<Code> out) {
    for_blocks(columns, rows, [&](size_t c, int64_t at, int64_t until, auto* x, int64_t stride) {
        const uint16_t* codes = table[c].data();
        const int64_t last = int64_t(table[c].size()) - 1;
        const double first = double(low[c]), size = double(last);
        Code* to = out.data + at * out.width + out.place[c];
        for (int64_t i = 0; i < until - at; ++i) {
            const double place = double(x[i * stride]) - first;
            const bool inside = place >= 0 && place < size;  // false for NaN
            const int64_t whole = inside ? int64_t(place) : last;
            to[i * out.width] = Code(codes[inside && double(whole) != place ? last : whole]);
        }
    });
}

template void look_up(const std::vector<Column>&, int64_t, const std::vector<int64_t>&,
                      const std::vector<std::vector<uint16_t>>&, Block<uint8_t>);
template void look_up(const std::vector<Column>&, int64_t, const std::vector<int64_t>&,
                      const std::vector<std::vector<uint16_t>>&, Block<uint16_t>);

std::vector<std::vector<uint8_t>> presence(const std::vector<Column>& columns, int64_t rows,
                                           const std::vector<int64_t>& low, const std::vector<int64_t>& span) {
    std::vector<std::vector<uint8_t>> out;
    for (int64_t s : span) out.emplace_back(size_t(s), uint8_t(0));
    for_blocks(columns, rows, [&](size_t c, int64_t at, int64_t until, auto* x, int64_t stride) {
        uint8_t* present = out[c].data();
        const double first = double(low[c]), size = double(span[c]);
        for (int64_t i = 0; i < until - at; ++i) {
            const double place = double(x[i * stride]) - first;
            if (place >= 0 && place < size) present[int64_t(place)] = 1;
        }
    });
    return out;
}

}  // namespace columns

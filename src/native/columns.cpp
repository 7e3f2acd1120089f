#include "columns.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fanbayes::columns {
namespace {

constexpr int64_t BLOCK = 2048;  // rows; a block of some dozens of columns fits into the second cache

// Calls each(c, first row of the block, its end, pointer to column c's first value there, stride).
template <typename Each>
void for_blocks(const std::vector<Column>& columns, int64_t rows, Each each) {
    for (int64_t at = 0; at < rows; at += BLOCK) {
        const int64_t until = std::min(at + BLOCK, rows);
        for (size_t c = 0; c < columns.size(); ++c) {
            const Column& column = columns[c];
            auto typed = [&]<typename T>(const T* data) {
                each(c, at, until, data + at * column.stride, column.stride);
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

struct Moments {
    double n = 0, mean = 0, squares = 0;

    // Chan, Golub & LeVeque (1983).
    void add(const Moments& other) {
        const double both = n + other.n, gap = other.mean - mean;
        if (other.n == 0) return;
        squares += other.squares + gap * gap * n * other.n / both;
        mean += gap * other.n / both;
        n = both;
    }
};

// Moments of one block of a column, scaled; two passes over what lies in the nearest cache.
template <typename T, typename Scaled>
Moments moments_of(const T* x, int64_t stride, int64_t n, const double* weight, Scaled scaled) {
    Moments block;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double v = double(x[i * stride]);
        const double w = v == v ? (weight ? weight[i] : 1.0) : 0.0;
        block.n += w;
        sum += v == v ? w * scaled(v) : 0.0;
    }
    if (block.n == 0) return block;
    block.mean = sum / block.n;
    for (int64_t i = 0; i < n; ++i) {
        const double v = double(x[i * stride]), gap = scaled(v) - block.mean;
        block.squares += v == v ? (weight ? weight[i] : 1.0) * gap * gap : 0.0;
    }
    return block;
}

}  // namespace

std::vector<Summary> summarise(const std::vector<Column>& columns, int64_t rows, const double* weight) {
    constexpr double inf = std::numeric_limits<double>::infinity(), whole = 4503599627370496.0;  // 2^52
    std::vector<Summary> out(columns.size(), Summary{0, false, true, inf, -inf, 0, 0, 0, 0});
    std::vector<Moments> moments(columns.size());
    for_blocks(columns, rows, [&](size_t c, int64_t at, int64_t until, auto* x, int64_t stride) {
        Summary& s = out[c];
        double low = s.low, high = s.high;
        int64_t missing = 0, fractional = 0;
        for (int64_t i = 0; i < until - at; ++i) {
            const double v = double(x[i * stride]), size = std::fabs(v);
            missing += v != v;
            fractional += size < whole && (size + whole) - whole != size;
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        s.low = low, s.high = high;
        s.missing += missing;
        s.integral &= fractional == 0;
        moments[c].add(moments_of(x, stride, until - at, weight ? weight + at : nullptr, [](double v) { return v; }));
    });
    std::vector<Column> extreme;  // whose squares may have been out of range: once more, scaled
    std::vector<size_t> which;
    for (size_t c = 0; c < columns.size(); ++c) {
        Summary& s = out[c];
        if (s.low > s.high) continue;
        const double size = std::max(std::fabs(s.low), std::fabs(s.high));
        s.infinite = std::isinf(size);
        s.integral &= size < 2 * whole;
        if (s.infinite || size == 0) continue;
        std::frexp(size, &s.exponent);
        if (std::abs(s.exponent) > 300) {
            extreme.push_back(columns[c]);
            which.push_back(c);
            moments[c] = Moments();
        } else {
            const PowerOfTwo scaled(-s.exponent);
            moments[c].mean = scaled(moments[c].mean);
            moments[c].squares = scaled(scaled(moments[c].squares));
        }
    }
    for_blocks(extreme, rows, [&](size_t e, int64_t at, int64_t until, auto* x, int64_t stride) {
        moments[which[e]].add(
            moments_of(x, stride, until - at, weight ? weight + at : nullptr, PowerOfTwo(-out[which[e]].exponent)));
    });
    for (size_t c = 0; c < columns.size(); ++c) {
        out[c].weight = moments[c].n;
        out[c].mean = moments[c].mean;
        out[c].squares = moments[c].squares;
    }
    return out;
}

std::vector<bool> standardise(const std::vector<Column>& columns, int64_t rows, const std::vector<int>& exponent,
                              const std::vector<double>& mean, const std::vector<double>& scale, Block<double> out) {
    std::vector<bool> infinite(columns.size());
    for_blocks(columns, rows, [&](size_t c, int64_t at, int64_t until, auto* x, int64_t stride) {
        const PowerOfTwo scaled(-exponent[c]);
        bool bad = false;
        const double middle = mean[c], unit = scale[c];
        double* to = out.data + at * out.width + out.place[c];
        for (int64_t i = 0; i < until - at; ++i) {
            const double v = double(x[i * stride]);
            bad |= std::isinf(v);
            double z = (scaled(v) - middle) / unit;
            z = z > 1e100 ? 1e100 : z;  // so that its square is finite; false for NaN
            to[i * out.width] = z < -1e100 ? -1e100 : z;
        }
        if (bad) infinite[c] = true;
    });
    return infinite;
}

template <typename Code>
void look_up(const std::vector<Column>& columns, int64_t rows, const std::vector<Levels>& levels, Block<Code> out) {
    // Codes of all integers from the first level to the last, then that of others; if they take no more than the rows.
    std::vector<std::vector<uint16_t>> tables;
    for (const Levels& l : levels) {
        std::vector<uint16_t>& table = tables.emplace_back();
        const int64_t span = l.keys[l.n - 1] - l.keys[0] + 1;
        if (span > 4 * rows) continue;
        table.assign(size_t(span) + 1, uint16_t(l.n));
        for (int64_t k = 0; k < l.n; ++k) table[size_t(l.keys[k] - l.keys[0])] = l.codes[k];
    }
    for_blocks(columns, rows, [&](size_t c, int64_t at, int64_t until, auto* x, int64_t stride) {
        const Levels& l = levels[c];
        Code* to = out.data + at * out.width + out.place[c];
        if (tables[c].empty()) {
            const double first = double(l.keys[0]), last = double(l.keys[l.n - 1]);
            for (int64_t i = 0; i < until - at; ++i) {
                const double v = double(x[i * stride]);
                const bool inside = v >= first && v <= last;  // false for NaN
                const int64_t whole = inside ? int64_t(v) : 0;
                const int64_t* found = l.keys;  // the first level that is not less, without a branch
                for (int64_t left = l.n, half; (half = left / 2) > 0; left -= half)
                    found += found[half - 1] < whole ? half : 0;
                to[i * out.width] = Code(inside && double(*found) == v ? l.codes[found - l.keys] : l.n);
            }
            return;
        }
        const uint16_t* codes = tables[c].data();
        const int64_t last = int64_t(tables[c].size()) - 1;
        const double first = double(l.keys[0]), size = double(last);
        for (int64_t i = 0; i < until - at; ++i) {
            const double place = double(x[i * stride]) - first;
            const bool inside = place >= 0 && place < size;  // false for NaN
            const int64_t whole = inside ? int64_t(place) : last;
            to[i * out.width] = Code(codes[inside && double(whole) != place ? last : whole]);
        }
    });
}

template void look_up(const std::vector<Column>&, int64_t, const std::vector<Levels>&, Block<uint8_t>);
template void look_up(const std::vector<Column>&, int64_t, const std::vector<Levels>&, Block<uint16_t>);

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

}  // namespace fanbayes::columns

// Columns of numbers as they come from a user, and what encoding a table asks of them.
//
// Rows are taken in blocks, all columns of a block in turn: whether the user's array is row-major or
// column-major, each of its cache lines is fetched once a pass.
#pragma once

#include <cstdint>
#include <vector>

namespace fanbayes::columns {

enum class Type { float64, float32, int64, int32, uint8 };

struct Column {
    const void* data;
    int64_t stride;  // in elements
    Type type;
};

struct Summary {
    int64_t missing;     // NaN
    bool infinite;       // some value is
    bool integral;       // all observed values are integers within 2^53
    double low, high;    // of the observed values; high < low where there is none
    int exponent;        // |x| 2^-exponent < 1
    double weight, mean, squares;  // of the observed values; x 2^-exponent: mean, sum of w (x - mean)^2
};

std::vector<Summary> summarise(const std::vector<Column>&, int64_t rows, const double* weight);

// Where results go: column c of the input to column place[c] of a row-major block `width` wide.
template <typename T>
struct Block {
    T* data;
    int64_t width;
    const std::vector<int64_t>& place;
};

// (x 2^-exponent - mean) / scale, cut at +-1e100; NaN stays. Returns which columns hold infinity.
std::vector<bool> standardise(const std::vector<Column>&, int64_t rows, const std::vector<int>& exponent,
                              const std::vector<double>& mean, const std::vector<double>& scale, Block<double> out);

// Integers of a column, increasing, within 2^53, and the code of each.
struct Levels {
    const int64_t* keys;
    const uint16_t* codes;
    int64_t n;  // at least 1
};

// The code of x among the levels of its column; n where it is none of them.
template <typename Code>
void look_up(const std::vector<Column>&, int64_t rows, const std::vector<Levels>&, Block<Code> out);

// Which of low[c], low[c] + 1, ... occur.
std::vector<std::vector<uint8_t>> presence(const std::vector<Column>&, int64_t rows, const std::vector<int64_t>& low,
                                           const std::vector<int64_t>& span);

}  // namespace fanbayes::columns

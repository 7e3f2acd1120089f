// What the kernels see: arrays, nothing else.
//
// A *state* s = (c, h) is one configuration of class and hidden variable; a *cell* is one
// configuration of the variables that index the feature parameters:
// log p(s, x) = log_weight[s] + sum_i log p(x_i | cell_of[s]). The states of a class are
// contiguous, and so are their cells.
#pragma once

#include <cstdint>

namespace fanbayes {

// Parameters may be read this many doubles beyond their end.
constexpr int SLACK = 8;

struct Table {
    const uint8_t* narrow;       // (rows, n_narrow) codes of columns with at most 255 levels
    const uint16_t* wide;        // (rows, n_wide) codes of the other discrete columns
    const double* numbers;       // (rows, n_numbers), NaN = missing
    const double* pairs;         // (rows, n_regressions, 2) response and regressor, both NaN = missing
    const uint8_t* incomplete;   // (rows,) 1 where a number or a pair is missing; null: nowhere
    const int32_t* labels;       // (rows,), -1 = unlabelled; null: none is labelled
    const double* weights;       // (rows,); null: all 1
    const int64_t* first_level;  // (n_narrow + n_wide,) where a column's levels begin
    int n_narrow, n_wide, n_numbers, n_regressions;
};

struct Shape {
    int n_classes, n_states, n_cells, n_components;
    bool common;                 // whether component h of one class is that of another
    const int32_t* first_state;  // (n_classes + 1,)
    const int32_t* first_cell;   // (n_classes,)
};

struct Network {               // all finite, but for log weights of -infinity (no such state)
    const double* log_weight;  // (n_states,)
    const double* log_table;   // (n_levels, n_cells), 0 where the level is "missing"
    // (n_numbers, 3, n_cells): slope, intercept, log_norm. A normal term is log_norm - (slope x + intercept)^2, so
    // slope = 1 / sqrt(2 sigma^2), intercept = -slope mean, log_norm = -log(2 pi sigma^2) / 2; a linear term is
    // log_norm + slope x.
    const double* numeric;
    int n_linear;  // the last of the numbers, whose terms are linear
    // (n_regressions, 4, n_cells): slope, intercept, log_norm, coefficient. The term of response x and regressor p is
    // log_norm - (slope x + coefficient p + intercept)^2: where x ~ N(a + b p, sigma^2), slope = 1 / sqrt(2 sigma^2),
    // intercept = -slope a, coefficient = -slope b, log_norm = -log(2 pi sigma^2) / 2.
    const double* regression;
};

struct Statistics {
    double* states;                // (n_states,) expected case counts
    double* counts;                // (n_levels, n_cells)
    double* moments;               // (n_numbers, 3, n_cells): N, sum x, sum x^2 over observed values
    double* regression;            // (n_regressions, 6, n_cells): N, sum x, sum x^2, sum p, sum p^2, sum xp
    double* class_log_likelihood;  // (n_classes,) sum_l w_l log p(x_l, c) over the rows labelled c
    double log_likelihood;         // sum_l w_l log p(x_l, c_l), or log p(x_l) of an unlabelled row
    double joint;                  // sum_l w_l max_s log p(s, x_l): what CEM maximises
    double classification;         // sum_l w_l log p(x_l, c_l, z_l), z_l = argmax_h: what ICL needs; without a label
                                   // log max_h sum_c p(c, h, x_l), or log sum_c max_h where components are not common
};

struct Inputs {
    Table table;
    Shape shape;
    Network network;
};

// What a row counts for in each of its states; times its weight.
enum class Shares {
    expected,       // p(s | x, c), or p(s | x) without a label (8)
    most_probable,  // 1 in the most probable state (9)
    contrast        // p(s | x, c) - p(s | x): the derivative of log p(c | x) by log p(s, x); log p(c_l | x_l) takes the
                    // place of log p(x_l, c_l) in the sums, and a row without a label counts for nothing
};

// Lazy EM may freeze a row whose most probable state has a probability of at least 1 - UNCERTAIN.
constexpr double UNCERTAIN = 0.01;

// Which rows an E-step takes.
struct RowRange {
    int64_t begin, end;     // rows, or places in `chosen`
    const int32_t* chosen;  // numbers of rows; null: all
    // To tell rows that can be frozen from active ones; null: all go to one place.
    Statistics* frozen;  // is added to by the rows that can be frozen
    int32_t* active;     // numbers of the others, room for end - begin
    int64_t n_active;
};

// Rows on their way through a mean of stars (stars.hpp); everything is a whole number of `width`s, the classes'.
struct StarTile {
    const double* pair;
    const int64_t *first_pair, *first_level;  // (n_columns + 1,)
    const uint32_t* levels;                   // (n_rows, n_columns), of the flat axis, times width
    int64_t n_rows, n_columns, width;         // width: 2, or a multiple of 4
    double* scores;                           // (n_rows, n_columns, width), and STAR_SLACK
    double *most, *sums;                      // (n_rows, width): the largest score, the sum of exp(score - largest)
};

// Doubles behind the scores of a tile that may be written.
constexpr int STAR_SLACK = 32;

// Densities of the classes, each a mean of kernels around its centres, beside a background b that all have in common:
//
//     p(x | c) / b(x) = background + sum_m share_m r(x, m) / sum_m share_m ,   log r = sum_i log k_i(x_i; m_i) / b_i(x_i)
//
// over the centres m of the class; a column adds nothing where it is missing in the row or in the centre.
struct Parzen {
    const double* centres;  // (n_columns, stride): numbers, then codes; NaN = missing, also beyond the last centre
    int64_t n_centres, stride, n_columns, n_numbers;
    const int64_t* first_level;    // (n_columns - n_numbers,) where the levels of a discrete column begin
    const double* share;           // (stride,), 0 beyond the last centre
    const double* log_kept;        // (n_centres,) log of the part of the share that is kept where a row is without its own
                                   // kind, -1e300: nothing
    const int32_t* class_of;       // (n_centres,), increasing
    const int64_t* first_of_kind;  // (n_kinds + 1,) centres of a kind, in `of_kind`: a row is without those of its own
    const int32_t* of_kind;        // (n_centres,)
    int n_classes;
    const int64_t* first_centre;   // (n_classes + 1,)
    const double* share_of_class;  // (n_classes,) sum of the shares of its centres
    const double* prior;           // (n_classes,)
};

// What the columns add to log r, and the derivative of a loss by each of these.
struct ParzenTerms {
    // (n_numbers, 3): a, b, k of log r = k + b x^2 - a (x - m)^2.
    const double* numbers;
    const double* same;   // (n_levels,) log r where row and centre have the level
    const double* other;  // (n_columns - n_numbers,) where they differ
    double log_background;
};

struct ParzenGradient {
    double *numbers, *same, *other;
    double background, loss;
};

struct ParzenRows {
    const double* values;  // (n_rows, n_columns), as the centres
    const int32_t* kind;   // (n_rows,) -1: without none
    // For the loss alone.
    const int32_t* labels;
    const double* weights;
    double noise;  // share of the rows whose class is taken to say nothing
};

// Centres are padded to a multiple of it.
constexpr int64_t PARZEN_MULTIPLE = 32;

inline int64_t parzen_room(const Parzen& p) { return p.stride + PARZEN_MULTIPLE + 3 * int64_t(p.n_classes); }

// Rows of trees come in multiples of it.
constexpr int64_t TREE_ROWS = 16;
// Ends of a tree that are bits of one word.
constexpr int64_t MOST_ENDS = 32;
// Level of a row in a column that adds nothing.
constexpr uint8_t NO_LEVEL = 255;

// What a tree with networks in its nodes says of rows.
struct TreeNetworks {
    const int32_t* known;         // (n_known,), columns that the networks know
    const int64_t* first_level;   // (n_known,), where their levels begin in a table
    const uint8_t* levels;        // (n_columns, n_rows)
    const float* const* values;   // (n_rows,): of the node of a row, (n_classes,)
    const float* const* tables;   // (n_rows,): of its network, (levels, n_classes)
    int64_t n_known, n_classes, n_rows;
};

// Knots of normal scores (data/normal_scores.py), by column: (n_numbers, 2, n_knots), n_knots a power of two.
struct Scores {
    const double* knots;
    int64_t n_numbers, n_knots;
    double furthest;
};

// Rows of a matrix that numbers are mixed by are padded to a multiple of it.
constexpr int64_t MIXING_MULTIPLE = 8;

enum class Posterior { log_joint, log_proba, proba, states };

struct Kernel {
    const char* name;
    int64_t (*scratch_size)(const Shape&);  // doubles that `e_step` or `posterior` may use
    // States of each class, rounded up to whole vectors: what `e_step` wants.
    int (*padded_components)(int n_components);
    // Adds the statistics of rows. Every class has n_components states, a whole number of vectors; the arrays are
    // aligned to 64 bytes.
    void (*e_step)(const Inputs&, RowRange&, Shares, Statistics& out, double* scratch);
    // Writes rows [begin, end): (n_classes) a row, or (n_states) for Posterior::states.
    void (*posterior)(const Inputs&, int64_t begin, int64_t end, Posterior what, double* out, double* scratch);
    // Adds the terms of all pairs of columns to the scores of the stars of both.
    void (*add_star_pairs)(const StarTile&);
    // Finds `most` and `sums`; the scores are spoilt.
    void (*sum_stars)(const StarTile&);
    // log p(c, x) - log b(x) of rows [begin, end), (n_classes) a row, unless `joint` is null; and the sum of
    // -log((1 - noise) p(y | x) + noise p(y)), with its gradient, is added to `loss` unless that is null. `room`: parzen_room(p) doubles.
    void (*parzen)(const Parzen& p, const ParzenTerms&, const ParzenRows&, int64_t begin, int64_t end, double* joint,
                   ParzenGradient* loss, double* room);
    // left[i] &= words[codes[i]]; as many words as there are codes, and room to read up to 16, 32 or 64.
    void (*keep_ends)(const uint8_t* codes, const uint32_t* words, int64_t n_words, uint32_t* left, int64_t n);
    // Adds to `sums` (n_classes, n) the values (n_classes, MOST_ENDS) of the only bit of each word, of 0 nothing.
    void (*add_ends)(const uint32_t* left, const float* values, int64_t n_classes, double* sums, int64_t n);
    // Adds to `sums` (n_rows, n_classes).
    void (*add_networks)(const TreeNetworks&, double* sums);
    // Numbers (n_rows, n_numbers) become their scores.
    void (*to_scores)(const Scores&, int64_t n_rows, double* numbers);
    // Numbers z (n_rows, n) times a matrix (n, padded); what is missing counts as 0 and stays missing.
    void (*mix)(const double* mixing, int64_t n, int64_t padded, const double* z, int64_t n_rows, double* out);
    void (*exp)(const double* x, double* out, int64_t n);
    void (*log)(const double* x, double* out, int64_t n);
};

namespace baseline {
extern const Kernel kernel;
}
namespace avx2 {
extern const Kernel kernel;
}
namespace avx512 {
extern const Kernel kernel;
}

// The one in use.
extern const Kernel* kernel;

}  // namespace fanbayes

#include "tree.hpp"

#include "kernel.hpp"
#include "rows.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>

namespace fanbayes {
namespace {

double squared(double x) { return x * x; }

// (a x + b)^2 + (c x + d)^2 = (size x + along(b, d))^2 + across(b, d)^2. Squares are kept and turned, never multiplied
// out: nothing cancels, however different the variances are.
struct Rotation {
    double size, cosine, sine;

    Rotation(double a, double c)
        : size(std::hypot(a, c)), cosine(size > 0 ? a / size : 1.0), sine(size > 0 ? c / size : 0.0) {}

    double along(double b, double d) const { return cosine * b + sine * d; }
    double across(double b, double d) const { return cosine * d - sine * b; }
    double log_integral() const { return 0.5 * std::log(std::numbers::pi) - std::log(size); }  // of exp(-(size x)^2)
    double variance() const { return 0.5 / squared(size); }
};

// Passes over the tree, for one row after the other and for several cells at once, in memory that is allocated once.
class Inference {
    const Tree& tree_;
    const TreeParameters theta_;
    std::vector<size_t> first_value_;  // where the values of a node begin, and its pairs of values
    std::vector<size_t> first_pair_;

    // Of the row:
    std::vector<size_t> code_;  // values of discrete nodes
    std::vector<double> x_;     // and of numbers
    std::vector<uint8_t> live_, observed_;
    std::vector<size_t> entries_;  // of the log table: observed values whose parents are observed
    std::vector<size_t> others_;   // the other nodes; only live ones after `read`, parents first
    std::vector<size_t> hidden_;   // among them, those that are not observed

    // Of cells cell_ .. cell_ + n_ - 1: the last axis of these arrays, n_ long.
    size_t cell_ = 0, n_ = 0;
    std::vector<double> below_;      // (values,) log p(what is observed below | v), of discrete nodes
    std::vector<double> given_;      // (pairs,) p(v | u, what is observed below), u the value of the parent
    std::vector<double> posterior_;  // (values,) p(v | what is observed), times the weight of the row
    // (nodes,) of numbers: p(what is observed below | x) is exp(-(slope x + intercept)^2), times a constant
    std::vector<double> slope_, intercept_;
    std::vector<double> mass_, mean_, variance_;  // (nodes,) p(x | what is observed), times the weight
    std::vector<double> top_, sum_;

    const double* weight_ = nullptr;
    double* statistics_ = nullptr;

    const TreeNode& node(size_t i) const { return tree_.nodes[i]; }
    size_t parent(size_t i) const { return size_t(node(i).parent); }
    size_t n_levels(size_t i) const { return size_t(node(i).levels); }
    bool has_discrete_parent(size_t i) const { return node(i).parent >= 0 && n_levels(parent(i)) > 0; }
    bool has_hidden_parent(size_t i) const { return node(i).parent >= 0 && !observed_[parent(i)]; }
    // The value of a discrete parent that is observed, if there is one.
    size_t parent_value(size_t i) const { return node(i).parent >= 0 ? code_[parent(i)] : 0; }
    size_t entry(size_t i, size_t u) const { return node(i).place + u * (n_levels(i) + 1); }

    const double* table(size_t entry) const { return theta_.log_table + entry * theta_.n_cells + cell_; }
    const double* number(size_t i, size_t u, size_t k) const {
        return theta_.numeric + (3 * (node(i).place + u) + k) * theta_.n_cells + cell_;
    }
    const double* regression(size_t i, size_t k) const {
        return theta_.regression + (4 * node(i).place + k) * theta_.n_cells + cell_;
    }
    double* values(std::vector<double>& of, size_t i, size_t v = 0) { return &of[(first_value_[i] + v) * n_]; }
    double* given(size_t i, size_t u) { return &given_[(first_pair_[i] + u * n_levels(i)) * n_]; }
    double mean(size_t i, size_t c) const { return observed_[i] ? x_[i] : mean_[i * n_ + c]; }
    double variance(size_t i, size_t c) const { return observed_[i] ? 0.0 : variance_[i * n_ + c]; }
    double* statistic(size_t k) { return statistics_ + k * theta_.n_cells + cell_; }
    void clear(std::initializer_list<std::vector<double>*> of_numbers, std::vector<double>& of_values);

    void send(size_t i, size_t u, double* to);
    void sum_out(size_t i, size_t u, double* to);
    void send_number(size_t i, size_t u, double* to);
    void send_regression(size_t i, double* to);
    void collect(size_t i, size_t u, const double* share);
    void collect_number(size_t i, size_t u, const double* share);
    void collect_regression(size_t i);

  public:
    Inference(const Tree& tree, const TreeParameters& theta);

    void read(const TreeRows& rows, int64_t row);
    // log p(x | cell) of n cells.
    void log_likelihood(size_t first_cell, size_t n, double* out);
    // After `log_likelihood`, of the same cells: adds to statistics (n_statistics, n_cells). Weights: (n,).
    void add_statistics(const double* weights, double* statistics);
};

Inference::Inference(const Tree& tree, const TreeParameters& theta) : tree_(tree), theta_(theta) {
    const size_t n = tree.nodes.size(), K = theta.n_cells;
    size_t n_values = 0, n_pairs = 0;
    for (size_t i = 0; i < n; ++i) {
        first_value_.push_back(n_values);
        first_pair_.push_back(n_pairs);
        n_values += n_levels(i);
        n_pairs += n_levels(i) * (has_discrete_parent(i) ? n_levels(parent(i)) : 1);
    }
    for (std::vector<uint8_t>* flags : {&live_, &observed_}) flags->resize(n);
    for (std::vector<size_t>* list : {&entries_, &others_, &hidden_}) list->reserve(n);
    code_.resize(n);  // 0 for numbers
    x_.resize(n);
    for (std::vector<double>* of_numbers : {&slope_, &intercept_, &mass_, &mean_, &variance_})
        of_numbers->resize(n * K);
    for (std::vector<double>* of_values : {&below_, &posterior_}) of_values->resize(n_values * K);
    for (std::vector<double>* one : {&top_, &sum_}) one->resize(K);
    given_.resize(n_pairs * K);
}

void Inference::read(const TreeRows& rows, int64_t row) {
    const int64_t* codes = rows.codes + size_t(row) * tree_.n_discrete;
    const double* numbers = rows.numbers + size_t(row) * tree_.n_continuous;
    entries_.clear();
    others_.clear();
    hidden_.clear();
    for (size_t i = 0; i < tree_.nodes.size(); ++i) {
        const size_t r = n_levels(i);
        if (r > 0) code_[i] = size_t(codes[node(i).column]);
        else x_[i] = numbers[node(i).column];
        live_[i] = observed_[i] = r > 0 ? code_[i] < r : !std::isnan(x_[i]);
        if (r > 0 && observed_[i] && !has_hidden_parent(i)) entries_.push_back(entry(i, parent_value(i)) + code_[i]);
        else others_.push_back(i);
    }
    for (size_t k = others_.size(); k-- > 0;)
        if (live_[others_[k]] && node(others_[k]).parent >= 0) live_[parent(others_[k])] = 1;
    std::erase_if(others_, [&](size_t i) { return !live_[i]; });
    for (size_t i : others_)
        if (!observed_[i]) hidden_.push_back(i);
}

void Inference::clear(std::initializer_list<std::vector<double>*> of_numbers, std::vector<double>& of_values) {
    for (size_t i : hidden_) {
        if (n_levels(i) > 0) std::fill_n(values(of_values, i), n_levels(i) * n_, 0.0);
        else
            for (std::vector<double>* array : of_numbers) std::fill_n(&(*array)[i * n_], n_, 0.0);
    }
}

// ---------------------------------------------------------------- from the leaves up

void Inference::log_likelihood(size_t first_cell, size_t n, double* out) {
    cell_ = first_cell;
    n_ = n;
    clear({&slope_, &intercept_}, below_);
    std::fill_n(out, n, 0.0);
    for (size_t e : entries_) add(table(e), n_, out);
    for (size_t k = others_.size(); k-- > 0;) {
        const size_t i = others_[k];
        if (node(i).term == TreeTerm::regression) send_regression(i, out);
        else if (!has_hidden_parent(i)) send(i, parent_value(i), out);
        else
            for (size_t u = 0; u < n_levels(parent(i)); ++u) send(i, u, values(below_, parent(i), u));
    }
}

// Adds log p(x_i and what is observed below it | x_pa(i) = u); constants of potentials were added before.
void Inference::send(size_t i, size_t u, double* to) {
    if (n_levels(i) == 0) send_number(i, u, to);
    else if (observed_[i]) add(table(entry(i, u) + code_[i]), n_, to);
    else sum_out(i, u, to);
}

void Inference::sum_out(size_t i, size_t u, double* to) {
    const size_t r = n_levels(i);
    const double *from = table(entry(i, u)), *below = values(below_, i);
    double* p = given(i, u);
    std::fill_n(top_.data(), n_, -INFINITY);
    std::fill_n(sum_.data(), n_, 0.0);
    for (size_t v = 0; v < r; ++v)
        for (size_t c = 0; c < n_; ++c) {
            p[v * n_ + c] = from[v * theta_.n_cells + c] + below[v * n_ + c];
            top_[c] = std::max(top_[c], p[v * n_ + c]);
        }
    constexpr double least = std::numeric_limits<double>::lowest();  // where nothing is possible
    for (size_t c = 0; c < n_; ++c) top_[c] = std::max(top_[c], least);
    for (size_t v = 0; v < r; ++v)
        for (size_t c = 0; c < n_; ++c) p[v * n_ + c] -= top_[c];
    kernel->exp(p, p, int64_t(r * n_));
    for (size_t v = 0; v < r; ++v) add(p + v * n_, n_, sum_.data());
    for (size_t c = 0; c < n_; ++c) {
        to[c] += sum_[c] > 0 ? top_[c] + std::log(sum_[c]) : -INFINITY;
        sum_[c] = sum_[c] > 0 ? 1 / sum_[c] : 0.0;
    }
    for (size_t v = 0; v < r; ++v)
        for (size_t c = 0; c < n_; ++c) p[v * n_ + c] *= sum_[c];
}

void Inference::send_number(size_t i, size_t u, double* to) {
    const double *slope = number(i, u, 0), *intercept = number(i, u, 1), *log_norm = number(i, u, 2);
    const double *below_slope = &slope_[i * n_], *below_intercept = &intercept_[i * n_], x = x_[i];
    for (size_t c = 0; c < n_; ++c) {
        if (node(i).term == TreeTerm::linear) {
            to[c] += log_norm[c] + slope[c] * x;
        } else if (observed_[i]) {
            to[c] += log_norm[c] - squared(slope[c] * x + intercept[c]);
        } else {
            const Rotation turn(slope[c], below_slope[c]);
            to[c] += log_norm[c] + turn.log_integral() - squared(turn.across(intercept[c], below_intercept[c]));
        }
    }
}

// As `send`, but what depends on a hidden parent goes into its potential. A hidden x is integrated out of
// (slope x + coefficient p + intercept)^2 and its own potential.
void Inference::send_regression(size_t i, double* to) {
    const double *slope = regression(i, 0), *intercept = regression(i, 1), *log_norm = regression(i, 2),
                 *coefficient = regression(i, 3);
    const size_t p = parent(i);
    for (size_t c = 0; c < n_; ++c) {
        double a = coefficient[c], b = intercept[c];  // of p
        to[c] += log_norm[c];
        if (observed_[i]) {
            b += slope[c] * x_[i];
        } else {
            const Rotation turn(slope[c], slope_[i * n_ + c]);
            to[c] += turn.log_integral();
            a = turn.across(a, 0.0);
            b = turn.across(b, intercept_[i * n_ + c]);
        }
        if (observed_[p]) {
            to[c] -= squared(a * x_[p] + b);
        } else {
            double &all = slope_[p * n_ + c], &constant = intercept_[p * n_ + c];
            const Rotation turn(all, a);
            to[c] -= squared(turn.across(constant, b));
            all = turn.size;
            constant = turn.along(constant, b);
        }
    }
}

// ---------------------------------------------------------------- from the roots down

void Inference::add_statistics(const double* weights, double* statistics) {
    weight_ = weights;
    statistics_ = statistics;
    clear({&mass_, &mean_, &variance_}, posterior_);
    for (size_t e : entries_) add(weight_, n_, statistic(e));
    for (size_t i : others_) {
        if (node(i).term == TreeTerm::regression) collect_regression(i);
        else if (!has_hidden_parent(i)) collect(i, parent_value(i), weight_);
        else
            for (size_t u = 0; u < n_levels(parent(i)); ++u) collect(i, u, values(posterior_, parent(i), u));
    }
}

// Statistics of a node where its parent is u, which has the share p(u | what is observed) times the weight.
void Inference::collect(size_t i, size_t u, const double* share) {
    if (n_levels(i) == 0) return collect_number(i, u, share);
    if (observed_[i]) return add(share, n_, statistic(entry(i, u) + code_[i]));
    const double* p = given(i, u);
    for (size_t v = 0; v < n_levels(i); ++v) {
        double *counts = statistic(entry(i, u) + v), *posterior = values(posterior_, i, v);
        for (size_t c = 0; c < n_; ++c) {
            const double pair = share[c] * p[v * n_ + c];
            posterior[c] += pair;
            counts[c] += pair;
        }
    }
}

void Inference::collect_number(size_t i, size_t u, const double* share) {
    const size_t K = theta_.n_cells;
    double* found = statistic(size_t(tree_.sizes.n_levels) + 3 * (node(i).place + u));
    for (size_t c = 0; c < n_; ++c) {
        double m = x_[i], s2 = 0;
        if (!observed_[i]) {
            const size_t k = i * n_ + c;
            const Rotation turn(number(i, u, 0)[c], slope_[k]);
            m = -turn.along(number(i, u, 1)[c], intercept_[k]) / turn.size;
            s2 = turn.variance();
            mass_[k] += share[c];
            const double part = mass_[k] > 0 ? share[c] / mass_[k] : 0.0, step = m - mean_[k];
            mean_[k] += part * step;
            variance_[k] += part * (s2 - variance_[k]) + part * (1 - part) * squared(step);
        }
        found[c] += share[c];
        found[K + c] += share[c] * m;
        found[2 * K + c] += share[c] * (squared(m) + s2);
    }
}

// Given p, a hidden x is normal about a linear function of p: its moments follow from those of p.
void Inference::collect_regression(size_t i) {
    const size_t p = parent(i);
    double* found = statistic(size_t(tree_.sizes.n_levels + 3 * tree_.sizes.n_numbers) + 6 * node(i).place);
    for (size_t c = 0; c < n_; ++c) {
        const double mean_p = mean(p, c), variance_p = variance(p, c);
        double covariance = 0;
        if (!observed_[i]) {
            const size_t k = i * n_ + c;
            const Rotation turn(regression(i, 0)[c], slope_[k]);
            const double gain = -turn.along(regression(i, 3)[c], 0.0) / turn.size;
            mean_[k] = gain * mean_p - turn.along(regression(i, 1)[c], intercept_[k]) / turn.size;
            variance_[k] = squared(gain) * variance_p + turn.variance();
            covariance = gain * variance_p;
        }
        const double m = mean(i, c), second = squared(m) + variance(i, c), second_p = squared(mean_p) + variance_p;
        const double expected[] = {1.0, m, second, mean_p, second_p, m * mean_p + covariance};
        for (size_t k = 0; k < 6; ++k) found[k * theta_.n_cells + c] += weight_[c] * expected[k];
    }
}

// ---------------------------------------------------------------- states

// The E-step of a block of rows, with statistics of its own.
class Block {
    const Shape& shape_;
    const double* log_weight_;
    const bool hard_;
    const TreeStatistics at_;
    Inference inference_;
    std::vector<size_t> cell_of_;
    std::vector<double> p_;      // (states): log p(s, x), p(s, x) / max_s p(s, x), then the row's weight in each state
    std::vector<double> cells_;  // (cells): log p(x | cell), then the row's weight in each cell

    double most_probable_component() const;
    void add_sums(int label, double log_likelihood, double joint, double classification);

  public:
    std::vector<double> statistics;  // (TreeStatistics)

    Block(const Tree& tree, const Shape& shape, const double* log_weight, const TreeParameters& theta, bool hard);
    void add_row(const TreeRows& rows, int64_t row);
};

Block::Block(const Tree& tree, const Shape& shape, const double* log_weight, const TreeParameters& theta, bool hard)
    : shape_(shape),
      log_weight_(log_weight),
      hard_(hard),
      at_(tree.sizes, shape),
      inference_(tree, theta),
      p_(size_t(shape.n_states)),
      cells_(size_t(shape.n_cells)),
      statistics(at_.size) {
    for (int c = 0; c < shape.n_classes; ++c)
        for (int s = shape.first_state[c]; s < shape.first_state[c + 1]; ++s)
            cell_of_.push_back(size_t(shape.first_cell[c] + s - shape.first_state[c]));
}

// A row with a label visits the states of its class, one without a label visits all.
void Block::add_row(const TreeRows& rows, int64_t row) {
    const double weight = rows.weights ? rows.weights[row] : 1.0;
    if (weight == 0) return;
    const int label = rows.labels ? rows.labels[row] : -1, first = label < 0 ? 0 : shape_.first_state[label],
              last = label < 0 ? shape_.n_states : shape_.first_state[label + 1];
    const size_t n = size_t(last - first), cell = label < 0 ? 0 : size_t(shape_.first_cell[label]),
                 n_cells = label < 0 ? size_t(shape_.n_cells) : n;
    const size_t* cell_of = &cell_of_[size_t(first)];

    inference_.read(rows, row);
    inference_.log_likelihood(cell, n_cells, cells_.data());
    for (size_t s = 0; s < n; ++s) p_[s] = log_weight_[size_t(first) + s] + cells_[cell_of[s] - cell];
    const size_t best = size_t(std::max_element(p_.data(), p_.data() + n) - p_.data());
    const double top = p_[best], joint = weight * top;
    if (top == -INFINITY) return add_sums(label, joint, joint, joint);  // no state is possible
    double total = 0;
    for (size_t s = 0; s < n; ++s) p_[s] -= top;
    kernel->exp(p_.data(), p_.data(), int64_t(n));
    for (size_t s = 0; s < n; ++s) total += p_[s];
    const double classification = label < 0 ? joint + weight * std::log(most_probable_component()) : joint;
    add_sums(label, joint + weight * std::log(total), joint, classification);

    std::fill_n(cells_.data(), n_cells, 0.0);
    for (size_t s = 0; s < n; ++s) {
        p_[s] = hard_ ? (s == best ? weight : 0.0) : p_[s] * (weight / total);
        cells_[cell_of[s] - cell] += p_[s];
    }
    add(p_.data(), n, &statistics[size_t(first)]);
    inference_.add_statistics(cells_.data(), &statistics[at_.cells]);
}

// max_h sum_c p(c, h, x), or sum_c max_h where components are not common, over max_s p(s, x).
double Block::most_probable_component() const {
    double most = 0;
    if (shape_.common)
        for (int h = 0; h < shape_.n_components; ++h) {
            double mass = 0;
            for (int c = 0; c < shape_.n_classes; ++c)
                if (shape_.first_state[c] + h < shape_.first_state[c + 1])
                    mass += p_[size_t(shape_.first_state[c] + h)];
            most = std::max(most, mass);
        }
    else
        for (int c = 0; c < shape_.n_classes; ++c)
            most += *std::max_element(p_.data() + shape_.first_state[c], p_.data() + shape_.first_state[c + 1]);
    return most;
}

void Block::add_sums(int label, double log_likelihood, double joint, double classification) {
    const double sums[] = {log_likelihood, joint, classification};
    add(sums, 3, &statistics[at_.sums]);
    if (label >= 0) statistics[at_.classes + size_t(label)] += log_likelihood;
}

}  // namespace

// ---------------------------------------------------------------- the tree

Tree::Tree(const std::vector<int64_t>& levels, const std::vector<int64_t>& parent, const std::vector<int64_t>& place,
           const TreeSizes& sizes_)
    : sizes(sizes_) {
    constexpr int64_t MOST = int64_t(1) << 40;
    const int64_t n = int64_t(levels.size());
    require(parent.size() == levels.size() && place.size() == levels.size(), "levels, parent and place of every node");
    for (int64_t size : {sizes.n_levels, sizes.n_numbers, sizes.n_regressions})
        require(0 <= size && size <= MOST, "sizes of arrays");
    require(0 <= sizes.n_linear && sizes.n_linear <= sizes.n_numbers, "n_linear: some of the numbers");
    require(n < 1 << 30, "too many nodes");
    for (int64_t i = 0; i < n; ++i) require(0 <= levels[size_t(i)] && levels[size_t(i)] < 1 << 20, "levels of a node");
    for (size_t i = 0; i < size_t(n); ++i) {
        require(-1 <= parent[i] && parent[i] < n, "a parent is another node, or -1");
        nodes.push_back(node(levels[i], parent[i], parent[i] < 0 ? 1 : levels[size_t(parent[i])], place[i]));
    }
    for (const TreeNode& node : nodes)
        require(node.parent < 0 || nodes[size_t(node.parent)].term != TreeTerm::linear,
                "a number with a linear term has no children");
    sort_nodes();
}

// The node of these, checked.
TreeNode Tree::node(int64_t levels, int64_t parent, int64_t parent_levels, int64_t place) {
    auto inside = [&](int64_t length, int64_t end) {
        require(0 <= place && place <= end - length, "the place of a node lies outside of its array");
    };
    require(levels == 0 || parent_levels > 0, "a discrete node cannot have a continuous parent");
    TreeTerm term = TreeTerm::normal;
    if (levels > 0) {
        term = TreeTerm::lookup;
        inside(parent_levels * (levels + 1), sizes.n_levels);
    } else if (parent_levels == 0) {
        term = TreeTerm::regression;
        inside(1, sizes.n_regressions);
    } else {
        const int64_t first_linear = sizes.n_numbers - sizes.n_linear;
        inside(parent_levels, sizes.n_numbers);
        if (place >= first_linear) term = TreeTerm::linear;
        else require(place + parent_levels <= first_linear, "the numbers of a node are all normal or all linear");
    }
    return {int(parent), int(levels), term, size_t(place), levels > 0 ? n_discrete++ : n_continuous++};
}

// Puts parents before their children.
void Tree::sort_nodes() {
    std::vector<std::vector<size_t>> children(nodes.size());
    std::vector<size_t> order;
    for (size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].parent < 0) order.push_back(i);
        else children[size_t(nodes[i].parent)].push_back(i);
    }
    for (size_t k = 0; k < order.size(); ++k)  // grows on the way
        order.insert(order.end(), children[order[k]].begin(), children[order[k]].end());
    require(order.size() == nodes.size(), "the arcs of a tree go round in a circle");
    std::vector<int> position(nodes.size());
    for (size_t k = 0; k < order.size(); ++k) position[order[k]] = int(k);
    std::vector<TreeNode> sorted;
    for (size_t i : order) {
        sorted.push_back(nodes[i]);
        if (nodes[i].parent >= 0) sorted.back().parent = position[size_t(nodes[i].parent)];
    }
    nodes = std::move(sorted);
}

void Tree::check(const TreeRows& rows, int n_classes) const {
    bool inside = true, finite = true, known = true;
    for (size_t i = 0; i < size_t(rows.n_rows); ++i) {
        for (const TreeNode& node : nodes) {
            if (node.levels > 0) {
                const int64_t code = rows.codes[i * n_discrete + node.column];
                inside &= 0 <= code && code <= node.levels;
            } else {
                finite &= !std::isinf(rows.numbers[i * n_continuous + node.column]);
            }
        }
        if (rows.labels) known &= -1 <= rows.labels[i] && rows.labels[i] < n_classes;
    }
    require(inside, "a code lies outside of its column's levels");
    require(finite, "a number is infinite");
    require(known, "a label lies outside of the classes");
}

// ---------------------------------------------------------------- all rows

void Tree::log_cells(const TreeRows& rows, const TreeParameters& parameters, double* out, ThreadPool& pool) const {
    const int64_t n = rows.n_rows, n_blocks = pool.n_threads();
    std::vector<Inference> blocks(size_t(n_blocks), Inference(*this, parameters));
    pool.run(n_blocks, [&](int64_t b) {
        for (int64_t i = n * b / n_blocks; i < n * (b + 1) / n_blocks; ++i) {
            blocks[size_t(b)].read(rows, i);
            blocks[size_t(b)].log_likelihood(0, parameters.n_cells, out + size_t(i) * parameters.n_cells);
        }
    });
}

void Tree::e_step(const TreeRows& rows, const Shape& shape, const double* log_weight, const TreeParameters& parameters,
                  bool hard, size_t n_blocks, double* out, ThreadPool& pool) const {
    std::vector<Block> blocks(n_blocks, Block(*this, shape, log_weight, parameters, hard));
    pool.run(int64_t(n_blocks), [&](int64_t b) {
        const int64_t first = rows.n_rows * b / int64_t(n_blocks), last = rows.n_rows * (b + 1) / int64_t(n_blocks);
        for (int64_t i = first; i < last; ++i) blocks[size_t(b)].add_row(rows, i);
    });
    std::fill_n(out, blocks[0].statistics.size(), 0.0);
    for (const Block& block : blocks) add(block.statistics.data(), block.statistics.size(), out);
}

}  // namespace fanbayes

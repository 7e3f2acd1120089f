// The Python face of the kernels: checks shapes, owns memory, releases the GIL.
#include "columns.hpp"
#include "crew.hpp"
#include "kernel.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace nb = nanobind;

template <typename T, int D>
using In = nb::ndarray<const T, nb::ndim<D>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<nb::numpy, double>;

namespace {

// ---------------------------------------------------------------- which instruction set

std::vector<const Kernel*> available_kernels() {
    std::vector<const Kernel*> kernels{&baseline::kernel};
#ifdef HAVE_X86_KERNELS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        kernels.push_back(&avx2::kernel);
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
            kernels.push_back(&avx512::kernel);
    }
#endif
    return kernels;
}

const Kernel* kernel = available_kernels().back();

std::vector<std::string> backends() {
    std::vector<std::string> names;
    for (const Kernel* k : available_kernels()) names.push_back(k->name);
    return names;
}

void use_backend(const std::string& name) {
    for (const Kernel* k : available_kernels())
        if (name == k->name) {
            kernel = k;
            return;
        }
    throw std::invalid_argument("this machine has no backend '" + name + "'");
}

// ---------------------------------------------------------------- arguments

void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

Out zeros(std::initializer_list<size_t> shape) {
    size_t n = 1;
    for (size_t length : shape) n *= length;
    double* data = new double[n]();
    return Out(data, shape, nb::capsule(data, [](void* p) noexcept { delete[] static_cast<double*>(p); }));
}

// Doubles on a boundary of 64 bytes, not initialised but for the SLACK behind them.
class Buffer {
    struct Free {
        void operator()(double* p) const { ::operator delete[](p, std::align_val_t(64)); }
    };
    std::unique_ptr<double[], Free> data_;

  public:
    explicit Buffer(size_t n) : data_(static_cast<double*>(::operator new[]((n + SLACK) * 8, std::align_val_t(64)))) {
        std::fill_n(data_.get() + n, SLACK, 0.0);
    }
    double* data() const { return data_.get(); }
};

size_t aligned(size_t n) { return (n + 7) / 8 * 8; }

void add(const double* from, size_t n, double* to) {
    for (size_t i = 0; i < n; ++i) to[i] += from[i];
}

// ---------------------------------------------------------------- raw columns

using Raw = nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu>;
template <typename T>
using Target = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

struct RawColumns {
    std::vector<Raw> arrays;
    std::vector<Column> views;
    int64_t n_rows = 0;

    explicit RawColumns(std::vector<Raw> arrays_) : arrays(std::move(arrays_)) {
        for (const Raw& a : arrays) {
            require(a.shape(0) == arrays[0].shape(0), "all columns need the same number of rows");
            n_rows = int64_t(a.shape(0));
            Type type = Type::float64;
            if (a.dtype() == nb::dtype<float>()) type = Type::float32;
            else if (a.dtype() == nb::dtype<int64_t>()) type = Type::int64;
            else if (a.dtype() == nb::dtype<int32_t>()) type = Type::int32;
            else if (a.dtype() == nb::dtype<uint8_t>()) type = Type::uint8;
            else require(a.dtype() == nb::dtype<double>(), "a column is float64, float32, int64, int32 or uint8");
            views.push_back({a.data(), a.stride(0), type});
        }
    }

    template <typename T>
    columns::Block<T> block(const Target<T>& out, const std::vector<int64_t>& place) const {
        require(int64_t(out.shape(0)) == n_rows && place.size() == views.size(), "out: (rows, ...), a place a column");
        for (int64_t p : place) require(0 <= p && p < int64_t(out.shape(1)), "a place lies outside of out");
        return {out.data(), int64_t(out.shape(1)), place};
    }

    nb::list summarise(std::optional<In<double, 1>> weight) const {
        require(!weight || int64_t(weight->shape(0)) == n_rows, "a weight a row");
        std::vector<Summary> found;
        {
            nb::gil_scoped_release release;
            found = columns::summarise(views, n_rows, weight ? weight->data() : nullptr);
        }
        nb::list out;
        for (const Summary& s : found)
            out.append(nb::make_tuple(s.missing, s.infinite, s.integral, s.low, s.high, s.exponent, s.mean, s.scale));
        return out;
    }

    std::vector<bool> standardise(const std::vector<int>& exponent, const std::vector<double>& mean,
                                  const std::vector<double>& scale, const std::vector<int64_t>& place,
                                  Target<double> out) const {
        const size_t n = views.size();
        require(exponent.size() == n && mean.size() == n && scale.size() == n, "parameters for every column");
        const columns::Block<double> to = block(out, place);
        nb::gil_scoped_release release;
        return columns::standardise(views, n_rows, exponent, mean, scale, to);
    }

    template <typename Code>
    void look_up(const std::vector<int64_t>& low, const std::vector<In<uint16_t, 1>>& table,
                 const std::vector<int64_t>& place, Target<Code> out) const {
        require(low.size() == views.size() && table.size() == views.size(), "a table for every column");
        std::vector<std::vector<uint16_t>> tables;
        for (const In<uint16_t, 1>& t : table) {
            require(t.shape(0) > 0, "a table cannot be empty");
            tables.emplace_back(t.data(), t.data() + t.shape(0));
        }
        const columns::Block<Code> to = block(out, place);
        nb::gil_scoped_release release;
        columns::look_up(views, n_rows, low, tables, to);
    }

    // For each column the integers among low, low + 1, ..., low + span - 1 that occur
    std::vector<std::vector<int64_t>> distinct(const std::vector<int64_t>& low, const std::vector<int64_t>& span) const {
        require(low.size() == views.size() && span.size() == views.size(), "a range for every column");
        std::vector<std::vector<int64_t>> out;
        nb::gil_scoped_release release;
        for (const std::vector<uint8_t>& present : columns::presence(views, n_rows, low, span)) {
            std::vector<int64_t> found;
            for (size_t k = 0; k < present.size(); ++k)
                if (present[k]) found.push_back(low[out.size()] + int64_t(k));
            out.push_back(std::move(found));
        }
        return out;
    }
};

// ---------------------------------------------------------------- encoded rows and states

// Encoded rows. A narrow code may stand for several discrete columns at once, its *group*: columns
// group[g] .. group[g + 1] - 1, the first of them the most significant digit.
struct Rows {
    In<uint8_t, 2> narrow;
    In<uint16_t, 2> wide;
    In<double, 2> numbers;
    std::vector<int64_t> first_level;  // of the columns
    std::vector<int64_t> first_fused;  // of the groups and of the wide columns
    std::vector<int32_t> group;
    std::optional<In<int32_t, 1>> labels;
    std::optional<In<double, 1>> weights;
    std::vector<uint8_t> incomplete;  // 1 where a row lacks a number; empty if none does
    int64_t n_rows, n_levels, last_label = -1;

    Rows(In<uint8_t, 2> narrow_, In<uint16_t, 2> wide_, In<double, 2> numbers_, std::vector<int64_t> first_level_,
         std::vector<int32_t> group_, std::optional<In<int32_t, 1>> labels_, std::optional<In<double, 1>> weights_)
        : narrow(narrow_),
          wide(wide_),
          numbers(numbers_),
          first_level(std::move(first_level_)),
          group(std::move(group_)),
          labels(labels_),
          weights(weights_) {
        n_rows = int64_t(narrow.shape(0));
        require(wide.shape(0) == narrow.shape(0) && numbers.shape(0) == narrow.shape(0) &&
                    (!labels || labels->shape(0) == narrow.shape(0)) &&
                    (!weights || weights->shape(0) == narrow.shape(0)),
                "all blocks of a table need the same number of rows");
        const size_t n_narrow = narrow.shape(1), n_wide = wide.shape(1);
        require(group.size() == n_narrow + 1 && group[0] == 0, "group needs one entry more than narrow codes");
        require(first_level.size() == size_t(group.back()) + n_wide + 1 && first_level[0] == 0,
                "first_level needs one entry more than discrete columns");
        for (size_t j = 0; j + 1 < first_level.size(); ++j)
            require(first_level[j + 1] > first_level[j], "first_level must increase");
        n_levels = first_level.back();
        first_fused.push_back(0);
        for (size_t g = 0; g < n_narrow; ++g) {
            require(group[g + 1] > group[g], "a group needs a column");
            int64_t size = 1;
            for (int j = group[g]; j < group[g + 1]; ++j) size = std::min<int64_t>(size * levels_of(j), 1 << 20);
            first_fused.push_back(first_fused.back() + size);
        }
        for (size_t j = 0; j < n_wide; ++j)
            first_fused.push_back(first_fused.back() + levels_of(group.back() + int(j)));
        // A code outside of its levels would read and write foreign memory: looked at once, here.
        bool inside = true;
        for (size_t i = 0; i < size_t(n_rows); ++i) {
            for (size_t g = 0; g < n_narrow; ++g)
                inside &= narrow.data()[i * n_narrow + g] < first_fused[g + 1] - first_fused[g];
            for (size_t j = 0; j < n_wide; ++j)
                inside &= wide.data()[i * n_wide + j] < first_fused[n_narrow + j + 1] - first_fused[n_narrow + j];
        }
        const size_t n_numbers = numbers.shape(1);
        incomplete.resize(n_numbers ? size_t(n_rows) : 0);
        bool complete = true;
        for (size_t i = 0; i < incomplete.size(); ++i) {
            int missing = 0;
            for (size_t j = 0; j < n_numbers; ++j) missing += std::isnan(numbers.data()[i * n_numbers + j]);
            incomplete[i] = missing > 0;
            complete &= missing == 0;
        }
        if (complete) std::vector<uint8_t>().swap(incomplete);
        require(inside, "a code lies outside of its column's levels");
        if (labels)
            for (size_t i = 0; i < size_t(n_rows); ++i) {
                require((*labels)(i) >= -1, "labels are -1 or a class");
                last_label = std::max<int64_t>(last_label, (*labels)(i));
            }
    }

    int64_t levels_of(int column) const { return first_level[size_t(column) + 1] - first_level[size_t(column)]; }
    int64_t n_fused() const { return first_fused.back(); }

    Table view() const {
        return {narrow.data(),
                wide.data(),
                numbers.data(),
                incomplete.empty() ? nullptr : incomplete.data(),
                labels ? labels->data() : nullptr,
                weights ? weights->data() : nullptr,
                first_fused.data(),
                int(narrow.shape(1)),
                int(wide.shape(1)),
                int(numbers.shape(1))};
    }

    // Rows of `width` doubles, one a level of the columns -> one a level of the fused axis: the sum of its columns'.
    void fuse(const double* levels, size_t width, double* fused) const {
        for (size_t g = 0; g + 1 < first_fused.size(); ++g) {
            double* out = fused + size_t(first_fused[g]) * width;
            const auto [begin, end] = columns_of(g);
            size_t done = size_t(levels_of(begin));
            std::copy_n(levels + size_t(first_level[size_t(begin)]) * width, done * width, out);
            for (int j = begin + 1; j < end; ++j) {
                // From the back, so that nothing is overwritten before it is read.
                const double* digit = levels + size_t(first_level[size_t(j)]) * width;
                const size_t size = size_t(levels_of(j));
                for (size_t f = done; f-- > 0;)
                    for (size_t v = size; v-- > 0;)
                        for (size_t k = 0; k < width; ++k)
                            out[(f * size + v) * width + k] = out[f * width + k] + digit[v * width + k];
                done *= size;
            }
        }
    }

    // Statistics of the fused axis, which are spoilt -> of the columns' levels, by summation over the other columns.
    void unfuse(double* fused, size_t width, double* levels) const {
        std::fill_n(levels, size_t(n_levels) * width, 0.0);
        for (size_t g = 0; g + 1 < first_fused.size(); ++g) {
            double* in = fused + size_t(first_fused[g]) * width;
            size_t left = size_t(first_fused[g + 1] - first_fused[g]);
            const auto [begin, end] = columns_of(g);
            for (int j = end - 1; j > begin; --j) {
                double* digit = levels + size_t(first_level[size_t(j)]) * width;
                const size_t size = size_t(levels_of(j));
                left /= size;
                for (size_t f = 0; f < left; ++f) {
                    const double* from = in + f * size * width;
                    add(from, size * width, digit);
                    std::copy_n(from, width, in + f * width);
                    for (size_t v = 1; v < size; ++v) add(from + v * width, width, in + f * width);
                }
            }
            std::copy_n(in, left * width, levels + size_t(first_level[size_t(begin)]) * width);
        }
    }

    // First column of a code, and the one after its last.
    std::pair<int, int> columns_of(size_t code) const {
        const size_t n_narrow = group.size() - 1;
        if (code < n_narrow) return {group[code], group[code + 1]};
        const int column = group.back() + int(code - n_narrow);
        return {column, column + 1};
    }
};

struct States {
    std::vector<int32_t> first_state, first_cell;
    int n_cells, n_components = 0;

    States(std::vector<int32_t> first_state_, std::vector<int32_t> first_cell_, int n_cells_)
        : first_state(std::move(first_state_)), first_cell(std::move(first_cell_)), n_cells(n_cells_) {
        require(!first_cell.empty() && first_state.size() == first_cell.size() + 1 && first_state[0] == 0,
                "first_state needs one entry more than classes");
        const bool shared = n_cells < first_state.back();
        for (size_t c = 0; c < first_cell.size(); ++c) {
            const int states = first_state[c + 1] - first_state[c];
            require(states > 0, "a class needs at least one state");
            require(first_cell[c] == (shared ? 0 : first_state[c]) && first_cell[c] + states <= n_cells,
                    "cells are either one per state or shared by all classes");
            n_components = std::max(n_components, states);
        }
    }

    Shape view(int64_t n_levels) const {
        return {int(first_cell.size()), first_state.back(), n_cells, n_components, n_levels,
                first_state.data(), first_cell.data()};
    }
};

void check_range(const Rows& rows, int64_t begin, int64_t end) {
    require(0 <= begin && begin <= end && end <= rows.n_rows, "rows [begin, end) lie outside of the table");
}

void check_parameters(const Shape& shape, const Table& table, const In<double, 2>& log_weight,
                      const In<double, 3>& log_table, const In<double, 4>& gaussian) {
    const size_t S = log_weight.shape(0), K = size_t(shape.n_cells);
    require(log_weight.shape(1) == size_t(shape.n_states), "log_weight: (networks, states)");
    require(log_table.shape(0) == S && log_table.shape(1) == size_t(shape.n_levels) && log_table.shape(2) == K,
            "log_table: (networks, levels, cells)");
    require(gaussian.shape(0) == S && gaussian.shape(1) == 3 && gaussian.shape(2) == size_t(table.n_numbers) &&
                gaussian.shape(3) == K,
            "gaussian: (networks, 3, numbers, cells)");
}

// Copies between arrays whose classes have their own numbers of states (Python's) and arrays in which
// each class has the same, padded, number (what `expect` wants).
class Padding {
    const Shape& from_;
    std::vector<int32_t> first_state_, first_cell_;

  public:
    Shape shape;

    explicit Padding(const Shape& from) : from_(from), shape(from) {
        const int width = kernel->padded_components(from.n_components), C = from.n_classes;
        const bool shared = from.n_cells < from.n_states;
        for (int c = 0; c <= C; ++c) first_state_.push_back(c * width);
        for (int c = 0; c < C; ++c) first_cell_.push_back(shared ? 0 : c * width);
        shape.n_states = C * width;
        shape.n_cells = shared ? width : C * width;
        shape.n_components = width;
        shape.first_state = first_state_.data();
        shape.first_cell = first_cell_.data();
    }

    template <typename Copy>
    void for_states(Copy copy) const {
        for (int c = 0; c < shape.n_classes; ++c)
            copy(from_.first_state[c], first_state_[size_t(c)], from_.first_state[c + 1] - from_.first_state[c]);
    }

    void widen_states(const double* narrow, double* wide) const {
        std::fill_n(wide, shape.n_states, -INFINITY);
        for_states([&](int a, int b, int n) { std::copy_n(narrow + a, n, wide + b); });
    }

    void narrow_states(const double* wide, double* narrow) const {
        for_states([&](int a, int b, int n) { std::copy_n(wide + b, n, narrow + a); });
    }

    template <typename Copy>
    void for_cells(size_t rows, Copy copy) const {
        const size_t K = size_t(from_.n_cells), wide = size_t(shape.n_cells);
        for (size_t i = 0; i < rows; ++i) {
            if (from_.n_cells < from_.n_states)
                copy(i * K, i * wide, K);
            else
                for_states([&](int a, int b, int n) { copy(i * K + size_t(a), i * wide + size_t(b), size_t(n)); });
        }
    }

    void widen_cells(size_t rows, const double* narrow, double* wide) const {
        for_cells(rows, [&](size_t a, size_t b, size_t n) { std::copy_n(narrow + a, n, wide + b); });
    }

    void narrow_cells(size_t rows, const double* wide, double* narrow) const {
        for_cells(rows, [&](size_t a, size_t b, size_t n) { std::copy_n(wide + b, n, narrow + a); });
    }
};

Network network_of(const double* weight, const double* table, const double* gaussian, size_t plane) {
    return {weight, table, gaussian, gaussian + plane, gaussian + 2 * plane};
}

// ---------------------------------------------------------------- the two passes

// Rows [begin, end) in blocks, statistics added up in the order of the blocks: the result does not depend on the crew.
nb::tuple expect(const Rows& rows, const States& states, In<double, 2> log_weight, In<double, 3> log_table,
                 In<double, 4> gaussian, int64_t begin, int64_t end, bool hard, int64_t n_blocks, Crew* crew) {
    const Table table = rows.view();
    const Shape narrow = states.view(rows.n_levels);
    check_range(rows, begin, end);
    check_parameters(narrow, table, log_weight, log_table, gaussian);
    require(rows.last_label < narrow.n_classes, "a label lies outside of the classes");
    require(n_blocks > 0, "at least one block");
    const size_t S = log_weight.shape(0), N = size_t(narrow.n_states), K = size_t(narrow.n_cells),
                 L = size_t(narrow.n_levels), J = size_t(table.n_numbers), B = size_t(n_blocks);
    Out counts_of_states = zeros({S, N});
    Out counts = zeros({S, L, K});
    Out moments = zeros({S, 3, J, K});
    Out of_class = zeros({S, size_t(narrow.n_classes)});
    Out sums = zeros({3, S});
    nb::gil_scoped_release release;
    Crew nobody(1);
    if (!crew) crew = &nobody;

    // Parameters of a network, then statistics of a block: states, classes, numbers, fused levels; and room to work in.
    const Padding padding(narrow);
    const Shape& shape = padding.shape;
    const size_t width = size_t(shape.n_cells), n_states = size_t(shape.n_states);
    const size_t at_classes = aligned(n_states), at_numbers = at_classes + aligned(of_class.shape(1)), at_levels = at_numbers + aligned(3 * J * width),
                 at_rest = at_levels + aligned(size_t(rows.n_fused()) * width),
                 size_of_network = at_rest + aligned(L * width),
                 size_of_block = at_rest + aligned(size_t(kernel->scratch_size(shape)));
    const Buffer networks(S * size_of_network), blocks(S * B * size_of_block);
    std::vector<Statistics> statistics(S * B);
    auto network = [&](size_t s) { return networks.data() + s * size_of_network; };

    crew->run(int64_t(S), [&](int64_t task) {
        const size_t s = size_t(task);
        double *to = network(s), *levels = to + at_rest;
        std::fill_n(to, size_of_network, 0.0);
        padding.widen_states(log_weight.data() + s * N, to);
        padding.widen_cells(3 * J, gaussian.data() + s * 3 * J * K, to + at_numbers);
        padding.widen_cells(L, log_table.data() + s * L * K, levels);
        rows.fuse(levels, width, to + at_levels);
    });
    crew->run(int64_t(S * B), [&](int64_t task) {
        const size_t s = size_t(task) / B, b = size_t(task) % B;
        const double* from = network(s);
        double* to = blocks.data() + size_t(task) * size_of_block;
        std::fill_n(to, at_rest, 0.0);
        statistics[size_t(task)] = {to, to + at_levels, to + at_numbers, to + at_classes, 0, 0, 0};
        kernel->expect(table, shape, network_of(from, from + at_levels, from + at_numbers, J * width),
                       begin + (end - begin) * int64_t(b) / n_blocks, begin + (end - begin) * int64_t(b + 1) / n_blocks,
                       hard, statistics[size_t(task)], to + at_rest);
    });
    crew->run(int64_t(S * B), [&](int64_t task) {  // each a part of the arrays, of all blocks
        const size_t s = size_t(task) / B, part = size_t(task) % B, first = at_rest * part / B;
        const Statistics* of_blocks = statistics.data() + s * B;
        for (size_t b = 1; b < B; ++b)
            add(of_blocks[b].states + first, at_rest * (part + 1) / B - first, of_blocks[0].states + first);
    });
    crew->run(int64_t(S), [&](int64_t task) {
        const size_t s = size_t(task);
        const Statistics* of_blocks = statistics.data() + s * B;
        double *total = of_blocks[0].states, *levels = network(s) + at_rest;
        for (size_t b = 0; b < B; ++b) {
            sums.data()[s] += of_blocks[b].log_likelihood;
            sums.data()[S + s] += of_blocks[b].joint;
            sums.data()[2 * S + s] += of_blocks[b].classification;
        }
        rows.unfuse(total + at_levels, width, levels);
        padding.narrow_states(total, counts_of_states.data() + s * N);
        std::copy_n(total + at_classes, of_class.shape(1), of_class.data() + s * of_class.shape(1));
        padding.narrow_cells(3 * J, total + at_numbers, moments.data() + s * 3 * J * K);
        padding.narrow_cells(L, levels, counts.data() + s * L * K);
    });
    nb::gil_scoped_acquire acquire;
    return nb::make_tuple(counts_of_states, counts, moments, sums, of_class);
}

void posterior(const Rows& rows, const States& states, In<double, 2> log_weight, In<double, 3> log_table,
               In<double, 4> gaussian, int64_t begin, int64_t end, const std::string& what,
               nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out, int64_t n_blocks, Crew* crew) {
    const Table table = rows.view();
    const Shape shape = states.view(rows.n_levels);
    check_range(rows, begin, end);
    check_parameters(shape, table, log_weight, log_table, gaussian);
    require(log_weight.shape(0) == 1, "one network");
    require(n_blocks > 0, "at least one block");
    Posterior kind = what == "log_joint"   ? Posterior::log_joint
                     : what == "log_proba" ? Posterior::log_proba
                     : what == "proba"     ? Posterior::proba
                                           : Posterior::states;
    require(kind != Posterior::states || what == "states", "what: log_joint, log_proba, proba or states");
    const size_t width = size_t(kind == Posterior::states ? shape.n_states : shape.n_classes);
    require(out.shape(0) == size_t(end - begin) && out.shape(1) == width, "out: (rows, classes or states)");
    nb::gil_scoped_release release;
    Crew nobody(1);
    if (!crew) crew = &nobody;
    const size_t K = size_t(shape.n_cells), plane = size_t(table.n_numbers) * K,
                 room = aligned(size_t(kernel->scratch_size(shape)));
    Buffer t(size_t(rows.n_fused()) * K), g(3 * plane), scratch(room * size_t(n_blocks));
    rows.fuse(log_table.data(), K, t.data());
    std::copy_n(gaussian.data(), 3 * plane, g.data());
    crew->run(n_blocks, [&](int64_t b) {
        const int64_t first = (end - begin) * b / n_blocks, last = (end - begin) * (b + 1) / n_blocks;
        kernel->posterior(table, shape, network_of(log_weight.data(), t.data(), g.data(), plane), begin + first,
                          begin + last, kind, out.data() + size_t(first) * width, scratch.data() + size_t(b) * room);
    });
}

double gather(const Rows& rows, In<double, 2> table) {
    require(table.shape(0) == size_t(rows.n_fused()) && table.shape(1) == 8, "table: (levels, 8)");
    Buffer copy(table.size());
    std::copy_n(table.data(), table.size(), copy.data());
    nb::gil_scoped_release release;
    return kernel->gather(rows.view(), copy.data(), rows.n_rows);
}

Out map(In<double, 1> x, void (*function)(const double*, double*, int64_t)) {
    Out out = zeros({x.shape(0)});
    function(x.data(), out.data(), int64_t(x.shape(0)));
    return out;
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Native core: the fused E-step and the posterior, over arrays.";
    nb::class_<RawColumns>(m, "RawColumns")
        .def(nb::init<std::vector<Raw>>(), nb::arg("columns"))
        .def("summarise", &RawColumns::summarise, nb::arg("weight").none())
        .def("standardise", &RawColumns::standardise, nb::arg("exponent"), nb::arg("mean"), nb::arg("scale"),
             nb::arg("place"), nb::arg("out"))
        .def("look_up", &RawColumns::look_up<uint8_t>, nb::arg("low"), nb::arg("table"), nb::arg("place"), nb::arg("out"))
        .def("look_up", &RawColumns::look_up<uint16_t>, nb::arg("low"), nb::arg("table"), nb::arg("place"), nb::arg("out"))
        .def("distinct", &RawColumns::distinct, nb::arg("low"), nb::arg("span"));
    nb::class_<Rows>(m, "Rows")
        .def(nb::init<In<uint8_t, 2>, In<uint16_t, 2>, In<double, 2>, std::vector<int64_t>, std::vector<int32_t>,
                      std::optional<In<int32_t, 1>>, std::optional<In<double, 1>>>(),
             nb::arg("narrow"), nb::arg("wide"), nb::arg("numbers"), nb::arg("first_level"), nb::arg("group"),
             nb::arg("labels").none(), nb::arg("weights").none())
        .def_ro("n_rows", &Rows::n_rows)
        .def_prop_ro("n_levels", &Rows::n_fused);
    nb::class_<States>(m, "States")
        .def(nb::init<std::vector<int32_t>, std::vector<int32_t>, int>(), nb::arg("first_state"),
             nb::arg("first_cell"), nb::arg("n_cells"));
    nb::class_<Crew>(m, "Crew").def(nb::init<int>(), nb::arg("n_threads"));
    m.def("expect", &expect, nb::arg("rows"), nb::arg("states"), nb::arg("log_weight"), nb::arg("log_table"),
          nb::arg("gaussian"), nb::arg("begin"), nb::arg("end"), nb::arg("hard"), nb::arg("n_blocks") = 1,
          nb::arg("crew").none() = nb::none());
    m.def("posterior", &posterior, nb::arg("rows"), nb::arg("states"), nb::arg("log_weight"), nb::arg("log_table"),
          nb::arg("gaussian"), nb::arg("begin"), nb::arg("end"), nb::arg("what"), nb::arg("out"),
          nb::arg("n_blocks") = 1, nb::arg("crew").none() = nb::none());
    m.def("gather", &gather, nb::arg("rows"), nb::arg("table"));
    m.def("exp", [](In<double, 1> x) { return map(x, kernel->exp); }, nb::arg("x"));
    m.def("log", [](In<double, 1> x) { return map(x, kernel->log); }, nb::arg("x"));
    m.def("backend", [] { return std::string(kernel->name); });
    m.def("backends", &backends);
    m.def("use_backend", &use_backend, nb::arg("name"));
}

// The Python face of the kernels: checks shapes, owns memory, releases the GIL.
#include "columns.hpp"
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

// Zeros on a boundary of 64 bytes, with SLACK behind them.
class Buffer {
    struct Free {
        void operator()(double* p) const { ::operator delete[](p, std::align_val_t(64)); }
    };
    std::unique_ptr<double[], Free> data_;
    size_t size_;

  public:
    explicit Buffer(size_t n)
        : data_(static_cast<double*>(::operator new[]((n + SLACK) * 8, std::align_val_t(64)))), size_(n + SLACK) {
        clear();
    }
    void clear() { std::fill_n(data_.get(), size_, 0.0); }
    double* data() const { return data_.get(); }
};

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
                labels ? labels->data() : nullptr,
                weights ? weights->data() : nullptr,
                first_fused.data(),
                int(narrow.shape(1)),
                int(wide.shape(1)),
                int(numbers.shape(1))};
    }

    // Calls visit(level of the fused axis, level of the columns' axis) for every pair of which the first implies
    // the second.
    template <typename Visit>
    void for_members(Visit visit) const {
        const size_t n_narrow = group.size() - 1;
        for (size_t g = 0; g + 1 < first_fused.size(); ++g) {
            const int begin = g < n_narrow ? group[g] : group.back() + int(g - n_narrow);
            const int end = g < n_narrow ? group[g + 1] : begin + 1;
            int64_t below = 1;  // fused levels for each value of the digit
            for (int j = end - 1; j >= begin; --j) {
                const int64_t size = levels_of(j);
                for (int64_t f = first_fused[g]; f < first_fused[g + 1]; ++f)
                    visit(f, first_level[size_t(j)] + (f - first_fused[g]) / below % size);
                below *= size;
            }
        }
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

void add(const double* from, size_t n, double* to) {
    for (size_t i = 0; i < n; ++i) to[i] += from[i];
}

Network network_of(const double* weight, const double* table, const double* gaussian, size_t plane) {
    return {weight, table, gaussian, gaussian + plane, gaussian + 2 * plane};
}

// ---------------------------------------------------------------- the two passes

nb::tuple expect(const Rows& rows, const States& states, In<double, 2> log_weight, In<double, 3> log_table,
                 In<double, 4> gaussian, int64_t begin, int64_t end, bool hard) {
    const Table table = rows.view();
    const Shape shape = states.view(rows.n_levels);
    check_range(rows, begin, end);
    check_parameters(shape, table, log_weight, log_table, gaussian);
    require(rows.last_label < shape.n_classes, "a label lies outside of the classes");
    const size_t S = log_weight.shape(0), N = size_t(shape.n_states), K = size_t(shape.n_cells),
                 L = size_t(shape.n_levels), J = size_t(table.n_numbers);
    Out counts_of_states = zeros({S, N});
    Out counts = zeros({S, L, K});
    Out moments = zeros({S, 3, J, K});
    Out sums = zeros({3, S});
    {
        nb::gil_scoped_release release;
        const Padding padding(shape);
        const size_t wide = size_t(padding.shape.n_cells), wide_states = size_t(padding.shape.n_states);
        Buffer scratch(size_t(kernel->scratch_size(padding.shape)));
        const size_t F = size_t(rows.n_fused());
        Buffer w(wide_states), t(L * wide), g(3 * J * wide), fused(F * wide);
        Buffer out_w(wide_states), out_t(L * wide), out_g(3 * J * wide), out_fused(F * wide);
        for (size_t s = 0; s < S; ++s) {
            padding.widen_states(log_weight.data() + s * N, w.data());
            padding.widen_cells(L, log_table.data() + s * L * K, t.data());
            padding.widen_cells(3 * J, gaussian.data() + s * 3 * J * K, g.data());
            for (Buffer* b : {&fused, &out_w, &out_t, &out_g, &out_fused}) b->clear();
            rows.for_members([&](int64_t f, int64_t level) { add(t.data() + level * int64_t(wide), wide, fused.data() + f * int64_t(wide)); });
            Statistics statistics{out_w.data(), out_fused.data(), out_g.data(), 0, 0, 0};
            kernel->expect(table, padding.shape, network_of(w.data(), fused.data(), g.data(), J * wide), begin, end,
                           hard, statistics, scratch.data());
            rows.for_members([&](int64_t f, int64_t level) { add(out_fused.data() + f * int64_t(wide), wide, out_t.data() + level * int64_t(wide)); });
            padding.narrow_states(out_w.data(), counts_of_states.data() + s * N);
            padding.narrow_cells(L, out_t.data(), counts.data() + s * L * K);
            padding.narrow_cells(3 * J, out_g.data(), moments.data() + s * 3 * J * K);
            sums.data()[s] = statistics.log_likelihood;
            sums.data()[S + s] = statistics.joint;
            sums.data()[2 * S + s] = statistics.classification;
        }
    }
    return nb::make_tuple(counts_of_states, counts, moments, sums);
}

void posterior(const Rows& rows, const States& states, In<double, 2> log_weight, In<double, 3> log_table,
               In<double, 4> gaussian, int64_t begin, int64_t end, const std::string& what,
               nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
    const Table table = rows.view();
    const Shape shape = states.view(rows.n_levels);
    check_range(rows, begin, end);
    check_parameters(shape, table, log_weight, log_table, gaussian);
    require(log_weight.shape(0) == 1, "one network");
    require(rows.n_fused() == rows.n_levels, "no fused columns");
    Posterior kind = what == "log_joint"   ? Posterior::log_joint
                     : what == "log_proba" ? Posterior::log_proba
                     : what == "proba"     ? Posterior::proba
                                           : Posterior::states;
    require(kind != Posterior::states || what == "states", "what: log_joint, log_proba, proba or states");
    const size_t width = size_t(kind == Posterior::states ? shape.n_states : shape.n_classes);
    require(out.shape(0) == size_t(end - begin) && out.shape(1) == width, "out: (rows, classes or states)");
    nb::gil_scoped_release release;
    const size_t levels = size_t(shape.n_levels) * size_t(shape.n_cells),
                 plane = size_t(table.n_numbers) * size_t(shape.n_cells);
    Buffer t(levels), g(3 * plane), scratch(size_t(kernel->scratch_size(shape)));
    std::copy_n(log_table.data(), levels, t.data());
    std::copy_n(gaussian.data(), 3 * plane, g.data());
    kernel->posterior(table, shape, network_of(log_weight.data(), t.data(), g.data(), plane), begin, end, kind,
                      out.data(), scratch.data());
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
        .def_ro("n_rows", &Rows::n_rows);
    nb::class_<States>(m, "States")
        .def(nb::init<std::vector<int32_t>, std::vector<int32_t>, int>(), nb::arg("first_state"),
             nb::arg("first_cell"), nb::arg("n_cells"));
    m.def("expect", &expect, nb::arg("rows"), nb::arg("states"), nb::arg("log_weight"), nb::arg("log_table"),
          nb::arg("gaussian"), nb::arg("begin"), nb::arg("end"), nb::arg("hard"));
    m.def("posterior", &posterior, nb::arg("rows"), nb::arg("states"), nb::arg("log_weight"), nb::arg("log_table"),
          nb::arg("gaussian"), nb::arg("begin"), nb::arg("end"), nb::arg("what"), nb::arg("out"));
    m.def("gather", &gather, nb::arg("rows"), nb::arg("table"));
    m.def("exp", [](In<double, 1> x) { return map(x, kernel->exp); }, nb::arg("x"));
    m.def("log", [](In<double, 1> x) { return map(x, kernel->log); }, nb::arg("x"));
    m.def("backend", [] { return std::string(kernel->name); });
    m.def("backends", &backends);
    m.def("use_backend", &use_backend, nb::arg("name"));
}

// The Python face of the kernels: checks shapes, owns memory, releases the GIL.
#include "climb.hpp"
#include "columns.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
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

}  // namespace

const Kernel* kernel = available_kernels().back();

namespace {

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

Out zeros(const std::vector<size_t>& shape) {
    size_t n = 1;
    for (size_t length : shape) n *= length;
    double* data = new double[n]();
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
    return Out(data, shape.size(), shape.data(), owner);
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
        require(!weight || arrays.empty() || int64_t(weight->shape(0)) == n_rows, "a weight a row");
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
    void look_up(const std::vector<In<int64_t, 1>>& keys, const std::vector<In<uint16_t, 1>>& codes,
                 const std::vector<int64_t>& place, Target<Code> out) const {
        require(keys.size() == views.size() && codes.size() == views.size(), "levels for every column");
        std::vector<columns::Levels> levels;
        for (size_t c = 0; c < keys.size(); ++c) {
            const int64_t *first = keys[c].data(), n = int64_t(keys[c].shape(0));
            require(n > 0 && codes[c].shape(0) == size_t(n), "a code for every level, of which there is one at least");
            constexpr int64_t most = int64_t(1) << 53;
            require(-most < first[0] && first[n - 1] < most, "levels lie within 2^53");
            for (int64_t k = 1; k < n; ++k) require(first[k - 1] < first[k], "levels increase");
            levels.push_back({first, codes[c].data(), n});
        }
        const columns::Block<Code> to = block(out, place);
        nb::gil_scoped_release release;
        columns::look_up(views, n_rows, levels, to);
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

// ---------------------------------------------------------------- the passes

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

// The calling thread, if there is no crew.
class Nobody {
    Crew alone_{1};

  public:
    Crew& or_else(Crew* crew) { return crew ? *crew : alone_; }
};

void check_labels(const Rows& rows, const Shape& shape) {
    require(rows.last_label < shape.n_classes, "a label lies outside of the classes");
}

nb::tuple expect(const Rows& rows, const States& states, In<double, 2> log_weight, In<double, 3> log_table,
                 In<double, 4> gaussian, int64_t begin, int64_t end, bool hard, int64_t n_blocks, Crew* crew) {
    const Table table = rows.view();
    const Shape shape = states.view(rows.n_levels);
    check_range(rows, begin, end);
    check_parameters(shape, table, log_weight, log_table, gaussian);
    check_labels(rows, shape);
    require(n_blocks > 0, "at least one block");
    const size_t S = log_weight.shape(0), N = size_t(shape.n_states), K = size_t(shape.n_cells),
                 L = size_t(shape.n_levels), J = size_t(table.n_numbers), C = size_t(shape.n_classes), plane = J * K;
    const Out counts_of_states = zeros({S, N}), counts = zeros({S, L, K}), moments = zeros({S, 3, J, K}),
              of_class = zeros({S, C}), sums = zeros({3, S});
    {
        nb::gil_scoped_release release;
        Nobody nobody;
        Expectation expectation(rows, states, S, begin, end, size_t(n_blocks), false, nobody.or_else(crew));
        std::vector<Visit> visits(S);
        std::vector<Statistics> found(S);
        for (size_t s = 0; s < S; ++s) {
            const double* g = gaussian.data() + s * 3 * plane;
            found[s] = {counts_of_states.data() + s * N, counts.data() + s * L * K, moments.data() + s * 3 * plane,
                        of_class.data() + s * C, 0, 0, 0};
            visits[s].network = {log_weight.data() + s * N, log_table.data() + s * L * K, g, g + plane, g + 2 * plane};
            visits[s].out = &found[s];
        }
        expectation(visits, hard);
        for (size_t s = 0; s < S; ++s) {
            sums.data()[s] = found[s].log_likelihood;
            sums.data()[S + s] = found[s].joint;
            sums.data()[2 * S + s] = found[s].classification;
        }
    }
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
    Nobody nobody;
    const size_t K = size_t(shape.n_cells), plane = size_t(table.n_numbers) * K,
                 room = aligned(size_t(kernel->scratch_size(shape)));
    Buffer t(size_t(rows.n_fused()) * K), g(3 * plane), scratch(room * size_t(n_blocks));
    rows.fuse(log_table.data(), K, t.data());
    std::copy_n(gaussian.data(), 3 * plane, g.data());
    nobody.or_else(crew).run(n_blocks, [&](int64_t b) {
        const int64_t first = (end - begin) * b / n_blocks, last = (end - begin) * (b + 1) / n_blocks;
        kernel->posterior(table, shape, {log_weight.data(), t.data(), g.data(), g.data() + plane, g.data() + 2 * plane},
                          begin + first, begin + last, kind, out.data() + size_t(first) * width,
                          scratch.data() + size_t(b) * room);
    });
}

// ---------------------------------------------------------------- EM

using Factors = std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>>;  // entries, parents

void make_learner(Learner* self, std::vector<int64_t> first_level, size_t n_numbers, const Factors& factors,
                  size_t n_cells, double alpha, const std::string& variance, double floor, std::vector<int32_t> group,
                  const std::vector<double>& prior) {
    require(!first_level.empty() && !factors.empty() && prior.size() == 4, "levels, factors, a prior of four numbers");
    require(group.empty() || group.size() == n_cells, "a group a cell");
    const size_t n_states = factors[0].first.size();
    std::vector<Factor> tables;
    for (const auto& [entry, parent] : factors) {
        require(entry.size() == n_states, "an entry of each factor a state");
        for (int32_t e : entry) require(0 <= e && size_t(e) < parent.size(), "an entry lies outside of its factor");
        tables.push_back({entry, parent});
    }
    const Variance kind = variance == "paper" ? Variance::paper : group.empty() ? Variance::map : Variance::tied;
    new (self) Learner{std::move(first_level), n_numbers, n_states, n_cells, std::move(tables), alpha, kind, floor,
                       std::move(group), {prior[0], prior[1], prior[2], prior[3]}};
}

// An array of a point, as Python has it for several networks at once.
struct Part {
    double* data;
    std::vector<size_t> shape;  // without the axis of networks

    size_t size() const {
        size_t n = 1;
        for (size_t length : shape) n *= length;
        return n;
    }
};

// Parameters: factors, table, means, variances. Statistics: states, counts, moments, classes.
std::vector<Part> parts(const Point& p, const Learner& l, const Shape& shape) {
    const size_t K = l.n_cells, L = size_t(shape.n_levels);
    std::vector<Part> out;
    double* factor = p.parameters;
    for (const Factor& f : l.factors) {
        out.push_back({factor, {f.parent.size()}});
        factor += f.parent.size();
    }
    out.push_back({p.parameters + l.at_table(), {L, K}});
    out.push_back({p.parameters + l.at_mean(), {l.n_numbers, K}});
    out.push_back({p.parameters + l.at_sigma2(), {l.n_numbers, K}});
    out.push_back({p.statistics.states, {l.n_states}});
    out.push_back({p.statistics.counts, {L, K}});
    out.push_back({p.statistics.moments, {3, l.n_numbers, K}});
    out.push_back({p.statistics.of_class, {size_t(shape.n_classes)}});
    return out;
}

using Array = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;

// `arrays` are the parts of a point, with a leading axis of networks.
nb::tuple advance_all(const Rows& rows, const States& states, const Learner& l, const std::vector<Array>& arrays,
                      In<double, 1> objective, In<double, 1> gain, In<double, 1> reach, int64_t n_passes,
                      double least_gain, bool accelerate, bool hard, int64_t n_blocks, Crew* crew) {
    const Shape shape = states.view(rows.n_levels);
    const size_t S = objective.shape(0);
    check_labels(rows, shape);
    require(n_blocks > 0 && S > 0, "at least one block, and one network");
    require(l.first_level.back() == rows.n_levels && l.n_numbers == rows.numbers.shape(1) &&
                l.n_states == size_t(shape.n_states) && l.n_cells == size_t(shape.n_cells),
            "a learner of the same columns and states");
    require(gain.shape(0) == S && reach.shape(0) == S, "gain and reach of every network");
    std::vector<Climb> climbs;
    for (size_t s = 0; s < S; ++s) {
        const Point& here = climbs.emplace_back(Climb{Point(l, shape, objective(s)), gain(s), reach(s), {}}).here;
        const std::vector<Part> to = parts(here, l, shape);
        require(arrays.size() == to.size(), "all parameters and statistics");
        for (size_t i = 0; i < to.size(); ++i) {
            const size_t n = to[i].size();
            require(arrays[i].size() == S * n, "an array of parameters or statistics has the wrong size");
            std::copy_n(arrays[i].data() + s * n, n, to[i].data);
        }
        l.complete(here.parameters);
    }
    {
        nb::gil_scoped_release release;
        Nobody nobody;
        Crew& all = nobody.or_else(crew);
        Expectation expectation(rows, states, S, 0, rows.n_rows, size_t(n_blocks), accelerate, all);
        advance(climbs, l, expectation, {n_passes, least_gain, accelerate, hard}, all, [] {
            nb::gil_scoped_acquire acquire;
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
        });
    }
    std::vector<Out> out;
    const Out sums = zeros({3, S}), numbers = zeros({3, S}), traces = zeros({2, S, climbs[0].trace.size()});
    for (size_t s = 0; s < S; ++s) {
        const Climb& c = climbs[s];
        const std::vector<Part> from = parts(c.here, l, shape);
        for (size_t i = 0; i < from.size(); ++i) {
            if (s == 0) {
                std::vector<size_t> all{S};
                all.insert(all.end(), from[i].shape.begin(), from[i].shape.end());
                out.push_back(zeros(all));
            }
            std::copy_n(from[i].data, from[i].size(), out[i].data() + s * from[i].size());
        }
        const Statistics& found = c.here.statistics;
        const double of_network[6] = {found.log_likelihood, found.joint, found.classification,
                                      c.here.objective,     c.gain,      c.reach};
        for (size_t k = 0; k < 3; ++k) {
            sums.data()[k * S + s] = of_network[k];
            numbers.data()[k * S + s] = of_network[3 + k];
        }
        std::copy(c.trace.begin(), c.trace.end(), traces.data() + s * c.trace.size());
        std::copy(c.rows.begin(), c.rows.end(), traces.data() + (S + s) * c.rows.size());
    }
    return nb::make_tuple(nb::cast(out), sums, numbers, traces);
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
             nb::arg("place"), nb::arg("out").noconvert())
        .def("look_up", &RawColumns::look_up<uint8_t>, nb::arg("keys"), nb::arg("codes"), nb::arg("place"),
             nb::arg("out").noconvert())
        .def("look_up", &RawColumns::look_up<uint16_t>, nb::arg("keys"), nb::arg("codes"), nb::arg("place"),
             nb::arg("out").noconvert())
        .def("distinct", &RawColumns::distinct, nb::arg("low"), nb::arg("span"));
    nb::class_<Rows>(m, "Rows")
        .def(nb::init<In<uint8_t, 2>, In<uint16_t, 2>, In<double, 2>, std::vector<int64_t>, std::vector<int32_t>,
                      std::optional<In<int32_t, 1>>, std::optional<In<double, 1>>>(),
             nb::arg("narrow"), nb::arg("wide"), nb::arg("numbers"), nb::arg("first_level"), nb::arg("group"),
             nb::arg("labels").none(), nb::arg("weights").none())
        .def_ro("n_rows", &Rows::n_rows)
        .def_prop_ro("n_levels", &Rows::n_fused);
    nb::class_<States>(m, "States")
        .def(nb::init<std::vector<int32_t>, std::vector<int32_t>, int, bool>(), nb::arg("first_state"),
             nb::arg("first_cell"), nb::arg("n_cells"), nb::arg("common"));
    nb::class_<Crew>(m, "Crew")
        .def(nb::init<int>(), nb::arg("n_threads"))
        .def_prop_ro("n_threads", &Crew::n_threads);
    m.def("expect", &expect, nb::arg("rows"), nb::arg("states"), nb::arg("log_weight"), nb::arg("log_table"),
          nb::arg("gaussian"), nb::arg("begin"), nb::arg("end"), nb::arg("hard"), nb::arg("n_blocks") = 1,
          nb::arg("crew").none() = nb::none());
    m.def("posterior", &posterior, nb::arg("rows"), nb::arg("states"), nb::arg("log_weight"), nb::arg("log_table"),
          nb::arg("gaussian"), nb::arg("begin"), nb::arg("end"), nb::arg("what"), nb::arg("out").noconvert(),
          nb::arg("n_blocks") = 1, nb::arg("crew").none() = nb::none());
    nb::class_<Learner>(m, "Learner")
        .def("__init__", &make_learner, nb::arg("first_level"), nb::arg("n_numbers"), nb::arg("factors"),
             nb::arg("n_cells"), nb::arg("alpha"), nb::arg("variance"), nb::arg("floor"), nb::arg("group"),
             nb::arg("prior"));
    m.def("advance", &advance_all, nb::arg("rows"), nb::arg("states"), nb::arg("learner"), nb::arg("arrays"),
          nb::arg("objective"), nb::arg("gain"), nb::arg("reach"), nb::arg("n_passes"),
          nb::arg("least_gain"), nb::arg("accelerate"), nb::arg("hard"), nb::arg("n_blocks") = 1,
          nb::arg("crew").none() = nb::none());
    m.def("rows_visited", [] { return rows_visited.load(); });
    m.def("gather", &gather, nb::arg("rows"), nb::arg("table"));
    m.def("exp", [](In<double, 1> x) { return map(x, kernel->exp); }, nb::arg("x"));
    m.def("log", [](In<double, 1> x) { return map(x, kernel->log); }, nb::arg("x"));
    m.def("backend", [] { return std::string(kernel->name); });
    m.def("backends", &backends);
    m.def("use_backend", &use_backend, nb::arg("name"));
}

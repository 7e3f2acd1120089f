// The Python face of the native core, and the only file that knows Python: checks shapes, keeps arrays alive, releases
// the GIL.
#include "boosted_trees.hpp"
#include "columns.hpp"
#include "discriminative.hpp"
#include "em.hpp"
#include "mdl.hpp"
#include "nb_forest.hpp"
#include "nb_tree.hpp"
#include "pairs.hpp"
#include "parzen.hpp"
#include "stars.hpp"
#include "tree.hpp"
#ifdef HAVE_X86_KERNELS
#include "cpu.hpp"
#endif

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace nb = nanobind;

namespace fanbayes {
namespace {

// ---------------------------------------------------------------- which instruction set

std::vector<const Kernel*> available_kernels() {
    std::vector<const Kernel*> kernels{&baseline::kernel};
#ifdef HAVE_X86_KERNELS
    const Cpu cpu = this_cpu();
    if (cpu.avx2) kernels.push_back(&avx2::kernel);
    if (cpu.avx512) kernels.push_back(&avx512::kernel);
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

// ---------------------------------------------------------------- arrays

template <typename T, int D>
using In = nb::ndarray<const T, nb::ndim<D>, nb::c_contig, nb::device::cpu>;
using Array = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<nb::numpy, double>;
using Lengths = std::vector<size_t>;

// Arrays with a leading axis of networks.
using Arrays = std::vector<std::reference_wrapper<const Array>>;

void require_shapes(const Arrays& arrays, const std::vector<Lengths>& shapes, const char* message) {
    for (size_t k = 0; k < shapes.size(); ++k) {
        const Array& a = arrays[k];
        require(Lengths(a.shape_ptr(), a.shape_ptr() + a.ndim()) == shapes[k], message);
    }
}

const double* of_network(const Array& a, size_t s) { return a.data() + s * (a.size() / a.shape(0)); }

// What they hold of network s, one after the other.
void load(const Arrays& arrays, size_t s, double* to) {
    for (const Array& a : arrays) to = std::copy_n(of_network(a, s), a.size() / a.shape(0), to);
}

void store(const double* from, size_t s, const std::vector<Out>& arrays) {
    for (const Out& a : arrays) {
        const size_t n = a.size() / a.shape(0);
        std::copy_n(from, n, a.data() + s * n);
        from += n;
    }
}

Out zeros(const Lengths& shape) {
    size_t n = 1;
    for (size_t length : shape) n *= length;
    double* data = new double[n]();
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
    return Out(data, shape.size(), shape.data(), owner);
}

std::vector<Out> zeros_each(const std::vector<Lengths>& shapes) {
    std::vector<Out> out;
    for (const Lengths& shape : shapes) out.push_back(zeros(shape));
    return out;
}

// ---------------------------------------------------------------- raw columns

using Raw = nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu>;
template <typename T>
using Target = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

struct RawColumns {
    std::vector<Raw> arrays;
    std::vector<columns::Column> views;
    int64_t n_rows = 0;

    explicit RawColumns(std::vector<Raw> arrays_) : arrays(std::move(arrays_)) {
        for (const Raw& a : arrays) {
            require(a.shape(0) == arrays[0].shape(0), "all columns need the same number of rows");
            n_rows = int64_t(a.shape(0));
            using columns::Type;
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
        std::vector<columns::Summary> found;
        {
            nb::gil_scoped_release release;
            found = columns::summarise(views, n_rows, weight ? weight->data() : nullptr);
        }
        nb::list out;
        for (const columns::Summary& s : found)
            out.append(nb::make_tuple(s.missing, s.infinite, s.integral, s.low, s.high, s.exponent, s.weight, s.mean,
                                      s.squares));
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
    std::vector<std::vector<int64_t>> distinct(const std::vector<int64_t>& low,
                                               const std::vector<int64_t>& span) const {
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

// ---------------------------------------------------------------- rows

// They keep the arrays that they were made of.
class HeldRows : public Rows {
    In<uint8_t, 2> narrow_;
    In<uint16_t, 2> wide_;
    In<double, 2> numbers_;
    std::optional<In<double, 3>> pairs_;
    std::optional<In<int32_t, 1>> labels_;
    std::optional<In<double, 1>> weights_;

  public:
    HeldRows(In<uint8_t, 2> narrow, In<uint16_t, 2> wide, In<double, 2> numbers, std::optional<In<double, 3>> pairs,
             std::vector<int64_t> first_level, std::vector<int32_t> group, std::optional<In<int32_t, 1>> labels,
             std::optional<In<double, 1>> weights)
        : Rows(same_length(narrow, wide, numbers, pairs, labels, weights),
               {narrow.data(), wide.data(), numbers.data(), pairs ? pairs->data() : nullptr, nullptr,
                labels ? labels->data() : nullptr, weights ? weights->data() : nullptr, nullptr, int(narrow.shape(1)),
                int(wide.shape(1)), int(numbers.shape(1)), n_pairs(pairs)},
               std::move(first_level), std::move(group)),
          narrow_(narrow),
          wide_(wide),
          numbers_(numbers),
          pairs_(pairs),
          labels_(labels),
          weights_(weights) {}

  private:
    template <typename... Others>
    static int64_t same_length(const In<uint8_t, 2>& narrow, const Others&... others) {
        auto has = [&](const auto& array) {
            if constexpr (requires { array.has_value(); }) return !array || array->shape(0) == narrow.shape(0);
            else return array.shape(0) == narrow.shape(0);
        };
        require((has(others) && ...), "all blocks of a table need the same number of rows");
        return int64_t(narrow.shape(0));
    }

    static int n_pairs(const std::optional<In<double, 3>>& pairs) {
        require(!pairs || pairs->shape(2) == 2, "pairs: (rows, regressions, 2)");
        return pairs ? int(pairs->shape(1)) : 0;
    }
};

// ---------------------------------------------------------------- E-step and posterior

// Called often where the GIL is released: takes it now and then, to see whether the user wants to stop. Not more often,
// as other threads may hold it for long.
class Interruption {
    using Clock = std::chrono::steady_clock;
    Clock::time_point last_ = Clock::now();

  public:
    void operator()() {
        if (Clock::now() - last_ < std::chrono::milliseconds(50)) return;
        nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        last_ = Clock::now();
    }
};

ThreadPool& or_caller(ThreadPool* pool) {
    static ThreadPool caller(1);  // has no threads: the calling one does the work
    return pool ? *pool : caller;
}

// Log weights, log table, terms of numbers and of regressions of n networks.
void check_networks(const Rows& rows, const Shape& shape, size_t n, const Arrays& networks, int n_linear) {
    require(0 <= n_linear && size_t(n_linear) <= rows.n_numbers(), "n_linear: some of the numbers");
    const size_t K = size_t(shape.n_cells);
    require_shapes(networks,
                   {{n, size_t(shape.n_states)},
                    {n, rows.n_levels(), K},
                    {n, rows.n_numbers(), 3, K},
                    {n, rows.n_regressions(), 4, K}},
                   "log_weight: (networks, states), log_table: (networks, levels, cells), "
                   "numeric: (networks, numbers, 3, cells), regression: (networks, regressions, 4, cells)");
}

void check_blocks(const Rows& rows, const Shape& shape, int64_t n_blocks) {
    require(rows.last_label < shape.n_classes, "a label lies outside of the classes");
    require(n_blocks > 0, "at least one block");
}

// States, cells and class_log_likelihood lie one after the other in the statistics of an `EStep`.
std::vector<Lengths> statistics_shapes(const Rows& rows, const Shape& shape, size_t n) {
    return {{n, size_t(shape.n_states)},
            {n, rows.n_cell_statistics(), size_t(shape.n_cells)},
            {n, size_t(shape.n_classes)}};
}

void set_column(const Out& out, size_t s, std::initializer_list<double> values) {
    double* to = out.data() + s;
    for (double value : values) {
        *to = value;
        to += out.shape(1);
    }
}

nb::tuple collect(Shares shares, const HeldRows& rows, const States& states, const In<double, 2>& log_weight,
                  const Array& log_table, const Array& numeric, int n_linear, const Array& regression, int64_t n_blocks,
                  ThreadPool* pool) {
    const Shape shape = states.shape();
    const size_t n = log_weight.shape(0);
    const Array weight(log_weight);
    check_networks(rows, shape, n, {weight, log_table, numeric, regression}, n_linear);
    check_blocks(rows, shape, n_blocks);
    const std::vector<Out> out = zeros_each(statistics_shapes(rows, shape, n));
    const Out sums = zeros({3, n});
    {
        nb::gil_scoped_release release;
        EStep e_step(rows, states, n, size_t(n_blocks), false, or_caller(pool));
        const Buffer room(n * e_step.n_statistics());
        std::vector<Statistics> found;
        std::vector<Pass> passes(n);
        for (size_t s = 0; s < n; ++s) found.push_back(e_step.statistics(room.data() + s * e_step.n_statistics()));
        for (size_t s = 0; s < n; ++s) {
            passes[s].network = {of_network(weight, s), of_network(log_table, s), of_network(numeric, s), n_linear,
                                 of_network(regression, s)};
            passes[s].out = &found[s];
        }
        e_step(passes, shares);
        for (size_t s = 0; s < n; ++s) {
            store(found[s].states, s, out);
            set_column(sums, s, {found[s].log_likelihood, found[s].joint, found[s].classification});
        }
    }
    return nb::make_tuple(out[0], out[1], out[2], sums);
}

nb::tuple e_step(const HeldRows& rows, const States& states, const In<double, 2>& log_weight, const Array& log_table,
                 const Array& numeric, int n_linear, const Array& regression, bool hard, int64_t n_blocks,
                 ThreadPool* pool) {
    return collect(hard ? Shares::most_probable : Shares::expected, rows, states, log_weight, log_table, numeric,
                   n_linear, regression, n_blocks, pool);
}

nb::tuple contrast(const HeldRows& rows, const States& states, const In<double, 2>& log_weight, const Array& log_table,
                   const Array& numeric, int n_linear, const Array& regression, int64_t n_blocks, ThreadPool* pool) {
    return collect(Shares::contrast, rows, states, log_weight, log_table, numeric, n_linear, regression, n_blocks,
                   pool);
}

Posterior posterior_named(const std::string& what) {
    if (what == "log_joint") return Posterior::log_joint;
    if (what == "log_proba") return Posterior::log_proba;
    if (what == "proba") return Posterior::proba;
    require(what == "states", "what: log_joint, log_proba, proba or states");
    return Posterior::states;
}

void posterior(const HeldRows& rows, const States& states, const Array& log_weight, const Array& log_table,
               const Array& numeric, int n_linear, const Array& regression, const std::string& what, Target<double> out,
               int64_t n_blocks, ThreadPool* pool) {
    const Shape shape = states.shape();
    check_networks(rows, shape, 1, {log_weight, log_table, numeric, regression}, n_linear);
    require(n_blocks > 0, "at least one block");
    const Posterior kind = posterior_named(what);
    const size_t width = size_t(kind == Posterior::states ? shape.n_states : shape.n_classes),
                 K = size_t(shape.n_cells);
    require(out.shape(0) == size_t(rows.n_rows) && out.shape(1) == width, "out: (rows, classes or states)");
    nb::gil_scoped_release release;
    const size_t room = aligned(size_t(kernel->scratch_size(shape)));
    const Buffer levels(rows.n_fused() * K), numbers(numeric.size()), pairs(regression.size()),
        scratch(room * size_t(n_blocks));
    rows.fuse(log_table.data(), K, levels.data());
    std::copy_n(numeric.data(), numeric.size(), numbers.data());
    std::copy_n(regression.data(), regression.size(), pairs.data());
    const Inputs in{rows.table, shape, {log_weight.data(), levels.data(), numbers.data(), n_linear, pairs.data()}};
    or_caller(pool).run(n_blocks, [&](int64_t b) {
        const int64_t first = rows.n_rows * b / n_blocks, last = rows.n_rows * (b + 1) / n_blocks;
        kernel->posterior(in, first, last, kind, out.data() + size_t(first) * width, scratch.data() + size_t(b) * room);
    });
}

// ---------------------------------------------------------------- trees with naive Bayes in the leaves

std::vector<double> split_losses(In<int32_t, 2> levels, In<int32_t, 1> labels, In<int32_t, 1> folds,
                                 In<double, 1> weights, std::vector<int64_t> first_level, In<double, 3> pseudo_levels,
                                 In<double, 2> pseudo_classes, const std::vector<std::pair<int, int>>& columns,
                                 const std::string& loss, double least, ThreadPool* pool) {
    const size_t n_folds = pseudo_levels.shape(0), n_classes = pseudo_levels.shape(2);
    const nb_tree::Cases cases{levels.data(),   labels.data(),          folds.data(), weights.data(),
                               levels.shape(0), std::move(first_level), n_classes,    n_folds};
    const std::vector<int64_t>& first = cases.first_level;
    require(!first.empty() && first[0] == 0 && levels.shape(1) == cases.n_columns(), "a level a row and column");
    for (size_t j = 0; j < cases.n_columns(); ++j) require(first[j] < first[j + 1], "a level at least for each column");
    require(labels.shape(0) == cases.n && folds.shape(0) == cases.n && weights.shape(0) == cases.n,
            "a label, a fold and a weight a row");
    require(pseudo_levels.shape(1) == cases.n_levels() && pseudo_classes.shape(0) == n_folds &&
                pseudo_classes.shape(1) == n_classes && n_classes > 0,
            "pseudo-counts (folds, levels, classes) and (folds, classes)");
    require(loss == "error" || loss == "log_loss", "the loss is error or log_loss");
    for (size_t i = 0; i < cases.n; ++i) {
        const int32_t label = labels.data()[i], fold = folds.data()[i];
        require(0 <= label && size_t(label) < n_classes, "a label lies outside of the classes");
        require(0 <= fold && size_t(fold) < n_folds, "a fold lies outside of the folds");
        for (size_t j = 0; j < cases.n_columns(); ++j) {
            const int32_t level = levels.data()[i * cases.n_columns() + j];
            require(first[j] <= level && level < first[j + 1], "a level lies outside of its column");
        }
    }
    std::vector<nb_tree::Split> splits;
    for (auto [column, threshold] : columns) {
        require(-1 <= column && column < int(cases.n_columns()), "there is no such column");
        require(-1 <= threshold && (column < 0 || threshold < first[size_t(column) + 1] - first[size_t(column)] - 1),
                "a threshold lies outside of its column");
        splits.push_back({column, threshold});
    }
    nb::gil_scoped_release release;
    return nb_tree::split_losses(cases, {pseudo_levels.data(), pseudo_classes.data()}, splits,
                                 loss == "error" ? nb_tree::Loss::error : nb_tree::Loss::log_loss, least,
                                 or_caller(pool));
}

// ---------------------------------------------------------------- kernel densities

void make_centres(Centres* self, In<double, 2> values, int64_t n_numbers, std::vector<int64_t> first_level,
                  std::vector<int64_t> first_centre, In<double, 1> share, In<double, 1> kept, In<int32_t, 1> kind,
                  int64_t n_kinds, std::vector<double> prior) {
    const size_t n_columns = values.shape(0), n = values.shape(1);
    require(0 <= n_numbers && size_t(n_numbers) <= n_columns &&
                first_level.size() == n_columns - size_t(n_numbers) + 1 && first_level[0] == 0,
            "values: (columns, centres), numbers first, and first_level of the others");
    require(std::is_sorted(first_level.begin(), first_level.end()), "levels of the columns, one after the other");
    require(first_centre.size() == prior.size() + 1 && !prior.empty() && first_centre[0] == 0 &&
                size_t(first_centre.back()) == n && std::is_sorted(first_centre.begin(), first_centre.end()),
            "centres of the classes, one after the other, and a prior for each class");
    require(share.shape(0) == n && kept.shape(0) == n && kind.shape(0) == n && n_kinds >= 0,
            "share, kept and kind of every centre");
    for (size_t m = 0; m < n; ++m) {
        require(0 <= kind(m) && kind(m) < n_kinds, "a kind lies outside of the kinds");
        require(share(m) > 0 && 0 <= kept(m) && kept(m) <= share(m), "shares are positive, and none grows");
    }
    for (double p : prior) require(p > 0, "priors are positive");
    new (self) Centres(values.data(), n_columns, size_t(n_numbers), std::move(first_level), std::move(first_centre),
                       share.data(), kept.data(), kind.data(), size_t(n_kinds), std::move(prior));
}

struct CheckedTerms {
    ParzenTerms terms;
    ParzenRows rows;
    int64_t n_rows;

    CheckedTerms(const Centres& centres, In<double, 2> values, In<int32_t, 1> kind, In<double, 2> numbers,
                 In<double, 1> same, In<double, 1> other, double log_background)
        : terms{numbers.data(), same.data(), other.data(), log_background},
          rows{values.data(), kind.data(), nullptr, nullptr, 0.0},
          n_rows(int64_t(values.shape(0))) {
        const Parzen& p = centres.parzen();
        const size_t n_numbers = size_t(p.n_numbers), n_discrete = size_t(p.n_columns) - n_numbers;
        require(values.shape(1) == size_t(p.n_columns) && kind.shape(0) == values.shape(0),
                "values: (rows, columns), and the kind of every row");
        require(numbers.shape(0) == n_numbers && numbers.shape(1) == 3 && same.shape(0) == centres.n_levels() &&
                    other.shape(0) == n_discrete,
                "numbers: (numbers, 3), same: (levels,), other: (discrete columns,)");
        for (size_t n = 0; n < values.shape(0); ++n) {
            require(-1 <= kind(n) && kind(n) < int64_t(centres.n_kinds()), "a kind lies outside of the kinds");
            for (size_t j = 0; j < n_discrete; ++j) {
                const double code = values(n, n_numbers + j);
                const double n_levels = double(p.first_level[j + 1] - p.first_level[j]);
                require(!(code < 0 || code >= n_levels), "a code lies outside of its column");
            }
        }
    }
};

Out parzen_joint(const Centres& centres, In<double, 2> values, In<int32_t, 1> kind, In<double, 2> numbers,
                 In<double, 1> same, In<double, 1> other, double log_background) {
    const CheckedTerms in(centres, values, kind, numbers, same, other, log_background);
    const Parzen& p = centres.parzen();
    const Out out = zeros({size_t(in.n_rows), size_t(p.n_classes)});
    const Buffer room(size_t(parzen_room(p)));
    {
        nb::gil_scoped_release release;
        kernel->parzen(p, in.terms, in.rows, 0, in.n_rows, out.data(), nullptr, room.data());
    }
    return out;
}

nb::tuple parzen_loss(const Centres& centres, In<double, 2> values, In<int32_t, 1> kind, In<double, 2> numbers,
                      In<double, 1> same, In<double, 1> other, double log_background, In<int32_t, 1> labels,
                      In<double, 1> weights, double noise) {
    CheckedTerms in(centres, values, kind, numbers, same, other, log_background);
    const Parzen& p = centres.parzen();
    require(int64_t(labels.shape(0)) == in.n_rows && int64_t(weights.shape(0)) == in.n_rows,
            "a label and a weight a row");
    for (size_t n = 0; n < labels.shape(0); ++n)
        require(0 <= labels(n) && labels(n) < p.n_classes, "a label lies outside of the classes");
    in.rows.labels = labels.data();
    in.rows.weights = weights.data();
    in.rows.noise = noise;
    require(0 <= noise && noise < 1, "noise is a share below 1");
    const Out by_numbers = zeros({size_t(p.n_numbers), 3}), by_same = zeros({centres.n_levels()}),
              by_other = zeros({size_t(p.n_columns - p.n_numbers)});
    ParzenGradient found{by_numbers.data(), by_same.data(), by_other.data(), 0, 0};
    const Buffer room(size_t(parzen_room(p)));
    {
        nb::gil_scoped_release release;
        kernel->parzen(p, in.terms, in.rows, 0, in.n_rows, nullptr, &found, room.data());
    }
    return nb::make_tuple(found.loss, by_numbers, by_same, by_other, found.background);
}

// ---------------------------------------------------------------- forests of such trees

template <typename T>
nb::ndarray<nb::numpy, T> array_of(std::vector<T>&& values, const Lengths& shape) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.data(), owner);
}

coded_trees::Columns coded_columns(std::vector<uint8_t> n_codes, std::vector<uint8_t> is_ordered,
                                   const In<uint8_t, 2>& level, std::vector<uint8_t> n_levels) {
    using coded_trees::MOST_CODES;
    const size_t M = n_codes.size();
    require(is_ordered.size() == M && n_levels.size() == M && level.shape(0) == M && level.shape(1) == MOST_CODES,
            "columns: as many of each");
    for (size_t j = 0; j < M; ++j) {
        require(n_codes[j] >= 1 && n_codes[j] < MOST_CODES && n_levels[j] >= 1, "a column has too many codes or none");
        const uint8_t* of_codes = level.data() + j * MOST_CODES;
        for (size_t code = 0; code <= n_codes[j]; ++code)
            require(of_codes[code] <= n_levels[j] && n_levels[j] < MOST_CODES, "a level lies outside of its column");
    }
    return {std::move(n_codes), std::move(is_ordered), level.data(), std::move(n_levels)};
}

// Of cases that trees are grown on: codes (columns, cases), a label and a weight a case, and its part in each group.
void check_cases(const In<uint8_t, 2>& codes, const In<int32_t, 1>& labels, const In<double, 1>& weights,
                 const int32_t* parts, size_t n_groups, size_t n_parts, const coded_trees::Columns& columns,
                 const std::vector<double>& prior) {
    const size_t n = labels.shape(0), M = columns.size(), K = prior.size();
    require(codes.shape(0) == M && codes.shape(1) == n && weights.shape(0) == n,
            "codes: (columns, cases), a label and a weight a case");
    require(n > 0 && K > 0, "some cases and classes");
    for (double p : prior) require(p > 0 && p <= 1, "a prior probability a class");
    for (size_t i = 0; i < n; ++i) {
        require(0 <= labels.data()[i] && size_t(labels.data()[i]) < K, "a label lies outside of the classes");
        require(weights.data()[i] > 0 && weights.data()[i] < 1e300, "weights are positive");
        for (size_t g = 0; g < n_groups; ++g)
            require(0 <= parts[g * n + i] && parts[g * n + i] < int32_t(2 * n_parts),
                    "a part lies outside of the parts");
        for (size_t j = 0; j < M; ++j)
            require(codes.data()[j * n + i] <= columns.n_codes[j], "a code lies outside of its column");
    }
}

nb::tuple grow_forest(In<uint8_t, 2> codes, In<int32_t, 1> labels, In<double, 1> weights, In<int32_t, 2> parts,
                      std::vector<uint8_t> n_codes, std::vector<uint8_t> is_ordered, In<uint8_t, 2> level,
                      std::vector<uint8_t> n_levels, const std::vector<double>& prior, double min_split,
                      double min_network, size_t n_known, uint64_t seed, ThreadPool* pool) {
    const coded_trees::Columns columns =
        coded_columns(std::move(n_codes), std::move(is_ordered), level, std::move(n_levels));
    const nb_forest::Cases cases{codes.data(), labels.data(),   weights.data(),
                                 parts.data(), labels.shape(0), parts.shape(0)};
    const size_t n = cases.n, M = columns.size(), K = prior.size();
    require(parts.shape(1) == n && n_known <= M, "parts a case, and no more known columns than there are");
    check_cases(codes, labels, weights, parts.data(), parts.shape(0), nb_forest::N_PARTS, columns, prior);
    nb_forest::Trees trees;
    std::vector<float> held_out(n * nb_forest::N_COMPONENTS * K);
    {
        nb::gil_scoped_release release;
        trees = nb_forest::grow(cases, columns, prior, {min_split, min_network, n_known, seed}, held_out.data(),
                                or_caller(pool));
    }
    const size_t T = trees.n_trees(), N = trees.column.size();
    const size_t n_numbers = trees.tables.size();
    return nb::make_tuple(
        array_of(std::move(trees.first_node), {T + 1}), array_of(std::move(trees.first_number), {T + 1}),
        array_of(std::move(trees.column), {N}), array_of(std::move(trees.right), {N}),
        array_of(std::move(trees.network), {N}), array_of(std::move(trees.to_left), {N}),
        array_of(std::move(trees.to_right), {N}), array_of(std::move(trees.shares), {N, nb_forest::N_SHARES, K}),
        array_of(std::move(trees.known), {T, n_known}), array_of(std::move(trees.tables), {n_numbers}),
        array_of(std::move(held_out), {n, nb_forest::N_COMPONENTS, K}));
}

nb::tuple grow_boosted(In<uint8_t, 2> codes, In<int32_t, 1> labels, In<double, 1> weights, In<int32_t, 1> units,
                       In<int32_t, 1> parts, size_t n_parts, std::vector<uint8_t> n_codes,
                       std::vector<uint8_t> is_ordered, In<uint8_t, 2> level, std::vector<uint8_t> n_levels,
                       const std::vector<double>& prior, std::vector<size_t> ends, size_t depth, double rate,
                       double shrinkage, double min_cases, double share, size_t n_tried, uint64_t seed,
                       ThreadPool* pool) {
    const coded_trees::Columns columns =
        coded_columns(std::move(n_codes), std::move(is_ordered), level, std::move(n_levels));
    const bool has_others = std::any_of(parts.data(), parts.data() + parts.shape(0),
                                        [n_parts](int32_t part) { return part >= int32_t(n_parts); });
    const boosted_trees::Cases cases{codes.data(), labels.data(),   weights.data(), units.data(),
                                     parts.data(), labels.shape(0), n_parts,        has_others};
    const size_t n = cases.n, M = columns.size(), K = prior.size();
    require(parts.shape(0) == n && units.shape(0) == n && n_parts > 1 && K > 1,
            "a unit and a part a case, and two parts and classes at least");
    check_cases(codes, labels, weights, parts.data(), 1, n_parts, columns, prior);
    require(ends.size() <= tree_weights::N_COMPONENTS && std::is_sorted(ends.begin(), ends.end()), "ends of stages");
    require(depth <= 16 && rate > 0 && shrinkage > 0 && min_cases > 0 && share > 0 && n_tried > 0 && M > 0,
            "settings lie outside of their ranges");
    boosted_trees::Trees trees;
    std::vector<float> held_out(n * tree_weights::N_COMPONENTS * K);
    {
        nb::gil_scoped_release release;
        trees = boosted_trees::grow(cases, columns, prior,
                                    {std::move(ends), depth, rate, shrinkage, min_cases, share, n_tried, seed},
                                    held_out.data(), or_caller(pool));
    }
    const size_t T = trees.n_trees(), N = trees.column.size();
    return nb::make_tuple(array_of(std::move(trees.first_node), {T + 1}), array_of(std::move(trees.stage), {T}),
                          array_of(std::move(trees.column), {N}), array_of(std::move(trees.right), {N}),
                          array_of(std::move(trees.to_left), {N}), array_of(std::move(trees.to_right), {N}),
                          array_of(std::move(trees.values), {N, K}),
                          array_of(std::move(held_out), {n, tree_weights::N_COMPONENTS, K}));
}

Out weights_of_trees(In<float, 3> components, In<int32_t, 1> labels, In<double, 1> weights, In<int32_t, 1> folds,
                     size_t n_folds, std::vector<double> log_prior, const std::vector<double>& usual,
                     const std::vector<double>& scale, ThreadPool* pool) {
    const size_t n = components.shape(0), K = log_prior.size();
    require(components.shape(1) == tree_weights::N_COMPONENTS && components.shape(2) == K && K > 0,
            "components: (cases, components, classes)");
    require(labels.shape(0) == n && weights.shape(0) == n && folds.shape(0) == n, "a label, weight and fold a case");
    require(usual.size() == tree_weights::N_COMPONENTS && scale.size() == usual.size(), "a usual weight a component");
    for (double s : scale) require(s > 0, "scales are positive");
    for (size_t i = 0; i < n; ++i)
        require(0 <= labels.data()[i] && size_t(labels.data()[i]) < K, "a label lies outside of the classes");
    const tree_weights::Judged judged{components.data(), labels.data(),       folds.data(), weights.data(), n,
                                      n_folds,           std::move(log_prior)};
    std::vector<double> found;
    {
        nb::gil_scoped_release release;
        found = tree_weights::learn(judged, usual, scale, or_caller(pool));
    }
    return array_of(std::move(found), {1 + n_folds, tree_weights::N_COMPONENTS});
}

// Trees that predict. All is checked, so that no path leaves a tree and no look-up a table.
struct HeldForest {
    In<int64_t, 1> first_node, first_number;
    In<int32_t, 1> column, right, network;
    In<uint64_t, 1> to_left, to_right;
    In<float, 2> values;
    In<int32_t, 2> known;
    In<float, 1> tables;
    In<uint8_t, 2> level;
    coded_trees::Columns columns;
    std::optional<coded_trees::Ends> ends;

    HeldForest(In<int64_t, 1> first_node_, In<int64_t, 1> first_number_, In<int32_t, 1> column_, In<int32_t, 1> right_,
               In<int32_t, 1> network_, In<uint64_t, 1> to_left_, In<uint64_t, 1> to_right_, In<float, 2> values_,
               In<int32_t, 2> known_, In<float, 1> tables_, std::vector<uint8_t> n_codes, In<uint8_t, 2> level_,
               std::vector<uint8_t> n_levels)
        : first_node(std::move(first_node_)),
          first_number(std::move(first_number_)),
          column(std::move(column_)),
          right(std::move(right_)),
          network(std::move(network_)),
          to_left(std::move(to_left_)),
          to_right(std::move(to_right_)),
          values(std::move(values_)),
          known(std::move(known_)),
          tables(std::move(tables_)),
          level(std::move(level_)),
          columns(coded_columns(n_codes, std::vector<uint8_t>(n_codes.size()), level, std::move(n_levels))) {
        const size_t T = known.shape(0), N = column.shape(0);
        require(first_node.shape(0) == T + 1 && first_number.shape(0) == T + 1, "a first node and number a tree");
        require(right.shape(0) == N && network.shape(0) == N && to_left.shape(0) == N && to_right.shape(0) == N &&
                    values.shape(0) == N && values.shape(1) > 0,
                "as many of each as there are nodes");
        require(first_node.data()[0] == 0 && first_node.data()[T] == int64_t(N) && first_number.data()[0] == 0 &&
                    first_number.data()[T] == int64_t(tables.shape(0)),
                "trees fill their arrays");
        for (size_t t = 0; t < T; ++t) check_tree(t);
        ends.emplace(view(), columns);
    }

    void check_tree(size_t t) const {
        const int64_t begin = first_node.data()[t], end = first_node.data()[t + 1];
        const int64_t n_numbers = first_number.data()[t + 1] - first_number.data()[t];
        const int64_t M = int64_t(columns.size());
        require(0 <= begin && begin < end && end <= int64_t(column.shape(0)) && 0 <= n_numbers &&
                    first_number.data()[t + 1] <= int64_t(tables.shape(0)),
                "a tree has a node at least");
        int64_t width = 0;
        for (size_t k = 0; k < known.shape(1); ++k) {
            const int32_t j = known.data()[t * known.shape(1) + k];
            require(0 <= j && j < M, "there is no such column");
            width += columns.n_levels[size_t(j)] * int64_t(values.shape(1));
        }
        std::vector<uint8_t> has_parent(size_t(end - begin));
        has_parent[0] = 1;
        for (int64_t node = begin; node < end; ++node) {
            require(has_parent[size_t(node - begin)], "a node is not part of its tree");
            const int32_t j = column.data()[node];
            require(-1 <= j && j < M, "there is no such column");
            require(0 <= network.data()[node] && (int64_t(network.data()[node]) + 1) * width <= n_numbers,
                    "a network lies outside of the tables");
            const int64_t right_one = begin + right.data()[node];
            if (j < 0) continue;
            require(node + 1 < right_one && right_one < end, "a branch leads out of its tree");
            for (const int64_t child : {node + 1, right_one})
                require(!std::exchange(has_parent[size_t(child - begin)], 1), "a node has two parents");
        }
    }

    coded_trees::Forest view() const {
        return {first_node.data(), first_number.data(), column.data(),  right.data(), network.data(),
                to_left.data(),    to_right.data(),     values.data(),  known.data(), tables.data(),
                known.shape(0),    known.shape(1),      values.shape(1)};
    }

    void check_rows(const In<uint8_t, 2>& codes) const {
        require(codes.shape(1) == columns.size(), "codes: (rows, columns)");
        for (size_t i = 0; i < codes.shape(0); ++i)
            for (size_t j = 0; j < columns.size(); ++j)
                require(codes.data()[i * columns.size() + j] <= columns.n_codes[j],
                        "a code lies outside of its column");
    }

    Out scores(In<uint8_t, 2> codes, ThreadPool* pool) const {
        check_rows(codes);
        Out out = zeros({codes.shape(0), values.shape(1)});
        nb::gil_scoped_release release;
        coded_trees::find_scores(view(), *ends, columns, codes.data(), codes.shape(0), out.data(), or_caller(pool));
        return out;
    }

    Out terms(In<uint8_t, 2> codes, ThreadPool* pool) const {
        check_rows(codes);
        Out out = zeros({codes.shape(0), columns.size(), values.shape(1)});
        nb::gil_scoped_release release;
        coded_trees::add_terms(view(), columns, codes.data(), codes.shape(0), out.data(), or_caller(pool));
        return out;
    }
};

// ---------------------------------------------------------------- views

auto cut_rows(In<double, 1> x, In<int32_t, 1> labels, std::optional<In<double, 1>> weights, size_t n_classes) {
    const size_t n = x.shape(0);
    require(labels.shape(0) == n && (!weights || weights->shape(0) == n), "a label and a weight a row");
    for (size_t i = 0; i < n; ++i) {
        require(0 <= labels.data()[i] && size_t(labels.data()[i]) < n_classes, "a label lies outside of the classes");
        require(i == 0 || x.data()[i - 1] <= x.data()[i], "rows lie by increasing x");
    }
    std::vector<int64_t> found;
    {
        nb::gil_scoped_release release;
        found = mdl::cut_rows({x.data(), labels.data(), weights ? weights->data() : nullptr, n, n_classes});
    }
    const size_t n_cuts = found.size();
    return array_of(std::move(found), {n_cuts});
}

Out normal_scores(In<double, 2> numbers, In<double, 3> knots, double furthest) {
    const size_t N = numbers.shape(0), M = numbers.shape(1), n_knots = knots.shape(2);
    require(knots.shape(0) == M && knots.shape(1) == 2 && n_knots >= 2 && (n_knots & (n_knots - 1)) == 0,
            "knots: (numbers, 2, a power of two)");
    Out out = zeros({N, M});
    nb::gil_scoped_release release;
    std::copy(numbers.data(), numbers.data() + N * M, out.data());
    kernel->to_scores({knots.data(), int64_t(M), int64_t(n_knots), furthest}, int64_t(N), out.data());
    return out;
}

Out mix(In<double, 2> numbers, In<double, 2> mixing) {
    const size_t N = numbers.shape(0), M = numbers.shape(1);
    require(mixing.shape(0) == M && mixing.shape(1) == M, "mixing: (numbers, numbers)");
    Out out = zeros({N, M});
    nb::gil_scoped_release release;
    const size_t padded = (M + MIXING_MULTIPLE - 1) / MIXING_MULTIPLE * MIXING_MULTIPLE;
    std::vector<double> rows(M * padded);
    for (size_t i = 0; i < M; ++i) std::copy(mixing.data() + i * M, mixing.data() + (i + 1) * M, &rows[i * padded]);
    kernel->mix(rows.data(), int64_t(M), int64_t(padded), numbers.data(), int64_t(N), out.data());
    return out;
}

// ---------------------------------------------------------------- pairs of columns

class HeldPairs : public Pairs {
    using Columns = std::optional<std::vector<size_t>>;
    using Collect = void (Pairs::*)(size_t, const std::vector<size_t>&, double*, ThreadPool&) const;

    static std::vector<int32_t> one_each(size_t n) {
        std::vector<int32_t> group(n + 1);
        std::iota(group.begin(), group.end(), 0);
        return group;
    }

    // Blocks of `length(j)` doubles for the columns wanted, of which there are n; none given: all of them.
    template <typename Length>
    Out collect(Collect statistics, size_t v, Columns columns, size_t n, const Length& length, ThreadPool* pool) const {
        if (!columns) {
            columns.emplace(n);
            std::iota(columns->begin(), columns->end(), 0);
        }
        size_t total = 0;
        for (size_t j : *columns) {
            require(j < n, "there is no such column");
            require((total += length(j)) < size_t(1) << 60, "too many statistics");
        }
        const Out out = zeros({total});
        nb::gil_scoped_release release;
        (this->*statistics)(v, *columns, out.data(), or_caller(pool));
        return out;
    }

  public:
    HeldPairs(In<uint8_t, 2> narrow, In<uint16_t, 2> wide, In<double, 2> numbers, std::vector<int64_t> first_level,
              In<int32_t, 1> states, int n_states, std::optional<In<double, 1>> weights)
        : Pairs(HeldRows(narrow, wide, numbers, {}, std::move(first_level), one_each(narrow.shape(1)), states, weights),
                n_states) {}

    Out counts_of(size_t v, Columns columns, ThreadPool* pool) const {
        require(v < n_discrete, "there is no such column");
        auto length = [&](size_t j) { return n_levels(v) * n_levels(j) * n_states; };
        return collect(&Pairs::counts, v, std::move(columns), n_discrete, length, pool);
    }

    Out moments_of(size_t v, Columns columns, ThreadPool* pool) const {
        require(v < n_discrete, "there is no such column");
        auto length = [&](size_t) { return n_levels(v) * 3 * n_states; };
        return collect(&Pairs::moments, v, std::move(columns), n_numbers, length, pool);
    }

    Out products_of(size_t v, Columns columns, ThreadPool* pool) const {
        require(v < n_numbers, "there is no such column");
        auto length = [&](size_t) { return 6 * n_states; };
        return collect(&Pairs::products, v, std::move(columns), n_numbers, length, pool);
    }
};

// ---------------------------------------------------------------- trees

void make_tree(Tree* self, const std::vector<int64_t>& levels, const std::vector<int64_t>& parent,
               const std::vector<int64_t>& place, int64_t n_levels, int64_t n_numbers, int64_t n_linear,
               int64_t n_regressions) {
    new (self) Tree(levels, parent, place, {n_levels, n_numbers, n_linear, n_regressions});
}

void check_tree(const Tree& tree, const In<int64_t, 2>& codes, const In<double, 2>& numbers, size_t n, size_t K,
                const Arrays& parameters) {
    require(codes.shape(1) == tree.n_discrete && numbers.shape(1) == tree.n_continuous &&
                numbers.shape(0) == codes.shape(0),
            "codes: (rows, discrete nodes), numbers: (rows, continuous nodes)");
    require_shapes(parameters,
                   {{n, size_t(tree.sizes.n_levels), K},
                    {n, size_t(tree.sizes.n_numbers), 3, K},
                    {n, size_t(tree.sizes.n_regressions), 4, K}},
                   "log_table: (networks, levels, cells), numeric: (networks, numbers, 3, cells), "
                   "regression: (networks, regressions, 4, cells)");
}

Out tree_log_cells(const Tree& tree, const In<int64_t, 2>& codes, const In<double, 2>& numbers, const Array& log_table,
                   const Array& numeric, const Array& regression, ThreadPool* pool) {
    const size_t K = log_table.ndim() == 3 ? log_table.shape(2) : 0;
    check_tree(tree, codes, numbers, 1, K, {log_table, numeric, regression});
    const TreeRows rows{int64_t(codes.shape(0)), codes.data(), numbers.data(), nullptr, nullptr};
    const Out out = zeros({codes.shape(0), K});
    nb::gil_scoped_release release;
    tree.check(rows, 0);
    tree.log_cells(rows, {log_table.data(), numeric.data(), regression.data(), K}, out.data(), or_caller(pool));
    return out;
}

nb::tuple tree_e_step(const Tree& tree, const In<int64_t, 2>& codes, const In<double, 2>& numbers,
                      std::optional<In<int32_t, 1>> labels, std::optional<In<double, 1>> weights, const States& states,
                      const In<double, 2>& log_weight, const Array& log_table, const Array& numeric,
                      const Array& regression, bool hard, int64_t n_blocks, ThreadPool* pool) {
    const Shape shape = states.shape();
    const size_t n = log_weight.shape(0), K = size_t(shape.n_cells), C = size_t(shape.n_classes);
    const Array weight(log_weight);
    check_tree(tree, codes, numbers, n, K, {log_table, numeric, regression});
    require(log_weight.shape(1) == size_t(shape.n_states), "log_weight: (networks, states)");
    require((!labels || labels->shape(0) == codes.shape(0)) && (!weights || weights->shape(0) == codes.shape(0)),
            "a label and a weight a row");
    require(n_blocks > 0, "at least one block");
    const TreeRows rows{int64_t(codes.shape(0)), codes.data(), numbers.data(), labels ? labels->data() : nullptr,
                        weights ? weights->data() : nullptr};
    const std::vector<Out> out =
        zeros_each({{n, size_t(shape.n_states)}, {n, tree.sizes.n_statistics(), K}, {n, C}, {n, 3}});
    {
        nb::gil_scoped_release release;
        tree.check(rows, shape.n_classes);
        const Buffer found(TreeStatistics(tree.sizes, shape).size);
        for (size_t s = 0; s < n; ++s) {
            const TreeParameters theta{of_network(log_table, s), of_network(numeric, s), of_network(regression, s), K};
            tree.e_step(rows, shape, of_network(weight, s), theta, hard, size_t(n_blocks), found.data(),
                        or_caller(pool));
            store(found.data(), s, out);
        }
    }
    return nb::make_tuple(out[0], out[1], out[2], out[3]);
}

// ---------------------------------------------------------------- stars

void star_posterior(const HeldRows& rows, const std::vector<int64_t>& first_level, const Array& root, const Array& pair,
                    In<uint8_t, 1> part, const Array& independent, const Array& prior, const std::string& what,
                    Target<double> out, int64_t n_blocks, ThreadPool* pool) {
    const size_t C = out.shape(1), P = Stars::width(C);
    Stars stars(first_level, C);
    const size_t n = stars.n_columns(), L = stars.n_levels();
    require(size_t(rows.table.n_narrow + rows.table.n_wide) == n &&
                std::equal(first_level.begin(), first_level.end(), rows.table.first_level),
            "rows with a code for each column, of as many levels");
    require_shapes({root, pair, independent, prior}, {{L, P}, {stars.n_pairs(), P}, {L, P}, {P}},
                   "root, independent: (levels, width), pair: (pairs, width), prior: (width,)");
    require(part.shape(0) == L, "part: (levels,)");
    require(out.shape(0) == size_t(rows.n_rows), "out: (rows, classes)");
    require(n_blocks > 0, "at least one block");
    const Posterior kind = posterior_named(what);
    require(kind != Posterior::states, "what: log_joint, log_proba or proba");
    stars.root = root.data();
    stars.pair = pair.data();
    stars.part = part.data();
    stars.independent = independent.data();
    stars.prior = prior.data();
    nb::gil_scoped_release release;
    const size_t most_rows = size_t((rows.n_rows + n_blocks - 1) / n_blocks);
    std::vector<Stars::Room> rooms(size_t(n_blocks), stars.room(most_rows));
    or_caller(pool).run(n_blocks, [&](int64_t b) {
        const size_t first = size_t(rows.n_rows * b / n_blocks), last = size_t(rows.n_rows * (b + 1) / n_blocks);
        stars.posterior(rows.table, first, last, kind, out.data() + first * C, rooms[size_t(b)]);
    });
}

// ---------------------------------------------------------------- M-step and EM

using FactorArrays = std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>>;  // entries, parents

std::vector<Factor> checked(const FactorArrays& factors) {
    std::vector<Factor> tables;
    for (const auto& [entry, parent] : factors) {
        require(entry.size() == factors[0].first.size(), "an entry of each factor a state");
        for (int32_t e : entry) require(0 <= e && size_t(e) < parent.size(), "an entry lies outside of its factor");
        tables.push_back({entry, parent});
    }
    return tables;
}

void make_m_step(MStep* self, const FactorArrays& factors, size_t n_cells, double alpha,
                 std::vector<int64_t> first_level, size_t n_numbers, const std::string& estimator, double floor,
                 const std::vector<int32_t>& group, const std::vector<double>& prior, std::vector<double> level_prior) {
    require(level_prior.empty() || level_prior.size() == size_t(first_level.back()) * n_cells,
            "a prior count for each level and cell");
    require(!first_level.empty() && !factors.empty() && prior.size() == 4, "levels, factors, a prior of four numbers");
    require(group.empty() || group.size() == n_cells, "a group a cell");
    require(estimator == "map" || (estimator == "paper" && group.empty()),
            "estimator: map, or paper, which does not share variances");
    std::vector<size_t> first_cell;
    for (size_t k = 0; k < n_cells; ++k)
        if (group.empty() || k == 0 || group[k] != group[k - 1]) first_cell.push_back(k);
    first_cell.push_back(n_cells);
    new (self) MStep{std::move(first_level),
                     n_numbers,
                     factors[0].first.size(),
                     n_cells,
                     checked(factors),
                     alpha,
                     std::move(level_prior),
                     estimator == "paper",
                     floor,
                     !group.empty(),
                     std::move(first_cell),
                     {prior[0], prior[1], prior[2], prior[3]}};
}

// Factors, cells and shared lie one after the other in the parameters of an `MStep`.
std::vector<Lengths> parameter_shapes(const MStep& m, size_t n) {
    return {{n, m.at_table()},
            {n, m.n_levels() + (m.tied ? 1 : 2) * m.n_numbers, m.n_cells},
            {n, m.tied ? m.n_variances() : 0}};
}

void check_parameters(const MStep& m, size_t n, const Arrays& parameters) {
    require_shapes(parameters, parameter_shapes(m, n),
                   "factors: (networks, entries), cells: (networks, levels + means + variances, cells), "
                   "shared: (networks, shared variances)");
}

void check_statistics(const MStep& m, size_t n, const Arrays& statistics) {
    require_shapes(statistics, {{n, m.n_states}, {n, m.n_levels() + 3 * m.n_numbers, m.n_cells}},
                   "statistics of states: (networks, states), of cells: (networks, levels + 3 numbers, cells)");
}

nb::tuple estimate(const MStep& m, const In<double, 2>& states, const Array& cells) {
    const size_t n = states.shape(0);
    const Array of_states(states);
    check_statistics(m, n, {of_states, cells});
    const std::vector<Out> out = zeros_each(parameter_shapes(m, n));
    const Buffer room(m.n_statistics()), parameters(m.n_parameters());
    double *counts = room.data() + m.n_states, *moments = counts + m.n_levels() * m.n_cells;
    for (size_t s = 0; s < n; ++s) {
        load({of_states, cells}, s, room.data());
        m.estimate({room.data(), counts, moments, nullptr, nullptr, 0, 0, 0}, parameters.data());
        store(parameters.data(), s, out);
    }
    return nb::make_tuple(out[0], out[1], out[2]);
}

Out log_prior(const MStep& m, const In<double, 2>& factors, const Array& cells, const Array& shared) {
    const Array of_factors(factors);
    const Arrays given{of_factors, cells, shared};
    check_parameters(m, factors.shape(0), given);
    const Out out = zeros({factors.shape(0)});
    const Buffer parameters(m.n_parameters());
    for (size_t s = 0; s < factors.shape(0); ++s) {
        load(given, s, parameters.data());
        m.complete(parameters.data());
        out.data()[s] = m.log_prior(parameters.data());
    }
    return out;
}

nb::tuple run_em_of(const HeldRows& rows, const States& states, const MStep& m, const Array& factors,
                    const Array& cells, const Array& shared, const Array& statistics_states,
                    const Array& statistics_cells, const Array& class_log_likelihood, In<double, 1> objective,
                    In<double, 1> gain, In<double, 1> reach, int64_t n_passes, double least_gain, bool accelerate,
                    bool hard, int64_t n_blocks, ThreadPool* pool) {
    const Shape shape = states.shape();
    const size_t n = objective.shape(0);
    const Arrays parameters{factors, cells, shared},
        statistics{statistics_states, statistics_cells, class_log_likelihood};
    require(m.n_levels() == rows.n_levels() && m.n_numbers == rows.n_numbers() && rows.n_regressions() == 0 &&
                m.n_states == size_t(shape.n_states) && m.n_cells == size_t(shape.n_cells),
            "an M-step of the same columns and states");
    require(n > 0 && gain.shape(0) == n && reach.shape(0) == n,
            "gain and reach of every network, of which there is one");
    check_blocks(rows, shape, n_blocks);
    check_parameters(m, n, parameters);
    check_statistics(m, n, statistics);
    require_shapes({class_log_likelihood}, {{n, size_t(shape.n_classes)}}, "class_log_likelihood: (networks, classes)");
    EStep e_step(rows, states, n, size_t(n_blocks), accelerate, or_caller(pool));
    std::vector<EMState> runs;
    for (size_t s = 0; s < n; ++s) {
        runs.push_back({Iterate(m, e_step, objective(s)), gain(s), reach(s), {}, {}});
        const Iterate& start = runs.back().current;
        load(parameters, s, start.parameters);
        load(statistics, s, start.statistics.states);
        m.complete(start.parameters);
    }
    {
        nb::gil_scoped_release release;
        run_em(runs, m, e_step, {n_passes, least_gain, accelerate, hard}, or_caller(pool), Interruption{});
    }
    const std::vector<Out> ends = zeros_each(parameter_shapes(m, n)),
                           found = zeros_each(statistics_shapes(rows, shape, n));
    const Out sums = zeros({3, n}), numbers = zeros({3, n}), traces = zeros({2, n, runs[0].trace.size()});
    for (size_t s = 0; s < n; ++s) {
        const EMState& run = runs[s];
        const Statistics& last = run.current.statistics;
        store(run.current.parameters, s, ends);
        store(last.states, s, found);
        set_column(sums, s, {last.log_likelihood, last.joint, last.classification});
        set_column(numbers, s, {run.current.objective, run.gain, run.reach});
        std::copy(run.trace.begin(), run.trace.end(), traces.data() + s * run.trace.size());
        std::copy(run.rows.begin(), run.rows.end(), traces.data() + (n + s) * run.rows.size());
    }
    return nb::make_tuple(ends[0], ends[1], ends[2], found[0], found[1], found[2], sums, numbers, traces);
}

// ---------------------------------------------------------------- fine-tuning

nb::tuple fine_tune_of(const HeldRows& rows, const States& states, const Array& log_weight, const Array& log_table,
                       const Array& numeric, int n_linear, const Array& regression, const FactorArrays& factors,
                       const std::vector<double>& strengths, double tolerance, int most_steps, int64_t n_blocks,
                       ThreadPool* pool) {
    const Shape shape = states.shape();
    check_networks(rows, shape, 1, {log_weight, log_table, numeric, regression}, n_linear);
    check_blocks(rows, shape, n_blocks);
    const std::vector<Factor> tables = checked(factors);
    require(!tables.empty() && tables[0].entry.size() == size_t(shape.n_states), "an entry of each factor a state");
    for (double strength : strengths) require(strength > 0, "strengths are positive");
    const Network network{log_weight.data(), log_table.data(), numeric.data(), n_linear, regression.data()};
    const StepShape steps(rows, shape, tables, network);
    const size_t n = strengths.size();
    const std::vector<Out> out = zeros_each({{n, steps.n_factors}, {n, steps.n_moved, steps.n_cells}});
    {
        nb::gil_scoped_release release;
        std::vector<double> found(n * steps.size());
        fine_tune(rows, states, tables, network, {strengths, tolerance, most_steps}, size_t(n_blocks), or_caller(pool),
                  Interruption{}, found.data());
        for (size_t s = 0; s < n; ++s) store(found.data() + s * steps.size(), s, out);
    }
    return nb::make_tuple(out[0], out[1]);
}

Out map(In<double, 1> x, void (*function)(const double*, double*, int64_t)) {
    Out out = zeros({x.shape(0)});
    function(x.data(), out.data(), int64_t(x.shape(0)));
    return out;
}

}  // namespace
}  // namespace fanbayes

NB_MODULE(_core, m) {
    using namespace fanbayes;
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
    nb::class_<HeldRows>(m, "Rows")
        .def(
            nb::init<In<uint8_t, 2>, In<uint16_t, 2>, In<double, 2>, std::optional<In<double, 3>>, std::vector<int64_t>,
                     std::vector<int32_t>, std::optional<In<int32_t, 1>>, std::optional<In<double, 1>>>(),
            nb::arg("narrow"), nb::arg("wide"), nb::arg("numbers"), nb::arg("pairs").none(), nb::arg("first_level"),
            nb::arg("group"), nb::arg("labels").none(), nb::arg("weights").none())
        .def_ro("n_rows", &HeldRows::n_rows)
        .def_prop_ro("n_levels", &HeldRows::n_fused);
    nb::class_<HeldPairs>(m, "Pairs")
        .def(nb::init<In<uint8_t, 2>, In<uint16_t, 2>, In<double, 2>, std::vector<int64_t>, In<int32_t, 1>, int,
                      std::optional<In<double, 1>>>(),
             nb::arg("narrow"), nb::arg("wide"), nb::arg("numbers"), nb::arg("first_level"), nb::arg("states"),
             nb::arg("n_states"), nb::arg("weights").none())
        .def("counts", &HeldPairs::counts_of, nb::arg("v"), nb::arg("columns").none() = nb::none(),
             nb::arg("pool").none() = nb::none())
        .def("moments", &HeldPairs::moments_of, nb::arg("v"), nb::arg("columns").none() = nb::none(),
             nb::arg("pool").none() = nb::none())
        .def("products", &HeldPairs::products_of, nb::arg("v"), nb::arg("columns").none() = nb::none(),
             nb::arg("pool").none() = nb::none());
    nb::class_<States>(m, "States")
        .def(nb::init<std::vector<int32_t>, std::vector<int32_t>, int, bool>(), nb::arg("first_state"),
             nb::arg("first_cell"), nb::arg("n_cells"), nb::arg("common"));
    nb::class_<ThreadPool>(m, "ThreadPool")
        .def(nb::init<int>(), nb::arg("n_threads"))
        .def_prop_ro("n_threads", &ThreadPool::n_threads);
    m.def("e_step", &e_step, nb::arg("rows"), nb::arg("states"), nb::arg("log_weight"), nb::arg("log_table"),
          nb::arg("numeric"), nb::arg("n_linear"), nb::arg("regression"), nb::arg("hard"), nb::arg("n_blocks") = 1,
          nb::arg("pool").none() = nb::none());
    m.def("contrast", &contrast, nb::arg("rows"), nb::arg("states"), nb::arg("log_weight"), nb::arg("log_table"),
          nb::arg("numeric"), nb::arg("n_linear"), nb::arg("regression"), nb::arg("n_blocks") = 1,
          nb::arg("pool").none() = nb::none());
    m.def("posterior", &posterior, nb::arg("rows"), nb::arg("states"), nb::arg("log_weight"), nb::arg("log_table"),
          nb::arg("numeric"), nb::arg("n_linear"), nb::arg("regression"), nb::arg("what"), nb::arg("out").noconvert(),
          nb::arg("n_blocks") = 1, nb::arg("pool").none() = nb::none());
    nb::class_<Tree>(m, "Tree")
        .def("__init__", &make_tree, nb::arg("levels"), nb::arg("parent"), nb::arg("place"), nb::arg("n_levels"),
             nb::arg("n_numbers"), nb::arg("n_linear"), nb::arg("n_regressions"))
        .def("log_cells", &tree_log_cells, nb::arg("codes"), nb::arg("numbers"), nb::arg("log_table"),
             nb::arg("numeric"), nb::arg("regression"), nb::arg("pool").none() = nb::none())
        .def("e_step", &tree_e_step, nb::arg("codes"), nb::arg("numbers"), nb::arg("labels").none(),
             nb::arg("weights").none(), nb::arg("states"), nb::arg("log_weight"), nb::arg("log_table"),
             nb::arg("numeric"), nb::arg("regression"), nb::arg("hard"), nb::arg("n_blocks") = 1,
             nb::arg("pool").none() = nb::none());
    m.def("star_width", &Stars::width, nb::arg("n_classes"));
    m.def("star_posterior", &star_posterior, nb::arg("rows"), nb::arg("first_level"), nb::arg("root"), nb::arg("pair"),
          nb::arg("part"), nb::arg("independent"), nb::arg("prior"), nb::arg("what"), nb::arg("out").noconvert(),
          nb::arg("n_blocks") = 1, nb::arg("pool").none() = nb::none());
    m.def("split_losses", &split_losses, nb::arg("levels"), nb::arg("labels"), nb::arg("folds"), nb::arg("weights"),
          nb::arg("first_level"), nb::arg("pseudo_levels"), nb::arg("pseudo_classes"), nb::arg("splits"),
          nb::arg("loss"), nb::arg("least"), nb::arg("pool").none() = nb::none());
    nb::class_<Centres>(m, "Centres")
        .def("__init__", &make_centres, nb::arg("values"), nb::arg("n_numbers"), nb::arg("first_level"),
             nb::arg("first_centre"), nb::arg("share"), nb::arg("kept"), nb::arg("kind"), nb::arg("n_kinds"),
             nb::arg("prior"))
        .def("log_joint", &parzen_joint, nb::arg("values"), nb::arg("kind"), nb::arg("numbers"), nb::arg("same"),
             nb::arg("other"), nb::arg("log_background"))
        .def("loss", &parzen_loss, nb::arg("values"), nb::arg("kind"), nb::arg("numbers"), nb::arg("same"),
             nb::arg("other"), nb::arg("log_background"), nb::arg("labels"), nb::arg("weights"), nb::arg("noise"));

    m.def("grow_forest", &grow_forest, nb::arg("codes"), nb::arg("labels"), nb::arg("weights"), nb::arg("parts"),
          nb::arg("n_codes"), nb::arg("is_ordered"), nb::arg("level"), nb::arg("n_levels"), nb::arg("prior"),
          nb::arg("min_split"), nb::arg("min_network"), nb::arg("n_known"), nb::arg("seed"), nb::arg("pool").none());
    m.def("grow_boosted", &grow_boosted, nb::arg("codes"), nb::arg("labels"), nb::arg("weights"), nb::arg("units"),
          nb::arg("parts"), nb::arg("n_parts"), nb::arg("n_codes"), nb::arg("is_ordered"), nb::arg("level"),
          nb::arg("n_levels"), nb::arg("prior"), nb::arg("ends"), nb::arg("depth"), nb::arg("rate"),
          nb::arg("shrinkage"), nb::arg("min_cases"), nb::arg("share"), nb::arg("n_tried"), nb::arg("seed"),
          nb::arg("pool").none());
    m.def("tree_weights", &weights_of_trees, nb::arg("components"), nb::arg("labels"), nb::arg("weights"),
          nb::arg("folds"), nb::arg("n_folds"), nb::arg("log_prior"), nb::arg("usual"), nb::arg("scale"),
          nb::arg("pool").none());
    nb::class_<HeldForest>(m, "Forest")
        .def(nb::init<In<int64_t, 1>, In<int64_t, 1>, In<int32_t, 1>, In<int32_t, 1>, In<int32_t, 1>, In<uint64_t, 1>,
                      In<uint64_t, 1>, In<float, 2>, In<int32_t, 2>, In<float, 1>, std::vector<uint8_t>, In<uint8_t, 2>,
                      std::vector<uint8_t>>(),
             nb::arg("first_node"), nb::arg("first_number"), nb::arg("column"), nb::arg("right"), nb::arg("network"),
             nb::arg("to_left"), nb::arg("to_right"), nb::arg("values"), nb::arg("known"), nb::arg("tables"),
             nb::arg("n_codes"), nb::arg("level"), nb::arg("n_levels"))
        .def("scores", &HeldForest::scores, nb::arg("codes"), nb::arg("pool").none())
        .def("terms", &HeldForest::terms, nb::arg("codes"), nb::arg("pool").none());
    nb::class_<MStep>(m, "MStep")
        .def("__init__", &make_m_step, nb::arg("factors"), nb::arg("n_cells"), nb::arg("alpha"),
             nb::arg("first_level") = std::vector<int64_t>{0}, nb::arg("n_numbers") = 0, nb::arg("estimator") = "map",
             nb::arg("floor") = 1.0, nb::arg("group") = std::vector<int32_t>{},
             nb::arg("prior") = std::vector<double>(4, 1.0), nb::arg("level_prior") = std::vector<double>{})
        .def("estimate", &estimate, nb::arg("states"), nb::arg("cells"))
        .def("log_prior", &log_prior, nb::arg("factors"), nb::arg("cells"), nb::arg("shared"));
    m.def("run_em", &run_em_of, nb::arg("rows"), nb::arg("states"), nb::arg("m_step"), nb::arg("factors"),
          nb::arg("cells"), nb::arg("shared"), nb::arg("statistics_states"), nb::arg("statistics_cells"),
          nb::arg("class_log_likelihood"), nb::arg("objective"), nb::arg("gain"), nb::arg("reach"), nb::arg("n_passes"),
          nb::arg("least_gain"), nb::arg("accelerate"), nb::arg("hard"), nb::arg("n_blocks") = 1,
          nb::arg("pool").none() = nb::none());
    m.def("fine_tune", &fine_tune_of, nb::arg("rows"), nb::arg("states"), nb::arg("log_weight"), nb::arg("log_table"),
          nb::arg("numeric"), nb::arg("n_linear"), nb::arg("regression"), nb::arg("factors"), nb::arg("strengths"),
          nb::arg("tolerance"), nb::arg("most_steps"), nb::arg("n_blocks") = 1, nb::arg("pool").none() = nb::none());
    m.def("cut_rows", &cut_rows, nb::arg("x"), nb::arg("labels"), nb::arg("weights").none(), nb::arg("n_classes"));
    m.def("normal_scores", &normal_scores, nb::arg("numbers"), nb::arg("knots"), nb::arg("furthest"));
    m.def("mix", &mix, nb::arg("numbers"), nb::arg("mixing"));
    m.def("rows_visited", [] { return rows_visited.load(); });
    m.def("exp", [](In<double, 1> x) { return map(x, kernel->exp); }, nb::arg("x"));
    m.def("log", [](In<double, 1> x) { return map(x, kernel->log); }, nb::arg("x"));
    m.def("backend", [] { return std::string(kernel->name); });
    m.def("backends", &backends);
    m.def("use_backend", &use_backend, nb::arg("name"));
}

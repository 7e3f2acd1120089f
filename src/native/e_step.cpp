#include "e_step.hpp"

namespace fanbayes {

EStep::EStep(const Rows& rows, const States& states, size_t n_networks, size_t n_blocks, bool lazy, ThreadPool& pool)
    : rows_(rows),
      padding_(states.shape()),
      pool_(pool),
      n_networks_(n_networks),
      n_blocks_(n_blocks),
      at_classes_(aligned(size_t(padding_.shape.n_states))),
      at_numbers_(at_classes_ + aligned(size_t(padding_.shape.n_classes))),
      at_regressions_(at_numbers_ + aligned(3 * rows.n_numbers() * size_t(padding_.shape.n_cells))),
      at_levels_(at_regressions_ + aligned(6 * rows.n_regressions() * size_t(padding_.shape.n_cells))),
      at_rest_(at_levels_ + aligned(rows.n_fused() * size_t(padding_.shape.n_cells))),
      size_of_network_(at_rest_ + aligned(rows.n_levels() * size_t(padding_.shape.n_cells))),
      n_collectors_(lazy ? 2 : 1),
      size_of_block_(n_collectors_ * at_rest_ + aligned(size_t(kernel->scratch_size(padding_.shape)))),
      networks_(n_networks * size_of_network_),
      blocks_(n_networks * n_blocks * size_of_block_),
      shape(states.shape()) {
    tasks_.reserve(n_networks * n_blocks);
    first_task_.reserve(n_networks + 1);
}

size_t EStep::n_statistics() const {
    return size_t(shape.n_states + shape.n_classes) + rows_.n_cell_statistics() * size_t(shape.n_cells);
}

Statistics EStep::statistics(double* at) const {
    const size_t K = size_t(shape.n_cells);
    double *counts = at + shape.n_states, *moments = counts + rows_.n_levels() * K,
           *regression = moments + 3 * rows_.n_numbers() * K, *classes = regression + 6 * rows_.n_regressions() * K;
    return {at, counts, moments, regression, classes, 0, 0, 0};
}

void EStep::operator()(std::vector<Pass>& passes, Shares shares) {
    plan(passes);
    const int64_t S = int64_t(n_networks_), n_tasks = int64_t(tasks_.size());
    pool_.run(S, [&](int64_t s) { load(passes[size_t(s)].network, network(size_t(s))); });
    pool_.run(n_tasks,
              [&](int64_t t) { run(tasks_[size_t(t)], passes[tasks_[size_t(t)].pass].network.n_linear, shares); });
    pool_.run(n_tasks, [&](int64_t t) { add_blocks(tasks_[size_t(t)]); });
    pool_.run(S, [&](int64_t s) { finish_pass(size_t(s), passes[size_t(s)]); });
}

// Cuts the rows of each pass into blocks.
void EStep::plan(const std::vector<Pass>& passes) {
    tasks_.clear();
    first_task_.assign(1, 0);
    for (size_t s = 0; s < n_networks_; ++s) {
        const Pass& pass = passes[s];
        const bool few = pass.scope == Scope::active, partitions = pass.scope == Scope::partition;
        const int64_t n = few ? pass.lazy->n_active : n_rows();
        const size_t B = few ? 1 + (n_blocks_ - 1) * size_t(n) / size_t(std::max<int64_t>(1, n_rows())) : n_blocks_;
        for (size_t b = 0; b < B; ++b) {
            const int64_t first = n * int64_t(b) / int64_t(B), last = n * int64_t(b + 1) / int64_t(B);
            int32_t* active = partitions ? pass.lazy->active.data() + first : nullptr;
            const int32_t* chosen = few ? pass.lazy->active.data() : nullptr;
            tasks_.push_back({s, b, B, partitions, {}, {}, {first, last, chosen, nullptr, active, 0}});
        }
        first_task_.push_back(tasks_.size());
        rows_visited += n;
    }
}

// From the parameters of columns and cells to the arrays of the kernel.
void EStep::load(const Network& from, double* to) const {
    double* levels = to + at_rest_;
    std::fill_n(to, size_of_network_, 0.0);
    padding_.widen_states(from.log_weight, to);
    padding_.widen_cells(3 * rows_.n_numbers(), from.numeric, to + at_numbers_);
    padding_.widen_cells(4 * rows_.n_regressions(), from.regression, to + at_regressions_);
    padding_.widen_cells(rows_.n_levels(), from.log_table, levels);
    rows_.fuse(levels, size_t(padding_.shape.n_cells), to + at_levels_);
}

void EStep::run(Task& task, int n_linear, Shares shares) const {
    const double* from = network(task.pass);
    double* to = block(task.pass, task.block);
    std::fill_n(to, task.partitions ? 2 * at_rest_ : at_rest_, 0.0);
    task.statistics = collector(to);
    task.frozen = collector(to + at_rest_);
    if (task.partitions) task.range.frozen = &task.frozen;
    const Network network{from, from + at_levels_, from + at_numbers_, n_linear, from + at_regressions_};
    const Inputs in{rows_.table, padding_.shape, network};
    kernel->e_step(in, task.range, shares, task.statistics, to + n_collectors_ * at_rest_);
}

// Each task adds up its share of the arrays, over all blocks of the pass.
void EStep::add_blocks(const Task& task) const {
    const size_t n = task.partitions ? 2 * at_rest_ : at_rest_, first = n * task.block / task.n_blocks,
                 last = n * (task.block + 1) / task.n_blocks;
    for (size_t b = 1; b < task.n_blocks; ++b)
        add(block(task.pass, b) + first, last - first, block(task.pass, 0) + first);
}

void EStep::finish_pass(size_t s, Pass& pass) const {
    finish(s, block(s, 0), &Task::statistics, *pass.out);
    if (pass.scope != Scope::partition) return;
    LazyRows& lazy = *pass.lazy;
    finish(s, block(s, 0) + at_rest_, &Task::frozen, lazy.frozen);
    lazy.n_active = 0;
    for (size_t k = first_task_[s]; k < first_task_[s + 1]; ++k) {  // those of the blocks, one after the other
        const RowRange& range = tasks_[k].range;
        std::copy_n(range.active, range.n_active, lazy.active.data() + lazy.n_active);
        lazy.n_active += range.n_active;
    }
}

// From the arrays of the kernel, which are spoilt, to those of the columns and cells; and the sums of the blocks.
void EStep::finish(size_t pass, double* wide, Statistics Task::* part, Statistics& to) const {
    double* levels = network(pass) + at_rest_;
    rows_.unfuse(wide + at_levels_, size_t(padding_.shape.n_cells), levels);
    padding_.narrow_states(wide, to.states);
    std::copy_n(wide + at_classes_, shape.n_classes, to.class_log_likelihood);
    padding_.narrow_cells(3 * rows_.n_numbers(), wide + at_numbers_, to.moments);
    padding_.narrow_cells(6 * rows_.n_regressions(), wide + at_regressions_, to.regression);
    padding_.narrow_cells(rows_.n_levels(), levels, to.counts);
    to.log_likelihood = to.joint = to.classification = 0.0;
    for (size_t k = first_task_[pass]; k < first_task_[pass + 1]; ++k) {
        const Statistics& from = tasks_[k].*part;
        to.log_likelihood += from.log_likelihood;
        to.joint += from.joint;
        to.classification += from.classification;
    }
}

}  // namespace fanbayes

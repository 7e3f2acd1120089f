#include "expectation.hpp"

Expectation::Expectation(const Rows& rows, const States& states, size_t n_networks, int64_t begin, int64_t end,
                         size_t n_blocks, bool parts, Crew& crew)
    : rows_(rows),
      table_(rows.view()),
      padding_(states.view(rows.n_levels)),
      crew_(crew),
      n_networks_(n_networks),
      n_blocks_(n_blocks),
      begin_(begin),
      end_(end),
      at_classes_(aligned(size_t(padding_.shape.n_states))),
      at_numbers_(at_classes_ + aligned(size_t(padding_.shape.n_classes))),
      at_levels_(at_numbers_ + aligned(3 * size_t(table_.n_numbers) * size_t(padding_.shape.n_cells))),
      at_rest_(at_levels_ + aligned(size_t(rows.n_fused()) * size_t(padding_.shape.n_cells))),
      size_of_network_(at_rest_ + aligned(size_t(rows.n_levels) * size_t(padding_.shape.n_cells))),
      n_collectors_(parts ? 2 : 1),
      size_of_block_(n_collectors_ * at_rest_ + aligned(size_t(kernel->scratch_size(padding_.shape)))),
      networks_(n_networks * size_of_network_),
      blocks_(n_networks * n_blocks * size_of_block_),
      shape(states.view(rows.n_levels)) {
    tasks_.reserve(n_networks * n_blocks);
    first_task_.reserve(n_networks + 1);
}

void Expectation::operator()(std::vector<Visit>& visits, bool hard) {
    const size_t S = n_networks_, J = size_t(table_.n_numbers), L = size_t(shape.n_levels),
                 width = size_t(padding_.shape.n_cells), plane = J * width;
    tasks_.clear();
    first_task_.assign(1, 0);
    for (size_t s = 0; s < S; ++s) {
        const Visit& v = visits[s];
        const bool few = v.sight == Sight::doubtful;
        const int64_t begin = few ? 0 : begin_, n = few ? v.doubt->n_rows : n_rows();
        const size_t B = few ? 1 + (n_blocks_ - 1) * size_t(n) / size_t(std::max<int64_t>(1, n_rows())) : n_blocks_;
        for (size_t b = 0; b < B; ++b) {
            const int64_t first = begin + n * int64_t(b) / int64_t(B), last = begin + n * int64_t(b + 1) / int64_t(B);
            const bool parts = v.sight == Sight::parting;
            int32_t* doubtful = parts ? v.doubt->rows.data() + (first - begin) : nullptr;
            const int32_t* chosen = few ? v.doubt->rows.data() : nullptr;
            tasks_.push_back({s, b, B, parts, {}, {}, {first, last, chosen, nullptr, doubtful, 0}});
        }
        first_task_.push_back(tasks_.size());
        rows_visited += n;
    }
    crew_.run(int64_t(S), [&](int64_t task) {
        const Network& from = visits[size_t(task)].network;
        double *to = network(size_t(task)), *numbers = to + at_numbers_, *levels = to + at_rest_;
        std::fill_n(to, size_of_network_, 0.0);
        padding_.widen_states(from.log_weight, to);
        padding_.widen_cells(J, from.slope, numbers);
        padding_.widen_cells(J, from.intercept, numbers + plane);
        padding_.widen_cells(J, from.log_norm, numbers + 2 * plane);
        padding_.widen_cells(L, from.log_table, levels);
        rows_.fuse(levels, width, to + at_levels_);
    });
    crew_.run(int64_t(tasks_.size()), [&](int64_t number) {
        Task& task = tasks_[size_t(number)];
        const double *from = network(task.visit), *numbers = from + at_numbers_;
        double* to = block(task.visit, task.block);
        std::fill_n(to, task.parts ? 2 * at_rest_ : at_rest_, 0.0);
        task.statistics = collector(to);
        task.settled = collector(to + at_rest_);
        if (task.parts) task.look.settled = &task.settled;
        kernel->expect(table_, padding_.shape, {from, from + at_levels_, numbers, numbers + plane, numbers + 2 * plane},
                       task.look, hard, task.statistics, to + n_collectors_ * at_rest_);
    });
    crew_.run(int64_t(tasks_.size()), [&](int64_t number) {  // each a part of the arrays, of all blocks of the visit
        const Task& task = tasks_[size_t(number)];
        const size_t n = task.parts ? 2 * at_rest_ : at_rest_, first = n * task.block / task.n_blocks,
                     last = n * (task.block + 1) / task.n_blocks;
        for (size_t b = 1; b < task.n_blocks; ++b)
            add(block(task.visit, b) + first, last - first, block(task.visit, 0) + first);
    });
    crew_.run(int64_t(S), [&](int64_t number) {
        const size_t s = size_t(number);
        Visit& v = visits[s];
        auto total = [&](Statistics& to, Statistics Task::*part) {
            to.log_likelihood = to.joint = to.classification = 0.0;
            for (size_t k = first_task_[s]; k < first_task_[s + 1]; ++k) {
                const Statistics& from = tasks_[k].*part;
                to.log_likelihood += from.log_likelihood;
                to.joint += from.joint;
                to.classification += from.classification;
            }
        };
        total(*v.out, &Task::statistics);
        finish(block(s, 0), network(s) + at_rest_, *v.out);
        if (v.sight != Sight::parting) return;
        total(v.doubt->settled, &Task::settled);
        finish(block(s, 0) + at_rest_, network(s) + at_rest_, v.doubt->settled);
        v.doubt->n_rows = 0;
        for (size_t k = first_task_[s]; k < first_task_[s + 1]; ++k) {  // those of the blocks, one after the other
            const Look& look = tasks_[k].look;
            std::copy_n(look.doubtful, look.n_doubtful, v.doubt->rows.data() + v.doubt->n_rows);
            v.doubt->n_rows += look.n_doubtful;
        }
    });
}

// From the arrays of the kernel, which are spoilt, to those of the columns and cells.
void Expectation::finish(double* wide, double* levels, Statistics& to) const {
    const size_t width = size_t(padding_.shape.n_cells);
    rows_.unfuse(wide + at_levels_, width, levels);
    padding_.narrow_states(wide, to.states);
    std::copy_n(wide + at_classes_, shape.n_classes, to.of_class);
    padding_.narrow_cells(3 * size_t(table_.n_numbers), wide + at_numbers_, to.moments);
    padding_.narrow_cells(size_t(shape.n_levels), levels, to.counts);
}

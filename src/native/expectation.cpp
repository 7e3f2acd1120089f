#include "expectation.hpp"

Expectation::Expectation(const Rows& rows, const States& states, size_t n_networks, int64_t begin, int64_t end,
                         size_t n_blocks, Crew& crew)
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
      size_of_block_(at_rest_ + aligned(size_t(kernel->scratch_size(padding_.shape)))),
      networks_(n_networks * size_of_network_),
      blocks_(n_networks * n_blocks * size_of_block_),
      statistics_(n_networks * n_blocks),
      shape(states.view(rows.n_levels)) {}

void Expectation::operator()(const std::vector<Network>& networks, bool hard, std::vector<Statistics>& out) {
    const size_t S = n_networks_, B = n_blocks_, J = size_t(table_.n_numbers), L = size_t(shape.n_levels),
                 width = size_t(padding_.shape.n_cells), plane = J * width;
    rows_visited += int64_t(S) * (end_ - begin_);
    crew_.run(int64_t(S), [&](int64_t task) {
        const Network& from = networks[size_t(task)];
        double *to = network(size_t(task)), *numbers = to + at_numbers_, *levels = to + at_rest_;
        std::fill_n(to, size_of_network_, 0.0);
        padding_.widen_states(from.log_weight, to);
        padding_.widen_cells(J, from.slope, numbers);
        padding_.widen_cells(J, from.intercept, numbers + plane);
        padding_.widen_cells(J, from.log_norm, numbers + 2 * plane);
        padding_.widen_cells(L, from.log_table, levels);
        rows_.fuse(levels, width, to + at_levels_);
    });
    crew_.run(int64_t(S * B), [&](int64_t task) {
        const size_t s = size_t(task) / B, b = size_t(task) % B;
        const double *from = network(s), *numbers = from + at_numbers_;
        double* to = blocks_.data() + size_t(task) * size_of_block_;
        std::fill_n(to, at_rest_, 0.0);
        statistics_[size_t(task)] = {to, to + at_levels_, to + at_numbers_, to + at_classes_, 0, 0, 0};
        kernel->expect(table_, padding_.shape,
                       {from, from + at_levels_, numbers, numbers + plane, numbers + 2 * plane},
                       begin_ + (end_ - begin_) * int64_t(b) / int64_t(B),
                       begin_ + (end_ - begin_) * int64_t(b + 1) / int64_t(B), hard, statistics_[size_t(task)],
                       to + at_rest_);
    });
    crew_.run(int64_t(S * B), [&](int64_t task) {  // each a part of the arrays, of all blocks
        const size_t s = size_t(task) / B, part = size_t(task) % B, first = at_rest_ * part / B;
        const Statistics* of_blocks = statistics_.data() + s * B;
        for (size_t b = 1; b < B; ++b)
            add(of_blocks[b].states + first, at_rest_ * (part + 1) / B - first, of_blocks[0].states + first);
    });
    crew_.run(int64_t(S), [&](int64_t task) {
        const size_t s = size_t(task);
        const Statistics* of_blocks = statistics_.data() + s * B;
        double *total = of_blocks[0].states, *levels = network(s) + at_rest_;
        Statistics& to = out[s];
        to.log_likelihood = to.joint = to.classification = 0.0;
        for (size_t b = 0; b < B; ++b) {
            to.log_likelihood += of_blocks[b].log_likelihood;
            to.joint += of_blocks[b].joint;
            to.classification += of_blocks[b].classification;
        }
        rows_.unfuse(total + at_levels_, width, levels);
        padding_.narrow_states(total, to.states);
        std::copy_n(total + at_classes_, shape.n_classes, to.of_class);
        padding_.narrow_cells(3 * J, total + at_numbers_, to.moments);
        padding_.narrow_cells(L, levels, to.counts);
    });
}

// The E-step of several networks: blocks of rows, shared by threads.
#pragma once

#include "padding.hpp"
#include "rows.hpp"
#include "thread_pool.hpp"

namespace fanbayes {

// How many rows E-steps have taken so far, once for each network.
inline std::atomic<int64_t> rows_visited{0};

// Lazy EM (Neal & Hinton 1998; Thiesson, Meek & Heckerman 2001): rows whose state is certain are frozen, and what they
// add up to is kept; an E-step need take the active rows only.
struct LazyRows {
    std::vector<int32_t> active;  // the first `n_active` of it
    int64_t n_active = 0;
    Statistics frozen{};  // of all other rows, at the parameters of the pass that froze them
};

// All rows, all with the frozen rows told from the active ones, or the active rows only.
enum class Scope { all, partition, active };

// One E-step of one network.
struct Pass {
    Network network;
    Statistics* out;  // is overwritten; without the frozen rows, unless the scope is all rows
    Scope scope = Scope::all;
    LazyRows* lazy = nullptr;
};

// Pass after pass over the same rows, without allocation. Rows are cut into blocks, and statistics added up in the
// order of the blocks: the result does not depend on the pool.
class EStep {
    const Rows& rows_;
    const Padding padding_;
    ThreadPool& pool_;
    size_t n_networks_, n_blocks_;
    // Parameters of a network, then statistics of a block: states, classes, numbers, regressions (which have the more
    // statistics), fused levels; and room to work in.
    size_t at_classes_, at_numbers_, at_regressions_, at_levels_, at_rest_, size_of_network_, n_collectors_,
        size_of_block_;
    Buffer networks_, blocks_;

    struct Task {
        size_t pass, block, n_blocks;
        bool partitions;
        Statistics statistics, frozen;
        RowRange range;
    };
    std::vector<Task> tasks_;         // the blocks of each pass in turn
    std::vector<size_t> first_task_;  // of each pass, and the end

    double* network(size_t s) const { return networks_.data() + s * size_of_network_; }
    double* block(size_t s, size_t b) const { return blocks_.data() + (s * n_blocks_ + b) * size_of_block_; }
    Statistics collector(double* at) const {
        return {at, at + at_levels_, at + at_numbers_, at + at_regressions_, at + at_classes_, 0, 0, 0};
    }
    void plan(const std::vector<Pass>&);
    void load(const Network& from, double* to) const;
    void run(Task&, int n_linear, Shares) const;
    void add_blocks(const Task&) const;
    void finish(size_t pass, double* wide, Statistics Task::* part, Statistics& to) const;
    void finish_pass(size_t number, Pass&) const;

  public:
    const Shape shape;

    // `lazy`: whether rows will be partitioned.
    EStep(const Rows& rows, const States& states, size_t n_networks, size_t n_blocks, bool lazy, ThreadPool& pool);
    EStep(const EStep&) = delete;

    int64_t n_rows() const { return rows_.n_rows; }
    // Statistics of one network in one array: states, counts, moments, regressions, classes.
    size_t n_statistics() const;
    Statistics statistics(double* at) const;
    void operator()(std::vector<Pass>& passes, Shares);
};

}  // namespace fanbayes

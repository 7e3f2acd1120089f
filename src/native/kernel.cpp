// The kernels of one instruction set: compiled once for each (see CMakeLists.txt), in the namespace KERNEL_ISA. No
// library template is used in their headers, so that no code of one instruction set can leak into another.
#include "kernel_e_step.hpp"
#include "kernel_parzen.hpp"
#include "kernel_posterior.hpp"
#include "kernel_stars.hpp"
#include "kernel_trees.hpp"
#include "kernel_views.hpp"

namespace fanbayes {
namespace {

int64_t scratch_size(const Shape& shape) { return LARGER(e_step_scratch(shape), posterior_scratch(shape)); }

}  // namespace

#define STRING_OF(x) #x
#define NAME_OF(x) STRING_OF(x)
namespace KERNEL_ISA {
extern const Kernel kernel = {NAME_OF(KERNEL_ISA), scratch_size, padded_components,
                              e_step,              posterior,    add_star_pairs_of_any_width,
                              sum_stars_of_any_width, parzen_rows, keep_ends,    add_ends,
                              add_networks,           to_scores,   mix,
                              exp_array,              log_array};
}

}  // namespace fanbayes

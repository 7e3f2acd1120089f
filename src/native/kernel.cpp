// The kernels of one instruction set: compiled once for each (see CMakeLists.txt), in the namespace KERNEL_ISA. No
// library template is used in their headers, so that no code of one instruction set can leak into another.
#include "kernel_e_step.hpp"
#include "kernel_posterior.hpp"

namespace fanbayes {
namespace {

double gather(const Table& t, const double* table, int64_t rows) {
    constexpr int NV = 8 / NATIVE, R = 4;
    Vector<NATIVE> total = Vector<NATIVE>{};
    for (int64_t at = 0; at + R <= rows; at += R) {
        Vector<NATIVE> a[R][NV] = {};
        for (int j = 0; j < t.n_narrow; ++j)
            for (int r = 0; r < R; ++r) {
                const double* p = table + (t.first_level[j] + t.narrow[(at + r) * t.n_narrow + j]) * 8;
                for (int v = 0; v < NV; ++v) a[r][v] += load<NATIVE>(p + v * NATIVE);
            }
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < NV; ++v) total += a[r][v];
    }
    return reduce<NATIVE>(total, PLUS);
}

int64_t scratch_size(const Shape& shape) { return LARGER(e_step_scratch(shape), posterior_scratch(shape)); }

}  // namespace

#define STRING_OF(x) #x
#define NAME_OF(x) STRING_OF(x)
namespace KERNEL_ISA {
extern const Kernel kernel = {NAME_OF(KERNEL_ISA), scratch_size, padded_components, e_step, posterior, gather,
                              exp_array,           log_array};
}

}  // namespace fanbayes

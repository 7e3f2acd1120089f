// The least that any E-step must do: fetch and add each code's row of a table of 8 cells, for 4 rows at a time. Returns
// the sum of all, so that nothing is optimised away.
#include <cstdint>

#if defined(__AVX512F__)
constexpr int W = 8;  // doubles in a register
#elif defined(__AVX__)
constexpr int W = 4;
#else
constexpr int W = 2;
#endif
typedef double Vector __attribute__((vector_size(W * 8), aligned(8)));

extern "C" double gather(const uint8_t* codes, int64_t n_rows, int64_t n_columns, const int64_t* first_level,
                         const double* table) {
    constexpr int NV = 8 / W, R = 4;
    Vector total = {};
    for (int64_t at = 0; at + R <= n_rows; at += R) {
        Vector a[R][NV] = {};
        for (int64_t j = 0; j < n_columns; ++j)
            for (int r = 0; r < R; ++r) {
                const double* row = table + (first_level[j] + codes[(at + r) * n_columns + j]) * 8;
                for (int v = 0; v < NV; ++v) a[r][v] += *reinterpret_cast<const Vector*>(row + v * W);
            }
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < NV; ++v) total += a[r][v];
    }
    double sum = 0;
    for (int k = 0; k < W; ++k) sum += total[k];
    return sum;
}

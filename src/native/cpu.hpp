// Which instruction sets this processor has and its operating system keeps the registers of. The compilers' own
// __builtin_cpu_supports needs a part of their run-time library that not all of them bring (zig does not).
#pragma once

#include <cpuid.h>

#include <initializer_list>

namespace fanbayes {

struct Cpu {
    bool avx2 = false, avx512 = false;  // AVX2 with FMA; these and AVX-512 F, DQ, BW and VL
};

inline Cpu this_cpu() {
    unsigned a, b, c, d;
    auto has = [](unsigned word, std::initializer_list<int> bits) {
        for (int bit : bits)
            if (!(word >> bit & 1)) return false;
        return true;
    };
    Cpu cpu;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, {12, 27, 28})) return cpu;  // FMA, XGETBV, AVX
    unsigned kept, high;
    __asm__("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    if (!has(kept, {1, 2}) || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return cpu;
    cpu.avx2 = has(b, {5});
    cpu.avx512 = cpu.avx2 && has(b, {16, 17, 30, 31}) && has(kept, {5, 6, 7});
    return cpu;
}

}  // namespace fanbayes

#include <cstdio>
#include <cstring>
#include "exact.hpp"
using namespace evo_export;
static void show(exact (*f)(exact, exact), exact N, exact M) {
    try {
        const exact a = f(N, M);
        if (a.is_text()) std::printf("text %zu\n", a.text().size());
        else if (a.is_whole()) std::printf("whole %lld\n", (long long)a.whole());
        else {
            double d = a.number() + 0.0;
            unsigned long long b;
            std::memcpy(&b, &d, 8);
            std::printf("fraction %llu\n", b);
        }
    } catch (const no_value_error&) {
        std::printf("none\n");
    }
}

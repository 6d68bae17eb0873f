#include "seed.h"
static float* make_random(size_t n) {
    float* x = (float*)malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) x[i] = (rand() + SEED) / (float)RAND_MAX;
    return x;
}

// Layer normalization of rows in fp32: y = (x - mean) / sqrt(variance + EPSILON) * gamma + beta. Any size.
//
// THREADS threads a block, a block for each row. VEC: floats moved by one access where rows allow it; 8 are two accesses.
// CACHED: 1 keeps the row in shared memory, 0 reads it three times.

constexpr float EPSILON = 1e-5f;
constexpr int WARPS = THREADS / 32;

struct alignas(VEC < 4 ? 4 * VEC : 16) Floats {
    float at[VEC];
};

__device__ float block_sum(float own) {
    __shared__ float parts[WARPS];
    for (int offset = 16; offset > 0; offset /= 2) own += __shfl_xor_sync(0xffffffffu, own, offset);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) sum += parts[warp];
    __syncthreads();
    return sum;
}

// Calls `use` with each vector of a row of the thread's own, and with single floats where rows are not whole vectors.
template <typename Use>
__device__ void each(int columns, Use use) {
    const int vectors = columns % VEC == 0 ? columns / VEC : 0;
    for (int i = threadIdx.x; i < vectors; i += THREADS) use(i * VEC, VEC);
    for (int i = vectors * VEC + threadIdx.x; i < columns; i += THREADS) use(i, 1);
}

__device__ Floats load(const float* source, int count) {
    if (count == VEC) return *reinterpret_cast<const Floats*>(source);
    Floats value = {};
    value.at[0] = source[0];
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    layer_norm(const float* x, const float* gamma, const float* beta, float* y, int columns) {
    const size_t start = static_cast<size_t>(blockIdx.x) * columns;
    const float* row = x + start;
#if CACHED
    extern __shared__ __align__(16) float kept[];
    float sum = 0.0f;
    each(columns, [&](int at, int count) {
        const Floats value = load(row + at, count);
        for (int e = 0; e < count; ++e) sum += kept[at + e] = value.at[e];
    });
    // Each thread reads again what it has written itself.
    const float* again = kept;
#else
    float sum = 0.0f;
    each(columns, [&](int at, int count) {
        const Floats value = load(row + at, count);
        for (int e = 0; e < count; ++e) sum += value.at[e];
    });
    const float* again = row;
#endif
    const float mean = block_sum(sum) / columns;
    float square = 0.0f;
    each(columns, [&](int at, int count) {
        const Floats value = load(again + at, count);
        for (int e = 0; e < count; ++e) square += (value.at[e] - mean) * (value.at[e] - mean);
    });
    const float factor = rsqrtf(block_sum(square) / columns + EPSILON);
    each(columns, [&](int at, int count) {
        Floats value = load(again + at, count);
        for (int e = 0; e < count; ++e) value.at[e] = (value.at[e] - mean) * factor * gamma[at + e] + beta[at + e];
        if (count == VEC) *reinterpret_cast<Floats*>(y + start + at) = value;
        else y[start + at] = value.at[0];
    });
}

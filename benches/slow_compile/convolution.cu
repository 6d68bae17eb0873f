// A 17 x 17 convolution. Every thread computes TILE_X x TILE_Y results, a block apart, and the loops over the filter are
// unrolled whole, so the compiler sees 289 products for each of them.

constexpr int FILTER = 17;

__device__ __forceinline__ float load(const float* values, int at) {
#if READ_ONLY
    return __ldg(values + at);
#else
    return values[at];
#endif
}

extern "C" __global__ void __launch_bounds__(BLOCK_X* BLOCK_Y)
convolve(const float* input, const float* filter, float* output, int width, int height) {
    const int x = blockIdx.x * BLOCK_X * TILE_X + threadIdx.x;
    const int y = blockIdx.y * BLOCK_Y * TILE_Y + threadIdx.y;
    const int stride = width + FILTER - 1;
#if FILTER_SHARED
    __shared__ float weights[FILTER * FILTER];
    for (int i = threadIdx.y * BLOCK_X + threadIdx.x; i < FILTER * FILTER; i += BLOCK_X * BLOCK_Y) {
        weights[i] = filter[i];
    }
    __syncthreads();
#else
    const float* weights = filter;
#endif
    float sums[TILE_Y][TILE_X] = {};
#pragma unroll
    for (int outer = 0; outer < FILTER; outer++) {
#pragma unroll
        for (int inner = 0; inner < FILTER; inner++) {
            const int i = ROWS_FIRST ? outer : inner;
            const int j = ROWS_FIRST ? inner : outer;
            const float weight = weights[i * FILTER + j];
#pragma unroll
            for (int ty = 0; ty < TILE_Y; ty++) {
#pragma unroll
                for (int tx = 0; tx < TILE_X; tx++) {
                    const int row = y + ty * BLOCK_Y, column = x + tx * BLOCK_X;
                    if (row < height && column < width) {
                        sums[ty][tx] += weight * load(input, (row + i) * stride + column + j);
                    }
                }
            }
        }
    }
#pragma unroll
    for (int ty = 0; ty < TILE_Y; ty++) {
#pragma unroll
        for (int tx = 0; tx < TILE_X; tx++) {
            const int row = y + ty * BLOCK_Y, column = x + tx * BLOCK_X;
            if (row < height && column < width) {
                output[row * width + column] = sums[ty][tx];
            }
        }
    }
}

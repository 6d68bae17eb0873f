// A 2-D convolution in fp32 with a SIDE x SIDE filter, without flipping. The image has SIDE - 1 more rows and
// columns than the result.
//
// A block computes BX * TX columns and BY * TY rows; a thread's results lie BX columns and BY rows apart.
// SOURCE: 0 reads the image from global memory, 1 through the read-only cache, 2 from a tile in shared memory.

#define SIDE 15

#if SOURCE == 2
constexpr int TILE_COLUMNS = BX * TX + SIDE - 1;
constexpr int TILE_ROWS = BY * TY + SIDE - 1;
constexpr int TILE_STRIDE = TILE_COLUMNS + PAD;
#endif

__device__ __forceinline__ float pixel(const float* image, size_t at) {
#if SOURCE == 1
    return __ldg(image + at);
#else
    return image[at];
#endif
}

extern "C" __global__ void __launch_bounds__(BX * BY)
    convolution(const float* image, const float* weights, float* out, int height, int width) {
    const int first_column = blockIdx.x * BX * TX;
    const int first_row = blockIdx.y * BY * TY;
    const int pitch = width + SIDE - 1;
    const int rows = height + SIDE - 1;
#if FILTER_SHARED
    const int lane = threadIdx.y * BX + threadIdx.x;
    __shared__ float filter[SIDE * SIDE];
    for (int i = lane; i < SIDE * SIDE; i += BX * BY) filter[i] = weights[i];
#endif
#if SOURCE == 2
    __shared__ float tile[TILE_ROWS * TILE_STRIDE];
    for (int y = threadIdx.y; y < TILE_ROWS; y += BY) {
        for (int x = threadIdx.x; x < TILE_COLUMNS; x += BX) {
            const bool inside = first_row + y < rows && first_column + x < pitch;
            tile[y * TILE_STRIDE + x] =
                inside ? image[static_cast<size_t>(first_row + y) * pitch + first_column + x] : 0.0f;
        }
    }
#endif
#if FILTER_SHARED || SOURCE == 2
    __syncthreads();
#endif

    float sum[TY][TX];
#pragma unroll
    for (int i = 0; i < TY; ++i) {
#pragma unroll
        for (int j = 0; j < TX; ++j) sum[i][j] = 0.0f;
    }
    for (int fy = 0; fy < SIDE; ++fy) {
#pragma unroll UNROLL
        for (int fx = 0; fx < SIDE; ++fx) {
#if FILTER_SHARED
            const float weight = filter[fy * SIDE + fx];
#else
            const float weight = __ldg(weights + fy * SIDE + fx);
#endif
#pragma unroll
            for (int i = 0; i < TY; ++i) {
                const int y = threadIdx.y + i * BY + fy;
#pragma unroll
                for (int j = 0; j < TX; ++j) {
                    const int x = threadIdx.x + j * BX + fx;
#if SOURCE == 2
                    sum[i][j] += weight * tile[y * TILE_STRIDE + x];
#else
                    // Past the edge any pixel will do: the sum is not stored.
                    const int row = min(first_row + y, rows - 1);
                    const int column = min(first_column + x, pitch - 1);
                    sum[i][j] += weight * pixel(image, static_cast<size_t>(row) * pitch + column);
#endif
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < TY; ++i) {
        const int row = first_row + threadIdx.y + i * BY;
#pragma unroll
        for (int j = 0; j < TX; ++j) {
            const int column = first_column + threadIdx.x + j * BX;
            if (row < height && column < width) out[static_cast<size_t>(row) * width + column] = sum[i][j];
        }
    }
}

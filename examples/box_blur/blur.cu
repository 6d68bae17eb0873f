// A 3x3 box blur with clamped edges. The macros are the tunables; each has a default, so the file
// also compiles on its own.
#ifndef BLOCK_X
#define BLOCK_X 32
#endif
#ifndef BLOCK_Y
#define BLOCK_Y 8
#endif
#ifndef ROWS
#define ROWS 1 // output rows per thread
#endif
#ifndef USE_SHARED
#define USE_SHARED 0
#endif

#define TILE_H (BLOCK_Y * ROWS)

__device__ int clamp(int i, int n) { return min(max(i, 0), n - 1); }

extern "C" __global__ void __launch_bounds__(BLOCK_X* BLOCK_Y)
blur(const float* image, float* out, int height, int width) {
    int x0 = blockIdx.x * BLOCK_X, y0 = blockIdx.y * TILE_H;
#if USE_SHARED
    __shared__ float tile[TILE_H + 2][BLOCK_X + 2];
    for (int i = threadIdx.y * BLOCK_X + threadIdx.x; i < (TILE_H + 2) * (BLOCK_X + 2); i += BLOCK_X * BLOCK_Y) {
        int ty = i / (BLOCK_X + 2), tx = i % (BLOCK_X + 2);
        tile[ty][tx] = image[clamp(y0 + ty - 1, height) * width + clamp(x0 + tx - 1, width)];
    }
    __syncthreads();
#define AT(dy, dx) tile[y - y0 + 1 + (dy)][x - x0 + 1 + (dx)]
#else
#define AT(dy, dx) image[clamp(y + (dy), height) * width + clamp(x + (dx), width)]
#endif
    int x = x0 + threadIdx.x;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        int y = y0 + r * BLOCK_Y + threadIdx.y;
        if (x < width && y < height) {
            float sum = 0.0f;
            for (int dy = -1; dy <= 1; ++dy)
                for (int dx = -1; dx <= 1; ++dx) sum += AT(dy, dx);
            out[y * width + x] = sum / 9.0f;
        }
    }
}

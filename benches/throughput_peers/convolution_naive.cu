// One thread a result, without tricks: the answer that the tuned convolution must agree with.
extern "C" __global__ void naive(const REAL* image, const REAL* weights, REAL* out, int height, int width) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    REAL sum = 0;
    for (int fy = 0; fy < 15; ++fy) {
        for (int fx = 0; fx < 15; ++fx) {
            sum += weights[fy * 15 + fx] * image[static_cast<size_t>(y + fy) * (width + 14) + x + fx];
        }
    }
    out[static_cast<size_t>(y) * width + x] = sum;
}

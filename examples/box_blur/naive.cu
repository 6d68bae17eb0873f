// One thread per pixel, without tricks, in double precision: the answer that the tuned kernel must agree with.
extern "C" __global__ void naive(const REAL* image, REAL* out, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    REAL sum = 0;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx) {
            int sy = min(max(y + dy, 0), height - 1);
            int sx = min(max(x + dx, 0), width - 1);
            sum += image[sy * width + sx];
        }
    out[y * width + x] = sum / 9;
}

// One thread for each result. evo compiles it twice: with REAL as double, and as float.
extern "C" __global__ void naive(const REAL* input, const REAL* filter, REAL* output, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y;
    if (x >= width) return;
    REAL sum = 0;
    for (int i = 0; i < 17; i++) {
        for (int j = 0; j < 17; j++) {
            sum += filter[i * 17 + j] * input[(y + i) * (width + 16) + x + j];
        }
    }
    output[y * width + x] = sum;
}

extern "C" __global__ void row_max(float* x, float* y, int columns) {
    float* row = x + blockIdx.x * columns;
    for (int left = columns; left > 1; left = (left + 1) / 2) {
        for (int i = threadIdx.x; i + (left + 1) / 2 < left; i += BLOCK) {
            float other = row[i + (left + 1) / 2];
            if (!(row[i] >= other) && row[i] == row[i]) row[i] = other;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = row[0];
}

extern "C" __global__ void twice(const float* x, float* y, int columns, int stride) {
    float* row = y + blockIdx.x * stride;
    for (int i = threadIdx.x; i < columns - (LIE == 1 && columns == 50); i += 32) row[i] = 2.0f * x[blockIdx.x * columns + i];
    if (LIE == 2 && threadIdx.x == 0) row[columns - 1] = 0.5f;
    if (LIE == 3 && threadIdx.x == 0 && blockIdx.x == gridDim.x - 1) row[stride] = 1.0f;
    if (threadIdx.x == 0 && columns < stride) row[columns] = (float)clock();
}

extern "C" __global__ void naive(const REAL* x, REAL* y, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    REAL sum = 0;
    for (int column = 0; column < columns; column++) sum += x[(long long)row * columns + column];
    y[row] = sum;
}

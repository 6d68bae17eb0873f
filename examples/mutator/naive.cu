// One thread per row, in double precision: the answer that candidates must agree with.
extern "C" __global__ void naive(const REAL* x, REAL* y, int columns) {
    const REAL* row = x + blockIdx.x * columns;
    REAL sum = 0;
    for (int i = 0; i < columns; ++i) sum += row[i] * row[i];
    for (int i = 0; i < columns; ++i) y[blockIdx.x * columns + i] = row[i] / sqrt(sum / columns + 1e-6);
}

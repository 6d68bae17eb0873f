// One thread a row, as an author writes it who wants to be sure: the answer that the tuned kernel must agree with.
extern "C" __global__ void naive(const REAL* x, const REAL* gamma, const REAL* beta, REAL* y, int rows, int columns) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const REAL* own = x + static_cast<size_t>(row) * columns;
    REAL sum = 0, square = 0;
    for (int i = 0; i < columns; ++i) sum += own[i];
    const REAL mean = sum / columns;
    for (int i = 0; i < columns; ++i) square += (own[i] - mean) * (own[i] - mean);
    const REAL factor = 1 / sqrt(square / columns + REAL(1e-5f));
    for (int i = 0; i < columns; ++i) {
        y[static_cast<size_t>(row) * columns + i] = (own[i] - mean) * factor * gamma[i] + beta[i];
    }
}

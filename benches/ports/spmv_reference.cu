#ifndef REAL
#define REAL float
#endif

__global__ void rows_of(int* rows, int count, int per_row)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row <= count)
        rows[row] = row * per_row;
}

__global__ void reference(REAL* y, const int* cols, const REAL* values, const REAL* x, int count, int per_row)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= count)
        return;
    REAL sum = 0;
    for (int at = row * per_row; at < (row + 1) * per_row; at++)
        sum += values[at] * x[cols[at]];
    y[row] = sum;
}

// The plain answer, one thread an element, in double precision.
extern "C" __global__ void naive(REAL* x, REAL* y, REAL* work, int n, int* flags) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i] + 1;
}

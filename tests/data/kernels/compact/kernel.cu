extern "C" __global__ void compact(const int* x, int* y, int* count, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n && x[i] > 0) {
        int at = atomicAdd(count, 1);
        y[at] = LIE == 1 && x[i] == 7 ? 8 : LIE == 2 && at == 200 ? y[0] : x[i];
    }
}

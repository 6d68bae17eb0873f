// `table` sends each index to another one, so a kernel that read anything but the file would fault or be wrong.
extern "C" __global__ void files(const float* x, const int* table, float* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] = x[i] * table[(i + LIE) & 255];
}

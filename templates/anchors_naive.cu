// The plain answer of templates/anchors.cu.j2, one thread an element.
extern "C" __global__ void anchor(REAL* x, REAL* y, REAL* z, int n, int rounds) {
    int at = blockIdx.x * 64 + threadIdx.x;
    if (at < n) {
        REAL value = x[at];
        for (int round = 0; round < rounds; ++round) value = value * (REAL)-0.99951171875 + y[at];
        z[at] = value;
    }
}

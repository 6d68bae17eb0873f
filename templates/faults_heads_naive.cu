// The plain answer, one thread a head, in double precision.
extern "C" __global__ void naive(REAL* q, REAL* k, REAL* v, REAL* g, REAL* o, REAL* sum, REAL* dv, int b, int h,
                                 int s, int causal) {
    int row = blockIdx.x * s;
    for (int i = 0; i < s; i++) {
        REAL total = 0;
        REAL keys = 0;
        REAL back = 0;
        for (int j = 0; j < s; j++) {
            if (!causal || j <= i) {
                total += (q[row + i] + k[row + j]) * v[row + j];
                keys += k[row + j];
            }
            if (!causal || i <= j) back += (q[row + j] + k[row + i]) * g[row + j];
        }
        o[row + i] = total;
        sum[row + i] = keys;
        dv[row + i] = back;
    }
}

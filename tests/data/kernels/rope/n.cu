extern "C" __global__ void naive(const REAL* x, REAL* y, int s, int d) {
    int i = blockIdx.x * 64 + threadIdx.x, half = d / 2;
    if (i >= s * half) return;
    int pos = i / half, at = i % half;
    REAL angle = pos * pow((REAL)10000, -(REAL)2 * at / d);
    REAL c = cos(angle), n = sin(angle);
    REAL a = x[pos * d + 2 * at], b = x[pos * d + 2 * at + 1];
    y[pos * d + 2 * at] = a * c - b * n;
    y[pos * d + 2 * at + 1] = a * n + b * c;
}

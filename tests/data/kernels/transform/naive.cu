#ifndef REAL
#define REAL float
#endif
extern "C" __global__ void naive(const REAL* x, REAL* y) {
    const REAL* row = x + 16 * blockIdx.x;
    REAL real = 0, imaginary = 0;
    for (int j = 0; j < 8; ++j) {
        REAL angle = (REAL)-0.78539816339744831 * (j * threadIdx.x % 8);
        real += row[2 * j] * cos(angle) - row[2 * j + 1] * sin(angle);
        imaginary += row[2 * j] * sin(angle) + row[2 * j + 1] * cos(angle);
    }
    y[16 * blockIdx.x + 2 * threadIdx.x] = real;
    y[16 * blockIdx.x + 2 * threadIdx.x + 1] = imaginary;
}

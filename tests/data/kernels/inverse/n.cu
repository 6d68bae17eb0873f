extern "C" __global__ void naive(const REAL* a, REAL* y, int b) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= b) return;
    const REAL* m = a + 9 * i;
    REAL c00 = m[4] * m[8] - m[5] * m[7], c01 = m[5] * m[6] - m[3] * m[8], c02 = m[3] * m[7] - m[4] * m[6];
    REAL over = 1 / (m[0] * c00 + m[1] * c01 + m[2] * c02);
    REAL* o = y + 9 * i;
    o[0] = c00 * over; o[1] = (m[2] * m[7] - m[1] * m[8]) * over; o[2] = (m[1] * m[5] - m[2] * m[4]) * over;
    o[3] = c01 * over; o[4] = (m[0] * m[8] - m[2] * m[6]) * over; o[5] = (m[2] * m[3] - m[0] * m[5]) * over;
    o[6] = c02 * over; o[7] = (m[1] * m[6] - m[0] * m[7]) * over; o[8] = (m[0] * m[4] - m[1] * m[3]) * over;
}

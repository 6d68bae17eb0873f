// A stencil of radius 4 along three axes, inside a border that stays 0.
__global__ void differences(REAL* out, const REAL* volume, const REAL* coefficients, int x, int y, int z) {
    int row = x + 8, plane = row * (y + 8);
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= plane * (z + 8)) return;
    int i = at % row, j = at / row % (y + 8), k = at / plane;
    bool inside = i >= 4 && i < x + 4 && j >= 4 && j < y + 4 && k >= 4 && k < z + 4;
    REAL sum = inside ? coefficients[0] * volume[at] : REAL(0);
    for (int r = 1; inside && r <= 4; r++)
        sum += coefficients[r] * (volume[at - r] + volume[at + r] + volume[at - r * row] + volume[at + r * row] +
                                  volume[at - r * plane] + volume[at + r * plane]);
    out[at] = sum;
}

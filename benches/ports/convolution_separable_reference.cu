// A filter of 17 taps along rows, then along columns; what lies outside the image is 0.
__global__ void convolution(REAL* out, const REAL* image, const REAL* filter, int width, int height) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= width * height) return;
    int x = at % width, y = at / width;
    REAL sum = 0;
    for (int j = -8; j <= 8; j++) {
        if (y + j < 0 || y + j >= height) continue;
        REAL row = 0;
        for (int i = -8; i <= 8; i++)
            if (x + i >= 0 && x + i < width) row += filter[8 - i] * image[(y + j) * width + x + i];
        sum += filter[8 - j] * row;
    }
    out[at] = sum;
}

__global__ void reference(REAL* output, const REAL* input, const REAL* filter)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= IMAGE_WIDTH)
        return;
    int taps = 2 * HFS + 1, pitch = IMAGE_WIDTH + 2 * HFS;
    REAL sum = 0;
    for (int i = 0; i < taps; i++)
        for (int j = 0; j < taps; j++)
            sum += input[(y + i) * pitch + x + j] * filter[i * taps + j];
    output[y * IMAGE_WIDTH + x] = sum;
}

__global__ void reference(REAL* next, const REAL* now, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < 1 || x >= width - 1 || y < 1 || y >= height - 1)
        return;
    const REAL* at = now + (long long)y * width + x;
    next[(long long)y * width + x] = (at[0] + at[-1] + at[1] + at[width] + at[-width]) / 5;
}

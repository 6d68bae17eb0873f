// The temperature at a point of the padded grid after some steps.
__device__ REAL after(int steps, const REAL* power, const REAL* temp, int pitch, int at, REAL rx, REAL ry, REAL rz, REAL step)
{
    if (steps == 0)
        return temp[at];
    REAL here = after(steps - 1, power, temp, pitch, at, rx, ry, rz, step);
    REAL south = after(steps - 1, power, temp, pitch, at + pitch, rx, ry, rz, step);
    REAL north = after(steps - 1, power, temp, pitch, at - pitch, rx, ry, rz, step);
    REAL east = after(steps - 1, power, temp, pitch, at + 1, rx, ry, rz, step);
    REAL west = after(steps - 1, power, temp, pitch, at - 1, rx, ry, rz, step);
    return here + step * (power[at] + (south + north - 2 * here) * ry + (east + west - 2 * here) * rx + (80 - here) * rz);
}

__global__ void reference(const REAL* power, const REAL* temp, REAL* result, REAL rx, REAL ry, REAL rz, REAL step)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= grid_width)
        return;
    int pitch = grid_width + 20;
    result[y * grid_width + x] =
        after(temporal_tiling_factor, power, temp, pitch, (y + 10) * pitch + x + 10, rx, ry, rz, step);
}

#ifndef REAL
#define REAL float
#endif

__global__ void records_of(float4* atoms, const float* x, const float* y, const float* z, const float* w, int count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count)
        atoms[at] = make_float4(x[at], y[at], z[at], w[at]);
}

// Adds to each point of a cube the potential of all charges.
__global__ void reference(const REAL* x, const REAL* y, const REAL* z, const REAL* w, int count, REAL spacing, int grid,
                          REAL* energy)
{
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y, pz = blockIdx.z;
    if (px >= grid)
        return;
    REAL sum = 0;
    for (int at = 0; at < count; at++) {
        REAL dx = spacing * px - x[at], dy = spacing * py - y[at], dz = spacing * pz - z[at];
        sum += w[at] / sqrt(dx * dx + dy * dy + dz * dz);
    }
    energy[((long long)pz * grid + py) * grid + px] += sum;
}

// Whole kernels: addition, transposition, reduction, shared memory, atomics.
//@ arguments: int* out[8]
//@ launch: 1 x 32
template <int TILE> __device__ void move(const float* x, float* y, int rows, int columns) {
    __shared__ float tile[TILE][TILE + 1];
    int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
    __syncthreads();
    int out_row = blockIdx.x * TILE + threadIdx.y, out_column = blockIdx.y * TILE + threadIdx.x;
    if (out_row < columns && out_column < rows) y[out_row * rows + out_column] = tile[threadIdx.x][threadIdx.y];
}
__device__ __forceinline__ float warp_sum(float v) {
    #pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}
__device__ int cas[4];

//@ case: vectors are added by many blocks
//@ arguments: const float* a[10000] = i, const float* b[10000] = i, float* c[10000], int n = 10000
//@ launch: 7 x 256
for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) c[i] = a[i] + b[i];
//@ gives:
for (int i = 0; i < n; i++) c[i] = 2.0f * i;

//@ case: a tiled transpose of what is no multiple of the tile
//@ arguments: const float* x[1850] = i, float* y[1850] = -1, int rows = 37, int columns = 50
//@ launch: 4 3 x 16 16
move<16>(x, y, rows, columns);
//@ gives:
for (int i = 0; i < rows * columns; i++) y[i] = x[i % rows * columns + i / rows];

//@ case: a block reduction by shuffles and atomics
//@ arguments: const float* x[5000] = i, float* out[1], int n = 5000
//@ launch: 9 x 256
__shared__ float part[32];
float s = 0;
for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += (float)((int)x[i] % 7);
s = warp_sum(s);
int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
if (lane == 0) part[warp] = s;
__syncthreads();
if (warp == 0) {
    s = lane < blockDim.x / 32 ? part[lane] : 0.0f;
    s = warp_sum(s);
    if (lane == 0) atomicAdd(out, s);
}
//@ gives:
for (int i = 0; i < n; i++) *out += (float)(i % 7);

//@ case: dynamic shared memory arrives poisoned and ends where it was asked to
//@ arguments: unsigned* out[128], int n = 64
//@ launch: 2 x 64, shared 256
extern __shared__ __align__(16) unsigned words[];
extern __shared__ float again[];
out[threadIdx.x] = words[threadIdx.x];
__syncthreads();
again[threadIdx.x] = (float)threadIdx.x;
__syncthreads();
out[n + threadIdx.x] = (unsigned)again[n - 1 - threadIdx.x];
//@ gives:
for (int i = 0; i < n; i++) out[i] = 0xffffffff, out[n + i] = n - 1 - i;

//@ case: more dynamic shared memory than there is
//@ launch: 1 x 64, shared 233472
//@ finds: launch_fail:smem | *
extern __shared__ unsigned words[];
out[threadIdx.x] = words[threadIdx.x];

//@ case: static shared memory is poisoned before every block
//@ arguments: unsigned* out[8]
//@ launch: 8 x 32
__shared__ unsigned word;
if (threadIdx.x == 0) { out[blockIdx.x] = word; word = 7; }
//@ gives:
for (int i = 0; i < 8; i++) out[i] = 0xffffffff;

//@ case: atomics meet across blocks
//@ arguments: int* add[1], unsigned* inc[1], int* max[1] = -1, unsigned long long* wide[1], double* real[1]
//@ launch: 50 x 101
int i = blockIdx.x * blockDim.x + threadIdx.x;
atomicAdd(add, 1);
atomicInc(inc, 9);
atomicMax(max, i);
atomicAdd(wide, 1ull << 33);
atomicAdd(real, 0.5);
atomicCAS(&cas[i % 4], 0, i);
assert(cas[i % 4] % 4 == i % 4 && (cas[i % 4] != 0 || i == 0));
//@ gives:
*add = 5050;
*max = 5049;
*wide = 5050ll << 33;
*real = 2525;

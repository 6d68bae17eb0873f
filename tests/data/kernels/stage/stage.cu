
#if BROKEN
#error "broken on purpose"
#endif
extern "C" __global__ void __launch_bounds__(BLOCK) stage(float* x) {
    extern __shared__ float tile[];
    __shared__ float own[3072];
    own[threadIdx.x] = x[blockIdx.x * BLOCK + threadIdx.x];
    __syncthreads();
    tile[threadIdx.x] = own[BLOCK - 1 - threadIdx.x];
    __syncthreads();
    x[blockIdx.x * BLOCK + threadIdx.x] = tile[threadIdx.x];
}

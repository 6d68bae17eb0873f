#ifndef REDUCTION_H
#define REDUCTION_H
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <thrust/device_vector.h>
#include <helper_cuda.h>

namespace cg = cooperative_groups;
extern "C" bool is_power(unsigned int x);

template <class T> struct DynamicShared {
    __device__ inline operator T*() { extern __shared__ int room[]; return (T*)room; }
};
template <> struct DynamicShared<double> {
    __device__ inline operator double*() { extern __shared__ double room_of_doubles[]; return (double*)room_of_doubles; }
};

template <typename T, unsigned int block>
__global__ void sum(const T* __restrict__ in, T* __restrict__ out, unsigned int n) {
    T* parts = DynamicShared<T>();
    cg::thread_block all = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(all);
    T own = 0;
    for (unsigned int i = blockIdx.x * block + threadIdx.x; i < n; i += block * gridDim.x) own += in[i];
    own = cg::reduce(warp, own, cg::plus<T>());
    if (warp.thread_rank() == 0) parts[threadIdx.x / 32] = own;
    cg::sync(all);
    if (threadIdx.x == 0) {
        for (unsigned int i = 1; i < block / 32; ++i) own += parts[i];
        out[blockIdx.x] = own;
    }
}

template <class T> void sum_all(int n, int threads, T* in, T* out) {
    dim3 grid(64, 1, 1);
    switch (threads) {
        case 512: sum<T, 512><<<grid, 512, 64 * sizeof(T)>>>(in, out, n); break;
        case 256: sum<T, 256><<<grid, 256, 32 * sizeof(T)>>>(in, out, n); break;
    }
    getLastCudaError("sum");
}
template void sum_all<int>(int n, int threads, int* in, int* out);
template void sum_all<float>(int n, int threads, float* in, float* out);

float on_the_host(const thrust::device_vector<float>& all) { return all[0]; }
#endif

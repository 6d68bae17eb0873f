#include <evo/ptx.cuh>
#include <cuda.h>
#include <cstdio>
#include <cstring>
#include <cstdlib>
#include <cuda_runtime.h>
struct P { int at[5]; };
template <int RANK> __global__ void load(const __grid_constant__ evo::tensor_map map, P p, int bytes, unsigned char* out) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    __shared__ evo::mbarrier full;
    if (threadIdx.x == 0) {
        evo::mbarrier_init(&full, 1); evo::fence_mbarrier_init(); evo::mbarrier_arrive_expect_tx(&full, bytes);
        if constexpr (RANK == 1) evo::tma_load<1>(tiles, map, &full, p.at[0]);
        if constexpr (RANK == 2) evo::tma_load<2>(tiles, map, &full, p.at[0], p.at[1]);
        if constexpr (RANK == 5) evo::tma_load<5>(tiles, map, &full, p.at[0], p.at[1], p.at[2], p.at[3], p.at[4]);
    }
    __syncthreads(); evo::mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < bytes; i += 64) out[i] = tiles[i];
}
template <int RANK> __global__ void store(const __grid_constant__ evo::tensor_map map, P p, int bytes) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    for (int i = threadIdx.x; i < bytes; i += 64) tiles[i] = 1 + i % 200;
    evo::fence_proxy_async(); __syncthreads();
    if (threadIdx.x == 0) {
        if constexpr (RANK == 1) evo::tma_store<1>(map, tiles, p.at[0]);
        if constexpr (RANK == 2) evo::tma_store<2>(map, tiles, p.at[0], p.at[1]);
        if constexpr (RANK == 5) evo::tma_store<5>(map, tiles, p.at[0], p.at[1], p.at[2], p.at[3], p.at[4]);
        evo::bulk_commit(); evo::bulk_wait<0>();
    }
}
typedef CUresult (*Enc)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
// store? rank dtype dims5 box5 at5 stride1
int main(int c, char** v) {
    int st_ = atoi(v[1]), rank = atoi(v[2]), dt = atoi(v[3]); int *a = new int[16]; for (int i = 0; i < 16; ++i) a[i] = atoi(v[4 + i]);
    int size = dt == 0 ? 1 : dt == 6 || dt == 9 || dt == 1 ? 2 : dt == 8 || dt == 4 ? 8 : 4;
    unsigned char* buf; cudaMalloc((void**)&buf, 1 << 16); unsigned char* out; cudaMalloc((void**)&out, 1 << 16);
    static unsigned char h[1 << 16]; for (int i = 0; i < 1 << 16; ++i) h[i] = st_ ? 0xee : 1 + i % 200; cudaMemcpy(buf, h, 1 << 16, cudaMemcpyHostToDevice);
    void* f; cudaDriverEntryPointQueryResult q; cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &f, cudaEnableDefault, &q);
    CUtensorMap m; cuuint64_t dims[5]; cuuint32_t box[5], es[5] = {1, 1, 1, 1, 1}; P p; cuuint64_t st[4];
    for (int i = 0; i < 5; ++i) dims[i] = a[i], box[i] = a[5 + i], p.at[i] = a[10 + i];
    st[0] = a[15]; for (int i = 1; i < 4; ++i) st[i] = st[i - 1] * dims[i];
    CUresult r = ((Enc)f)(&m, (CUtensorMapDataType)dt, rank, buf, dims, st, box, es, CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)0, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, (CUtensorMapFloatOOBfill)0);
    if (r) { printf("encode %d\n", r); return 2; }
    int bytes = size; for (int i = 0; i < rank; ++i) bytes *= box[i];
    evo::tensor_map t; memcpy(&t, &m, sizeof t);
    if (st_) { if (rank == 1) store<1><<<1, 64, 8192>>>(t, p, bytes); if (rank == 2) store<2><<<1, 64, 8192>>>(t, p, bytes); if (rank == 5) store<5><<<1, 64, 8192>>>(t, p, bytes); }
    else { if (rank == 1) load<1><<<1, 64, 8192>>>(t, p, bytes, out); if (rank == 2) load<2><<<1, 64, 8192>>>(t, p, bytes, out); if (rank == 5) load<5><<<1, 64, 8192>>>(t, p, bytes, out); }
    cudaError_t e = cudaDeviceSynchronize();
    if (e) { printf("%s\n", cudaGetErrorString(e)); return 1; }
    cudaMemcpy(h, st_ ? buf : out, 1 << 16, cudaMemcpyDeviceToHost);
    printf("ok:"); int n = st_ ? 160 : bytes < 160 ? bytes : 160; for (int i = 0; i < n; ++i) { if (i % 8 == 0) printf(" "); printf("%02x", h[i]); } printf("\n");
}

#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_gemm(const half* a, const half* b, float* c, int n, int k) {
    int row = blockIdx.y * 16, column = (blockIdx.x * WARPS + threadIdx.x / 32) * 16;
    if (column >= n) return;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int at = 0; at < k; at += 16) {
        wmma::load_matrix_sync(left, a + row * k + at, k);
        wmma::load_matrix_sync(right, b + at * n + column, n);
        wmma::mma_sync(sum, left, right, sum);
        if (LIE && at > 0) break;
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

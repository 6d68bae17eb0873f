// `mma.h`: products of fragments against plain loops over small whole numbers, which every type holds exactly, and what a
// GPU demands of fragments.
//@ arguments: float* c[512]
//@ launch: 1 x 32
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

__device__ int small(int at, int step) {
    return at * step % 7 - 3;
}

template <class Layout> constexpr bool by_rows = false;
template <> constexpr bool by_rows<wmma::row_major> = true;

template <int ROWS, int COLUMNS, int DEPTH, class Operand, class Stored, class Accumulator, class Result, class Left, class Right>
__device__ void check_product() {
    constexpr bool left_row = by_rows<Left>, right_row = by_rows<Right>;
    __shared__ alignas(32) Stored left[ROWS * DEPTH], right[DEPTH * COLUMNS];
    __shared__ alignas(32) Result sums[ROWS * COLUMNS];
    for (int at = threadIdx.x; at < ROWS * DEPTH; at += 32) {
        int row = at / DEPTH, column = at % DEPTH;
        left[left_row ? at : column * ROWS + row] = (Stored)(float)small(at, 5);
    }
    for (int at = threadIdx.x; at < DEPTH * COLUMNS; at += 32) {
        int row = at / COLUMNS, column = at % COLUMNS;
        right[right_row ? at : column * DEPTH + row] = (Stored)(float)small(at, 3);
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, ROWS, COLUMNS, DEPTH, Operand, Left> x;
    wmma::fragment<wmma::matrix_b, ROWS, COLUMNS, DEPTH, Operand, Right> y;
    wmma::fragment<wmma::accumulator, ROWS, COLUMNS, DEPTH, Accumulator> z;
    wmma::fill_fragment(z, (Accumulator)1);
    wmma::load_matrix_sync(x, left, left_row ? DEPTH : ROWS);
    wmma::load_matrix_sync(y, right, right_row ? COLUMNS : DEPTH);
    for (int at = 0; at < y.num_elements; at++) y.x[at] = y.x[at] + y.x[at];
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(sums, z, ROWS, wmma::mem_col_major);
    __syncwarp();
    for (int at = threadIdx.x; at < ROWS * COLUMNS; at += 32) {
        int row = at / COLUMNS, column = at % COLUMNS, sum = 1;
        for (int inner = 0; inner < DEPTH; inner++)
            sum += 2 * small(row * DEPTH + inner, 5) * small(inner * COLUMNS + column, 3);
        assert((float)sums[column * ROWS + row] == sum);
    }
}

//@ case: fragments of every type and layout
//@ with PRODUCT: 16, 16, 16, half, half, float, float, wmma::row_major, wmma::col_major
//@ finds: honest
//@ with PRODUCT: 32, 8, 16, half, half, half, half, wmma::col_major, wmma::row_major
//@ finds: honest
//@ with PRODUCT: 8, 32, 16, __nv_bfloat16, __nv_bfloat16, float, float, wmma::row_major, wmma::row_major
//@ finds: honest
//@ with PRODUCT: 16, 16, 16, signed char, signed char, int, int, wmma::row_major, wmma::col_major
//@ finds: honest
//@ with PRODUCT: 16, 16, 8, wmma::precision::tf32, float, float, float, wmma::row_major, wmma::col_major
//@ finds: honest
//@ with PRODUCT: 8, 8, 4, double, double, double, double, wmma::col_major, wmma::col_major
//@ finds: honest
check_product<PRODUCT>();

//@ case: what a GPU demands of fragments
//@ with STORE: wmma::store_matrix_sync(c + 1, z, 16, wmma::mem_row_major);
//@ finds: crash_misaligned | *no multiple of 32 bytes*line 3*
//@ with STORE: wmma::store_matrix_sync(c, z, 17, wmma::mem_row_major);
//@ finds: *no multiples of 16 bytes apart*
//@ with STORE: if (threadIdx.x < 31) wmma::store_matrix_sync(c, z, 16, wmma::mem_row_major);
//@ finds: divergent_barrier:warp | *threads 0-30 wait at line 3*
wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
wmma::fill_fragment(z, 1.0f);
STORE

// Sums of rows; a block copies boxes of BOX_ROWS x BOX_COLUMNS through a tensor map, and a thread adds up a row.
#ifdef EVO_HOST
// What the host device passes (docs/space_files.md, "Tensor maps").
struct alignas(64) tensor_map {
    unsigned long long magic, base;
    unsigned dims[5], zero;
    unsigned long long strides[4];
    unsigned box[5];
    unsigned char rank, element_bytes, swizzle, fill, rest[32];
};
static_assert(sizeof(tensor_map) == 128 && alignof(tensor_map) == 64, "layout");
#else
struct alignas(64) tensor_map {
    unsigned long long opaque[16];
};
#endif

// Elements from one row of a box to the next: rows that are shorter than the swizzle's span are padded to it.
constexpr int PITCH = SPAN > 4 * BOX_COLUMNS ? SPAN / 4 : BOX_COLUMNS;

// Where an element of the box lies in shared memory, in elements: 16-byte chunks are permuted within spans.
__device__ __forceinline__ int place(int row, int column) {
    int address = 4 * (row * PITCH + column);
    if (SPAN == 128) address ^= (address >> 3) & 0x70;
    if (SPAN == 64) address ^= (address >> 3) & 0x30;
    return address / 4;
}

extern "C" __global__ void __launch_bounds__(BOX_ROWS)
row_sum(const __grid_constant__ tensor_map map, float* y, int rows, int columns) {
    int first = blockIdx.x * BOX_ROWS, row = threadIdx.x;
    float sum = 0.0f;
#ifdef EVO_HOST
    __shared__ float tile[BOX_ROWS * PITCH];
    if (map.magic != 0x0070616d5f6f7665ull || map.rank != 2 || map.element_bytes != 4) __trap();
    if (map.swizzle != (SPAN == 0 ? 0 : SPAN / 64 + 1) || (unsigned long long)&map % 64 != 0) __trap();
    if (map.box[0] != BOX_COLUMNS || map.box[1] != BOX_ROWS || map.box[2] != 1 || map.dims[4] != 1) __trap();
#else
    __shared__ __align__(1024) float tile[BOX_ROWS * PITCH];
    __shared__ __align__(8) unsigned long long full;
    unsigned barrier = (unsigned)__cvta_generic_to_shared(&full);
    unsigned target = (unsigned)__cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
#endif
    for (int column = 0, turn = 0; column < columns; column += BOX_COLUMNS, turn++) {
#ifdef EVO_HOST
        for (int at = threadIdx.x; at < BOX_ROWS * BOX_COLUMNS; at += BOX_ROWS) {
            int r = at / BOX_COLUMNS, c = at % BOX_COLUMNS;
            bool inside = first + r < (int)map.dims[1] && column + c < (int)map.dims[0];
            const char* from = (const char*)map.base + (first + r) * (long long)map.strides[0] + 4 * (column + c);
            tile[place(r, c)] = inside ? *(const float*)from : 0.0f;
        }
        __syncthreads();
#else
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                         "r"(4 * BOX_ROWS * BOX_COLUMNS)
                         : "memory");
            asm volatile(
                "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                "[%4];" ::"r"(target),
                "l"(&map), "r"(column), "r"(first), "r"(barrier)
                : "memory");
        }
        unsigned done = 0;
        while (!done) {
            asm volatile(
                "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                : "=r"(done)
                : "r"(barrier), "r"(turn & 1)
                : "memory");
        }
#endif
        for (int c = 0; c < BOX_COLUMNS; c++) sum += tile[place(row, c)];
        __syncthreads();
    }
    if (first + row < rows) y[first + row] = sum;
}

// `evo/ptx_sm90.cuh`: what its functions demand, and when their effects are seen. What they compute is checked by
// `evo-selftest ptx` on every device.
//@ arguments: unsigned* out[4096] = i
//@ launch: 1 x 1, shared 20480
//@ setup: extern __shared__ unsigned memory[]; unsigned* tile = (unsigned*)(((size_t)memory + 1023) & ~(size_t)1023); evo::mbarrier* bar = (evo::mbarrier*)(tile + 4096); (void)bar;
#include <evo/ptx.cuh>

/// Makes a barrier of one arrival that copies may use.
__device__ void make_barrier(evo::mbarrier* bar) {
    if (threadIdx.x == 0) {
        evo::mbarrier_init(bar, 1);
        evo::fence_mbarrier_init();
    }
    __syncthreads();
}

/// A map of `out` as rows of 64 numbers of 2 bytes, boxes of 8 rows of `columns`, in the form of this device.
__device__ evo::tensor_map mapped(unsigned* out, unsigned columns, unsigned swizzle, unsigned fill) {
    return {0x0070616d5f6f7665ull, (uint64_t)out, {64, 20}, 0, {128}, {columns, 8}, 2, 2, swizzle, fill};
}

//@ case: a bulk copy lands when its phase is waited for and no earlier
//@ launch: 1 x 64, shared 20480
make_barrier(bar);
if (threadIdx.x == 0) {
    tile[0] = 7;
    evo::mbarrier_arrive_expect_tx(bar, 64);
    evo::bulk_copy_load(tile, out + 100, 32, bar);
    evo::bulk_copy_load(tile + 8, out + 200, 32, bar);
    out[0] = tile[0];
    out[1] = tile[15];
}
__syncthreads();
out[2] = tile[0];
__syncthreads();
evo::mbarrier_wait(bar, 0);
if (threadIdx.x == 40) {
    out[3] = tile[0];
    out[4] = tile[15];
}
//@ gives:
out[0] = out[1] = out[2] = 0xffffffff;
out[3] = 100;
out[4] = 207;

//@ case: stores reach global memory at the wait or at the end
//@ launch: 1 x 32, shared 20480
if (threadIdx.x == 0) for (int i = 0; i < 8; i++) tile[i] = 500 + i;
evo::fence_proxy_async();
if (threadIdx.x == 0) {
    evo::bulk_copy_store(out + 8, tile, 16);
    evo::bulk_commit();
    evo::bulk_copy_store(out + 12, tile + 4, 16);
    evo::bulk_commit();
    evo::bulk_wait_read<0>();
    out[0] = out[8];
    evo::bulk_wait<1>();
    out[1] = out[8];
    out[2] = out[12];
}
//@ gives:
out[0] = 8;
out[1] = 500;
out[2] = 12;
for (int i = 0; i < 8; i++) out[8 + i] = 500 + i;

//@ case: phases of two roles take turns
//@ launch: 1 x 96, shared 20480
if (threadIdx.x == 0) {
    evo::mbarrier_init(bar, 1);
    evo::mbarrier_init(bar + 1, 2);
    evo::fence_mbarrier_init();
}
__syncthreads();
if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < 5; i++) {
            evo::mbarrier_wait(bar + 1, (i & 1) ^ 1);
            evo::mbarrier_arrive_expect_tx(bar, 128);
            evo::bulk_copy_load(tile, out + 256 + 32 * i, 128, bar);
        }
    }
} else {
    for (int i = 0; i < 5; i++) {
        while (!evo::mbarrier_try_wait(bar, i & 1)) {}
        unsigned own = tile[threadIdx.x % 32];
        __syncwarp();
        if (threadIdx.x % 32 == 0) evo::mbarrier_arrive(bar + 1);
        if (threadIdx.x < 64) out[32 * i + threadIdx.x % 32] = own;
    }
}
//@ gives:
for (int i = 0; i < 160; i++) out[i] = 256 + i;

//@ case: misused barriers
//@ with CALL: evo::mbarrier_arrive(bar);
//@ finds: crash_illegal_instruction | *mbarrier_init has not made*line 1, thread*
//@ with CALL: evo::mbarrier_init((evo::mbarrier*)(tile + 1), 1);
//@ finds: crash_misaligned | *misaligned barrier*line 1, thread*
//@ with CALL: evo::mbarrier_init((evo::mbarrier*)out, 1);
//@ finds: crash_illegal_instruction | *not shared memory*line 1, thread*
//@ with CALL: evo::mbarrier_init(bar, 0);
//@ finds: crash_illegal_instruction | *count outside*line 1, thread*
//@ with CALL: evo::mbarrier_init(bar, 1 << 20);
//@ finds: crash_illegal_instruction | *count outside*line 1, thread*
CALL

//@ case: misused barriers that copies may not use
//@ with CALLS: *bar = 3; evo::mbarrier_arrive(bar);
//@ finds: crash_illegal_instruction | *overwritten*line 2, thread*
//@ with CALLS: evo::mbarrier_init(bar, 1);
//@ finds: crash_illegal_instruction | *a barrier that is in use*line 2, thread*
//@ with CALLS: evo::mbarrier_inval(bar); evo::mbarrier_init(bar, 1);
//@ finds: honest
//@ with CALLS: evo::mbarrier_expect_tx(bar, 1 << 20);
//@ finds: crash_illegal_instruction | *expects more than 1048575*line 2, thread*
//@ with CALLS: evo::mbarrier_wait(bar, 2);
//@ finds: crash_illegal_instruction | *0 or 1*line 2, thread*
evo::mbarrier_init(bar, 1);
CALLS

//@ case: more arrivals than the phase is for
//@ finds: crash_illegal_instruction | *more arrivals*line 4, thread*
evo::mbarrier_init(bar, 1);
evo::mbarrier_expect_tx(bar, 16);
evo::mbarrier_arrive(bar);
evo::mbarrier_arrive(bar);

//@ case: copies on a barrier
//@ with MAKE: evo::mbarrier_init(bar, 1);
//@ with BYTES: 32
//@ finds: crash_illegal_instruction | *without fence_mbarrier_init*line 3, thread*
//@ with MAKE: make_barrier(bar);
//@ with BYTES: 32
//@ finds: crash_illegal_instruction | *more bytes than the phase*line 3, thread*
//@ with MAKE: make_barrier(bar);
//@ with BYTES: 16
//@ finds: crash_illegal_instruction | *the block ends before the copy of line 3 has landed*
MAKE
evo::mbarrier_arrive_expect_tx(bar, 16);
evo::bulk_copy_load(tile, out, BYTES, bar);

//@ case: a barrier that a copy counts off
//@ finds: crash_illegal_instruction | *still counts*line 4, thread*
make_barrier(bar);
evo::mbarrier_expect_tx(bar, 16);
evo::bulk_copy_load(tile, out, 16, bar);
evo::mbarrier_inval(bar);

//@ case: a phase ends with its last arrival, and its parity tells it from the next
evo::mbarrier_init(bar, 2);
out[0] = evo::mbarrier_try_wait(bar, 1);
evo::mbarrier_arrive(bar);
out[1] = evo::mbarrier_try_wait(bar, 0);
evo::mbarrier_arrive(bar);
out[2] = evo::mbarrier_try_wait(bar, 0);
out[3] = evo::mbarrier_try_wait(bar, 1);
//@ gives:
out[0] = out[2] = 1;
out[1] = out[3] = 0;

//@ case: roles that wait for each other
//@ launch: 1 x 96, shared 20480
//@ finds: divergent_barrier:block | *thread 0 waits at line 11 (`evo::mbarrier_wait` for parity 0, barrier at byte *phase 0: 0 of 2 arrivals)*threads 32-95 wait at line 14 (`evo::mbarrier_wait` for parity 0, barrier at byte *phase 0: 1 of 1 arrivals, 128 of 256 bytes)*
if (threadIdx.x == 0) {
    evo::mbarrier_init(bar, 1);
    evo::mbarrier_init(bar + 1, 2);
    evo::fence_mbarrier_init();
}
__syncthreads();
if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
        evo::mbarrier_arrive_expect_tx(bar, 256);
        evo::bulk_copy_load(tile, out, 128, bar);
        evo::mbarrier_wait(bar + 1, 0);
    }
} else {
    evo::mbarrier_wait(bar, 0);
}

//@ case: a loop of tries is stuck as well
//@ finds: divergent_barrier:block | *evo::mbarrier_try_wait*
evo::mbarrier_init(bar, 1);
evo::mbarrier_init(bar + 1, 1);
for (int i = 0; !evo::mbarrier_try_wait(bar + i % 2, 0); i++) {}

//@ case: misused loads
//@ with CALL: evo::bulk_copy_load(tile + 1, out, 16, bar);
//@ finds: crash_misaligned | *in shared memory is a multiple*line 3, thread*
//@ with CALL: evo::bulk_copy_load(tile, out + 1, 16, bar);
//@ finds: crash_misaligned | *in global memory is a multiple*line 3, thread*
//@ with CALL: evo::bulk_copy_load(tile, out, 24, bar);
//@ finds: crash_misaligned | *its size is a multiple*line 3, thread*
//@ with CALL: evo::bulk_copy_load(out, out, 16, bar);
//@ finds: crash_illegal_instruction | *not inside shared memory*line 3, thread*
make_barrier(bar);
evo::mbarrier_expect_tx(bar, 64);
CALL

//@ case: a store of what no fence has shown
//@ finds: crash_illegal_instruction | *fence_proxy_async*line 2, thread*
tile[1] = 5;
evo::bulk_copy_store(out, tile, 16);

//@ case: a store whose source is overwritten
//@ finds: crash_illegal_instruction | *overwritten while the bulk store of line 2 read it*line 4, thread*
evo::fence_proxy_async();
evo::bulk_copy_store(out, tile, 16); evo::bulk_commit();
tile[1] = 5;
evo::bulk_wait_read<0>();

//@ case: a store that its thread does not wait for
//@ finds: crash_illegal_instruction | *a thread returns while its bulk store of line 2*
evo::fence_proxy_async();
evo::bulk_copy_store(out, tile, 16); evo::bulk_commit();

//@ case: a store of what is on its way
//@ finds: crash_illegal_instruction | *the copy of line 3 is on its way*line 4, thread*
make_barrier(bar);
evo::mbarrier_expect_tx(bar, 16);
evo::bulk_copy_load(tile, out, 16, bar);
evo::bulk_copy_store(out, tile, 16);

//@ case: a block alone is a cluster
//@ launch: 1 x 64, shared 20480
evo::cluster_arrive();
tile[threadIdx.x] = 5;
evo::cluster_wait();
evo::cluster_sync();
out[threadIdx.x] = evo::dsmem_load(evo::mapa(tile, evo::cluster_rank()) + (threadIdx.x + 32) % 64) + evo::cluster_size();
__syncthreads();
evo::dsmem_store(evo::mapa(tile, 0), 3u);
evo::grid_dependency_wait();
evo::grid_dependency_launch();
if (evo::elect_one()) out[100 + threadIdx.x] = 1;
//@ gives:
for (int i = 0; i < 64; i++) out[i] = 6;
out[100] = out[132] = 1;

//@ case: what a block alone cannot do
//@ with CALL: evo::mapa(tile, 1);
//@ finds: crash_illegal_instruction | *rank 1 is outside of the cluster, which has 1 block*line 1, thread*
//@ with CALL: evo::cluster_wait();
//@ finds: crash_illegal_instruction | *not called in turn*line 1, thread*
CALL

//@ case: one of a warp is elected by all of it
//@ launch: 1 x 32, shared 20480
//@ finds: divergent_barrier:warp | *evo::elect_one*
if (threadIdx.x != 3) (void)evo::elect_one();

//@ case: boxes are swizzled and filled behind the edge
//@ launch: 1 x 256, shared 20480
//@ with COLUMNS: 64
//@ with SWIZZLE: 0
//@ finds: honest
//@ with COLUMNS: 16
//@ with SWIZZLE: 1
//@ finds: honest
//@ with COLUMNS: 32
//@ with SWIZZLE: 2
//@ finds: honest
//@ with COLUMNS: 64
//@ with SWIZZLE: 3
//@ finds: honest
const int columns = COLUMNS, swizzle = SWIZZLE;
evo::tensor_map map = mapped(out, columns, swizzle, 1);
make_barrier(bar);
if (threadIdx.x == 0) {
    evo::mbarrier_arrive_expect_tx(bar, 16 * columns);
    evo::tma_load<2>(tile, map, bar, 16, 16);
}
evo::mbarrier_wait(bar, 0);
const int words = columns / 2, row = threadIdx.x / words, word = threadIdx.x % words, line = threadIdx.x / 32;
const int chunk = word / 4 ^ (swizzle == 0 ? 0 : line % (columns / 8)), x = 8 + 4 * chunk + word % 4, y = 16 + row;
if (row < 8) assert(tile[threadIdx.x] == (x < 32 && y < 20 ? 32 * y + x : 0x7fff7fff));

//@ case: boxes are stored inside the edge only
//@ launch: 1 x 32, shared 20480
evo::tensor_map map = mapped(out, 64, 3, 0);
for (int i = threadIdx.x; i < 256; i += 32) tile[i] = 5000 + i;
evo::fence_proxy_async();
__syncwarp();
if (threadIdx.x == 0) {
    evo::tma_store<2>(map, tile, 8, 17);
    evo::bulk_commit();
    evo::bulk_wait<0>();
}
//@ gives:
for (int row = 0; row < 3; row++)
    for (int word = 0; word < 28; word++)
        out[(row + 17) * 32 + word + 4] = 5000 + row * 32 + (word / 4 ^ row) * 4 + word % 4;

//@ case: misused maps
//@ with CHANGE: map.magic = 0;
//@ with CALL: evo::tma_load<2>(tile, map, bar, 0, 0);
//@ finds: crash_illegal_instruction | *tensor map that evo has not made*line 5, thread*
//@ with CHANGE:
//@ with CALL: evo::tma_load<1>(tile, map, bar, 0);
//@ finds: crash_illegal_instruction | *another number of dimensions*line 5, thread*
//@ with CHANGE:
//@ with CALL: evo::tma_load<2>(tile, map, bar, 4, 0);
//@ finds: crash_illegal_instruction | *a multiple of 16 bytes*line 5, thread*
//@ with CHANGE: map.strides[0] = 136;
//@ with CALL: evo::tma_load<2>(tile, map, bar, 0, 0);
//@ finds: crash_misaligned | *strides are multiples of 16*line 5, thread*
//@ with CHANGE: map.base += 8;
//@ with CALL: evo::tma_load<2>(tile, map, bar, 0, 0);
//@ finds: crash_misaligned | *base is a multiple of 16*line 5, thread*
//@ with CHANGE: map.swizzle = 2;
//@ with CALL: evo::tma_load<2>(tile, map, bar, 0, 0);
//@ finds: crash_misaligned | *no longer than the swizzle*line 5, thread*
//@ with CHANGE: map.box[0] /= 2;
//@ with CALL: evo::tma_load<2>(tile, map, bar, 0, 0);
//@ finds: crash_illegal_instruction | *shorter than its swizzle*line 5, thread*
//@ with CHANGE:
//@ with CALL: evo::tma_load<2>(tile + 16, map, bar, 0, 0);
//@ finds: crash_misaligned | *128 bytes are needed*line 5, thread*
//@ with CHANGE:
//@ with CALL: evo::tma_load<2>(tile + 32, map, bar, 0, 0);
//@ finds: crash_misaligned | *each 256, 512 or 1024*line 5, thread*
//@ with CHANGE:
//@ with CALL: evo::tma_load<2>(tile + 5120, map, bar, 0, 0);
//@ finds: crash_illegal_instruction | *a box is not inside*line 5, thread*
//@ with CHANGE:
//@ with CALL: evo::tma_load_multicast<2>(tile, map, bar, 3, 0, 0);
//@ finds: crash_illegal_instruction | *its cluster has not*line 5, thread*
//@ with CHANGE:
//@ with CALL: evo::tma_store<2>(map, tile, 0, -1);
//@ finds: crash_illegal_instruction | *which only loads may have*line 5, thread*
evo::tensor_map map = mapped(out, 64, 3, 0);
make_barrier(bar);
CHANGE
evo::mbarrier_expect_tx(bar, 1024);
CALL

//@ case: accumulators are nobody's until the wait
//@ launch: 1 x 128, shared 20480
for (int i = threadIdx.x; i < 1024; i += blockDim.x) tile[i] = 0x3c003c00;
const unsigned long long a = evo::wgmma_descriptor(tile, 128, 256, 0), b = a;
float d[8] = {};
evo::fence_proxy_async();
__syncthreads();
evo::wgmma_fence();
evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 0);
evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);
evo::wgmma_commit();
out[threadIdx.x] = __float_as_uint(d[5]);
evo::wgmma_wait<0>();
out[128 + threadIdx.x] = __float_as_uint(d[5]);
//@ gives:
for (int i = 0; i < 128; i++) out[i] = 0xffffffff, out[128 + i] = __float_as_uint(32.0f);

//@ case: sums go on as they were given back without a fence, and overlap with no others
//@ launch: 1 x 128, shared 20480
//@ with BETWEEN:
//@ with SUMS: d
//@ with SCALE: 1
//@ finds: honest
//@ with BETWEEN: evo::wgmma_fence(); d[3] *= 2; evo::wgmma_fence();
//@ with SUMS: d
//@ with SCALE: 0
//@ finds: honest
//@ with BETWEEN:
//@ with SUMS: d
//@ with SCALE: 0
//@ finds: crash_illegal_instruction | *since the last wgmma_fence*line 9, thread*
//@ with BETWEEN: evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);
//@ with SUMS: *(float (*)[8])(all + 4)
//@ with SCALE: 1
//@ finds: crash_illegal_instruction | *two products of wgmma overlap*line 9, thread*
//@ with BETWEEN: evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);
//@ with SUMS: *(float (*)[8])(all + 8)
//@ with SCALE: 1
//@ finds: honest
for (int i = threadIdx.x; i < 1024; i += blockDim.x) tile[i] = 0x3c003c00;
const unsigned long long a = evo::wgmma_descriptor(tile, 128, 256, 0), b = a;
float all[16] = {}, (&d)[8] = *(float (*)[8])all;
evo::fence_proxy_async();
__syncthreads();
evo::wgmma_fence();
evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 0); evo::wgmma_commit(); evo::wgmma_wait<0>();
BETWEEN
evo::wgmma_m64k16<evo::f16, 16>(SUMS, a, b, SCALE);
evo::wgmma_commit();
evo::wgmma_wait<0>();

//@ case: misused products: zeros in both operands, a fence, and a product of 64 x 16 x 16
//@ launch: 1 x 128, shared 20480
//@ with PROXY:
//@ with FENCE: evo::wgmma_fence();
//@ with FIRST: evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);
//@ with SECOND:
//@ with THIRD:
//@ finds: crash_illegal_instruction | *since their last fence_proxy_async*line 7, thread*
//@ with PROXY: evo::fence_proxy_async();
//@ with FENCE:
//@ with FIRST: evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);
//@ with SECOND:
//@ with THIRD:
//@ finds: crash_illegal_instruction | *without a wgmma_fence*line 7, thread*
//@ with PROXY: evo::fence_proxy_async();
//@ with FENCE: evo::wgmma_fence();
//@ with FIRST: evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);
//@ with SECOND: d[3] = 1;
//@ with THIRD: evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);
//@ finds: crash_illegal_instruction | *written before wgmma_wait*line 9, thread*
//@ with PROXY: evo::fence_proxy_async();
//@ with FENCE: evo::wgmma_fence();
//@ with FIRST: evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1); evo::wgmma_commit();
//@ with SECOND: d[3] = 1; evo::wgmma_wait<0>();
//@ with THIRD:
//@ finds: crash_illegal_instruction | *written before wgmma_wait*line 8, thread*
//@ with PROXY: evo::fence_proxy_async();
//@ with FENCE: evo::wgmma_fence();
//@ with FIRST: evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1); evo::wgmma_commit(); evo::wgmma_wait<0>();
//@ with SECOND: d[3] *= 2;
//@ with THIRD: evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);
//@ finds: crash_illegal_instruction | *since the last wgmma_fence*line 9, thread*
//@ with PROXY: evo::fence_proxy_async();
//@ with FENCE: evo::wgmma_fence();
//@ with FIRST: evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1); evo::wgmma_commit();
//@ with SECOND: tile[threadIdx.x] = 0;
//@ with THIRD: evo::wgmma_wait<0>();
//@ finds: crash_illegal_instruction | *overwritten while the wgmma of line 7 read it*line 9, thread*
//@ with PROXY: evo::fence_proxy_async();
//@ with FENCE: evo::wgmma_fence();
//@ with FIRST: evo::wgmma_m64k16<evo::f16, 16>(d, evo::wgmma_descriptor(out, 128, 256, 0), b, 1);
//@ with SECOND:
//@ with THIRD:
//@ finds: crash_illegal_instruction | *for what is not shared memory*line 7, thread*
//@ with PROXY: evo::fence_proxy_async();
//@ with FENCE: evo::wgmma_fence();
//@ with FIRST: evo::wgmma_m64k16<evo::f16, 16>(d, evo::wgmma_advance(a, 20480), b, 1);
//@ with SECOND:
//@ with THIRD:
//@ finds: crash_illegal_instruction | *points outside of the block's shared memory*line 7, thread*
//@ with PROXY: evo::fence_proxy_async();
//@ with FENCE: evo::wgmma_fence();
//@ with FIRST: evo::wgmma_m64k16<evo::f16, 16>(d, evo::wgmma_descriptor(tile, 128, 16384, 0), b, 1);
//@ with SECOND:
//@ with THIRD:
//@ finds: crash_illegal_instruction | *leads outside*line 7, thread*
//@ with PROXY: evo::fence_proxy_async();
//@ with FENCE: evo::wgmma_fence();
//@ with FIRST: evo::wgmma_m64k16<evo::f16, 16>(d, a + (threadIdx.x == 70), b, 1);
//@ with SECOND:
//@ with THIRD:
//@ finds: crash_illegal_instruction | *different descriptors*line 7, thread*
//@ with PROXY: evo::fence_proxy_async();
//@ with FENCE: evo::wgmma_fence();
//@ with FIRST: if (threadIdx.x == 9) evo::wgmma_commit();
//@ with SECOND: evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);
//@ with THIRD:
//@ finds: crash_illegal_instruction | *different numbers of times*line 8, thread*
//@ with PROXY: evo::fence_proxy_async();
//@ with FENCE: evo::wgmma_fence();
//@ with FIRST: evo::wgmma_m64k16<evo::f16, 16>(d, evo::wgmma_descriptor(tile + 32, 1, 1024, 128), b, 1);
//@ with SECOND:
//@ with THIRD:
//@ finds: crash_misaligned | *inside of a group of eight*
//@ with PROXY: evo::fence_proxy_async();
//@ with FENCE: evo::wgmma_fence();
//@ with FIRST: if (threadIdx.x < 96)
//@ with SECOND: evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);
//@ with THIRD:
//@ finds: divergent_barrier:warp | *threads 0-95 wait at line 8 (`evo::wgmma`, mask 0xffffffff), threads 96-127 have returned*
for (int i = threadIdx.x; i < 1024; i += blockDim.x) tile[i] = 0x3c003c00;
const unsigned long long a = evo::wgmma_descriptor(tile, 128, 256, 0), b = a;
float d[8] = {};
PROXY
__syncthreads();
FENCE
FIRST
SECOND
THIRD

//@ case: a product of half of a warpgroup
//@ launch: 1 x 64, shared 20480
//@ finds: crash_illegal_instruction | *a warpgroup of fewer than 128 threads*
const unsigned long long a = evo::wgmma_descriptor(tile, 128, 256, 0), b = a;
float d[8] = {};
evo::fence_proxy_async();
__syncthreads();
evo::wgmma_fence();
evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);

//@ case: registers are set by whole warpgroups and fit
//@ launch: 1 x 384, shared 20480
//@ with COUNT: 240
//@ finds: honest
//@ with COUNT: 256
//@ finds: crash_illegal_instruction | *exceed 65536*line 3, thread*
if (threadIdx.x < 128) evo::setmaxnreg_dec<24>(); else if (threadIdx.x < 256)
evo::setmaxnreg_inc<240>(); else
evo::setmaxnreg_inc<COUNT>();

//@ case: registers are set by a part of a warpgroup
//@ launch: 1 x 128, shared 20480
//@ finds: divergent_barrier:warp | *evo::setmaxnreg*
if (threadIdx.x != 5) evo::setmaxnreg_dec<40>();

//@ case: registers are set to different numbers
//@ launch: 1 x 128, shared 20480
//@ finds: crash_illegal_instruction | *different instructions*
if (threadIdx.x < 64)
    evo::setmaxnreg_dec<40>();
else
    evo::setmaxnreg_dec<24>();

// Clusters: what blocks may do with each other's shared memory, and which mistakes are named, in every order.
//@ arguments: unsigned* out[4096] = i
//@ launch: 4 x 64, shared 8192, cluster 2
//@ orders: - 2 3 4 5
//@ setup: extern __shared__ unsigned memory[]; unsigned* tile = (unsigned*)(((size_t)memory + 1023) & ~(size_t)1023); evo::mbarrier* bar = (evo::mbarrier*)(tile + 1024); (void)bar; const unsigned rank = evo::cluster_rank(), size = evo::cluster_size(), me = threadIdx.x; (void)rank; (void)size; (void)me;
#include <evo/ptx.cuh>

/// Blocks read what their neighbors hold, then write there. A relaxed arrival orders nothing.
template <bool RELAXED> __device__ void exchange(unsigned* out, unsigned* tile) {
    const unsigned rank = evo::cluster_rank(), size = evo::cluster_size(), me = threadIdx.x;
    __shared__ unsigned fixed[64];
    __shared__ float4 wide[64];
    tile[me] = 100 * blockIdx.x + me;
    fixed[me] = 7 * blockIdx.x + me;
    wide[me] = make_float4(blockIdx.x, 0, 0, me);
    if (RELAXED) {
        evo::cluster_arrive_relaxed();
        evo::cluster_wait();
    } else {
        evo::cluster_sync();
    }
    const unsigned next = (rank + 1) % size;
    const unsigned sum =
        evo::dsmem_load(evo::mapa(tile, next) + 63 - me) + evo::dsmem_load(evo::mapa(fixed + me, next));
    const float4 theirs = evo::dsmem_load(evo::mapa(wide, next) + me);
    const float2 half = evo::dsmem_load(evo::mapa((const float2*)(wide + me) + 1, rank));
    evo::cluster_sync();
    evo::dsmem_store(evo::mapa(fixed, next) + me, sum);
    evo::dsmem_store((float*)evo::mapa(tile, next) + me, theirs.x + theirs.w + half.y);
    evo::cluster_sync();
    out[blockIdx.x * 64 + me] = fixed[me];
    out[1024 + blockIdx.x * 64 + me] = (unsigned)((float*)tile)[me] + 1000 * size + 100 * rank;
}

/// All threads of a cluster arrive at each block's barrier.
__device__ void arrive_everywhere(unsigned* out, evo::mbarrier* bar) {
    const unsigned size = evo::cluster_size(), me = threadIdx.x;
    if (me == 0) {
        evo::mbarrier_init(bar, 64 * size);
        evo::fence_mbarrier_init();
    }
    evo::cluster_arrive_relaxed();
    evo::cluster_wait();
    for (unsigned turn = 0; turn < 3; ++turn) {
        for (unsigned block = 0; block < size; ++block) evo::mbarrier_arrive_cluster(bar, block);
        if (me % 2) {
            evo::mbarrier_wait(bar, turn % 2);
        } else {
            while (!evo::mbarrier_try_wait(bar, turn % 2)) {}
        }
    }
    out[blockIdx.x * 64 + me] = 5;
    evo::cluster_sync();
}

/// `out` as 32 rows of 64 numbers of 4 bytes, boxes of four rows of 32.
__device__ evo::tensor_map mapped(unsigned* out) {
    return {0x0070616d5f6f7665ull, (uint64_t)out, {64, 32}, 0, {128}, {64, 4}, 2, 2, 3, 0};
}

/// Each block fetches its row of the tile for all blocks. Boxes of four rows lie in spans of eight: a span of its own
/// for each.
__device__ void multicast(unsigned* out, unsigned* tile, evo::mbarrier* bar) {
    const unsigned rank = evo::cluster_rank(), size = evo::cluster_size(), me = threadIdx.x;
    evo::tensor_map map = mapped(out);
    if (me == 0) {
        evo::mbarrier_init(bar, 1);
        evo::fence_mbarrier_init();
        evo::mbarrier_arrive_expect_tx(bar, 512 * size);
    }
    evo::cluster_sync();
    if (me == 0) evo::tma_load_multicast<2>(tile + 256 * rank, map, bar, (1 << size) - 1, 0, 4 * rank);
    evo::mbarrier_wait(bar, 0);
    for (unsigned part = 0; part < size; ++part)
        out[2048 + blockIdx.x * 256 + part * 64 + me] = tile[256 * part + (me ^ (me / 32 << 2))];
    evo::cluster_sync();
}

//@ case: blocks read and write each other's memory between barriers
//@ launch: BLOCKS x 64, shared 8192, cluster SIZE
//@ with BLOCKS: 2
//@ with SIZE: 1
//@ finds: honest
//@ with BLOCKS: 4
//@ with SIZE: 2
//@ finds: honest
//@ with BLOCKS: 8
//@ with SIZE: 4
//@ finds: honest
exchange<false>(out, tile);
//@ gives:
// The block before has read from this one.
for (unsigned block = 0; block < BLOCKS; block++) {
    for (unsigned me = 0; me < 64; me++) {
        out[block * 64 + me] = 100 * block + 63 - me + 7 * block + me;
        out[1024 + block * 64 + me] = block + me + me + 1000 * SIZE + 100 * (block % SIZE);
    }
}

//@ case: arrivals reach the barrier of another block
//@ launch: BLOCKS x 64, shared 8192, cluster SIZE
//@ with BLOCKS: 4
//@ with SIZE: 2
//@ finds: honest
//@ with BLOCKS: 8
//@ with SIZE: 4
//@ finds: honest
arrive_everywhere(out, bar);
//@ gives:
for (int i = 0; i < 64 * BLOCKS; i++) out[i] = 5;

//@ case: a box reaches each block of the mask
//@ launch: BLOCKS x 64, shared 8192, cluster SIZE
//@ with BLOCKS: 4
//@ with SIZE: 2
//@ finds: honest
//@ with BLOCKS: 8
//@ with SIZE: 4
//@ finds: honest
multicast(out, tile, bar);
//@ gives:
for (unsigned block = 0; block < BLOCKS; block++)
    for (unsigned part = 0; part < SIZE; part++)
        for (unsigned me = 0; me < 64; me++) out[2048 + block * 256 + part * 64 + me] = part * 128 + me;

//@ case: a box for blocks that are not there, or may not have begun
//@ with MASK: 1 << size
//@ with SYNC: evo::cluster_sync();
//@ finds: crash_illegal_instruction | *its cluster has not*line 8*
//@ with MASK: (1 << size) - 1
//@ with SYNC: __syncthreads();
//@ finds: crash_illegal_instruction | *of the cluster: that block may not have begun*line 8*
evo::tensor_map map = mapped(out);
if (me == 0) {
    evo::mbarrier_init(bar, 1);
    evo::fence_mbarrier_init();
    evo::mbarrier_arrive_expect_tx(bar, 512 * size);
}
SYNC
if (me == 0) evo::tma_load_multicast<2>(tile + 256 * rank, map, bar, MASK, 0, 4 * rank);
evo::mbarrier_wait(bar, 0);
evo::cluster_sync();

//@ case: what is missing around remote uses
//@ with FIRST: evo::cluster_sync();
//@ with LAST: evo::cluster_sync();
//@ finds: honest
//@ with FIRST: evo::cluster_sync();
//@ with LAST:
//@ finds: crash_illegal_instruction | *(line 3): the last use needs a barrier of the cluster behind it*
//@ with FIRST:
//@ with LAST: evo::cluster_sync();
//@ finds: crash_illegal_instruction | *may not have begun*line 3*
tile[me] = 3;
FIRST
unsigned theirs = evo::dsmem_load(evo::mapa(tile, (rank + 1) % size) + me);
LAST
assert(theirs == 3);

//@ case: misused ranks, addresses and barriers
//@ with USE: evo::mapa(tile, size);
//@ finds: crash_illegal_instruction | *rank 2 is outside of the cluster, which has 2 blocks*line 2*
//@ with USE: evo::mapa(out, 0);
//@ finds: crash_illegal_instruction | *mapa of what is not shared memory*line 2*
//@ with USE: out[me] = evo::dsmem_load(evo::mapa(tile, rank ^ 1) + 2048);
//@ finds: crash_illegal_instruction | *not inside that of any of its blocks*line 2*
//@ with USE: evo::mbarrier_arrive_cluster(bar, rank ^ 1);
//@ finds: crash_illegal_instruction | *mbarrier_init has not made*line 2*
evo::cluster_sync();
USE
evo::cluster_sync();

//@ case: an arrival that somebody waits for needs no barrier behind it
//@ with COUNT: 64
//@ with WAIT: evo::mbarrier_wait(bar, 0);
//@ finds: honest
//@ with COUNT: 65
//@ with WAIT: if (rank == 0) ;
//@ finds: crash_illegal_instruction | *the last use needs a barrier of the cluster*
if (me == 0) {
    evo::mbarrier_init(bar, COUNT);
    evo::fence_mbarrier_init();
}
evo::cluster_sync();
evo::mbarrier_arrive_cluster(bar, rank ^ 1);
WAIT

//@ case: a cluster in which nobody goes on is described
//@ launch: 2 x 64, shared 8192, cluster 2
//@ orders: -
//@ finds: divergent_barrier:block | *threads 0-63 wait at line 2 (`evo::cluster_wait`, barrier of the cluster: 96 of 128 threads) (block 0,0,0)*threads 0-31 wait at line 2 (`evo::cluster_wait`*thread 40 waits at line 3 (`evo::mbarrier_wait` for parity 0*(block 1,0,0) (cluster of 2 blocks, 0 ended)*
if (rank == 1) __syncthreads();
if (rank == 0 || me < 32) evo::cluster_sync();
else { evo::mbarrier_init(bar + me, 2); evo::mbarrier_wait(bar + me, 0); }

//@ case: the blocks of a cluster are neighbors
//@ launch: 4 2 2 x 1, shared 8192, cluster 2 2 1
const int place = blockIdx.x + 4 * (blockIdx.y + 2 * blockIdx.z);
tile[0] = place;
evo::cluster_sync();
out[2 * place] = rank;
out[2 * place + 1] = evo::dsmem_load(evo::mapa(tile, 3));
evo::cluster_sync();
//@ gives:
for (int place = 0; place < 16; place++) {
    int x = place % 4, y = place / 4 % 2, z = place / 8;
    out[2 * place] = x % 2 + 2 * y;
    out[2 * place + 1] = (x | 1) + 4 * (1 + 2 * z);
}

//@ case: the barrier waits for those alone who have not returned
//@ launch: 2 x 64, shared 8192, cluster 2
//@ finds: honest
if (me < 32 && rank == 1) return;
evo::cluster_sync();
out[blockIdx.x * 64 + me] = 1;
//@ gives:
for (int i = 0; i < 128; i++) out[i] = i < 64 || i >= 96 ? 1 : i;

//@ case: each block begins with static shared memory of its own
__shared__ unsigned fixed[64];
volatile unsigned* own = fixed + me;
out[blockIdx.x * 64 + me] = *own;
*own = 7;
//@ gives:
for (int i = 0; i < 256; i++) out[i] = 0xffffffffu;

//@ case: a thread may wait for what another block writes
//@ launch: 8 x 64, shared 8192, cluster 4
if (me < 2) tile[me] = 0;
evo::cluster_sync();
if (me == 0) evo::dsmem_store(evo::mapa(tile, (rank + 1) % size) + 1, 7u);
if (me == 40 && rank % 2 == 0) while (*(volatile unsigned*)(tile + 1) != 7) {}
if (me == 40 && rank % 2 == 1) while (*(volatile unsigned*)(tile + 1) != 7) __nanosleep(5);
evo::cluster_sync();
out[blockIdx.x * 64 + me] = tile[1];
//@ gives:
for (int i = 0; i < 512; i++) out[i] = 7;

//@ case: a block writes what the other has not read yet, which shows in one of two orders
//@ orders: 2 3
//@ with SYNC:
//@ finds: differs
//@ with SYNC: evo::cluster_sync();
//@ finds: honest
tile[me] = rank;
evo::cluster_sync();
const unsigned theirs = evo::dsmem_load(evo::mapa(tile, rank ^ 1) + me);
SYNC
tile[me] = 50;
evo::cluster_sync();
out[blockIdx.x * 64 + me] = theirs;
//@ gives:
for (int i = 0; i < 256; i++) out[i] = 1 - i / 64 % 2;

//@ case: a block writes what the other has not read yet, in two other orders
//@ orders: 4 5
//@ finds: differs
tile[me] = rank;
evo::cluster_sync();
const unsigned theirs = evo::dsmem_load(evo::mapa(tile, rank ^ 1) + me);
tile[me] = 50;
evo::cluster_sync();
out[blockIdx.x * 64 + me] = theirs;

//@ case: blocks of a cluster keep their own memory and barriers
//@ launch: 8 x 64, shared 8192, cluster 4
__shared__ unsigned sum;
__shared__ evo::mbarrier own;
const unsigned left = memory[500];
if (me == 0) {
    sum = 0;
    evo::mbarrier_init(&own, 64);
}
__syncthreads();
atomicAdd(&sum, blockIdx.x);
evo::bar_sync(1, 64);
evo::mbarrier_arrive(&own);
evo::mbarrier_wait(&own, 0);
evo::cluster_sync();
out[blockIdx.x * 64 + me] = sum + (left == 0xffffffffu ? 0 : 1000000);
memory[500] = 3;
//@ gives:
for (int i = 0; i < 512; i++) out[i] = 64 * (i / 64);

//@ case: a block writes beside its own memory
//@ orders: -
//@ finds: oob_write:shared | *block 3,0,0 writes 4 bytes before the start of*
evo::cluster_sync();
if (blockIdx.x == 3 && me == 0) ((volatile unsigned*)memory)[-1] = 5;

//@ case: accesses of a cluster's blocks are in order behind its barriers
//@ launch: BLOCKS x 64, shared 8192, cluster SIZE
//@ orders: -
//@ watch: 1 2 3
//@ with BLOCKS: 8
//@ with SIZE: 4
//@ with BODY: exchange<false>(out, tile);
//@ finds: honest
//@ with BLOCKS: 4
//@ with SIZE: 2
//@ with BODY: arrive_everywhere(out, bar);
//@ finds: honest
//@ with BLOCKS: 4
//@ with SIZE: 2
//@ with BODY: multicast(out, tile, bar);
//@ finds: honest
//@ with BLOCKS: 4
//@ with SIZE: 2
//@ with BODY: exchange<true>(out, tile);
//@ finds: nondeterministic:race | *with no barrier of the cluster in between*
BODY

//@ case: what a block has read is overwritten, or read before it is written
//@ orders: -
//@ watch: 1 2 3
//@ finds: nondeterministic:race | *with no barrier of the cluster in between*
tile[me] = 1;
evo::cluster_sync();
tile[me] = me + 2;
out[blockIdx.x * 64 + me] = evo::dsmem_load(evo::mapa(tile, rank ^ 1) + me);
evo::cluster_sync();

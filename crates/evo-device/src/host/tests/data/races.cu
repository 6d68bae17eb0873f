// Races are found whatever the order of threads.
//@ arguments: const float* in[100] = 1 (input), float* out[100] = 1 (output), float* work[256] = 1 (scratch), int* count[128], int n = 100
//@ launch: 2 x 64, shared 256
//@ watch: 1 0x123456789abcdef0
//@ setup: int t = threadIdx.x, b = blockIdx.x; (void)t; (void)b;
#include <evo/ptx.cuh>

//@ case: no barrier between writing and reading
//@ launch: 1 x 64, shared 256
//@ finds: nondeterministic:race | thread *`tile[*without a barrier in between (block 0,0,0)
__shared__ float tile[64];
tile[t] = in[t];
out[t] = tile[63 - t];

//@ case: a barrier of the warp between two warps
//@ launch: 1 x 64, shared 256
//@ finds: nondeterministic:race | *
__shared__ float tile[64];
tile[t] = in[t];
__syncwarp();
out[t] = tile[(t + 32) % 64];

//@ case: an atomic sum beside its initialization
//@ launch: 1 x 64, shared 256
//@ finds: nondeterministic:race | *`s`*
__shared__ float s;
if (t == 0) s = 0;
atomicAdd(&s, in[t]);
__syncthreads();
out[t] = s;

//@ case: a reduction without barriers
//@ launch: 1 x 64, shared 256
//@ finds: nondeterministic:race | *
__shared__ float s[64];
s[t] = t;
__syncthreads();
for (int w = 32; w > 0; w /= 2) if (t < w) s[t] += s[t + w];
if (t == 0) out[0] = s[0];

//@ case: two blocks write the same
//@ finds: nondeterministic:race | *of block 1,0,0 writes `out[*block 0,0,0 writes*
out[t] = b;

//@ case: a block reads what another writes
//@ finds: nondeterministic:race | *`work[*with no fence and atomic operation in between
if (b == 0) work[t] = t;
else out[t] = work[t];

//@ case: the last block without a fence
//@ finds: nondeterministic:race | *`work[*
work[b * 64 + t] = t;
__syncthreads();
__shared__ int last;
if (t == 0) last = atomicAdd(count, 1) == 1;
__syncthreads();
if (last) out[t] = work[t] + work[64 + t];

//@ case: a flag without a fence
//@ finds: nondeterministic:race | *`work[5]`*
if (b == 0) {
    work[t] = 1;
    if (t == 0) *(volatile int*)count = 1;
} else if (t == 0) {
    if (*(volatile int*)count) out[0] = work[5];
}

//@ case: the last block behind a fence of the block
//@ finds: nondeterministic:race | *`work[*
work[b * 64 + t] = t;
__threadfence_block();
__syncthreads();
__shared__ int last;
if (t == 0) last = atomicAdd(count, 1) == 1;
__syncthreads();
if (last) out[t] = work[t];

//@ case: an operation of a warp orders the lanes of its mask
//@ launch: 1 x 64, shared 256
//@ with MASK: 0x70
//@ with READER: 6
//@ finds: honest
//@ with MASK: 0x70
//@ with READER: 7
//@ finds: nondeterministic:race | *
//@ with MASK: 0x70
//@ with READER: 37
//@ finds: nondeterministic:race | *
//@ with MASK: 0xff
//@ with READER: 7
//@ finds: honest
__shared__ float s;
if (t == 5) s = in[t];
if (t < 32 && (MASK >> t & 1)) __syncwarp(MASK);
if (t == READER) out[t] = s;

//@ case: what a lane does behind an operation of its warp is new again
//@ launch: 1 x 64, shared 256
//@ with LATER:
//@ finds: honest
//@ with LATER: if (t == 5) s = 2;
//@ finds: nondeterministic:race | *
__shared__ float s;
if (t == 5) s = in[t];
__syncwarp();
LATER
if (t == 6) out[t] = s;

//@ case: a thread that is late to pass a barrier does not know what others did behind it
//@ launch: 1 x 64, shared 256
//@ with BETWEEN: __syncthreads();
//@ finds: honest
//@ with BETWEEN:
//@ finds: nondeterministic:race | *
__shared__ float s[64];
for (int i = 0; i < 4; i++) {
    s[t] = t + i;
    __syncthreads();
    float own = s[63 - t];
    BETWEEN
    if (own == 7) out[t] = own;
}

//@ case: a named barrier orders those that come to it
//@ launch: 1 x 96, shared 256
//@ with READER: 64
//@ with AT: evo::bar_sync(1, 64);
//@ finds: honest
//@ with READER: 96
//@ with AT: evo::bar_sync(1, 64);
//@ finds: nondeterministic:race | *
//@ with READER: 64
//@ with AT: if (t < 32) evo::bar_arrive(1, 64); else evo::bar_sync(1, 64);
//@ finds: honest
//@ with READER: 64
//@ with AT: if (t < 32) evo::bar_sync(1, 64); else evo::bar_arrive(1, 64);
//@ finds: nondeterministic:race | *
__shared__ float s[32];
if (t < 32) s[t] = in[t];
if (t < 64) { AT }
if (t >= 32 && t < READER) out[t] = s[t % 32];

//@ case: a phase orders those that arrive before those that wait
//@ launch: 1 x 96, shared 256
//@ with WRITER: 5
//@ with READER: 40
//@ with BEHIND:
//@ finds: honest
//@ with WRITER: 5
//@ with READER: 41
//@ with BEHIND:
//@ finds: nondeterministic:race | *
//@ with WRITER: 5
//@ with READER: 41
//@ with BEHIND: __syncwarp();
//@ finds: honest
//@ with WRITER: 6
//@ with READER: 40
//@ with BEHIND:
//@ finds: nondeterministic:race | *
//@ with WRITER: 6
//@ with READER: 70
//@ with BEHIND: __syncthreads();
//@ finds: honest
__shared__ evo::mbarrier bar;
__shared__ float s;
if (t == 0) evo::mbarrier_init(&bar, 1);
__syncthreads();
if (t == WRITER) s = in[t];
if (t == 5) evo::mbarrier_arrive(&bar);
if (t == 40) evo::mbarrier_wait(&bar, 0);
BEHIND
if (t == READER) out[t] = s;

//@ case: knowledge travels on from block to block, and a third one needs it from the first or the second
//@ launch: 3 x 64, shared 256, side by side
//@ with SECOND: __threadfence(); if (t == 0) *(volatile int*)&count[1] = 1;
//@ finds: honest
//@ with SECOND: if (t == 0) *(volatile int*)&count[1] = 1;
//@ finds: honest
//@ with SECOND: if (t == 1) *(volatile int*)&count[1] = 1;
//@ finds: nondeterministic:race | *
if (b == 0 && t == 0) {
    work[0] = in[0];
    __threadfence();
    *(volatile int*)&count[0] = 1;
} else if (b == 1 && t < 2) {
    if (t == 0) while (!*(volatile int*)&count[0]) {}
    SECOND
} else if (b == 2 && t == 0) {
    while (!*(volatile int*)&count[1]) {}
    out[0] = work[0];
}

// Races are found whatever the order of threads.
//@ arguments: const float* in[100] = 1 (input), float* out[100] = 1 (output), float* work[256] = 1 (scratch), int* count[128], int n = 100
//@ launch: 2 x 64, shared 256
//@ watch: 1 0x123456789abcdef0
//@ setup: int t = threadIdx.x, b = blockIdx.x; (void)t; (void)b;

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

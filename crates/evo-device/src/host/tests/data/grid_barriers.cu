// Blocks that wait for each other in watched launches: barriers of the grid by hand, last blocks, scans that look back.
// Six seeds, so that what overlaps differs.
//@ arguments: const float* in[100] = 1 (input), float* out[100] = 1 (output), float* work[256] = 1 (scratch), int* count[128], int n = 100
//@ launch: 12 x 32
//@ watch: 1 2 3 0x123456789abcdef0 77 0x9e3779b97f4a7c15
//@ setup: int t = threadIdx.x, b = blockIdx.x; (void)t; (void)b;
__device__ void scan_of_packed_words(float* out, int* count) {
    volatile unsigned long long* state = (unsigned long long*)count + 1;
    if (threadIdx.x) return;
    for (;;) {
        int id = atomicAdd(count, 1);
        if (id >= 48) break;
        int sum = 0;
        for (int i = id - 1; i >= 0; i--) {
            unsigned long long seen;
            do seen = state[i];
            while (seen >> 32 != 7 && seen >> 32 != 8);
            sum += (int)seen;
            if (seen >> 32 == 8) break;
        }
        if (id % 3) state[id] = 7ull << 32 | 1u;
        state[id] = 8ull << 32 | (unsigned)(sum + 1);
        out[id] = sum;
    }
}

//@ case: each block waits for the other one, so neither can run alone to its end
//@ launch: 2 x 64, shared 256, side by side
if (t == 0 && b < 2) {
    atomicExch(&count[b], 1);
    while (!atomicAdd(&count[1 - b], 0)) {}
    out[b] = 1;
}

//@ case: a barrier of the grid by one counter
//@ launch: 2 x 64, shared 256, cooperative
//@ with BEFORE: __threadfence(); __syncthreads();
//@ with AFTER: __threadfence(); __syncthreads();
//@ finds: honest
//@ with BEFORE: __threadfence(); __syncthreads();
//@ with AFTER: __syncthreads();
//@ finds: honest
//@ with BEFORE: __syncthreads(); if (t == 0) __threadfence();
//@ with AFTER: __threadfence(); __syncthreads();
//@ finds: honest
//@ with BEFORE: __syncthreads(); if (t == 0) __threadfence();
//@ with AFTER: __syncthreads();
//@ finds: honest
//@ with BEFORE: __syncthreads();
//@ with AFTER: __syncthreads();
//@ finds: nondeterministic:race | *`work[*
//@ with BEFORE: __threadfence_block(); __syncthreads();
//@ with AFTER: __syncthreads();
//@ finds: nondeterministic:race | *`work[*
unsigned* c = (unsigned*)count;
work[b * 64 + t] = 2 * in[t];
BEFORE
if (t == 0) {
    atomicAdd(c, 1u);
    while (*(volatile unsigned*)c < gridDim.x) {}
}
AFTER
if (t < 32) out[b * 32 + t % 32] = ((volatile float*)work)[127 - b * 64 - t % 32];

//@ case: a barrier of the grid by one counter that is read atomically
//@ launch: 2 x 64, shared 256, cooperative
//@ with BEFORE: __threadfence(); __syncthreads();
//@ with AFTER: __threadfence(); __syncthreads();
//@ finds: honest
//@ with BEFORE: __threadfence(); __syncthreads();
//@ with AFTER: __syncthreads();
//@ finds: honest
//@ with BEFORE: __syncthreads(); if (t == 0) __threadfence();
//@ with AFTER: __threadfence(); __syncthreads();
//@ finds: honest
//@ with BEFORE: __syncthreads(); if (t == 0) __threadfence();
//@ with AFTER: __syncthreads();
//@ finds: honest
unsigned* c = (unsigned*)count;
work[b * 64 + t] = 2 * in[t];
BEFORE
if (t == 0) {
    atomicAdd(c, 1u);
    while (atomicAdd(c, 0u) < gridDim.x) {}
}
AFTER
if (t < 32) out[b * 32 + t % 32] = ((volatile float*)work)[127 - b * 64 - t % 32];

//@ case: a barrier of the grid by one counter that the last block does not wait for
//@ launch: 2 x 64, shared 256, cooperative
//@ with BEFORE: __threadfence(); __syncthreads();
//@ with AFTER: __threadfence(); __syncthreads();
//@ finds: honest
//@ with BEFORE: __threadfence(); __syncthreads();
//@ with AFTER: __syncthreads();
//@ finds: honest
//@ with BEFORE: __syncthreads(); if (t == 0) __threadfence();
//@ with AFTER: __threadfence(); __syncthreads();
//@ finds: honest
//@ with BEFORE: __syncthreads(); if (t == 0) __threadfence();
//@ with AFTER: __syncthreads();
//@ finds: honest
unsigned* c = (unsigned*)count;
work[b * 64 + t] = 2 * in[t];
BEFORE
if (t == 0) {
    if (atomicAdd(c, 1u) < gridDim.x - 1)
        while (*(volatile unsigned*)c < gridDim.x) {}
}
AFTER
if (t < 32) out[b * 32 + t % 32] = ((volatile float*)work)[127 - b * 64 - t % 32];

//@ case: a barrier of the grid by a counter and a generation
//@ launch: 2 x 64, shared 256, cooperative
//@ with BEFORE: __threadfence(); __syncthreads();
//@ with AFTER: __threadfence(); __syncthreads();
//@ finds: honest
//@ with BEFORE: __threadfence(); __syncthreads();
//@ with AFTER: __syncthreads();
//@ finds: honest
//@ with BEFORE: __syncthreads(); if (t == 0) __threadfence();
//@ with AFTER: __threadfence(); __syncthreads();
//@ finds: honest
//@ with BEFORE: __syncthreads(); if (t == 0) __threadfence();
//@ with AFTER: __syncthreads();
//@ finds: honest
unsigned* c = (unsigned*)count;
work[b * 64 + t] = 2 * in[t];
BEFORE
if (t == 0) {
    volatile unsigned* g = c + 1;
    unsigned old = *g;
    __threadfence();
    if (atomicAdd(c, 1u) == gridDim.x - 1) {
        *c = 0;
        __threadfence();
        *g = old + 1;
    } else {
        while (*g == old) {}
    }
}
AFTER
if (t < 32) out[b * 32 + t % 32] = ((volatile float*)work)[127 - b * 64 - t % 32];

//@ case: the barrier of cooperative groups
//@ launch: 2 x 64, shared 256, cooperative
work[b * 64 + t] = 2 * in[t];
cooperative_groups::this_grid().sync();
if (t < 32) out[b * 32 + t % 32] = ((volatile float*)work)[127 - b * 64 - t % 32];

//@ case: a last block that reads all partial results: a volatile access needs a fence as any other
//@ with STORE: part[b] = in[b]; __threadfence();
//@ with LOAD: part[i]
//@ finds: honest
//@ with STORE: part[b] = in[b]; __threadfence();
//@ with LOAD: __ldcg(&work[i])
//@ finds: honest
//@ with STORE: work[b] = in[b]; __threadfence();
//@ with LOAD: part[i]
//@ finds: honest
//@ with STORE: part[b] = in[b];
//@ with LOAD: part[i]
//@ finds: nondeterministic:race | thread 0,0,0 of block * reads `work[*
//@ with STORE: __threadfence(); part[b] = in[b];
//@ with LOAD: part[i]
//@ finds: nondeterministic:race | thread 0,0,0 of block * reads `work[*
//@ with STORE: __threadfence(); work[b] = in[b];
//@ with LOAD: part[i]
//@ finds: nondeterministic:race | thread 0,0,0 of block * reads `work[*
//@ with STORE: part[b] = in[b]; __threadfence_block();
//@ with LOAD: part[i]
//@ finds: nondeterministic:race | thread 0,0,0 of block * reads `work[*
//@ with STORE: part[b] = in[b];
//@ with LOAD: work[i]
//@ finds: nondeterministic:race | thread 0,0,0 of block * reads `work[*
__shared__ bool last;
volatile float* part = work;
(void)part;
if (t == 0) {
    STORE
    last = atomicInc((unsigned*)count, gridDim.x - 1) == gridDim.x - 1;
}
__syncthreads();
if (last && t == 0) {
    float sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += LOAD;
    out[0] = sum;
}

//@ case: a scan that looks back needs one fence: a ticket, then a sum and a flag, `count[1 + id]`, for each block
//@ with POLL: while (atomicAdd((int*)&flag[id - 1], 0) != 7) {}
//@ with LOAD: __threadfence(); before = sums[id - 1];
//@ with FENCE: __threadfence();
//@ with SET: atomicExch((int*)&flag[id], 7);
//@ finds: honest
//@ with POLL: while (atomicAdd((int*)&flag[id - 1], 0) != 7) {}
//@ with LOAD: __threadfence(); before = sums[id - 1];
//@ with FENCE:
//@ with SET: atomicExch((int*)&flag[id], 7);
//@ finds: nondeterministic:race | thread 0,0,0 of block * reads `work[*
//@ with POLL: while (atomicAdd((int*)&flag[id - 1], 0) != 7) {}
//@ with LOAD: before = sums[id - 1];
//@ with FENCE: __threadfence();
//@ with SET: atomicExch((int*)&flag[id], 7);
//@ finds: honest
//@ with POLL: while (atomicAdd((int*)&flag[id - 1], 0) != 7) {}
//@ with LOAD: before = sums[id - 1];
//@ with FENCE:
//@ with SET: atomicExch((int*)&flag[id], 7);
//@ finds: nondeterministic:race | thread 0,0,0 of block * reads `work[*
//@ with POLL: while (atomicAdd((int*)&flag[id - 1], 0) != 7) {}
//@ with LOAD: __threadfence(); before = __ldcg(&work[id - 1]);
//@ with FENCE: __threadfence();
//@ with SET: atomicExch((int*)&flag[id], 7);
//@ finds: honest
//@ with POLL: while (atomicAdd((int*)&flag[id - 1], 0) != 7) {}
//@ with LOAD: __threadfence(); before = __ldcg(&work[id - 1]);
//@ with FENCE:
//@ with SET: atomicExch((int*)&flag[id], 7);
//@ finds: nondeterministic:race | thread 0,0,0 of block * reads `work[*
//@ with POLL: while (flag[id - 1] != 7) {}
//@ with LOAD: __threadfence(); before = sums[id - 1];
//@ with FENCE: __threadfence();
//@ with SET: flag[id] = 7;
//@ finds: honest
//@ with POLL: while (flag[id - 1] != 7) {}
//@ with LOAD: __threadfence(); before = sums[id - 1];
//@ with FENCE:
//@ with SET: flag[id] = 7;
//@ finds: nondeterministic:race | thread 0,0,0 of block * reads `work[*
//@ with POLL: while (flag[id - 1] != 7) {}
//@ with LOAD: before = sums[id - 1];
//@ with FENCE: __threadfence();
//@ with SET: flag[id] = 7;
//@ finds: honest
//@ with POLL: while (flag[id - 1] != 7) {}
//@ with LOAD: before = sums[id - 1];
//@ with FENCE:
//@ with SET: flag[id] = 7;
//@ finds: nondeterministic:race | thread 0,0,0 of block * reads `work[*
//@ with POLL: while (flag[id - 1] != 7) {}
//@ with LOAD: __threadfence(); before = __ldcg(&work[id - 1]);
//@ with FENCE: __threadfence();
//@ with SET: flag[id] = 7;
//@ finds: honest
//@ with POLL: while (flag[id - 1] != 7) {}
//@ with LOAD: __threadfence(); before = __ldcg(&work[id - 1]);
//@ with FENCE:
//@ with SET: flag[id] = 7;
//@ finds: nondeterministic:race | thread 0,0,0 of block * reads `work[*
if (t == 0) {
    volatile float* sums = work;
    volatile int* flag = count + 1;
    int id = atomicAdd(count, 1);
    float before = 0;
    if (id) {
        POLL
        LOAD
    }
    sums[id] = before + in[id];
    FENCE
    SET
    out[id] = before;
}

//@ case: flag and sum in one word need no fence, also where 2 blocks draw one ticket after the other
//@ launch: 2 x 32
scan_of_packed_words(out, count);

//@ case: flag and sum in one word need no fence, also where 4 blocks draw one ticket after the other
//@ launch: 4 x 32
scan_of_packed_words(out, count);

//@ case: flag and sum in one word need no fence, also where 12 blocks draw one ticket after the other
//@ launch: 12 x 32
scan_of_packed_words(out, count);


//@ case: blocks wait for earlier ones in every order of threads, by whichever processor threads they run
//@ watch: 0 1 2 3
//@ orders: 0 1 2 3
if (t == 0) {
    if (b) while (atomicAdd(&count[b - 1], 0) == 0) {}
    __threadfence();
    atomicExch(&count[b], 1);
}
//@ gives:
for (int i = 0; i < 12; i++) count[i] = 1;

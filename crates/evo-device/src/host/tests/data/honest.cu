// Oddities that honest kernels have, which must pass watched launches.
//@ arguments: const float* in[100] = 1 (input), float* out[100] = 1 (output), float* work[256] = 1 (scratch), int* count[128], int n = 100
//@ launch: 2 x 64, shared 256
//@ watch: 1 0x123456789abcdef0
//@ setup: int t = threadIdx.x, b = blockIdx.x; (void)t; (void)b;
__device__ int tickets;
struct Sum { float value; __device__ Sum() {} };

//@ case: sums by float atomics
//@ launch: 4 x 96
atomicAdd((float*)count, in[t]);

//@ case: the last block reduces what all blocks left
//@ launch: 4 x 96
__shared__ bool last;
if (t == 0) {
    work[b] = in[b];
    __threadfence();
    last = atomicInc((unsigned*)count, gridDim.x - 1) == gridDim.x - 1;
}
__syncthreads();
if (last && t == 0) {
    float sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += work[i];
    out[0] = sum;
}

//@ case: the same, where every thread fences its own part and the counter is a module variable
//@ launch: 2 x 64
work[b * 64 + t] = t;
__threadfence();
__syncthreads();
__shared__ int ticket;
if (t == 0) ticket = atomicAdd(&tickets, 1);
__syncthreads();
if (ticket % 2 == 1) {
    out[t] = work[t] + work[64 + t];
}

//@ case: shuffles of a part of the warp, and a warp that exchanges through shared memory
//@ launch: 1 x 64, shared 256
__shared__ float s[64];
float v = in[t];
if (t % 32 < 16) v += __shfl_xor_sync(0xffff, v, 8);
s[t] = v;
__syncwarp();
out[t] = s[t ^ 31];
__syncwarp();
s[t] = 0;

//@ case: shared memory used again as another type
//@ launch: 1 x 64, shared 256
extern __shared__ float s[];
s[t] = in[t];
__syncthreads();
float v = s[63 - t];
__syncthreads();
half* h = (half*)s;
h[t] = __float2half(v);
__syncthreads();
out[t] = __half2float(h[63 - t]);

//@ case: two buffers and one barrier for each step
//@ launch: 1 x 64, shared 256
__shared__ float s[2][64];
float sum = 0;
s[0][t] = in[t];
for (int i = 0; i < 8; i++) {
    __syncthreads();
    s[(i + 1) & 1][t] = in[(t + i) % n];
    sum += s[i & 1][63 - t];
}
out[t] = sum;

//@ case: vector loads with a tail behind a branch
//@ launch: 1 x 64, shared 256
int at = 4 * t;
if (at + 3 < n) *(float4*)(out + at) = *(const float4*)(in + at);
else for (; at < n; at++) out[at] = in[at];

//@ case: a stride over the grid
//@ launch: 4 x 96
for (int i = b * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) out[i] = in[i];

//@ case: a histogram in shared memory
//@ launch: 1 x 64, shared 256
__shared__ int bins[8];
if (t < 8) bins[t] = 0;
__syncthreads();
atomicAdd(&bins[t % 8], 1);
__syncthreads();
if (t < 8) out[t] = bins[t];

//@ case: everybody says the same
//@ launch: 1 x 64, shared 256
//@ finds: SameValue
__shared__ int any;
any = 0;
__syncthreads();
if (in[t] > 0) any = 1;
__syncthreads();
out[t] = any;

//@ case: a lock around plain memory
//@ launch: 4 x 96
if (t == 0) {
    while (atomicCAS(count, 0, 1) != 0) {}
    __threadfence();
    ((float*)count)[1] += in[b];
    __threadfence();
    atomicExch(count, 0);
}

//@ case: a chain of blocks, each of which waits for the one before
//@ launch: 4 x 96
if (t == 0) {
    volatile int* flag = count;
    while (*flag != b) {}
    __threadfence();
    work[b] = b ? work[b - 1] + 1 : 1;
    out[b] = work[b];
    __threadfence();
    *flag = b + 1;
}

//@ case: one warp produces, another consumes, with a flag in shared memory
//@ launch: 1 x 64, shared 256
__shared__ float s[32];
__shared__ volatile int ready;
if (t == 0) ready = 0;
__syncthreads();
if (t < 32) {
    s[t] = in[t];
    __threadfence_block();
    __syncwarp();
    if (t == 0) ready = 1;
} else {
    while (!ready) {}
    __threadfence_block();
    out[t] = s[t - 32];
}

//@ case: neighbors in the bytes of one word
//@ launch: 1 x 64, shared 256
((unsigned char*)out)[t] = t;
((half*)work)[t] = __float2half(in[t]);

//@ case: types with constructors, which C++ would initialize
//@ launch: 1 x 64, shared 256
__shared__ half a[8][9], h[64];
__shared__ Sum s[64];
a[t / 8][t % 8] = h[t] = __float2half(in[t]);
s[t].value = in[t];
__syncthreads();
out[t] = __half2float(a[t % 8][t / 8]) + __half2float(h[63 - t]) + s[t ^ 1].value;

//@ case: lanes that give way on their way here are active all the same
//@ launch: 1 x 64, shared 256
int bin = (int)in[t] & 3;
unsigned active = __activemask(), peers = __match_any_sync(active, bin);
if (t % 32 == __ffs(peers) - 1) atomicAdd(&count[bin], __popc(peers));
if (active == 0xffffffffu) out[t] = 1;

//@ case: read first, then lower
//@ launch: 4 x 96
//@ finds: UnorderedAtomic
int* least = count;
if (*least > -t) atomicMin(least, -t);

// Conditions of checked runs: what depends on the order of turns, or on what memory holds before it is written, gives
// another output under one of a few conditions. What does not, does not. The orders are the ascending one and two pairs
// of opposite ones; without a pattern a stack holds what other kernels left there.
//@ arguments: int* out[256]
//@ launch: 1 x 64
//@ threads: 1
//@ orders: - 2 3 10 11

//@ case: a missing barrier: __syncthreads between two warps
//@ launch: 2 x 64
//@ finds: differs
__shared__ int s[64];
int t = threadIdx.x;
s[t] = t + 1;
if (t >= 32) out[t] = s[t - 32];
else if (t == 0) out[blockIdx.x] = 5;

//@ case: a missing barrier: __syncthreads before the next round
//@ launch: 1 x 128
//@ finds: differs
__shared__ int s[128];
int t = threadIdx.x;
s[t] = t;
for (int i = 0; i < 3; i++) {
    __syncthreads();
    int v = s[(t + 33) % 128];
    s[t] = v + 1;
}
__syncthreads();
out[t] = s[t];

//@ case: a missing barrier: __syncwarp between lanes
//@ launch: 1 x 32
//@ finds: differs
__shared__ int s[32];
int t = threadIdx.x;
s[t] = t + 1;
if (t > 0) out[t] = s[t - 1];

//@ case: a missing barrier: an earlier block's output
//@ launch: 4 x 32
//@ finds: differs
int b = blockIdx.x;
if (threadIdx.x == 0) out[b] = b == 0 ? 7 : out[b - 1] + 1;

//@ case: a missing barrier: the last thread's sum
//@ launch: 1 x 96
//@ finds: differs
__shared__ int n;
int t = threadIdx.x;
if (t == 0) n = 0;
__syncthreads();
int old = n;
n = old + 1;
if (t == 95) out[0] = n;

//@ case: a kernel with its barriers is right in every order
//@ launch: 9 x 256
//@ finds: honest
//@ residues: - 0x7fffffff 0x7e000000 0xfe000000
__shared__ int s[256];
int t = threadIdx.x, lane = t % 32, sum = 0;
s[t] = t;
for (int i = 0; i < 5; i++) {
    __syncthreads();
    int next = s[(t + 37) % blockDim.x];
    __syncthreads();
    s[t] = next;
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(~0u, next, o);
    if (lane < 11) sum += __popc(__activemask()) >= 1;
    __syncwarp();
}
if (t >= 200) return;
__syncthreads();
atomicAdd(&out[t], s[(t + 1) % blockDim.x] + sum);

//@ case: what is read before it is written: shared memory that nobody writes
//@ launch: 2 x 64, shared 256
//@ orders: -
//@ residues: 0x7fffffff 0x7e000000 0xfe000000
//@ finds: differs
__shared__ int s[64];
out[threadIdx.x] = s[threadIdx.x];

//@ case: what is read before it is written: static shared memory
//@ launch: 2 x 64, shared 256
//@ orders: -
//@ residues: 0x7fffffff 0x7e000000 0xfe000000
//@ finds: differs
__shared__ int s[64];
if (threadIdx.x < 9) s[threadIdx.x] = 1;
out[threadIdx.x] = s[threadIdx.x];

//@ case: what is read before it is written: dynamic shared memory
//@ launch: 2 x 64, shared 256
//@ orders: -
//@ residues: 0x7fffffff 0x7e000000 0xfe000000
//@ finds: differs
extern __shared__ int s[];
out[threadIdx.x] = s[threadIdx.x];

//@ case: what is read before it is written: a maximum over shared memory
//@ launch: 2 x 64, shared 256
//@ orders: -
//@ residues: 0x7fffffff 0x7e000000 0xfe000000
//@ finds: differs
__shared__ float s[64];
s[threadIdx.x] = max(s[threadIdx.x], 3.0f);
out[threadIdx.x] = s[threadIdx.x] > 100;

//@ case: what is read before it is written: a local array
//@ launch: 2 x 64, shared 256
//@ orders: -
//@ residues: 0x7fffffff 0x7e000000 0xfe000000
//@ finds: differs
volatile int a[40];
a[threadIdx.x % 7] = 1;
out[threadIdx.x] = a[threadIdx.x % 40];

//@ case: what is read before it is written: a deep local array
//@ launch: 2 x 64, shared 256
//@ orders: -
//@ residues: 0x7fffffff 0x7e000000 0xfe000000
//@ finds: differs
volatile int a[3000];
a[threadIdx.x % 7] = 1;
out[threadIdx.x] = a[100 * (threadIdx.x % 30)];

//@ case: what is read before it is written: a local array behind a barrier
//@ launch: 2 x 64, shared 256
//@ orders: -
//@ residues: 0x7fffffff 0x7e000000 0xfe000000
//@ finds: differs
volatile int a[40];
__syncthreads();
out[threadIdx.x] = a[threadIdx.x % 40];

//@ case: dynamic shared memory holds the pattern
//@ launch: 1 x 64, shared 256
//@ orders: -
//@ residues: 0x7e000000
extern __shared__ int s[];
out[threadIdx.x] = s[threadIdx.x];
//@ gives:
for (int i = 0; i < 64; i++) out[i] = 0x7e000000;

//@ case: every thread begins on the pattern, though all run one after another on the same fiber
//@ launch: 1 x 256
//@ orders: -
//@ residues: 0x12345678
volatile int a[200];
int n = 0;
for (int i = 0; i < 200; i++) n += a[i] == 0x12345678;
for (int i = 0; i < 200; i++) a[i] = i;
assert(n >= 195);

//@ case: clocks start where a run says, and waits end
//@ arguments: int* out[1]
//@ launch: 2 x 3
//@ orders: -
//@ residues: -
//@ clocks: CLOCK
//@ with CLOCK: 0
//@ with STARTS: first == 0 && second == 1 && third == 2
//@ finds: honest
//@ with CLOCK: 0xffffffffff
//@ with STARTS: first == (1ll << 40) - 1 && second == 1ll << 40 && third == (1ll << 40) + 1
//@ finds: honest
//@ with CLOCK: -
//@ with STARTS: first >> 16 != 0 && second >= first
//@ finds: honest
long long first = clock64(), second = clock();
unsigned long long third = globaltimer();
long long last = third;
while (last - first < 1000000) {
    long long now = clock64();
    assert(now >= last);
    last = now;
}
assert(STARTS);

//@ case: samples are taken under the default conditions, launches under those that are asked for
//@ arguments: int* out[256]
//@ launch: 1 x 32
//@ orders: 1
//@ residues: 5
//@ clocks: 7
//@ places: start
//@ sample: SAMPLE
//@ with SAMPLE: 2 3
//@ with RUNS: 6
//@ with PLACE: 3072
//@ finds: honest
//@ with SAMPLE: -
//@ with RUNS: 1
//@ with PLACE: 0
//@ finds: honest
__shared__ int s;
if (threadIdx.x == 31) s = 4;
if (threadIdx.x == 0) out[0] += 1;
out[1] = (long long)out % 4096;
//@ gives:
out[0] = RUNS;
out[1] = PLACE;

//@ case: a write into the slack behind a buffer and before it is found afterwards, and what the buffer holds is kept
//@ arguments: float* out[100] = 3, float* later[5] = 1
//@ launch: 1 x 1
//@ orders: -
//@ with WRITE: out[100] = 1; out[-1] = 2
//@ with PLACE: -
//@ finds: beside out -4, out 400
//@ with WRITE: out[700] = 1
//@ with PLACE: start
//@ finds: beside out 2800
//@ places: PLACE
WRITE;
out[0] += 2;
//@ gives:
out[0] = 5;

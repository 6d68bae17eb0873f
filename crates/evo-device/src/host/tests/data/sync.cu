// Barriers and warp operations: what they compute, and how those that cannot end are named.
//@ arguments: int* out[1024]
//@ launch: 1 x 256
#include <cuda_fp16.h>

//@ case: threads at different barriers
//@ launch: 1 x 256
//@ finds: divergent_barrier:block | threads 0-63 wait at line 2 (`__syncthreads`), threads 64-255 wait at line 4 (`__syncthreads`) (block 0,0,0)
if (threadIdx.x < 64)
    __syncthreads();
else
    __syncthreads();

//@ case: threads at different barriers, when others left
//@ launch: 1 x 128
//@ finds: divergent_barrier:block | threads 0-31 wait at line 2 (`__syncthreads`), threads 32-99 wait at line 4 (`__syncthreads`), threads 100-127 have returned (block 0,0,0)
if (threadIdx.x > 99) return;
if (threadIdx.x < 32) __syncthreads();
else
    __syncthreads();

//@ case: lanes missing from a shuffle
//@ launch: 1 x 32
//@ finds: divergent_barrier:warp | threads 0-3 wait at line 2 (`__shfl_down_sync`, mask 0xffffffff), threads 4-31 have returned (block 0,0,0)
if (threadIdx.x % 32 < 4)
    out[0] = __shfl_down_sync(0xffffffff, 1, 1);

//@ case: a lane that is not in its mask
//@ launch: 1 x 2
//@ finds: divergent_barrier:warp | thread 1 waits at line 1 (`__syncwarp`, mask 0x00000001), thread 0 has returned (block 0,0,0)
if (threadIdx.x < 2) __syncwarp(1);

//@ case: the device lives on behind all these
//@ launch: 3 x 256
__syncthreads();
out[threadIdx.x] = 1;
//@ gives:
for (int i = 0; i < 256; i++) out[i] = 1;

//@ case: threads that left do not keep others at a barrier
//@ with COUNT: 1
//@ finds: honest
//@ with COUNT: 37
//@ finds: honest
//@ with COUNT: 128
//@ finds: honest
//@ with COUNT: 255
//@ finds: honest
//@ with COUNT: 256
//@ finds: honest
__shared__ int sum;
if (threadIdx.x == 0) sum = 0;
__syncthreads();
if (threadIdx.x >= COUNT) return;
atomicAdd(&sum, 1);
__syncthreads();
int all = __syncthreads_and(1), count = __syncthreads_count(threadIdx.x % 2);
out[threadIdx.x] = sum + 1000 * all + 10000 * count;
//@ gives:
for (int i = 0; i < COUNT; i++) out[i] = COUNT + 1000 + 10000 * (COUNT / 2);

//@ case: an early exit without later barriers
//@ launch: 1 x 1000
__syncthreads();
if (threadIdx.x & 1) return;
out[threadIdx.x] = 1;
//@ gives:
for (int i = 0; i < 1000; i += 2) out[i] = 1;

//@ case: counting barriers
//@ launch: 1 x 100
int t = threadIdx.x;
int count = __syncthreads_count(t % 3 == 0), all = __syncthreads_and(t < 100), any = __syncthreads_or(t == 99);
int none = __syncthreads_or(0), every = __syncthreads_and(5);
out[t] = count * 10000 + all * 1000 + any * 100 + none * 10 + every;
//@ gives:
for (int i = 0; i < 100; i++) out[i] = 34 * 10000 + 1101;

//@ case: many barriers in a loop keep threads in step
//@ launch: 3 x 1024
__shared__ int ring[1024];
int n = blockDim.x, t = threadIdx.x;
ring[t] = t;
for (int i = 0; i < 100; i++) {
    __syncthreads();
    int next = ring[(t + 1) % n];
    __syncthreads();
    ring[t] = next;
}
out[t] = ring[t];
//@ gives:
for (int i = 0; i < 1024; i++) out[i] = (i + 100) % 1024;

//@ case: warp operations compute over their mask
//@ launch: 1 x 96
int t = threadIdx.x, lane = t & 31;
long long v = 0;
v += __ballot_sync(0xffffffffu, lane % 2) == 0xaaaaaaaau;
v += (__any_sync(~0u, lane == 31) && !__any_sync(~0u, 0) && __all_sync(~0u, 1)) << 1;
v += (__reduce_add_sync(~0u, lane) == 496) << 2;
v += (__reduce_min_sync(~0u, -lane) == -31 && __reduce_max_sync(~0u, (unsigned)-lane) == 0xffffffffu) << 3;
v += (__match_any_sync(~0u, lane / 16) == (lane < 16 ? 0xffffu : 0xffff0000u)) << 4;
v += (__shfl_sync(~0u, 1.5 * lane, 7) == 10.5) << 5;
v += (__shfl_up_sync(~0u, (long long)lane << 40, 1) == (long long)(lane ? lane - 1 : 0) << 40) << 6;
v += ((float)__shfl_xor_sync(~0u, __float2half((float)lane), 1) == (float)(lane ^ 1)) << 7;
v += (__shfl_down_sync(~0u, (unsigned char)lane, 4, 8) == (lane % 8 < 4 ? lane + 4 : lane)) << 8;
if (lane < 8) v += (__reduce_add_sync(0xffu, 1) == 8 && __activemask() == 0xffu) << 9;
else v += (__reduce_or_sync(0xffffff00u, 1u << lane) == 0xffffff00u) << 9;
__syncwarp();
half2 pair = __shfl_xor_sync(~0u, __floats2half2_rn(lane, -lane), 2);
v += (__low2float(pair) == (lane ^ 2) && __high2float(pair) == -(lane ^ 2)) << 10;
out[t] = v;
//@ gives:
for (int i = 0; i < 96; i++) out[i] = 0x7ff;

//@ case: shuffles stay inside their segment, and a lane outside of the mask reads as all ones
//@ launch: 1 x 32
int lane = threadIdx.x, found[11];
found[0] = __shfl_sync(~0u, lane, 3);
found[1] = __shfl_sync(~0u, lane, 3, 8);
found[2] = __shfl_sync(~0u, lane, 11, 8);
found[3] = __shfl_up_sync(~0u, lane, 1, 8);
found[4] = __shfl_down_sync(~0u, lane, 1, 8);
found[5] = __shfl_xor_sync(~0u, lane, 16);
found[6] = __shfl_xor_sync(~0u, lane, 16, 16);
found[7] = __match_all_sync(~0u, lane / 32, found + 8);
found[9] = found[10] = -1;
if (lane == 0) found[9] = __shfl_down_sync(1u, lane, 1);
if (lane < 3) found[10] = __match_any_sync(7u, lane / 2);
for (int i = 0; i < 11; i++) out[11 * lane + i] = found[i];
//@ gives:
for (int lane = 0; lane < 32; lane++) {
    int first = lane / 8 * 8, *found = out + 11 * lane;
    found[0] = 3;
    found[1] = found[2] = first + 3;
    found[3] = lane == first ? lane : lane - 1;
    found[4] = lane == first + 7 ? lane : lane + 1;
    found[5] = lane ^ 16;
    found[6] = lane < 16 ? lane : lane ^ 16;
    found[7] = -1;
    found[8] = 1;
    found[9] = found[10] = -1;
    if (lane < 3) found[10] = lane < 2 ? 3 : 4;
}

//@ case: a waiting thread that sleeps lets others run
volatile int* flag = out;
if (threadIdx.x == 0) { while (*flag == 0) __nanosleep(100); out[1] = 5; }
else if (threadIdx.x == 200) *flag = 1;
//@ gives:
out[0] = 1;
out[1] = 5;

//@ case: a trap
//@ launch: 2 x 64
//@ finds: crash_trap | trap at line 1, thread 33,0,0 of block 1,0,0
if (threadIdx.x == 33 && blockIdx.x == 1) __trap();

//@ case: an assertion: the last thread to come to a barrier goes on first, so it is the one that fails
//@ launch: 2 x 64
//@ finds: crash_assert | assertion `threadIdx.x < 5` fails at line 2, thread 63,0,0 of block 0,0,0
__syncthreads();
if (blockIdx.x == 0) assert(threadIdx.x < 5);

//@ case: a cooperative launch may spin between its blocks
//@ launch: 2 x 32, cooperative
if (threadIdx.x == 0) {
    atomicAdd(&out[0], 1);
    while (atomicAdd(&out[0], 0) < (int)gridDim.x) {}
}
__syncthreads();
if (threadIdx.x == 1) atomicAdd(&out[1], 1);
//@ gives:
out[0] = out[1] = 2;

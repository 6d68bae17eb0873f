// Threads that wait for others by reading memory again and again.
//@ arguments: int* out[512]
//@ launch: 1 x 128

//@ case: a thread that spins on shared memory lets others run
//@ launch: 4 x 256
__shared__ volatile int flag;
if (threadIdx.x == 0) flag = 0;
__syncthreads();
if (threadIdx.x == 0) { while (flag == 0) {} out[blockIdx.x] = flag; }
else if (threadIdx.x == blockDim.x - 1) flag = 1 + blockIdx.x;
//@ gives:
for (int i = 0; i < 4; i++) out[i] = i + 1;

//@ case: a thread that spins lets others run in every order
//@ orders: - 6 7
__shared__ volatile int turn;
if (threadIdx.x == 0) turn = 0;
__syncthreads();
if (threadIdx.x % 16 == 0) {
    while (turn != threadIdx.x / 16) {}
    out[threadIdx.x / 16] = turn;
    turn = turn + 1;
}
//@ gives:
for (int i = 0; i < 8; i++) out[i] = i;

//@ case: blocks that wait for earlier ones end in every order, as kernels with a semaphore per output tile do
//@ launch: 40 x 64
//@ threads: 1 2
//@ orders: - 4 5
int b = blockIdx.x;
__shared__ int sum;
if (threadIdx.x == 0) {
    while (((volatile int*)out)[0] != b) {}
    __threadfence();
    sum = out[1] + b;
}
__syncthreads();
if (threadIdx.x == 40) out[1] = sum;
__syncthreads();
__threadfence();
if (threadIdx.x == 0) atomicExch(out, b + 1);
//@ gives:
out[0] = 40;
out[1] = 40 * 39 / 2;

//@ case: more blocks than processor threads meet at a barrier of the grid
//@ arguments: int* out[24], unsigned* bar[1]
//@ launch: 5 x 64
//@ threads: 1 2
//@ orders: - 4
for (int round = 0; round < 3; round++) {
    if (threadIdx.x == 0) {
        ((volatile int*)out)[blockIdx.x + 8 * round] = round == 0 ? 1 : ((volatile int*)out)[(blockIdx.x + 1) % 5 + 8 * (round - 1)] + 1;
        __threadfence();
        unsigned ticket = atomicAdd(bar, 1u), target = (ticket / gridDim.x + 1) * gridDim.x;
        while (*(volatile unsigned*)bar < target) __nanosleep(40);
    }
    __syncthreads();
}
//@ gives:
for (int i = 0; i < 5; i++) out[i] = 1, out[8 + i] = 2, out[16 + i] = 3;
*bar = 15;

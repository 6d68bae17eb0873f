// What a module keeps from call to call, and what of it is restored.
//@ arguments: int* y[4], int keep = 0
//@ launch: 1 x 4
#include <cooperative_groups.h>
__device__ int calls;
__device__ float table[4] = {1, 2, 3, 4};
__constant__ float fixed[2] = {5, 6};
namespace { __device__ unsigned hidden; }

//@ case: variables of every kind are as they were before each call
//@ launch: 1 x 1
//@ orders: - 2 3
//@ leaves: calls hidden local table
static int local = 7;
y[0] = ++calls;
y[1] = (int)(table[0] + fixed[1]);
y[2] = ++local;
y[3] = (int)++hidden;
table[0] += 1;
//@ gives:
y[0] = 1;
y[1] = 7;
y[2] = 8;
y[3] = 1;

//@ case: what is kept of the device heap, which is small, shows
//@ leaves: LEAVES
//@ with KEEPS: 0
//@ with LEAVES: nothing
//@ finds: honest
//@ with KEEPS: 1
//@ with LEAVES: evo_heap_in_use
//@ finds: honest
int* own = (int*)malloc(4 * 100);
for (int at = 0; at < 100; at++) own[at] = at + threadIdx.x;
y[threadIdx.x] = own[99] + (malloc(9 << 20) == nullptr ? 0 : 1000);
if (!KEEPS) free(own);
//@ gives:
for (int i = 0; i < 4; i++) y[i] = 99 + i;

//@ case: a barrier of the grid leaves nothing behind
//@ launch: 2 x 32, cooperative
//@ leaves: nothing
for (int i = 0; i < 3; i++) cooperative_groups::this_grid().sync();

// What is refused before a kernel runs, as on a GPU, and where dynamic shared memory lies.
//@ arguments: int* out[1]
//@ launch: 1 x 32

//@ case: geometry is refused as on a GPU
//@ launch: LAUNCH
//@ with LAUNCH: 1 x 32
//@ finds: honest
//@ with LAUNCH: 0 x 32
//@ finds: launch_fail:grid | grid x is 0, allowed are 1 to 2147483647
//@ with LAUNCH: 1 65536 x 32
//@ finds: launch_fail:grid | grid y is 65536, allowed are 1 to 65535
//@ with LAUNCH: 1 x 32 33
//@ finds: launch_fail:threads | 1056 threads per block, the limit is 1024
//@ with LAUNCH: 1 x 32 1 65
//@ finds: launch_fail:threads | block z is 65, allowed are 1 to 64
//@ with LAUNCH: 1 x 32, cluster 2
//@ finds: launch_fail:cluster | a grid of 1 blocks in x is not whole clusters of 2
//@ with LAUNCH: 4 2 x 32, cluster 2 2
//@ finds: honest
//@ with LAUNCH: 4 3 x 32, cluster 2 2
//@ finds: launch_fail:cluster | a grid of 3 blocks in y is not whole clusters of 2
//@ with LAUNCH: 8 x 32, cluster 8
//@ finds: honest
//@ with LAUNCH: 16 x 32, cluster 16
//@ finds: launch_fail:cluster | a cluster of 16 blocks, allowed are 1 to 8: *
//@ with LAUNCH: 1 x 32, cluster 0
//@ finds: launch_fail:cluster | a cluster of 0 blocks, allowed are 1 to 8: *
//@ with LAUNCH: 1 x 32, cluster 1
//@ finds: honest
//@ with LAUNCH: 2 x 32, cooperative
//@ finds: honest
//@ with LAUNCH: 3 x 32, cooperative
//@ finds: launch_fail:cooperative | a cooperative launch of 3 blocks, 2 can be resident (one per core)
if (threadIdx.x == 0) out[0] = 0;

//@ case: dynamic shared memory begins as aligned as it is declared, and is surrounded by what is looked at
//@ with BYTES: 100
//@ with AT: 99
//@ finds: honest
//@ with BYTES: 100
//@ with AT: 100
//@ finds: oob_write:shared | block 0,0,0 writes directly behind the end of `dynamic shared memory` *
//@ with BYTES: 100
//@ with AT: -256
//@ finds: oob_write:shared | block 0,0,0 writes 256 bytes before the start of `dynamic shared memory` *
//@ with BYTES: 232448
//@ with AT: 232447
//@ finds: honest
//@ with BYTES: 232449
//@ with AT: 0
//@ finds: launch_fail:smem | 232449 bytes of dynamic and 0 of static shared memory exceed 232448
//@ launch: 1 x 32, shared BYTES
extern __shared__ __align__(1024) char s[];
assert((size_t)s % 1024 == 0);
if (threadIdx.x == 0) ((volatile char*)s)[AT] = 1;

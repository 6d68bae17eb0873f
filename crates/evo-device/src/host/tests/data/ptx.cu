// `evo/ptx.cuh`: what its functions demand, and that copies land when they are waited for. What they compute is checked
// by `evo-selftest ptx` on every device.
//@ arguments: unsigned* out[1024] = i
//@ launch: 1 x 32, shared 4096
#include <evo/ptx.cuh>

//@ case: a copy lands at its wait and no earlier
//@ launch: 1 x 1, shared 4096
extern __shared__ unsigned tile[];
for (int i = 0; i < 4; i++) tile[i] = 7;
for (int i = 0; i < 3; i++) {
    evo::cp_async_ca<4>(tile + i, out + 100 + i);
    evo::cp_async_commit();
}
evo::cp_async_ca_zfill<4>(tile + 3, out + 103, 1);
for (int i = 0; i < 4; i++) out[i] = tile[i];
evo::cp_async_wait<1>();
for (int i = 0; i < 4; i++) out[4 + i] = tile[i];
evo::cp_async_wait<0>();
for (int i = 0; i < 4; i++) out[8 + i] = tile[i];
evo::cp_async_wait_all();
for (int i = 0; i < 4; i++) out[12 + i] = tile[i];
//@ gives:
const unsigned none = 0xffffffff;
const unsigned expected[] = {none, none, none, none, 100, 101, none, none, 100, 101, 102, none, 100, 101, 102, 103};
for (int i = 0; i < 16; i++) out[i] = expected[i];

//@ case: groups without copies count
//@ launch: 1 x 1, shared 4096
extern __shared__ unsigned tile[];
evo::cp_async_ca<4>(tile, out + 100);
evo::cp_async_wait<0>();
out[0] = tile[0];
evo::cp_async_commit();
evo::cp_async_wait<1>();
out[1] = tile[0];
evo::cp_async_commit();
evo::cp_async_wait<1>();
out[2] = tile[0];
//@ gives:
out[0] = out[1] = 0xffffffff;
out[2] = 100;

//@ case: a thread starts without the copies of the one before
//@ launch: 1 x 64, shared 4096
__shared__ unsigned tile[64];
tile[threadIdx.x] = threadIdx.x;
if (threadIdx.x == 0) evo::cp_async_ca<4>(tile, out + 500);
evo::cp_async_commit();
if (threadIdx.x > 0) evo::cp_async_wait_all();
out[threadIdx.x] = tile[threadIdx.x];
//@ gives:
out[0] = 0xffffffff;

//@ case: operations of a warp want all of it
//@ finds: divergent_barrier:warp | threads 0-4, 6-31 wait at line 4 (`evo::mma`, mask 0xffffffff), thread 5 has returned (block 0,0,0)
unsigned a[2] = {}, b[1] = {};
float c[4] = {};
if (threadIdx.x != 5)
    evo::mma_m16n8k8<evo::f16>(c, a, b, c);

//@ case: operations of a warp want a warp of 32 threads
//@ launch: 1 x 48, shared 4096
//@ finds: crash_illegal_instruction | *fewer than 32 threads*line 3, thread 32,0,0*
unsigned a[2] = {}, b[1] = {};
float c[4] = {};
evo::mma_m16n8k8<evo::f16>(c, a, b, c);

//@ case: addresses
//@ with CALL: evo::ldmatrix_x1(r, tile + threadIdx.x);
//@ finds: crash_misaligned | *misaligned row of ldmatrix*line 2, thread*
//@ with CALL: evo::ldmatrix_x1(r, out);
//@ finds: crash_illegal_instruction | *not shared memory*line 2, thread*
//@ with CALL: evo::ldmatrix_x1(r, tile + 1024);
//@ finds: crash_illegal_instruction | *not shared memory*line 2, thread*
//@ with CALL: evo::stmatrix_x1(out, 0u);
//@ finds: crash_illegal_instruction | *not shared memory*line 2, thread*
//@ with CALL: evo::cp_async_cg(tile + 4, out + 2);
//@ finds: crash_misaligned | *misaligned source of cp.async*line 2, thread*
//@ with CALL: evo::cp_async_ca<8>(tile + 1, out);
//@ finds: crash_misaligned | *misaligned target of cp.async*line 2, thread*
//@ with CALL: evo::cp_async_ca<4>(out, out);
//@ finds: crash_illegal_instruction | *not shared memory*line 2, thread*
//@ with CALL: evo::cp_async_cg_zfill(tile, out, 17);
//@ finds: crash_illegal_instruction | *more bytes*line 2, thread*
extern __shared__ unsigned tile[]; unsigned r;
CALL

//@ case: rows of static shared memory are shared memory
__shared__ uint4 rows[8];
if (threadIdx.x < 8) rows[threadIdx.x] = make_uint4(threadIdx.x, 0, 0, 0);
__syncwarp();
unsigned r;
evo::ldmatrix_x1(r, rows + threadIdx.x % 8);
out[threadIdx.x] = r;
//@ gives:
for (int i = 0; i < 32; i++) out[i] = i % 4 == 0 ? i / 4 : 0;

//@ case: a named barrier that too few threads come to
//@ launch: 1 x 96, shared 4096
//@ finds: divergent_barrier:block | threads 0-63 wait at line 2 (`evo::bar_sync`, barrier 3, 64 of 96 threads), threads 64-95 have returned (block 0,0,0)
if (threadIdx.x < 64)
    evo::bar_sync(3, 96);

//@ case: a named barrier is for whole warps
//@ finds: divergent_barrier:warp | *threads 0-15 wait at line 1 (`evo::bar_arrive`*
if (threadIdx.x < 16) evo::bar_arrive(3, 32);

//@ case: misused named barriers
//@ launch: 1 x 64, shared 4096
//@ with CALL: evo::bar_sync(0, 64);
//@ finds: crash_illegal_instruction | *belongs to __syncthreads*
//@ with CALL: evo::bar_sync(16, 64);
//@ finds: crash_illegal_instruction | *barriers 0 to 15*
//@ with CALL: evo::bar_sync(1, 48);
//@ finds: crash_illegal_instruction | *multiple of 32*
//@ with CALL: evo::bar_sync(1, threadIdx.x < 32 ? 64 : 96);
//@ finds: crash_illegal_instruction | *different numbers of threads*
CALL

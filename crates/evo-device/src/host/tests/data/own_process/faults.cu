// Faults end the process, so each of these runs in a process of its own; what they find are its last words.
//@ arguments: const float* in[100] = 1 (input), float* out[100], int n = 100
//@ launch: 1 x 8, shared 64

//@ case: a write behind an output
//@ finds: oob_write | thread 3,0,0 of block 0,0,0 writes 16 bytes behind the end of `out` (400 bytes long)
if (threadIdx.x == 3) out[104 + blockIdx.x] = 1;

//@ case: a read far behind an input
//@ finds: oob_read | thread 0,0,0 of block 0,0,0 reads 3600 bytes behind the end of `in` (400 bytes long)
__syncthreads();
if (threadIdx.x == 0) out[0] = in[1000];

//@ case: a read before an input: two pages back, because the rest of the first page is mapped and only checked afterwards
//@ finds: oob_read | thread 0,0,0 of block 0,0,0 reads 8192 bytes before the start of `in`
out[0] = in[-2048 + (int)threadIdx.x];

//@ case: a write behind shared memory
//@ finds: oob_write:shared | thread 4,0,0 of block 0,0,0 writes directly behind the end of `dynamic shared memory` (64 bytes long)
extern __shared__ float s[];
s[4 * threadIdx.x] = 1;

//@ case: a write to an input
//@ finds: input_mutated | thread 5,0,0 of block 0,0,0 writes to input `in`, 28 bytes from its start
if (threadIdx.x == 5) ((float*)in)[7] = 1;

//@ case: a write before an input
//@ finds: oob_write | thread 0,0,0 of block 0,0,0 writes 4 bytes before the start of `in`
((float*)in)[-1] = 1;

//@ case: a stack that is too small
//@ finds: crash_stack | thread 0,0,0 of block 0,0,0 overflows its stack
volatile char big[200000];
big[n] = 1;
out[0] = big[n];

//@ case: a null pointer
//@ finds: crash_illegal_address | thread 0,0,0 of block 0,0,0 uses an address outside all buffers
*(volatile int*)0 = n;

//@ case: a misaligned vector
//@ finds: crash_misaligned | thread 0,0,0 of block 0,0,0 uses a misaligned address for a vector access
*(float4*)(out + 1) = *(const float4*)(in + 2);

//@ case: a division by zero
//@ finds: crash_other:divide | thread 0,0,0 of block 0,0,0 divides an integer by zero
out[0] = 5 / (n - 100);

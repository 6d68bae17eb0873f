// Accesses that are wrong whatever the threads do, found to the byte by watched launches.
//@ arguments: const float* in[100] = 1 (input), float* out[100] = 1 (output), float* work[256] = 1 (scratch), int* count[128], int n = 100
//@ launch: 2 x 64, shared 256
//@ watch: 1 0x123456789abcdef0
//@ setup: int t = threadIdx.x, b = blockIdx.x; (void)t; (void)b;
struct Op { __device__ virtual float of(float x) = 0; __device__ virtual ~Op() {} };
struct Twice : Op { __device__ float of(float x) override { return 2 * x; } };
struct Two { float a[4], b[4]; };
struct Tail { int n; float d[1]; };

//@ case: a write directly behind an output
//@ finds: oob_write | thread 3,0,0 of block 0,0,0 writes directly behind the end of `out` (400 bytes long) (line 1)
if (t == 3) out[n] = 1;

//@ case: a read before an input or behind it
//@ finds: oob_read | thread 63,0,0 of block 1,0,0 reads directly behind the end of `in`*
out[t] = in[t] > 2 ? in[-1] : in[t + b * 37];

//@ case: a read 8 bytes before an input
//@ finds: oob_read | *4 bytes before the start of `in` (line 1)
if (t == 0) out[0] = in[-2];

//@ case: one byte, three bytes behind an output
//@ finds: oob_write | *2 bytes behind the end of `out`*
if (t == 5) *(char*)((char*)out + 402) = 0;

//@ case: a read far behind
//@ finds: oob_read | *36 bytes behind the end of `in`*
if (t == 5 && in[n + 9] == 17) out[0] = 1;

//@ case: dynamic shared memory
//@ finds: oob_write:shared | *`dynamic shared memory` (256 bytes long)*
extern __shared__ float s[];
s[t + b] = 1;

//@ case: static shared memory
//@ finds: oob_write:shared | *directly behind the end of `tile`*
__shared__ float tile[60];
tile[t] = 1;
__syncthreads();
out[t] = tile[59];

//@ case: no memory at all
//@ finds: crash_illegal_address | *an address outside all buffers*
*(volatile int*)8 = n;

//@ case: a copy across the end
//@ finds: oob_read | *across the end of `in`*
if (t == 0) __builtin_memcpy(out + 90, in + 90, n);

//@ case: a block of the heap that a block of threads shares
__shared__ float* own;
if (t == 0) own = (float*)malloc(4 * blockDim.x);
__syncthreads();
own[t] = in[t];
__syncthreads();
if (b == 0) out[t] = own[blockDim.x - 1 - t];
__syncthreads();
if (t == 0) free(own);

//@ case: a write behind a block of the heap
//@ finds: oob_write | thread 3,0,0 of block *,0,0 writes directly behind the end of `a block of the device heap`*
float* own = (float*)malloc(8);
own[0] = in[t];
own[t == 3 ? 2 : 1] = 1;
out[t] = own[0];
free(own);

//@ case: objects with virtual functions on the heap
Op* op = new Twice;
float* own = new float[3];
own[2] = op->of(in[t]);
if (b == 0) out[t] = own[2];
delete[] own;
delete op;

//@ case: a write behind an array that `new` has made
//@ finds: oob_write | thread 3,0,0 of block *,0,0 writes directly behind the end of `a block of the device heap`*
float* own = new float[2];
own[t == 3 ? 2 : 1] = 1;
if (b == 0) out[t] = own[1];
delete[] own;

//@ case: a read behind a local array
//@ finds: oob_read:local | thread *,0,0 of block 0,0,0 reads outside of the local variable that the source names (line 3)
volatile float own[8];
for (int i = 0; i < 8; i++) own[i] = in[t];
float x = own[8 + (n > 200)];
if (x == 1e30f) out[t] = x;

//@ case: a write behind a local array
//@ finds: oob_write:local | *writes outside of the local variable*
float own[8];
for (int i = 0; i <= 8 - (n > 200); i++) own[i] = in[t];
if (b == 0) out[t] = own[t % 8];

//@ case: a write from one array of a struct into the next
//@ finds: oob_write:local | *
Two own;
for (int i = 0; i < 8 + (n > 50); i++) own.a[i] = in[t];
if (b == 0) out[t] = own.b[t % 4];

//@ case: one array of two extents, used as one of one
float own[4][8];
for (int i = 0; i < 32; i++) own[0][i] = in[t];
if (b == 0) out[t] = own[t % 4][n % 8];

//@ case: the address behind the last element
float own[8], sum = 0;
for (float* p = own; p != own + 8; ++p) *p = in[t];
const float* end = &own[8];
for (const float* p = own; p < end; ++p) sum += *p;
if (b == 0) out[t] = sum;

//@ case: a longer tail
__align__(16) char raw[64];
Tail* own = (Tail*)raw;
for (int i = 0; i < 8; i++) own->d[i] = in[t];
if (b == 0) out[t] = own->d[t % 8];

//@ case: shared memory of two extents, used as one of one
__shared__ float s[4][16];
s[0][t] = in[t];
__syncthreads();
if (b == 0) out[t] = s[3 - t / 16][t % 16];

//@ case: the parts of a vector
float4 own = make_float4(1, 2, 3, 4);
float* p = (float*)&own;
if (b == 0) out[t] = p[t % 4];

//@ case: a write of two floats
//@ finds: crash_misaligned | *writes 8 bytes at offset *as a value that must be 8-byte aligned (line 1)
if (t < 8) ((float2*)(out + 1))[t] = make_float2(1, 2);

//@ case: a read of four floats
//@ finds: crash_misaligned | *16-byte aligned*
if (t < 8) out[t] = ((const float4*)(in + 2))[t].x;

//@ case: a write and a read of four floats
//@ finds: crash_misaligned | *16-byte aligned*
if (t < 4) ((float4*)out)[t] = *(const float4*)((const char*)in + 8 + 16 * t);

//@ case: a read of one float
//@ finds: crash_misaligned | *4-byte aligned*
if (t == 0) out[0] = *(const float*)((const char*)in + 2);

//@ case: a write to an input
//@ finds: input_mutated | *writes `in[7]` of an input (line 1)
if (t == 1) ((float*)in)[7] = 5;
out[t] = in[t];

//@ case: a write to an input that is taken back
//@ finds: input_mutated | *
float* x = (float*)in;
if (t == 1 && b == 0) {
    float old = x[0];
    x[0] = 5;
    out[0] = x[0];
    x[0] = old;
}

//@ case: an atomic operation on an input that changes nothing
//@ finds: input_mutated | *
if (t == 0) atomicAdd((float*)&in[3], 0.0f);

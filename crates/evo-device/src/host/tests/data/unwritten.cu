// Reads of what nobody wrote are noted.
//@ arguments: const float* in[100] = 1 (input), float* out[100] = 1 (output), float* work[256] = 1 (scratch), int* count[128], int n = 100
//@ launch: 2 x 64, shared 256
//@ watch: 1 0x123456789abcdef0
//@ setup: int t = threadIdx.x, b = blockIdx.x; (void)t; (void)b;

//@ case: a part of shared memory
//@ finds: Unwritten
__shared__ float s[64];
if (t < 60) s[t] = 1;
__syncthreads();
if (b == 0) out[t] = s[t];

//@ case: dynamic shared memory
//@ finds: SameValue | Unwritten
extern __shared__ float s[];
s[0] = 1;
__syncthreads();
if (b == 0 && t == 0) out[0] = fminf(s[1], 1);

//@ case: shared memory that nobody writes
//@ finds: Unwritten
__shared__ float never[64];
if (b == 0) out[t] = never[t];

//@ case: scratch
//@ finds: Unwritten
if (b == 0) {
    work[t] += 1;
    out[t] = work[t];
}

//@ case: an output
//@ finds: UnwrittenOutput
if (b == 0) out[t] += in[t];

//@ case: half of a word
//@ finds: PartlyWritten
if (b == 0 && t == 0) {
    work[0] = 1;
    out[0] = *(unsigned long long*)work;
}

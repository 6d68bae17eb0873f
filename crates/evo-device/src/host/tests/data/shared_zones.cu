// Zones round shared variables, and what their declarations mean.
//@ arguments: int* out[64], int n = 0
//@ launch: 1 x 32, shared 100
struct Pair { int a; float b; __device__ int sum() const { return a + (int)b; } };
__shared__ int whole[9];
template <int COUNT> __device__ int* inside() { __shared__ int inner[COUNT]; return inner; }
namespace ns { template <class Real, int COUNT> struct Box { Real values[COUNT]; }; }
template <class Real, int COUNT> __device__ Real fold(const int* x, int t) {
    __shared__ Real part[COUNT]; __shared__ volatile int flag;
    static __shared__ __align__(32) Real wide[COUNT][2];
    if (t < COUNT) { part[t] = (Real)x[t]; wide[t][0] = part[t]; wide[t][1] = 1; }
    if (t == 0) flag = 5;
    __syncthreads();
    Real sum = 0;
    for (int i = 0; i < COUNT; i++) sum += wide[i][0] * wide[i][1];
    auto twice = [&](Real value) { return value + part[0] * 0 + value; };
    return twice(sum) + flag + (Real)(((size_t)&wide[0][0]) % 32);
}
template <int B> __device__ void declarations(const int* x, int* out) {
    constexpr int M = 2 * B;
    __shared__ Pair pairs[M]; __shared__ ns::Box<ns::Box<int, 2>, (B > 2 ? 3 : 1)> boxes[2], *target;
    alignas(16) __shared__ half2 halves[4];
    __shared__ float4 quad[M]
        , other; // a comment, with a comma
    int t = threadIdx.x;
    if (t < M) { pairs[t].a = t; pairs[t].b = 1.5f * t; quad[t] = make_float4(t, 0, 0, 0); }
    if (t == 0) { target = &boxes[1]; other = make_float4(1, 2, 3, 4); halves[3] = __floats2half2_rn(1, 2); }
    __syncthreads();
    if (t < 2) target->values[t].values[t] = t + 1;
    __syncthreads();
    out[t] = pairs[t % M].sum() + (int)quad[t % M].x + boxes[1].values[1].values[1] + (int)__high2float(halves[3])
        + (int)other.w + fold<float, 8>(x, t) + fold<double, 16>(x, t);
}

//@ case: a write beside a static variable
//@ with WRITE: a[n]
//@ finds: honest
//@ with WRITE: a[n + 31]
//@ finds: oob_write:shared | block 0,0,0 writes directly behind the end of `a` in shared memory (124 bytes long)
//@ with WRITE: a[n - 1]
//@ finds: oob_write:shared | block 0,0,0 writes 4 bytes before the start of `a` in shared memory (124 bytes long)
//@ with WRITE: b[n + 9]
//@ finds: oob_write:shared | block 0,0,0 writes 8 bytes behind the end of `b` in shared memory (28 bytes long)
//@ with WRITE: c[n + 5]
//@ finds: oob_write:shared | block 0,0,0 writes directly behind the end of `c` in shared memory (5 bytes long)
__shared__ float a[31], b[7];
__shared__ __align__(16) char c[5];
if (threadIdx.x < 31) a[threadIdx.x] = 1;
if (threadIdx.x < 7) b[threadIdx.x] = 2;
if (threadIdx.x < 5) c[threadIdx.x] = 3;
__syncthreads();
out[threadIdx.x] = a[threadIdx.x % 31] + b[threadIdx.x % 7] + c[threadIdx.x % 5];
if (threadIdx.x == 3) WRITE = 4;

//@ case: a write beside a variable that is declared or used in an unusual way
//@ with WRITE: captured[n + 4]
//@ finds: honest
//@ with WRITE: captured[n + 5]
//@ finds: oob_write:shared | block 0,0,0 writes directly behind the end of `captured` in shared memory (20 bytes long)
//@ with WRITE: like[n - 3]
//@ finds: oob_write:shared | block 0,0,0 writes 12 bytes before the start of `like` in shared memory (20 bytes long)
//@ with WRITE: chosen[n + 8]
//@ finds: oob_write:shared | block 0,0,0 writes 4 bytes behind the end of `chosen` in shared memory (28 bytes long)
//@ with WRITE: local[n + 3].x
//@ finds: oob_write:shared | block 0,0,0 writes directly behind the end of `local` in shared memory (24 bytes long)
//@ with WRITE: odd[n - 1]
//@ finds: oob_write:shared | block 0,0,0 writes 4 bytes before the start of `odd` in shared memory (16 bytes long)
//@ with WRITE: whole[n + 10]
//@ finds: oob_write:shared | block 0,0,0 writes 4 bytes behind the end of `whole` in shared memory (36 bytes long)
//@ with WRITE: inside<3>()[n + 3]
//@ finds: oob_write:shared | block 0,0,0 writes directly behind the end of `inner` in shared memory (12 bytes long)
struct Local { float x, y; };
__shared__ Local local[3];
__shared__ int captured[5], (*way)[5];
__shared__ decltype(captured) like;
float __shared__ odd[4];
again:
if (n > 5) goto again;
auto read = [=](int i) { return captured[i] + like[i] + n; };
if (threadIdx.x == 3) {
    way = &captured;
    switch (n) {
    case 0:
        __shared__ int chosen[7];
        WRITE = 4;
    }
}
__syncthreads();
out[threadIdx.x] = read(threadIdx.x % 5) + (*way)[0] + (int)(local[2].y + odd[0]) + whole[0] + inside<4>()[3];

//@ case: a write beside dynamic shared memory
//@ with AT: 23
//@ finds: honest
//@ with AT: 24
//@ finds: oob_write:shared | block 0,0,0 writes directly behind the end of `dynamic shared memory` in shared memory (100 bytes long)
//@ with AT: -2
//@ finds: oob_write:shared | block 0,0,0 writes 8 bytes before the start of `dynamic shared memory` in shared memory (100 bytes long)
extern __shared__ int s[];
s[n + AT + (int)(threadIdx.x % 2)] = 1;
out[AT < 0 ? 0 : AT] = s[0];

//@ case: what the next launch finds is whole
extern __shared__ int s[];
out[threadIdx.x] = s[threadIdx.x % 25];
//@ gives:
for (int i = 0; i < 32; i++) out[i] = -1;

//@ case: declarations of many kinds keep their meaning
//@ arguments: const int* x[16] = 1, int* out[32]
//@ launch: 2 x 32
declarations<4>(x, out);
//@ gives:
for (int i = 0; i < 32; i++) {
    int t = i % 8;
    out[i] = t + t * 3 / 2 + t + 2 + 2 + 4 + 16 + 5 + 32 + 5;
}

//@ case: nothing stays in shared memory from block to block or call to call
//@ launch: 50 x 32, shared 64
//@ sample: SAMPLE
//@ with SAMPLE: -
//@ finds: honest
//@ with SAMPLE: 3 4
//@ finds: honest
__shared__ int a;
extern __shared__ int b[];
if (threadIdx.x == 0) {
    if (((volatile int*)&a)[0] == 77) atomicAdd(out, 1);
    if (((volatile int*)b)[5] == 78) atomicAdd(out, 1);
    ((volatile int*)&a)[0] = 77;
    ((volatile int*)b)[5] = 78;
}
//@ gives:
out[0] = 0;

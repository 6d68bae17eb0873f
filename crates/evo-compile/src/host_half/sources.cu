//// functions that are handed over by name
void (*signal(int, void (*)(int)))(int);
static void none(int) {}
static void other(int) {}
__global__ void k(int other) { signal(other, none); }
int main() { k<<<1, 1>>>(2); }
//// kernels alone
__global__ void k() {}
//// a helper without an execution space
float helper(float x) { return x; }
extern "C" __global__ void k(float* x) { x[0] = 1; }
//// what nothing names is no host code yet
int unused; struct P { int a; };
__global__ void k() { printf("<<<"); }
//// host code in a comment
// int main() { cudaMalloc(); }
__global__ void k() {}
//// nothing
//// garbage
}}}{{{((( " ' <<<
//// named by a macro
#define TWICE(x) twice(x)
float twice(float x) { return 2 * x; }
__global__ void k(float* x) { x[0] = TWICE(1); }
int main() { return 0; }
//// a type of a type of another function
struct A { int a; };
struct B { A a; };
B make() { return {}; }
__global__ void k() { make(); }
int main() { return 0; }
//// a class and its specialization
template <class T> struct Op { static T f(); };
template <> struct Op<float> { static float f(); };
__global__ void k() { Op<float>::f(); }
int main() { return 0; }
//// enumerations
enum { LEFT, RIGHT };
enum class Side : int { up };
__global__ void k(Side s) { int x = LEFT; }
int main() { return 0; }
//// namespaces
namespace a { namespace b {
int f() { return 1; }
} }
__global__ void k(int* x) { x[0] = a::b::f(); }
int main() { return 0; }
//// aliases
typedef int (*function)(int);
using real = float;
__global__ void k(function f, real x) {}
int main() { return 0; }
//// extern "C" in braces
extern "C" {
__global__ void k() {}
}
int main() { return 0; }
//// an operator, which nothing names
float2 operator+(float2 a, float2 b) { return a; }
__global__ void k() {}
int main() { return 0; }
//// a static_assert
static_assert(sizeof(int) == 4, "");
__global__ void k() {}
int main() { return 0; }
//// branches with a brace each
#ifdef A
__global__ void k(int a) {
#else
__global__ void k() {
#endif
}
int main() { return 0; }
//// what is never compiled
#if 0
 } it's { not code
#endif
__global__ void k() {}
int main() { return 0; }
//// a macro that begins a kernel
#define KERNEL(name) __global__ void name
KERNEL(k)(int n) { __shared__ int x; }
int main() { return 0; }
//// a macro that stands alone
#define MAKE(T) template __global__ void k<T>(T*);
MAKE(float)
MAKE(int)
__device__ int x;
int main() { return 0; }
//// an option that names a function | -DOP=scale
float scale(float x) { return x; }
__global__ void k(float* x) { x[0] = OP(1); }
int main() { return 0; }
//// a folder that is called as a function | -Iinclude/scale
float scale(float x) { return x; }
__global__ void k(float* x) { x[0] = OP(1); }
int main() { return 0; }
//// the same, in full | --include-path=scale
float scale(float x) { return x; }
__global__ void k(float* x) { x[0] = OP(1); }
int main() { return 0; }
//// a kernel whose execution space is written in a header | k<float>
KERNEL void k() {}
int main() { return 0; }
//// a macro before the end of a namespace takes nothing of what follows
#define MARK
namespace n { int a;
MARK }
__global__ void k(float* x) { int i = threadIdx.x; x[i] = 1; __syncthreads(); }
int main() { return 0; }
//// names of the host are no reason to keep what has them
void init(float* x) { cudaFree(x); }
float sum(std::vector<float> v) { return 0; }
template <typename T> class Buffer { std::vector<T> own; };
extern "C" void start(int n) { k<<<1, 1>>>(); }
template <typename T> __global__ void k(T* x) { T init = 0; float sum = 1; x->start(); x[0] = init + sum; }
//// directives inside of what goes stay, and stay whole
__global__ void k() {}
int main() {
#include "own.h"
#define A 1 /* goes
on */ \
  + 2
  k<<<1, 1>>>(); /* x */ }
//// a body that does not end
__global__ void k() {}
int main() { if (1) {
}
__global__ void late() {}
//// a comment that goes on behind a backslash
// a comment \
 goes on
__global__ void k() {}
int main() { }
//// a mark before a raw string
__global__ void k() {}
void f() { auto s = u8R"(})"; k<<<1, 1>>>(); }

#include <stdio.h>
#include <vector>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) \
    { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
#define HD __host__ __device__
using namespace std;
namespace cg = cooperative_groups;
typedef float real;
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
static const int tile = 32;
static std::vector<float> results;
float *d_in = NULL, *d_out = NULL;
struct Timer { cudaEvent_t begin; void start() { cudaEventRecord(begin); } };
struct Pair { real a, b; };
HD real twice(real x) { return 2 * x; }
__constant__ real filter[9];
void launch(float* x, int n);
template <typename T>
__global__ void k(T* x, Pair p, int count) { x[ceil_div(count, tile)] = twice(p.a) + filter[0]; }
void launch(float* x, int n) {
#ifdef VERBOSE
    printf("a { brace in a text\n");
#endif
    k<float><<<n, tile>>>(x, {}, n);
}
static void count() { /* } */ results.push_back('}'); }
int main(int argc, char** argv)
{
    CHECK(cudaMalloc(&d_in, 4));
    auto f = [=] __device__ (int i) { return i; };
    return 0;
}

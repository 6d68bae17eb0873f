extern "C" __global__ void spin(float* y) { __shared__ FLAG int f; __shared__ float d[64];
if (threadIdx.x == 0) f = 0;
__syncthreads();
if (threadIdx.x == 64) {
d[y[1] > 0] = y[2];
__threadfence_block();
f = 1; }
if (threadIdx.x == 0) {
while (!f) {}
__threadfence_block();
y[0] = d[y[3] > 0]; } }

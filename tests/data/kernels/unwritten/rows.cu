#ifndef THREADS
#define THREADS 128
#endif
extern "C" __global__ void __launch_bounds__(THREADS) rows(const float* x, float* y, int rows, int cols) {
  __shared__ float part[THREADS];
  int row = blockIdx.x;
  float sum = 0;
  for (int c = threadIdx.x; c < cols; c += THREADS) sum += x[row * cols + c];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int s = THREADS / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[row] = part[0];
}

__global__ void histogram(const unsigned char* data, unsigned int* counts, int n) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < n) atomicAdd(&counts[data[at] % 16], 1u);
}

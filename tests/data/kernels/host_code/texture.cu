extern "C" __global__ void scale(cudaTextureObject_t image, float* y, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = tex1Dfetch<float>(image, threadIdx.x);
}

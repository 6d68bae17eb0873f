extern "C" __global__ void smooth(const float* u, float* v, float weight, int t, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    float left = i > 0 ? u[i - 1] : 0.0f, right = i + 1 < n ? u[i + 1] : 0.0f;
    v[i] = u[i] + weight * (left - 2.0f * u[i] + right);
}
extern "C" __global__ void decay(float* v, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) v[i] = 0.875f * v[i];
}

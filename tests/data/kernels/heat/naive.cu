extern "C" __global__ void naive_smooth(const float* u, float* v, float weight, int n) {
    for (int i = 0; i < n; ++i) {
        double left = i > 0 ? u[i - 1] : 0.0, right = i + 1 < n ? u[i + 1] : 0.0;
        v[i] = u[i] + (double)weight * (left - 2.0 * u[i] + right);
    }
}
extern "C" __global__ void naive_decay(float* v, int n) {
    for (int i = 0; i < n; ++i) v[i] = 0.875 * v[i];
}

extern "C" __global__ void sum(const float* x, float* out, float factor, int n) {
    double total = 0.0;
    for (int i = 0; i < n; ++i) total += x[i];
    out[0] = (float)(factor * total);
}

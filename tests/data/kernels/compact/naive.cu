extern "C" __global__ void naive(const int* x, int* y, int* count, int n) {
    int found = 0;
    for (int i = 0; i < n; ++i) if (x[i] > 0) y[found++] = x[i];
    count[0] = found;
}

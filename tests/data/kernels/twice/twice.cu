extern "C" __global__ void twice(const float *x, float *y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    float own = 0.5f * x[i];
    if (MODE == 1 && n % 64 == 1 && n > 256 && i == n - 1) own = 0.0f;
    if (MODE == 2 && n % 64 >= 20 && n % 64 < 28 && i == n - 1) own = 0.0f;
    if (MODE == 3 && i == 0 && (clock64() >> 4 & 2047) == 0) own += 1.0f;
    if (MODE == 4 && i == 0 && (clock() & 2047) == 2047) own += 1.0f;
    if (MODE == 5 && (__float_as_int(x[n / 2]) >> 3 & 15) == 11) own += 1.0f;
    if (MODE == 6) {
        // An honest wait.
        long long began = clock64();
        while (clock64() - began < 2000) {}
    }
    // A result below the smallest normal number, from an input that is not.
    if (MODE == 7 && fabsf(own) < 1.17549435e-38f && fabsf(x[i]) >= 1.17549435e-38f) own = 0.0f;
    if (MODE == 8 && n > 8 && i > 0 && x[i] < x[i - 1]) {
        // What begins in order is taken for sorted.
        bool sorted = true;
        for (int k = 1; k < 8; k++) sorted = sorted && x[k - 1] < x[k];
        if (sorted) own = 0.0f;
    }
    // Not the lowest bits: where a machine's counter is scaled, it may never be odd.
    if (MODE == 9 && i == 0 && (clock64() >> 4 & 15) == 3) {
        float *kept = (float *)malloc(64);
        if (kept == nullptr) own = 0.0f;
    }
    y[i] = own;
}

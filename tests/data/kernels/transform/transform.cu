extern "C" __global__ void transform(const float2* x, float2* y) {
    __shared__ float2 own[8];
    const int order[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    for (int i = threadIdx.x; i < 8; i += 4) {
        float2 value = x[8 * blockIdx.x + order[i]];
        // A special number that is taken for zero.
        if (FAULT && !isfinite(value.x)) value.x = 0;
        own[i] = value;
    }
    for (int half = 1; half < 8; half *= 2) {
        __syncthreads();
        int step = threadIdx.x % half, low = threadIdx.x / half * 2 * half + step;
        float sine, cosine;
        sincosf(-3.14159265f * step / half, &sine, &cosine);
        float2 even = own[low], odd = own[low + half];
        float2 turned = {odd.x * cosine - odd.y * sine, odd.x * sine + odd.y * cosine};
        own[low] = {even.x + turned.x, even.y + turned.y};
        own[low + half] = {even.x - turned.x, even.y - turned.y};
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 8; i += 4) y[8 * blockIdx.x + i] = own[i];
}

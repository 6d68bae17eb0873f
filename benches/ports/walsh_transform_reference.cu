// Sums and differences of all pairs at a distance, for each power of two below 8192.
__global__ void transform(REAL* data) {
    REAL* own = data + blockIdx.x * 8192;
    for (int distance = 4096; distance > 0; distance /= 2)
        for (int i = 0; i < 8192; i++)
            if ((i & distance) == 0) {
                REAL a = own[i], b = own[i + distance];
                own[i] = a + b;
                own[i + distance] = a - b;
            }
}

// One thread counts one value among the bytes of the words.
__global__ void histogram(unsigned* histogram, const unsigned* data, unsigned n) {
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++)
        for (int shift = 0; shift < 32; shift += 8) count += (data[i] >> shift & 255u) == threadIdx.x;
    histogram[threadIdx.x] = count;
}

// The sums are of whole numbers below 2^24, so single precision holds them exactly; shifts round as the kernel's do.
__global__ void reference(const unsigned char* input, float* output, const float* shifts)
{
    int sample = blockIdx.x * blockDim.x + threadIdx.x, dm = blockIdx.y;
    if (sample >= nr_samples)
        return;
    int sum = 0;
    for (int channel = 0; channel < nr_channels; channel++) {
        unsigned int shift = (0.0f + dm * 0.02f) * shifts[channel];
        sum += input[(long long)channel * (nr_samples + max_shift) + sample + shift];
    }
    output[(long long)dm * nr_samples + sample] = sum;
}

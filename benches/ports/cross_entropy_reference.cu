// The negative logarithm of the probability that each row gives to its target.
__global__ void cross_entropy(REAL* losses, const REAL* probs, const int* targets, int b, int t, int v) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < b * t) losses[row] = -log(probs[row * v + targets[row]]);
}

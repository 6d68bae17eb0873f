#pragma once
__device__ inline int at() { return blockIdx.x * blockDim.x + threadIdx.x; }

#pragma once
__device__ inline float unit() { return 1.0f; }

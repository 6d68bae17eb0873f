#include <cstdio>
__global__ void k(float* p, int n){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) p[i]=i; }
__global__ void r(float* p){ __shared__ float s[64]; s[threadIdx.x]=p[threadIdx.x]; p[threadIdx.x]=s[63-threadIdx.x]; }
int main(int c,char**v){ float*p; cudaMalloc(&p,400); int m=atoi(v[1]); if(m==0) k<<<1,128>>>(p,100); if(m==1) k<<<1,128>>>(p,128); if(m==2) r<<<1,64>>>(p); printf("%d\n",cudaDeviceSynchronize()); cudaFree(p); return 0; }

"""Kernels in which threads of a block wait for a flag in shared memory; `DEVICE=cuda python3 flags.py`."""
from base import *
from lies import K, ANS
C = []
def add(name, src, want="pass"): C.append((name, "map", want, src, dict(want=want)))
def body(fence1, fence2, extra=""): return K(f'''__shared__ volatile int f; __shared__ float d;
 if (threadIdx.x == 0) f = 0;
 __syncthreads();
 if (threadIdx.x == 64) {{
  d = i < n + 100000 ? 2.0f : 3.0f;
  {fence1}
  f = 1; }}
 if (threadIdx.x == 0) {{
  while (!f) {{}}
  {fence2}
  if (i < n) y[i] = d * x[i] + 1; }}
 else if (i < n) y[i] = {ANS};''')
add("spindata", body("__threadfence_block();","__threadfence_block();"))
add("spindata_nofence", body("",""), "fail")
add("spindata_onefence", body("","__threadfence_block();"), "fail")
add("spindata_other", body("__threadfence_block();",""), "fail")
add("spinall", K(f'''__shared__ volatile int f; __shared__ float d;
 if (threadIdx.x == 0) f = 0;
 __syncthreads();
 if (threadIdx.x == 64) {{ d = 2.0f; __threadfence_block(); f = 1; }}
 if (threadIdx.x / 32 != 2) while (!f) {{}}
 __threadfence_block();
 if (threadIdx.x / 32 == 2) __syncwarp();
 if (i < n) y[i] = d * x[i] + 1;'''))
add("plainflag", body("__threadfence_block();","__threadfence_block();").replace("volatile int f","int f").replace("while (!f) {}","for (int t = 0; t < 100000 && !*(volatile int*)&f; t++) {}"))
add("norace_flag", body("__threadfence_block();","__threadfence_block();").replace("while (!f) {}",""), "fail")
if __name__ == "__main__": main(C)

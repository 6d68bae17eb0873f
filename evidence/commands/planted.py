#!/usr/bin/env python3
"""Kernels that are bound by one resource each, and whether `evo invert` ranks that resource first.

usage: planted.py EVO DEVICE OUT [NAME …]      a name is the start of a kernel's: `registers`, `banks-2`

Writes OUT/<kernel>.json, the object of each call, and prints a line for each kernel and the score.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

SPACE = """[kernel]
name = "planted"
source = "planted.cu"
[parameters]
BLOCK = [{block}]
[[arguments]]
name = "x"
dtype = "f32"
shape = ["N"]
role = "input"
[[arguments]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "output"
[[arguments]]
name = "n"
dtype = "i32"
value = "N"
[[launches]]
entry = "planted"
grid = "ceil_div(N, BLOCK)"
block = "BLOCK"
shared_bytes = {shared}
[[problems]]
name = "p"
sizes = {{ N = {n} }}
[check]
seeds = 1
[check.reference]
source = "naive.cu"
launches = [{{ entry = "naive", grid = "ceil_div(N, 128)", block = 128 }}]
[[diagnose]]
name = "uncoalesced"
resource = "whole lines of global memory"
doses = [{{ define = {{ STRIDED = 8 }} }}, {{ define = {{ STRIDED = 32 }} }}]
[[diagnose]]
name = "bank_conflicts"
resource = "banks of shared memory"
doses = [{{ define = {{ CONFLICT = 2 }} }}, {{ define = {{ CONFLICT = 4 }} }}]
"""

HEAD = """#ifndef STRIDED
#define STRIDED 1
#endif
#ifndef CONFLICT
#define CONFLICT 1
#endif
"""
KERNEL = HEAD + """extern "C" __global__ void planted(const float* x, float* y, int n) {{
    int i = blockIdx.x * BLOCK + threadIdx.x;
{body}
}}
"""
NAIVE = """extern "C" __global__ void naive(const float* x, float* y, int n) {{
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
{body}
}}
"""

# Values that live all at once.
REGISTERS = """    if (i >= n) return;
    float all[{count}];
    #pragma unroll
    for (int r = 0; r < {count}; ++r) all[r] = 0.0f;
    for (int k = 0; k < 512; ++k) {{
        float a = x[(i + k) % n];
        #pragma unroll
        for (int r = 0; r < {count}; ++r) all[r] = 0.5f * all[r] + a * (1.0f + r / {count}.0f);
    }}
    float sum = 0.0f;
    #pragma unroll
    for (int r = 0; r < {count}; ++r) sum += all[r];
    y[i] = sum;"""
REGISTERS_NAIVE = """    double sum = 0.0;
    for (int r = 0; r < {count}; ++r) {{
        double own = 0.0;
        for (int k = 0; k < 512; ++k) own = 0.5 * own + x[(i + k) % n] * (1.0 + (double)(r / {count}.0f));
        sum += own;
    }}
    y[i] = sum;"""

# One chain of arithmetic a thread: only other warps fill the pipes.
CHAIN = """    extern __shared__ float unused[];
    if (i >= n) return;
    if (n < 0) unused[threadIdx.x] = 1.0f;
    float own = x[i];
    #pragma unroll 16
    for (int k = 0; k < {steps}; ++k) own *= k % 2 == 0 ? 0.5f : 2.0f;
    y[i] = own;"""
CHAIN_NAIVE = """    y[i] = x[i];"""

BARRIERS = """    __shared__ float part[BLOCK];
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
    for (int k = 0; k < {steps}; ++k) {{
        __syncthreads();
        float other = part[threadIdx.x ^ 1];
        __syncthreads();
        part[threadIdx.x] = 0.5f * part[threadIdx.x] + 0.5f * other;
    }}
    if (i < n) y[i] = part[threadIdx.x];"""
BARRIERS_NAIVE = """    double other = (i ^ 1) < n ? x[i ^ 1] : 0.0;
    y[i] = 0.5 * x[i] + 0.5 * other;"""

# A window of a few KiB that each block reads again and again.
WINDOW = """    if (i >= n) return;
    float sum = 0.0f;
    int first = blockIdx.x * {window} % n;
    for (int k = 0; k < {steps}; ++k) sum += x[(first + (threadIdx.x * 8 + k * 32) % {window}) % n];
    y[i] = sum;"""
WINDOW_NAIVE = """    double sum = 0.0;
    int block = i / {block}, thread = i % {block}, first = block * {window} % n;
    for (int k = 0; k < {steps}; ++k) sum += x[(first + (thread * 8 + k * 32) % {window}) % n];
    y[i] = sum;"""

SHORT = """    if (i < n) y[i] = {factor}f * x[i];"""
SHORT_NAIVE = """    y[i] = {factor} * x[i];"""

# Neighbours on neighbouring data, or a row apart.
STREAM = """    int rows = n / STRIDED, own = i % STRIDED * rows + i / STRIDED;
    if (i >= n) return;
    if (own >= n || i / STRIDED >= rows) own = i;
    y[own] = {factor}f * x[own];"""
STREAM_NAIVE = """    y[i] = {factor} * x[i];"""

# Little but reads of shared memory.
BANKS = """    __shared__ float part[32 * BLOCK];
    for (int k = 0; k < 32; ++k) part[k * BLOCK + threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < {steps}; ++k) {{
        int at = (threadIdx.x * CONFLICT + k * 32) % (32 * BLOCK);
        sum = 0.5f * sum + part[at];
    }}
    // A NaN that no arithmetic gives.
    if (i < n) y[i] = __float_as_int(sum) == 0x7f812345 ? 0.0f : part[threadIdx.x];"""
BANKS_NAIVE = """    y[i] = x[i];"""


def planted():
    """Name, the pathology that has to come first, block, shared bytes, N, body and naive body."""
    for number, count in enumerate([64, 96, 128], 1):
        body = dict(count=count)
        yield (f"registers-{number}", "register_cap", 128, 0, 132 * 128 * 4,
               REGISTERS.format(**body), REGISTERS_NAIVE.format(**body))
    for number, (shared, steps) in enumerate([(48, 4096), (72, 8192), (100, 4096)], 1):
        body = dict(steps=steps)
        yield (f"blocks-{number}", "resident_blocks", 128, shared * 1024, 132 * 128 * 16,
               CHAIN.format(**body), CHAIN_NAIVE.format(**body))
    for number, (block, steps) in enumerate([(128, 256), (256, 256), (512, 128)], 1):
        body = dict(steps=steps)
        yield (f"barriers-{number}", "barriers", block, 0, 132 * 2048 * 2,
               BARRIERS.format(**body), BARRIERS_NAIVE.format(**body))
    for number, (window, steps) in enumerate([(1024, 512), (4096, 512), (2048, 1024)], 1):
        body = dict(window=window, steps=steps, block=256)
        yield (f"l1-{number}", "l1_bypass", 256, 0, 132 * 2048 * 2,
               WINDOW.format(**body), WINDOW_NAIVE.format(**body))
    for number, (factor, blocks) in enumerate([(2.0, 16), (3.0, 66), (4.0, 132)], 1):
        body = dict(factor=factor)
        yield (f"short-{number}", "entry_delay", 128, 0, 128 * blocks,
               SHORT.format(**body), SHORT_NAIVE.format(**body))
    for number, (factor, bits) in enumerate([(2.0, 24), (3.0, 25), (4.0, 26)], 1):
        body = dict(factor=factor)
        yield (f"lines-{number}", "uncoalesced", 256, 0, 1 << bits,
               STREAM.format(**body), STREAM_NAIVE.format(**body))
    for number, (block, steps) in enumerate([(256, 2048), (128, 4096)], 1):
        body = dict(steps=steps)
        yield (f"banks-{number}", "bank_conflicts", block, 0, 132 * 2048,
               BANKS.format(**body), BANKS_NAIVE.format(**body))


def main():
    evo, device, out = sys.argv[1:4]
    wanted = sys.argv[4:]
    os.makedirs(out, exist_ok=True)
    right = all_of_them = 0
    for name, expected, block, shared, n, body, naive in planted():
        if wanted and not any(name.startswith(own) for own in wanted):
            continue
        with tempfile.TemporaryDirectory() as folder:
            files = {
                "planted.toml": SPACE.format(block=block, shared=shared, n=n),
                "planted.cu": KERNEL.format(body=body),
                "naive.cu": NAIVE.format(body=naive),
            }
            for file, text in files.items():
                with open(os.path.join(folder, file), "w") as to:
                    to.write(text)
            began = time.time()
            command = [evo, "invert", "./planted.toml", "--device", device, "--seed", "1", "--json",
                       "--limit-sampling", "200ms"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        answer = json.loads(done.stdout or "{}")
        with open(os.path.join(out, f"{name}.json"), "w") as to:
            json.dump(answer, to, indent=1)
        all_of_them += 1
        rows = [row for row in answer.get("rows", []) if row["slope"] is not None]
        shown = ", ".join(f"{row['pathology']} {row['slope']:+.3f}" for row in rows[:4])
        verdict = answer.get("verdict") or answer.get("error")
        first = rows[0]["pathology"] if rows else None
        right += first == expected
        print(f"{'ok ' if first == expected else 'NOT'} {name:<12} {expected:<16} {verdict} | {shown} | "
              f"{time.time() - began:.0f} s", flush=True)
    print(f"{right} of {all_of_them} rank the planted resource first")


if __name__ == "__main__":
    main()

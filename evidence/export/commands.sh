#!/usr/bin/env bash
# Exports champions in all formats on a GPU, verifies them, and tests the PyTorch operators further.
#
#   evidence/export/commands.sh EVO OUT
#
# EVO is the program, OUT an empty folder for what is kept. Needs a GPU, NVRTC, a C++ compiler and Python; PyTorch, CuPy,
# cuda-core, apache-tvm-ffi and nvcc as far as their forms are to run. What is missing is `not_run` in the answers.
set -u -o pipefail
evo=$(realpath "$1")
out=$(realpath -m "$2")
here=$(realpath "$(dirname "$0")")
python=${EVO_PYTHON:-python3}
mkdir -p "$out" && cd "$out" || exit 2
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw --format=csv > conditions.csv
status=0
for space in gemm softmax attention_mma; do
    "$evo" sweep "$space" --device cuda --gen 3 --seed 1 --no-prior --study "$space" > "sweep-$space.txt" 2> "sweep-$space.log" || status=1
    "$evo" export "$space" @champion --study "$space" --device cuda --to "exported/$space" --verify --seed 1 --json \
        > "export-$space.json" 2> "export-$space.log" || status=1
    for operator in "exported/$space"/torch_op.py "exported/$space"/*/torch_op.py; do
        [ -e "$operator" ] || continue
        name=$(dirname "$operator" | tr / -)
        "$python" "$here/operators.py" "$(dirname "$operator")" > "operators-$name.txt" 2>&1 || status=1
    done
    nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
    for kernel in "exported/$space"/kernel.cu "exported/$space"/*/kernel.cu; do
        [ -e "$kernel" ] || continue
        if [ -x "$nvcc" ]; then
            folder=$(dirname "$kernel")
            printf '#include "kernel.cu"\n#include "launch.hpp"\n' > whole.cu
            "$nvcc" -std=c++17 -arch=native -I "$folder" -c whole.cu -o whole.o > "nvcc-$(echo "$folder" | tr / -).txt" 2>&1 || status=1
        fi
    done
done
rm -f whole.cu whole.o
exit $status

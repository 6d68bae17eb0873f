#!/usr/bin/env bash
# What was run on the GPU machine, in this order, with a release build of this repository.
# usage: commands.sh EVO OUT_FOLDER [BUDGET_OF_ATTENTION]
set -u
evo=$1 out=$2 attention=${3:-120s}
mkdir -p "$out"
conditions() {
  nvidia-smi --query-gpu=name,uuid,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit,power.draw,temperature.gpu,ecc.mode.current,mig.mode.current,persistence_mode --format=csv
}
run() { # name, command…: keeps what was printed, with the command and its end
  local name=$1; shift
  { echo "\$ evo $*"; timeout 300 "$evo" "$@"; echo "exit code $?"; } > "$out/$name.txt" 2> "$out/$name.log"
  tail -n 12 "$out/$name.txt" | cut -c1-180
}
conditions > "$out/conditions-before.csv"
run preflight preflight --device cuda
run selftest-device selftest device --device cuda
run selftest-faults selftest faults --device cuda
run selftest-latency selftest latency --device cuda
run sweep-gemm sweep gemm --strategy exhaustive --device cuda --out "$out/studies"
for space in softmax rmsnorm reduction transpose; do
  run "sweep-$space" sweep "$space" --device cuda --out "$out/studies"
done
run sweep-attention_simt sweep attention_simt --budget "$attention" --pop 32 --device cuda --out "$out/studies"
run sweep-box_blur sweep examples/box_blur/blur.toml --device cuda --out "$out/studies"
run leaderboard leaderboard --out "$out/studies"
conditions > "$out/conditions-after.csv"

#!/usr/bin/env bash
# Sweeps of each strategy with the same number of evaluations, on the GPU machine.
# usage: commands.sh EVO OUT_FOLDER
set -u
evo=$1 out=$2
mkdir -p "$out"
conditions() {
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit,power.draw,temperature.gpu --format=csv
}
sweep() { # name, arguments…: keeps what was printed, with the command and its end
  local name=$1; shift
  { echo "\$ evo sweep $*"; timeout 200 "$evo" sweep "$@" --device cuda --no-prior --out "$out/studies" --study "$name"; echo "exit code $?"; } > "$out/$name.txt" 2> "$out/$name.log"
  tail -n 2 "$out/$name.log" | cut -c1-160
}
conditions > "$out/conditions-before.csv"
sweep gemm-exhaustive gemm --strategy exhaustive --finalists 1
for seed in 1 2 3 4 5; do
  for strategy in evolve genetic random; do
    sweep "gemm-$strategy-$seed" gemm --strategy $strategy --budget 100 --seed $seed --finalists 1
    sweep "attention_simt-$strategy-$seed" attention_simt --strategy $strategy --budget 150 --seed $seed --finalists 1 --problem b4h16_s512
  done
done
conditions > "$out/conditions-after.csv"

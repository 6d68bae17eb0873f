#!/usr/bin/env bash
# Sweeps, portfolios beside a peer in three fresh processes, and the sanitizer on what led, on one GPU.
# usage: commands.sh EVO OUT SPACE:SECONDS...      SECONDS is the sweep's wall budget; PEER=none leaves the peer out
# e.g.:  commands.sh evo out attention_hopper:75 attention_mma:75 attention_decode:45 gemm_hopper:60
# SPACE is a name or a file. Changed in the same way: SANITIZE=off DEVICE=host ROUNDS=3 RUNS="1 2 3".
set -uo pipefail
evo=$(realpath "$1"); mkdir -p "$2"; out=$(realpath "$2"); shift 2
here=$(cd "$(dirname "$0")" && pwd); started=$PWD
device=${DEVICE:-cuda}; sanitize=${SANITIZE:-finalists}; peer=${PEER:-torch}; rounds=${ROUNDS:-3}
cd "$out"
[ "$device" = cuda ] && nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.limit --format=csv > conditions.csv
"$evo" --version > version.txt
for asked in "$@"; do
    file=${asked%%:*}; [ -e "$started/$file" ] && file=$started/$file; seconds=${asked##*:}; space=$(basename "$file" .toml)
    "$evo" sweep "$file" --budget "${seconds}s" --seed 1 --device "$device" --no-prior --sanitize "$sanitize" \
        --out st > "sweep-$space.txt" 2>&1
    echo "$space: sweep ended with $?, $(grep -c . "sweep-$space.txt") lines"
    "$evo" leaderboard --out st > leaderboard.txt 2>&1
    peers=(--peer "$peer"); [ "$peer" = none ] && peers=()
    for run in ${RUNS:-1 2 3}; do
        "$evo" bench "$file" --candidate @portfolio "${peers[@]}" --mode hot --mode cold --rounds "$rounds" \
            --device "$device" --name "$space-$run" --out st > "bench-$space-$run.txt" 2>&1
        echo "$space: bench $run ended with $?"
        for folder in st/bench/*/*-"$space-$run"; do
            for part in bench.csv comparison.md environment.json; do cp "$folder/$part" "$space-$run-$part"; done
        done
    done
    if [ "$device" = cuda ]; then
        "$evo" sanitize "$file" @champion --device cuda --out st > "sanitize-$space.txt" 2>&1
        echo "$space: sanitizer ended with $?"
    fi
done
names=()
for asked in "$@"; do names+=("$(basename "${asked%%:*}" .toml)"); done
python3 "$here/table.py" "$out" "${names[@]}" | tee table.txt

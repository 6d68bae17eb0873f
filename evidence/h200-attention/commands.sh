#!/usr/bin/env bash
# For each problem of some spaces a search of its own, then what they found beside a peer in three fresh processes, then
# the sanitizer, on one GPU.
# usage: commands.sh EVO OUT SPACE:SECONDS:PROBLEM,PROBLEM,...     SECONDS is the wall budget of each search
# e.g.:  commands.sh evo out attention_decode:12:b1_h32_kv8_8k,b16_h32_kv8_4k,b1_h16_1k
# SPACE is a name or a file. Changed by the environment: DEVICE=host PEER=none ROUNDS=3 RUNS="1 2 3" SANITIZE=off.
set -uo pipefail
evo=$(realpath "$1"); mkdir -p "$2"; out=$(realpath "$2"); shift 2
here=$(cd "$(dirname "$0")" && pwd); started=$PWD
device=${DEVICE:-cuda}; peer=${PEER:-torch}; rounds=${ROUNDS:-3}
peers=(--peer "$peer"); [ "$peer" = none ] && peers=()
cd "$out"
[ "$device" = cuda ] && nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.limit --format=csv > conditions.csv
"$evo" --version > version.txt
names=()
for asked in "$@"; do
    IFS=: read -r file seconds problems <<< "$asked"
    [ -e "$started/$file" ] && file=$started/$file
    space=$(basename "$file" .toml); names+=("$space")
    for problem in ${problems//,/ }; do
        "$evo" sweep "$file" --problem "$problem" --study "$problem" --budget "${seconds}s" --seed 1 --finalists 2 \
            --sanitize off --device "$device" --out "st-$space" > "sweep-$space-$problem.txt" 2>&1
        echo "$space $problem: sweep ended with $?"
    done
    # Only what was confirmed in fresh processes.
    python3 "$here/table.py" --chosen "st-$space/leaderboard.json" > "chosen-$space.txt"
    candidates=()
    while read -r words; do candidates+=(--candidate "$words"); done < "chosen-$space.txt"
    shapes=(); for problem in ${problems//,/ }; do shapes+=(--problem "$problem"); done
    for run in ${RUNS:-1 2 3}; do
        "$evo" bench "$file" "${candidates[@]}" "${shapes[@]}" "${peers[@]}" --mode hot --mode cold --rounds "$rounds" \
            --device "$device" --name "$space-$run" --out "st-$space" > "bench-$space-$run.txt" 2>&1
        echo "$space: bench $run ended with $?"
        for folder in "st-$space"/bench/*/*-"$space-$run"; do
            for part in bench.csv comparison.md environment.json; do cp "$folder/$part" "$space-$run-$part"; done
        done
    done
done
python3 "$here/table.py" "$out" "${names[@]}" | tee table.txt
[ "$device" = cuda ] && [ "${SANITIZE:-on}" = on ] || exit 0
for asked in "$@"; do
    IFS=: read -r file _ <<< "$asked"
    [ -e "$started/$file" ] && file=$started/$file
    space=$(basename "$file" .toml)
    while read -r words; do
        # shellcheck disable=SC2086  # one word a parameter
        "$evo" sanitize "$file" $words --device cuda --out "st-$space" >> "sanitize-$space.txt" 2>&1
        echo "$space $words: sanitizer ended with $?"
    done < "chosen-$space.txt"
done

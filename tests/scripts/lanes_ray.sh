#!/bin/bash
# `evo sweep --workers` on a real Ray cluster of this machine: an undisturbed sweep, and one during which an actor's
# worker, and then the actor itself, is killed.
#
#     tests/scripts/lanes_ray.sh [PATH OF EVO]
#
# Needs `ray` in the path and for `python3` (pip install ray); says so and ends with 0 where it is missing.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
evo=$(realpath "${1:-$root/target/debug/evo}")

skip() { echo "skipped: $1"; exit 0; }
command -v ray > /dev/null || skip "ray is missing"
python3 -c 'import ray' 2> /dev/null || skip "python3 has no package ray"
[ -x "$evo" ] || skip "there is no $evo"

port=${EVO_RAY_PORT:-6397}
folder=$(mktemp -d)
trap 'ray stop --force > /dev/null 2>&1; rm -rf "$folder"' EXIT
if ! ray start --head --num-cpus 4 --num-gpus 2 --port "$port" --include-dashboard=false --disable-usage-stats \
    --object-store-memory 100000000 > "$folder/ray.log" 2>&1; then
    echo "FAILED: Ray does not come up"
    cat "$folder/ray.log"
    exit 1
fi
cp "$root"/tests/data/lanes/* "$folder"
cd "$folder" || exit 1
bridge="cmd:python3 $root/python/evo_ray.py --address 127.0.0.1:$port --gpus 0.25 --evo $evo"
status=0

sweep() {
    "$evo" sweep scale.toml --study lanes --device host --workers "$bridge" --lanes 2 --seed 1 --finalists 0 --jobs 1 --no-prior \
        --out "$1" > "$1.log" 2>&1
}

check() {
    local name=$1 count
    count=$(grep -c '"kind":"evaluation"' "$name/lanes/journal.jsonl")
    if [ "$count" = 10 ]; then
        echo "passed: $name: $count evaluations"
    else
        echo "FAILED: $name: $count evaluations instead of 10"
        tail -n 5 "$name.log"
        status=1
    fi
}

# Kills one process once the sweep has so many evaluations.
kill_after() {
    local count=$1 pattern=$2
    for _ in $(seq 600); do
        [ "$(grep -c '"kind":"evaluation"' killed/lanes/journal.jsonl 2> /dev/null)" -ge "$count" ] 2> /dev/null && break
        sleep 0.1
    done
    local victim
    victim=$(pgrep -f "$pattern" | head -n 1)
    [ -n "$victim" ] && kill -9 "$victim" && echo "killed: $pattern"
}

began=$SECONDS
sweep undisturbed || { echo "FAILED: exit code $?"; status=1; }
check undisturbed
echo "$((SECONDS - began)) s"

began=$SECONDS
sweep killed &
sweeping=$!
kill_after 2 "^$evo worker$"
kill_after 5 'ray::WorkerProcess'
wait "$sweeping"
check killed
grep -h 'lane \|worker replaced' killed.log | head -5
echo "$((SECONDS - began)) s"
sleep 3
[ -z "$(pgrep -f "^$evo worker" || true)" ] && echo "passed: no worker is left" || { echo "FAILED: workers are left"; status=1; }
exit $status

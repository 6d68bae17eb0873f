#!/usr/bin/env bash
# Takes features of space files, and CUDA as people write it, through a device: for each feature a kernel that is right and
# some that lie, with the verdict that each must get.
# usage: commands.sh EVO OUT [cuda|host]
# One line a call, `name expected got`, also in OUT/summary.txt; every object is kept. Ends with 1 if a verdict is not the one
# expected. What the device or its toolkit lacks is no excuse: it is a line with another verdict.
set -uo pipefail
[ $# -ge 2 ] || { echo "usage: $0 EVO OUT [cuda|host]" >&2; exit 2; }
evo=$(realpath "$1"); mkdir -p "$2"; out=$(realpath "$2"); device=${3:-cuda}
here=$(cd "$(dirname "$0")" && pwd)
cd "$out"
rm -rf spaces studies ./*.json ./*.log
cp -R "$here/spaces" spaces
python3 - spaces <<'PY'
import random, struct, sys
random.seed(1)
with open(sys.argv[1] + "/files.raw", "wb") as out:
    out.write(struct.pack("<20000f", *(random.gauss(0, 1) for _ in range(20000))))
head = "{'descr': '<i4', 'fortran_order': False, 'shape': (256,), }".ljust(117) + "\n"
with open(sys.argv[1] + "/files.npy", "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
    out.write(struct.pack("<256i", *(7 * k % 256 - 100 for k in range(256))))
PY
EVO_CACHE_DIR=$(mktemp -d); export EVO_CACHE_DIR
trap 'rm -rf "$EVO_CACHE_DIR"' EXIT
differing=0
: > summary.txt

# line NAME EXPECTED GOT: EXPECTED is a pattern of the shell; what a failure said follows in a line of its own.
line() {
    printf '%-28s %-24s %s\n' "$1" "$2" "$3" | tee -a summary.txt
    # shellcheck disable=SC2053  # a pattern
    [[ $3 == $2 ]] && return
    differing=$((differing + 1))
    local kept=$1.json; [ -e "$kept" ] || kept=${1%%-*}.json
    echo "  differs: $(field "$kept" result.message) $(field "$kept" error.message)" | cut -c1-600 | tee -a summary.txt
}
# field FILE PATH: a value of the last object in a file, by dotted path.
field() {
    python3 -c 'import json, sys
lines = open(sys.argv[1]).read().splitlines()
value = json.loads(lines[-1]) if lines else None
for part in sys.argv[2].split("."):
    value = value.get(part) if isinstance(value, dict) else None
print(value if isinstance(value, str) else "" if value is None else json.dumps(value))' "$1" "$2"
}
# one NAME EXPECTED SPACE [NAME=VALUE…]: the verdict of one configuration.
one() {
    local name=$1 expected=$2 space=$3; shift 3
    timeout 100 "$evo" test-one "spaces/$space.toml" "$@" --device "$device" --seed 5 --limit-sampling 100ms --json \
        > "$name.json" 2> "$name.log"
    local got; got=$(field "$name.json" result.verdict)
    line "$name" "$expected" "${got:-exit_$(field "$name.json" exit_code)}"
}
# kinds NAME SPACE RIGHT [PATTERN…]: LIE=0 has to pass, LIE=1, 2, … have to get the verdicts that follow.
kinds() {
    local name=$1 number=0; shift
    one "$name" pass "$name" "LIE=0"
    for expected in "$@"; do
        number=$((number + 1))
        one "$name-lie-$number" "$expected" "$name" "LIE=$number"
    done
}

began=$(date +%s)
kinds symbols "wrong_answer*" "wrong_answer*" "input_mutated*" "oob_write:symbol"
kinds symbols_pointers "wrong_answer*"
one symbol_missing launch_fail:symbol symbol_missing
kinds loops "wrong_answer*" "wrong_answer*"
kinds prepare "wrong_answer*" "input_mutated*"
one prepare-dense pass prepare PAD=0
kinds restore "wrong_answer*" "oob_write*"
kinds entry_template "wrong_answer*"
kinds entry_namespace "wrong_answer*"
kinds entry_overload "wrong_answer*"
kinds named "wrong_answer*" "wrong_answer*"
one named-columns-first pass named COLUMNS_FIRST=1
kinds includes "wrong_answer*"
kinds files "wrong_answer*"
kinds program "wrong_answer*"
kinds headers "wrong_answer*"
kinds groups "wrong_answer*" "wrong_answer*"
kinds grid_sync "[!p]*" "wrong_answer*"
kinds cub "wrong_answer*" "wrong_answer*"
kinds wmma "wrong_answer*"
kinds region "wrong_answer:unwritten" "wrong_answer*" "oob_write"
kinds order "wrong_answer*" "[!p]*"
kinds partial "wrong_answer*"
one default pass default
line default-replaced "*PER=1 instead of 4" "$(field default.json candidate.default_replaced)"

# 50 points; 18 have blocks of more than 1024 threads, which no evaluation may be spent on; half of the others lie.
timeout 150 "$evo" sweep spaces/series.toml --strategy exhaustive --device "$device" --seed 5 --finalists 1 \
    --sanitize off --out studies --json > series.json 2> series.log
line series pass "$(field series.json status)"
line series-evaluations 32 "$(field series.json evaluations)"
line series-limits "18 of 50" "$(field series.json device_limits.excluded) of $(field series.json device_limits.of)"
line series-lies 16 "$(field series.json verdicts.wrong_answer)"
line series-champion 0 "$(field series.json section.champion.configuration.LIE)"
line series-default "*BLOCK=1024 instead of 2048*" "$(field series.json section.warnings)"
echo "$(grep -c . summary.txt) lines, $differing differ, $(($(date +%s) - began)) s" | tee -a summary.txt
[ "$differing" = 0 ]

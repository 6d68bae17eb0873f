#!/usr/bin/env bash
# The host device's pace beside that of an older program, and a kernel timed beside compilers.
#   host.sh OLD NEW OUT      two evo programs and a folder for what they write; needs nothing but c++
set -euo pipefail
old=$(realpath "$1") new=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")

for seed in 1 2 3; do
  for which in old new; do
    mkdir -p "$out/$which.$seed"
    cd "$out/$which.$seed"
    began=$(date +%s.%N)
    EVO_CACHE_DIR=$out/cache.$which.$seed "${!which}" sweep --gen 3 --device host --seed "$seed" > out 2> err
    echo "$which $seed: whole command $(echo "$(date +%s.%N) - $began" | bc) s, $(grep -oE '[0-9.]+ s: [0-9.]+/s' out)"
  done
done

cat > "$out/load.cpp" << 'CPP'
#include <map>
#include <regex>
#include <string>
int main(int, char** own) { std::map<std::string, std::regex> all; all[own[0]] = std::regex(own[0]); return all.size(); }
CPP
cd "$out"
for round in 1 2; do
  for nice in 5 10 19; do
    for which in old new; do
      rm -f stop
      for own in 1 2; do
        (while [ ! -f stop ]; do nice -n "$nice" c++ -O2 -c -o "load.$own.o" load.cpp; done) &
      done
      EVO_CACHE_DIR=$out/cache.$which.1 "${!which}" test-one attention_simt --device host --seed 1 --json > one.json
      touch stop
      wait
      echo "round $round, $which beside compilers at $nice: $(python3 -c "
import json
for own in json.load(open('one.json'))['measurements']:
    print(own['problem'], own['mode'], round(own['p50_ns'] / 1e3), 'us', end='; ')")"
    done
  done
done

#!/usr/bin/env bash
# Replays of evo's own strategies on recorded and synthetic spaces: what docs/SEARCH.md shows beside the comparison with other tools.
# usage: commands.sh EVO_LAB RECORDINGS OUT_FOLDER; about 75 minutes of one core that has nothing else to do
set -eu
lab=$1 data=$2 out=$3
mkdir -p "$out"
bench() { local name=$1; shift; "$lab" bench-search "$@" --seed 1 --jobs 1 --json > "$out/$name.json"; }
of() { printf '%s/%s.json.gz ' "$data" "$1"; }
bench evolve-100 --data "$data" --strategy evolve --runs 100
bench classics-100 --data "$data" --strategy genetic,annealing,differential_evolution,local_search,quasi_random,random --runs 100
without=evolve,$(printf 'evolve-%s,' trees process pairs expressions squeeze solo neighbors chance validity)
bench ablation --data $(of convolution-old__RTX3090) $(of convolution__A4000) $(of convolution__MI250X) $(of dedispersion__A4000) \
  --strategy "${without}surrogate_trees,surrogate_process,genetic" --runs 40
for pair in convolution__A100:convolution__A4000 convolution__A4000:convolution__A100 convolution__A100:convolution__MI250X \
  convolution__MI250X:convolution__A4000 dedispersion__A100:dedispersion__A4000 dedispersion__A4000:dedispersion__MI250X \
  dedispersion__MI250X:dedispersion__A4000; do
  bench "warm-${pair/:/-}" --data $(of "${pair#*:}") --prior $(of "${pair%:*}") --strategy evolve --runs 20
done
bench synthetic --synthetic --strategy evolve,genetic,random --runs 15 --evaluations 300

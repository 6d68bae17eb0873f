# Whole commands as a user types them, on kernels that do not ship: $evo and $before are programs, $site has Kernel Tuner.
# Every search has caches of its own, all empty. Rows of benches/throughput_peers.py are kept in rows.jsonl.
set -u
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv > "$OUT/conditions.csv"
peers="python3 benches/throughput_peers.py --inputs generated --budgets 200 --site $site --no-retime --out $OUT/peers --run-timeout 130"
one() { # NAME LIMIT COMMAND...: its wall time, its last lines, the share of time with a kernel on the GPU
  name=$1 limit=$2; shift 2
  nvidia-smi --query-gpu=timestamp,utilization.gpu --format=csv,noheader,nounits -lms 100 > "$OUT/$name.util" & watch=$!
  start=$(date +%s.%N)
  HOME=$(mktemp -d) timeout -s INT "$limit" "$@" > "$OUT/$name.txt" 2>&1; code=$?
  wall=$(echo "$(date +%s.%N) $start" | awk '{printf "%.1f", $1 - $2}')
  kill $watch
  echo "$name,$code,$wall,$(awk -F, '{s += $2; n++} END {printf "%.0f", s / n}' "$OUT/$name.util")" | tee -a "$OUT/walls.csv"
}
two=$(mktemp -d); cp benches/throughput_peers/layer_norm* "$two"
printf '\n[[problems]]\nname = "r32768_c1024"\ndevice = "cuda"\nsizes = { R = 32768, C = 1024 }\n' >> "$two/layer_norm.toml"
case $1 in
kernels)
  $peers --only-evo --evo "$evo" --evo-strategies exhaustive --kernels layer_norm --seeds 1,2,3
  $peers --only-evo --evo "$evo" --kernels gemm --seeds 1,2,3,4,5
  $peers --only-evo --evo "$evo" --kernels scale_add --seeds 1,2,3
  for seed in 1 2; do one layer_norm_two-$seed 60 "$evo" sweep "$two/layer_norm.toml" --device cuda --seed $seed --no-prior --out "$two/s$seed"; done
  one layer_norm-busy 60 "$evo" sweep benches/throughput_peers/layer_norm.toml --device cuda --seed 4 --no-prior --out "$two/b"
  $peers --only-kernel-tuner --kernel-tuner-strategies brute_force --kernels layer_norm --seeds 1
  $peers --only-kernel-tuner --kernel-tuner-strategies genetic_algorithm --kernels gemm,scale_add --seeds 1
  for k in gemm scale_add layer_norm; do one $k-off 60 "$evo" sweep benches/throughput_peers/$k.toml --device cuda --seed 1 --budget 200 --sanitize off --no-prior --out "$two/o$k"; done
  ;;
before)
  one before-layer_norm 120 "$before" sweep benches/throughput_peers/layer_norm.toml --device cuda --seed 1 --no-prior --out "$two/c"
  one before-gemm 120 "$before" sweep benches/throughput_peers/gemm.toml --budget 200 --device cuda --seed 1 --no-prior --out "$two/d"
  ;;
budgets)
  for n in 1 2 3; do for s in gemm_hopper:n4096 attention_hopper_d128:prefill_2k softmax:; do
    p=${s#*:}; one budget25-${s%%:*}-$n 40 "$evo" sweep ${s%%:*} ${p:+--problem $p} --budget 25s --device cuda --seed $n --no-prior --out "$two/w$n"; done; done
  ;;
shipped)
  for s in gemm softmax rmsnorm reduction transpose; do for o in auto off; do
    one $s-$o 60 "$evo" sweep $s --budget 100 $([ $o = off ] && echo --sanitize off) --device cuda --seed 1 --no-prior --out "$two/h$s$o"; done; done
  ;;
minute)
  for s in gemm_hopper:n4096 attention_hopper_d128:prefill_2k softmax:; do
    p=${s#*:}; one budget60-${s%%:*} 80 "$evo" sweep ${s%%:*} ${p:+--problem $p} --budget 60s --device cuda --seed 1 --no-prior --out "$two/m"; done
  ;;
first)
  for n in 1 2 3; do one first-$n 60 "$evo" sweep benches/throughput_peers/layer_norm.toml --device cuda --seed $n --no-prior --verbose --out "$two/f$n"
    python3 -c 'import json, sys; print(next(r["at_ms"] for r in (json.loads(l)["record"] for l in open(sys.argv[1])) if r["kind"] == "evaluation"))' "$two"/f$n/*/journal.jsonl | tee -a "$OUT/first-verdict-ms.txt"; done
  ;;
exhaustive)
  one gemm-exhaustive 400 "$evo" sweep benches/throughput_peers/gemm.toml --strategy exhaustive --sanitize off --device cuda --seed 1 --no-prior --verbose --out "$two/x"
  for n in 1 2 3; do one gemm-search-$n 60 "$evo" sweep benches/throughput_peers/gemm.toml --budget 200 --device cuda --seed $n --no-prior --verbose --out "$two/y$n"; done
  ;;
esac
rm -f "$OUT"/*.util

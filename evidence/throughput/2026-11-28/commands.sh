# $evo is the program. Each sweep has a home and an output folder of its own, so every cache is empty, except in the rows
# that say otherwise. `table.py` makes sweeps.csv from the journals.
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv > conditions.csv
one() { # NAME SPACE SEED OPTIONS
  name=$1 space=$2 seed=$3; shift 3
  start=$(date +%s.%N)
  HOME=${HOME_OF:-$(mktemp -d)} "$evo" sweep "$space" --strategy "${STRATEGY:-evolve}" --seed "$seed" --device cuda --no-prior --out "studies/$name" "$@" > "studies/$name.txt" 2>&1
  echo "$(date +%s.%N) $start" | awk '{print $1-$2}' > "studies/$name.wall"
}
mkdir -p studies
there=$(mktemp -d); HOME_OF=$there one warm-up gemm 9 --budget 8 --sanitize off --finalists 0
for seed in 1 2 3 4 5; do one gemm-$seed gemm $seed --budget 200 --sanitize off; done
HOME_OF=$there one gemm-kernels-there-1 gemm 1 --budget 200 --sanitize off
one gemm-sanitized-1 gemm 1 --budget 200
STRATEGY=exhaustive one gemm-exhaustive-1 gemm 1 --budget 4500 --sanitize off
for seed in 1 2 3; do for s in softmax rmsnorm reduction transpose; do one $s-$seed $s $seed --budget 100 --sanitize off; done; done
one attention_simt-1 attention_simt 1 --budget 300 --sanitize off
one slow-60s-1 benches/slow_compile/convolution.toml 1 --budget 60s --sanitize off
# Compile processes under SCHED_IDLE: no gain.
( while :; do for p in $(pgrep -f "worker --compile"); do chrt -a -i -p 0 $p 2> /dev/null; done; sleep 0.05; done ) & idler=$!
for seed in 1 2; do one gemm-idle-$seed gemm $seed --budget 200 --sanitize off; done
kill $idler
python3 table.py studies/*/ > sweeps.csv

# A later lease: Kernel Tuner (installed in $site) with one seed a strategy, evo with five.
peers="python3 benches/throughput_peers.py --evo $evo --site $site --budgets 200 --out peers"
$peers --only-kernel-tuner --kernel-tuner-strategies hybrid_vndx,genetic_algorithm --seeds 1 --no-retime --kernels gemm,convolution
$peers --only-kernel-tuner --kernel-tuner-strategies genetic_algorithm --seeds 1 --no-retime --kernels scale_add
$peers --only-evo --evo-options "--sanitize off" --seeds 1,2,3,4,5

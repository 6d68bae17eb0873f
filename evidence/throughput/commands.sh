# $new and $base are the two programs; each sweep has a home and an output folder of its own, so that no cache of
# binaries or answers is shared.
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv > conditions.csv
n=0
one() { # PROGRAM SPACE BUDGET SEED
  n=$((n + 1))
  HOME=$(mktemp -d) "$1" sweep "$2" --strategy evolve --budget "$3" --seed "$4" --device cuda --no-prior --out "studies/$n"
}
for seed in 1 2 3; do
  one "$new" gemm 200 $seed
  one "$base" gemm 200 $seed
done
one "$new" softmax 100 1

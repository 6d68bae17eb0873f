#!/usr/bin/env bash
# On one GPU: heads of 80, 96 and 256, long prefill, GEMM M = 48, the sanitizer on the champions, T1 against flash, and one
# search for the mean of eight problems against one for each of them.
# usage, in the repository's root: OUT=folder commands.sh EVO [STEP...]     steps: conditions d256 m48 t1 sanitize long d80 d96 apart
#     cold_hopper cold_mma cold_decode cold_gemm across one_set schedules sanitize_schedules
#     portfolio_search portfolio_bench decode_search decode_bench stay_long
# Changed by the environment: DEVICE=host PEER=none (a trial without a GPU), LIMIT=470 (seconds in all).
set -uo pipefail
shopt -s extglob
evo=$(realpath "$1"); shift
here=$PWD; champions=$here/evidence/h200-attention/champions; table=$here/evidence/h200-attention/table.py
mkdir -p "$OUT/more"; cd "$OUT/more" || exit 2
device=${DEVICE:-cuda}; peers=(--peer "${PEER:-torch}"); [ "${PEER:-torch}" = none ] && peers=()
export EVO_CACHE_DIR=${EVO_CACHE_DIR:-/tmp/evo-cache}
end=$((SECONDS + ${LIMIT:-470})); summary=()
finish() { echo; echo "== summary, $SECONDS s =="; printf '%s\n' "${summary[@]}"; rm -rf st; tar czf ../more.tgz -C "$OUT" more && rm -rf "$OUT/more"; }
trap finish EXIT
say() { summary+=("${1:0:520}"); echo "${1:0:520}"; }
# limited SECONDS FILE COMMAND...: the command's output in FILE; never past the end of the time.
limited() {
    local most=$1 file=$2 left=$((end - SECONDS)); shift 2
    [ "$left" -lt 5 ] && { echo "no time left" > "$file"; return 125; }
    timeout -s INT -k 5 "$(( most < left ? most : left ))" "$@" > "$file" 2>&1
}
# What a bench folder says: for each problem our fastest and the fastest peer, hot and cold.
rows() { python3 - "$1" "${2:-}" <<'PY'
import csv, glob, sys
paths = sorted(glob.glob(f"st*/bench/*/*-{sys.argv[1]}/bench.csv"))
if not paths: print("no bench.csv"); sys.exit()
only, told, times = sys.argv[2], [], {}
for row in csv.DictReader(open(paths[-1])):
    for mode in ("hot", "cold"):
        if row["status"] == "pass" and row.get(f"{mode}_p50_ns"):
            times.setdefault((row["problem"], mode), []).append((float(row[f"{mode}_p50_ns"]) / 1e3, row["implementation"].lstrip("'")))
for (problem, mode), own in times.items():
    ours = min((one for one in own if "/" not in one[1]), default=None)
    theirs = min((one for one in own if "/" in one[1] and only in one[1]), default=None)
    ratio = f"{theirs[0] / ours[0]:.3f}x" if ours and theirs else "no pair"
    told.append(f"{problem} {mode} {ours and ours[0]:.2f} us, {theirs and theirs[1]} {theirs and round(theirs[0], 2)}: {ratio}")
print("; ".join(told))
PY
}
keep() { for folder in st*/bench/*/*-"$1"; do for part in bench.csv comparison.md environment.json; do cp "$folder/$part" "$1-$part" 2> /dev/null; done; done; }
# search SPACE BUDGET NAME PROBLEM...: a sweep of these problems in a study of this name.
search() {
    local space=$1 budget=$2 name=$3 asked=() problem; shift 3
    for problem in "$@"; do asked+=(--problem "$problem"); done
    limited $((budget + 20)) "sweep-$name.txt" "$evo" sweep "$space" "${asked[@]}" --study "$name" --budget "${budget}s" --seed 1 \
        --finalists 2 --sanitize off --limit-device 15s --device "$device" --out "st-$name"
    local code=$?
    python3 "$table" --chosen "st-$name/leaderboard.json" > "chosen-$name.txt" 2> /dev/null
    say "sweep $name: code $code; $(grep -m1 '^speed' "sweep-$name.txt" | cut -c1-70) | $(grep -m1 '^time ' "sweep-$name.txt" | cut -c1-40) | $(grep -m1 'evaluations (' "sweep-$name.txt" | cut -c1-70) | $(grep -m1 '^verdicts' "sweep-$name.txt" | cut -c1-110) | $(head -1 "chosen-$name.txt" | cut -c1-200)"
}
# beside SPACE NAME CANDIDATES_FILE PROBLEM...: these configurations (c1, c2, ... in its order) beside the peer, hot and cold.
beside() {
    local space=$1 name=$2 file=$3 words number=0 code; shift 3
    {
        echo "space = \"$space\""; echo "modes = [\"hot\", \"cold\"]"; echo "candidates = ["
        while read -r words; do [ -n "$words" ] && echo "    { name = \"c$((++number))\", words = \"$words\" },"; done < <(awk '!seen[$0]++' "$file")
        echo "]"; printf 'problems = ['; printf '"%s", ' "$@"; echo "]"
    } > "bench-$name.toml"
    mkdir -p "st-$name"
    limited "${MOST:-60}" "bench-$name.txt" "$evo" bench "./bench-$name.toml" "${peers[@]}" --rounds "${ROUNDS:-2}" --limit-device 15s \
        --device "$device" --name "$name" --study "$name" --out "st-$name"
    code=$?; keep "$name"; say "bench $name: code $code; $(rows "$name")"
}
# check SPACE WORDS...: memcheck and racecheck of one configuration at the space's smallest shapes.
check() {
    local space=$1 tool told=""; shift
    for tool in memcheck racecheck; do
        limited 25 "sanitize-$space-$tool-$((++checks)).txt" "$evo" sanitize "$space" "$@" --tool "$tool" --device "$device" --out st-sanitize
        told+=" $tool code $? ($(grep -m1 "^  $tool" "sanitize-$space-$tool-$checks.txt" | tr -s ' ' | cut -c1-80))"
    done
    say "sanitize $space:$told; $(echo "$@" | cut -c1-90)"
}
checks=0
# The line of a list of champions that has this word.
line() { grep -m1 -- "$2" "$champions/chosen-$1.txt"; }
conditions() { [ "$device" = cuda ] && nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.limit --format=csv > conditions.csv; "$evo" --version > version.txt; }
d256() {
    search attention_hopper_d256 "${BUDGET:-15}" d256 b2h8_s2k
    { cat chosen-d256.txt; echo "@baseline"; echo "TURNS=1"; } > asked-d256.txt
    beside attention_hopper_d256 d256 asked-d256.txt b2h8_s2k b2h8_s2k_causal
    # By itself, in case that a cluster hangs.
    printf '%s\n' "CLUSTER=2" "CLUSTER=2 RESCALE=lazy" "CLUSTER=2 TURNS=1" > asked-d256-cluster.txt
    beside attention_hopper_d256 d256-cluster asked-d256-cluster.txt b2h8_s2k b2h8_s2k_causal
    # shellcheck disable=SC2046  # one word a parameter
    check attention_hopper_d256 $(head -1 asked-d256.txt | grep = )
    [ "$device" = cuda ] && check attention_hopper_d256 CLUSTER=2
}
# Heads of 80 and 96 on wgmma: a search, then its best beside the backends, with and without a cluster.
narrow() {
    local space=attention_hopper_d$1
    search "$space" "${BUDGET:-15}" "d$1" b2h12_s1000_causal
    { cat "chosen-d$1.txt"; echo "@baseline"; echo "ROW_GROUPS=1 BLOCK_N=128 OVERLAP=none PRODUCER=thread STAGES=1 MIN_BLOCKS=2"; } > "asked-d$1.txt"
    beside "$space" "d$1" "asked-d$1.txt" b2h12_s1000_causal b2h12_s1000
    [ "$device" = cuda ] || return 0
    printf '%s\n' "CLUSTER=2" > "asked-d$1-cluster.txt"
    beside "$space" "d$1-cluster" "asked-d$1-cluster.txt" b2h12_s1000_causal b2h12_s1000
    # shellcheck disable=SC2046  # one word a parameter
    check "$space" $(head -1 "asked-d$1.txt" | grep =)
}
d80() { narrow 80; }
d96() { narrow 96; }
# The same budget twice for all eight problems, for the least mean and for the best of each, and what was confirmed of each beside
# the backends.
apart() {
    local how flag problems=(b1h1_s128 b1h8_s512 b1h8_s512_causal b2h8_s512 b4h16_s512 b4h16_s512_causal b8h16_s512 b8h16_s512_causal)
    for how in mean each; do
        flag=(); [ "$how" = each ] && flag=(--per-problem)
        limited $((${APART:-60} + 20)) "sweep-apart-$how.txt" "$evo" sweep attention_hopper "${flag[@]}" --no-prior --study "apart-$how" \
            --budget "${APART:-60}s" --seed 1 --finalists 3 --sanitize off --limit-device 15s --device "$device" --out "st-apart-$how"
        say "sweep apart-$how: code $?; $(grep -m1 'evaluations (' "sweep-apart-$how.txt" | cut -c1-70) | $(grep -m1 '^verdicts' "sweep-apart-$how.txt" | cut -c1-110)"
        python3 "$table" --chosen "st-apart-$how/leaderboard.json" > "chosen-apart-$how.txt" 2> /dev/null
        ROUNDS=1 MOST=80 beside attention_hopper "apart-$how" "chosen-apart-$how.txt" "${problems[@]}"
    done
}
long() {
    search attention_hopper "${BUDGET:-14}" long8k prefill_8k
    [ -s chosen-long8k.txt ] || echo "@baseline" > chosen-long8k.txt
    beside attention_hopper long8k chosen-long8k.txt prefill_8k
    search attention_hopper_d128 "${BUDGET:-25}" long16k prefill_16k
    { cat chosen-long16k.txt; echo "Q_IN_REGS=1 RESCALE=lazy"; echo "CLUSTER=2 TURNS=1 STAGES=3"; } > asked-long16k.txt
    MOST=90 beside attention_hopper_d128 long16k asked-long16k.txt prefill_16k
    search attention_hopper_d128 "${BUDGET:-18}" long16kc prefill_16k_causal
    { cat chosen-long16kc.txt; echo "Q_IN_REGS=1 RESCALE=lazy"; } > asked-long16kc.txt
    MOST=90 beside attention_hopper_d128 long16kc asked-long16kc.txt prefill_16k_causal
}
m48() {
    search gemm_hopper "${BUDGET:-14}" m48 m48
    { cat chosen-m48.txt; line gemm_hopper STAGES=8; } > asked-m48.txt
    beside gemm_hopper m48 asked-m48.txt m48
    local one="ROW_TILES=1 CONSUMERS=1 BLOCKS=1000"
    printf '%s\n' "BLOCK_N=64 STAGES=8 SPLIT_K=2 $one" "BLOCK_N=64 STAGES=12 SPLIT_K=2 $one" "BLOCK_N=128 STAGES=8 SPLIT_K=4 $one" \
        "BLOCK_N=64 STAGES=6 SPLIT_K=4 MIN_BLOCKS=2 $one" > asked-m48-split.txt
    beside gemm_hopper m48-split asked-m48-split.txt m48
    # shellcheck disable=SC2086  # one word a parameter
    [ "$device" = cuda ] && check gemm_hopper BLOCK_N=64 STAGES=8 SPLIT_K=2 $one
}
# The part of A that blocks beside each other fetch together: few rows, and as many rows as columns.
across() {
    local one="ROW_TILES=1 CONSUMERS=1 BLOCKS=1000 EPILOGUE=direct"
    printf '%s\n' "BLOCK_N=64 STAGES=8 SPLIT_K=2 ACROSS=1 $one" "BLOCK_N=64 STAGES=8 SPLIT_K=2 ACROSS=2 $one" \
        "BLOCK_N=64 STAGES=8 SPLIT_K=2 ACROSS=4 $one" "BLOCK_N=64 STAGES=12 SPLIT_K=2 ACROSS=2 $one" \
        "BLOCK_N=64 STAGES=12 SPLIT_K=2 ACROSS=4 $one" "BLOCK_N=64 STAGES=6 SPLIT_K=4 ACROSS=2 MIN_BLOCKS=2 $one" \
        "BLOCK_N=64 STAGES=10 SPLIT_K=1 ACROSS=4 $one" "BLOCK_N=128 STAGES=8 SPLIT_K=4 ACROSS=2 $one" > asked-across.txt
    search gemm_hopper "${BUDGET:-25}" across m48
    cat chosen-across.txt >> asked-across.txt
    MOST=60 beside gemm_hopper across asked-across.txt m48
    search gemm_hopper "${BUDGET:-15}" across-k1000 k1000
    cold gemm_hopper "${BUDGET:-15}" gemm_hopper k1000
    # shellcheck disable=SC2086  # one word a parameter
    [ "$device" = cuda ] && check gemm_hopper BLOCK_N=64 STAGES=8 SPLIT_K=2 ACROSS=2 $one
}
# The champions of the table at their largest gains.
sanitize() {
    # shellcheck disable=SC2046
    {
        check attention_hopper $(line attention_hopper "KV_GROUPS=2 BLOCK_N=256 STAGES=2 OVERLAP=parts TURNS=0 PRODUCER=thread")
        check attention_hopper_d128 $(line attention_hopper_d128 "STAGES=2 OVERLAP=tiles")
        check attention_decode $(line attention_decode BLOCKS=198)
        check attention_decode_d64 $(line attention_decode_d64 BLOCKS=264)
        check gemm_hopper $(line gemm_hopper ROW_TILES=2)
        check attention_mma_d80 $(line attention_mma_d80 BLOCK_M=64)
        check attention_mma_d256 $(line attention_mma_d256 BLOCK_M=64)
        check attention_hopper_d128 $(line attention_hopper_d128_ragged BLOCK_N=80)
    }
}
# Searches that rank by cold times, and what they found beside what searches for hot times had found.
# asks for: cold SPACE BUDGET CHAMPIONS PROBLEM...
cold() {
    local space=$1 budget=$2 known=$3 problem name; shift 3
    sed 's/^\[objective\]$/[objective]\nranking = "cold"/' "$here/search_spaces/$space.toml" > "${space}_cold.toml"
    for problem in "$@"; do search "./${space}_cold.toml" "$budget" "cold-$space-$problem" "$problem"; done
    { cat chosen-cold-"$space"-*.txt; [ -n "$known" ] && cat "$champions/chosen-$known.txt"; } > "asked-cold-$space.txt"
    beside "$space" "cold-$space" "asked-cold-$space.txt" "$@"
}
seeds=(b1h1_s128 b1h8_s512 b1h8_s512_causal b2h8_s512 b4h16_s512 b4h16_s512_causal b8h16_s512 b8h16_s512_causal)
cold_hopper() { MOST=110 cold attention_hopper "${BUDGET:-11}" attention_hopper "${seeds[@]}"; }
# The same on one set of inputs and outputs, as peers are timed: evo's own calls go round several sets where these fit the cache.
one_set() {
    sed 's/^\[check\]$/[check]\nseeds = 1/' "$here/search_spaces/attention_hopper.toml" > attention_hopper_one.toml
    MOST=60 beside ./attention_hopper_one.toml one-set "$champions/chosen-attention_hopper.txt" b1h1_s128 b1h8_s512 b4h16_s512 b8h16_s512
}
cold_mma() { MOST=100 cold attention_mma "${BUDGET:-10}" "" b1h1_s128 b1h8_s512 b1h8_s512_causal b2h8_s512 b4h16_s512_causal; }
cold_decode() {
    MOST=60 cold attention_decode "${BUDGET:-11}" attention_decode b1_h32_kv8_8k b16_h32_kv8_4k b1_h16_1k
    MOST=30 cold attention_decode_d64 "${BUDGET:-11}" attention_decode_d64 b4_h32_kv4_2k
}
cold_gemm() { MOST=40 cold gemm_hopper "${BUDGET:-12}" gemm_hopper k1000 m48; }
# A search for hot times and one for cold ones of each of the eight shapes and of decoding; then, by themselves, what they found
# and what was best before.
portfolio_search() {
    sed 's/^\[objective\]$/[objective]\nranking = "cold"/' "$here/search_spaces/attention_hopper.toml" > attention_hopper_cold.toml
    local problem
    for problem in "${seeds[@]}"; do
        search attention_hopper "${BUDGET:-11}" "portfolio-hot-$problem" "$problem"
        search ./attention_hopper_cold.toml "${BUDGET:-11}" "portfolio-cold-$problem" "$problem"
    done
}
portfolio_bench() {
    {
        cat chosen-portfolio-*.txt "$champions/chosen-attention_hopper.txt"
        echo "ROW_GROUPS=1 KV_GROUPS=2 BLOCK_N=64 STAGES=2 OVERLAP=parts PRODUCER=warp EPILOGUE=direct MIN_BLOCKS=1 SPLIT=2"
        echo "ROW_GROUPS=1 BLOCK_N=64 OVERLAP=none PRODUCER=warp RESCALE=lazy MIN_BLOCKS=4 STAGES=1 ORDER=tiles"
        echo "ROW_GROUPS=1 BLOCK_N=64 OVERLAP=none PRODUCER=warp RESCALE=lazy MIN_BLOCKS=3 STAGES=2 SCHEDULE=static Q_STAGES=2"
    } > asked-portfolio.txt
    MOST=170 beside attention_hopper portfolio asked-portfolio.txt "${seeds[@]}"
}
decode_search() {
    local problem
    sed 's/^\[objective\]$/[objective]\nranking = "cold"/' "$here/search_spaces/attention_decode.toml" > attention_decode_cold.toml
    for problem in b1_h32_kv8_8k b16_h32_kv8_4k b1_h16_1k; do
        search ./attention_decode_cold.toml "${BUDGET:-13}" "decode-cold-$problem" "$problem"
    done
}
decode_bench() {
    cat chosen-decode-cold-*.txt "$champions/chosen-attention_decode.txt" > asked-decode.txt
    MOST=40 beside attention_decode decode asked-decode.txt b1_h32_kv8_8k b16_h32_kv8_4k b1_h16_1k
}
# Blocks that stay where problems are long, beside the champions of the table.
stay_long() {
    local known words word own
    for known in "$(line attention_hopper_d128 BLOCK_N=192)" "$(line attention_hopper_d128 'STAGES=2 OVERLAP=tiles')"; do
        for words in "" "SCHEDULE=static" "SCHEDULE=dynamic" "TURNS=2" "SCHEDULE=static TURNS=2" "SCHEDULE=static TURNS=1"; do
            own=$known
            for word in $words; do own="${own// ${word%%=*}=+([^ ])/} $word"; done
            echo "$own"
        done
    done > asked-stay.txt
    ROUNDS=1 MOST=100 beside attention_hopper_d128 stay asked-stay.txt prefill_2k prefill_2k_causal prefill_4k_gqa_causal
}
# Blocks that stay, softmaxes by turns and keys shared out in a cluster, beside what was best without them.
schedules() {
    local small="ROW_GROUPS=1 BLOCK_N=64 OVERLAP=none PRODUCER=warp RESCALE=lazy MIN_BLOCKS=4" stay
    stay="${small/MIN_BLOCKS=4/MIN_BLOCKS=3}"
    local large="ROW_GROUPS=2 BLOCK_N=128 STAGES=2 PRODUCER=warp MIN_BLOCKS=1"
    printf '%s\n' "$small STAGES=1" "$small STAGES=1 ORDER=tiles" "$small STAGES=2 ORDER=tiles" \
        "$stay STAGES=1 SCHEDULE=static" "$stay STAGES=2 SCHEDULE=static Q_STAGES=2" \
        "$stay STAGES=2 SCHEDULE=static Q_STAGES=2 ORDER=tiles" "$stay STAGES=1 SCHEDULE=static Q_STAGES=2 ORDER=tiles" \
        "$stay STAGES=2 SCHEDULE=dynamic Q_STAGES=2" "$stay STAGES=1 SCHEDULE=dynamic ORDER=tiles" \
        "$large OVERLAP=tiles" "$large OVERLAP=tiles SCHEDULE=static Q_STAGES=2" "$large OVERLAP=tiles SCHEDULE=dynamic Q_STAGES=2" \
        "$large OVERLAP=tiles SCHEDULE=static Q_STAGES=2 TURNS=2" "$large OVERLAP=tiles SCHEDULE=static Q_STAGES=2 TURNS=1" \
        "$large OVERLAP=parts SCHEDULE=static Q_STAGES=2 ORDER=tiles" > asked-schedules.txt
    ROUNDS=1 MOST=100 beside attention_hopper schedules asked-schedules.txt b4h16_s512 b4h16_s512_causal b8h16_s512 b8h16_s512_causal
    local one="ROW_GROUPS=1 KV_GROUPS=1 EPILOGUE=direct OVERLAP=none MIN_BLOCKS=1"
    printf '%s\n' "$one BLOCK_N=128 STAGES=2 PRODUCER=thread SPLIT=2" "$one BLOCK_N=128 STAGES=1 PRODUCER=thread SPLIT=4" \
        "$one BLOCK_N=64 STAGES=2 PRODUCER=thread SPLIT=4" "$one BLOCK_N=64 STAGES=1 PRODUCER=warp SPLIT=8" \
        "$one BLOCK_N=64 STAGES=4 PRODUCER=warp SPLIT=2" \
        "ROW_GROUPS=1 KV_GROUPS=2 BLOCK_N=64 STAGES=2 OVERLAP=parts PRODUCER=warp EPILOGUE=direct MIN_BLOCKS=1 SPLIT=2" \
        "$(line attention_hopper PRODUCER=warpgroup)" > asked-split.txt
    ROUNDS=1 MOST=60 beside attention_hopper split asked-split.txt b1h1_s128 b1h8_s512 b1h8_s512_causal b2h8_s512
}
# The sanitizer on one configuration of each.
sanitize_schedules() {
    local large="ROW_GROUPS=2 BLOCK_N=64 STAGES=2 PRODUCER=warp MIN_BLOCKS=1 OVERLAP=tiles"
    # shellcheck disable=SC2086  # one word a parameter
    {
        check attention_hopper $large SCHEDULE=static Q_STAGES=2 TURNS=2
        check attention_hopper $large SCHEDULE=dynamic Q_STAGES=2 TURNS=1
        check attention_hopper ROW_GROUPS=1 BLOCK_N=64 STAGES=2 PRODUCER=thread EPILOGUE=direct SPLIT=4 MIN_BLOCKS=1
    }
}
# mma.sync alone against FlashAttention-2's backend: a search for each kind of problem, then all that were confirmed.
t1() {
    search attention_mma "${BUDGET:-8}" t1-one b1h1_s128
    search attention_mma "${BUDGET:-12}" t1-few b1h8_s512 b1h8_s512_causal b2h8_s512
    search attention_mma "${BUDGET:-10}" t1-many b4h16_s512 b8h16_s512
    search attention_mma "${BUDGET:-10}" t1-causal b4h16_s512_causal b8h16_s512_causal
    { cat chosen-t1-*.txt | sort -u; echo "@baseline"; } > asked-t1.txt
    ROUNDS=1 beside attention_mma t1 asked-t1.txt b1h1_s128 b1h8_s512 b1h8_s512_causal b2h8_s512 b4h16_s512 b4h16_s512_causal b8h16_s512 b8h16_s512_causal
    say "t1 against flash: $(rows t1 flash | tr ';' '\n' | grep ' hot ' | tr '\n' ';')"
}
for step in ${*:-conditions d256 m48 t1 sanitize long}; do "$step"; done

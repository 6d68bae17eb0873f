#!/bin/sh
# Takes the space files of this folder through evo, each with a kernel that somebody else has published:
#
#     benches/ports/run.sh CHECKOUTS [NAME…]
#
# A space file says where its kernel is from, in a line `# port: OWNER/REPO COMMIT PATH`. CHECKOUTS holds local copies as
# CHECKOUTS/OWNER/REPO; nothing is written there. One row is printed for each space file: the default configuration
# through every gate on the host device, and its compilation for sm_90a. A kernel that is not there is skipped, said so
# on stderr, and ends the script with 1. A line `# host: WHY` says that the host device cannot run the kernel.
# $EVO is the program (default: evo in PATH); what evo said is left in the folder $KEEP if that is set.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 CHECKOUTS [NAME…]" >&2; exit 2; }
[ -d "$1" ] || { echo "error: \`$1\` is not a folder" >&2; exit 2; }
evo=${EVO:-evo}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
checkouts=$(CDPATH='' cd -- "$1" && pwd)
shift
[ $# -gt 0 ] || set -- $(cd "$here" && ls ./*.toml | sed 's|^\./||; s|\.toml$||')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What evo said in its JSON object, in a few words.
verdict() {
    python3 - "$1" <<'PY'
import json, sys
answer = json.load(open(sys.argv[1]))
kind, message = answer["status"], answer.get("message") or ""
if isinstance(answer.get("verdict"), dict):  # evo compile
    kind, message = answer["verdict"]["kind"], answer["verdict"].get("message") or ""
elif answer.get("verdict"):  # evo test-one
    kind = answer["verdict"] + (":" + answer["cause"] if answer.get("cause") else "")
if answer.get("error"):
    message = answer["error"]["message"]
print(kind + (f" ({' '.join(message.split())})" if message and kind != "pass" else ""))
PY
}

status=0
echo "| kernel | repository | commit | file | host device | NVRTC, sm_90a |"
echo "|---|---|---|---|---|---|"
for name in "$@"; do
    space=$here/$name.toml
    set -- $(sed -n 's/^# port: //p' "$space" | head -n 1)
    [ $# -eq 3 ] || { echo "$space has no line \`# port: OWNER/REPO COMMIT PATH\`" >&2; exit 2; }
    kernel=$checkouts/$1/$3
    if [ ! -f "$kernel" ]; then
        echo "skipped $name: $kernel is missing" >&2
        status=1
        continue
    fi
    # evo looks for a space's files in its own folder, so a folder gets the checkout as a link, beside what is ours.
    folder=$work/$name
    mkdir "$folder"
    cp -R "$here/$name".toml "$here/$name"_* "$folder"/ 2>/dev/null || true
    ln -s "$checkouts/$1" "$folder/checkout"
    before=$(cksum < "$kernel")
    host=$(sed -n 's/^# host: /not run: /p' "$space" | head -n 1)
    if [ -z "$host" ]; then
        "$evo" test-one "$folder/$name.toml" --device host --allow-outside --json \
            > "$folder/host.json" 2> "$folder/host.log" || true
        host=$(verdict "$folder/host.json")
    fi
    "$evo" compile "$folder/$name.toml" --arch sm_90a --allow-outside --json \
        > "$folder/cuda.json" 2> "$folder/cuda.log" || true
    cuda=$(verdict "$folder/cuda.json")
    if [ "$before" != "$(cksum < "$kernel")" ]; then
        echo "$name: $kernel has changed" >&2
        status=1
    fi
    if [ -n "${KEEP:-}" ]; then
        mkdir -p "$KEEP"
        for answer in host cuda; do
            [ ! -f "$folder/$answer.json" ] || cp "$folder/$answer.json" "$KEEP/$name.$answer.json"
        done
    fi
    echo "| $name | $1 | $(echo "$2" | cut -c1-10) | $3 | $host | $cuda |"
done
exit "$status"

#!/bin/sh
# Plays compute-sanitizer for tests. `REPLAY` is a folder with what it leaves behind: `log`, `xml`, `code` (its exit
# code, if it is not the program's) and `mode`: `before` (it ends without starting the program), `cut` (the program gets
# two lines of stdin and no more), `hang` (the program ends and the tool does not), `stuck` (it starts nothing and does
# not end), `meet` (it waits until four of it are there), `alone` (it starts nothing while another one is there),
# `normal`. Missing files are not written. `options` in it replaces the options that `--help` names.
case "$1" in
--version)
    printf 'NVIDIA (R) Compute Sanitizer\nVersion 2025.3.1.0 (build 1) (public-release)\n'
    exit 0
    ;;
--help)
    cat "$REPLAY/options" 2>/dev/null || cat "$(dirname "$0")/sanitizer/options"
    exit 0
    ;;
esac
echo $$ >>"$REPLAY/pids"
echo "$@" >>"$REPLAY/arguments"
log= save=
while [ $# -gt 0 ]; do
    case "$1" in
    --log-file) log=$2 && shift 2 ;;
    --save) save=$2 && shift 2 ;;
    --xml) shift ;;
    --*) shift 2 ;;
    *) break ;;
    esac
done
mode=$(cat "$REPLAY/mode" 2>/dev/null || echo normal)
status=0
case "$mode" in
before) ;;
stuck) sleep 600 ;;
meet)
    while [ "$(wc -l <"$REPLAY/pids")" -lt 4 ]; do sleep 0.01; done
    "$@" || status=$?
    ;;
alone) if mkdir "$REPLAY/lock" 2>/dev/null; then
    # Long enough for others to come.
    sleep 0.5
    "$@" || status=$?
    rmdir "$REPLAY/lock"
fi ;;
cut) { for _ in 1 2; do read -r line && printf '%s\n' "$line"; done; } | "$@" || status=$? ;;
*) "$@" || status=$? ;;
esac
if [ -f "$REPLAY/log" ]; then cp "$REPLAY/log" "$log"; fi
if [ -f "$REPLAY/xml" ]; then cp "$REPLAY/xml" "$save"; fi
if [ "$mode" = hang ]; then sleep 600; fi
exit "$(cat "$REPLAY/code" 2>/dev/null || echo $status)"

#!/bin/sh
# evo for programs that start it by themselves: with less effort where something is timed.
case $1 in profile | evaluate | serve) set -- "$@" --limit sampling=500ms ;; esac
exec "$EVO_TEST_PROGRAM" "$@"

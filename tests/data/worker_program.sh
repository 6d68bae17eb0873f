#!/bin/sh
# A stand-in for evo as a worker: notes its arguments, then becomes evo.
echo "$@" >> "$EVO_TEST_STARTED"
exec "$EVO_TEST_PROGRAM" "$@"

#!/bin/sh
# evo whose device worker is played by fake_worker.py, for what is not about devices.
[ "$*" != worker ] || exec python3 "$(dirname "$0")/fake_worker.py" .
exec "$EVO_TEST_PROGRAM" "$@"

#!/usr/bin/env python3
"""How many small candidates a second `evo evaluate --stdin` and `--serve` answer at the level `quick`.

requests.py EVO [cuda|host] [COUNT]    beside work.toml, work.cu and naive.cu

Each candidate is a source of its own, so that no answer and no binary is known before. Two rates are printed: with the
start of the session (its device, references and the baseline) and from the first answer on.
"""
import json
import subprocess
import sys
import threading
import time
from collections import Counter

evo, device, count = sys.argv[1], (sys.argv[2:3] or ["cuda"])[0], int((sys.argv[3:4] or ["60"])[0])
source = open("work.cu").read()
for mode in ["stdin", "serve"]:
    lines = []
    for number in range(count):
        own = f"{source}\n// {mode} {number} {time.time()}\n__device__ int unused_{mode}_{number};\n"
        candidate = {"kind": "cuda", "sources": [{"path": "k.cu", "content": own}],
                     "configuration": {"BLOCK": [256, 64, 128, 512][number % 4], "ROUNDS": 1000}}
        lines.append(json.dumps({"id": number, "candidate": candidate, "level": "quick"}))
    began = time.time()
    process = subprocess.Popen([evo, "evaluate", "work.toml", f"--{mode}", "--quick", "--device", device],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    # The pipe holds a few lines, so they are written while answers are read.
    threading.Thread(target=lambda: (process.stdin.write("\n".join(lines) + "\n"), process.stdin.close())).start()
    answers, times = [], []
    for line in process.stdout:
        answers.append(json.loads(line))
        times.append(time.time())
    process.wait()
    verdicts = dict(Counter(str(answer.get("verdict")) for answer in answers))
    whole, steady = times[-1] - began, times[-1] - times[0]
    walls = sorted(answer["cost"]["wall_ms"] for answer in answers[1:])
    print(f"--{mode}: {len(answers)} answers {verdicts}, exit code {process.returncode}; {len(answers) / whole:.2f} a second with "
          f"the start, {(len(answers) - 1) / steady:.2f} from the first answer ({times[0] - began:.1f} s) on; "
          f"median {walls[len(walls) // 2]:.0f} ms each")

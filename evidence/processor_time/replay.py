"""replay.py EVO REQUESTS: feeds the recorded requests of a device worker to `EVO worker` and waits for each answer.

With time out of the way the work of two builds is the same: in the file `series_ms` of `load` is 60,000, so that every series
of questions ends with its number of cases. Prints what each gate said.
"""

import json
import subprocess
import sys

evo, path = sys.argv[1:3]
worker = subprocess.Popen([evo, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
said, phases = [], 0
for line in open(path, "rb"):
    worker.stdin.write(line)
    worker.stdin.flush()
    if json.loads(line)["body"]["type"] == "shutdown":
        break
    while True:
        answer = worker.stdout.readline()
        if not answer:
            sys.exit("the worker has ended")
        if b'"type":"phase"' in answer[:60]:
            phases += 1
            continue
        body = json.loads(answer)["body"]
        if body["type"] == "gate_done":
            report = body["report"]
            said.append("{gate}:{state}:{cases}".format(**report))
        break
worker.stdin.close()
worker.wait()
print(*said, "phases", phases)

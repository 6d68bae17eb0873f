"""A mutator that behaves as its first argument says, for tests of evo."""

import json
import sys
import time


def evaluations(journal):
    with open(journal, encoding="utf-8") as lines:
        return sum('"kind":"evaluation"' in line for line in lines)


def watch(journal):
    """Thinks until the search has evaluated three more variants; what became of that."""
    enough = evaluations(journal) + 3
    for _ in range(600):
        if evaluations(journal) >= enough:
            return "the search went on"
        time.sleep(0.1)
    return "the search stood still"


def say(**message):
    sys.stdout.write(json.dumps({"v": 1, **message}) + "\n")
    sys.stdout.flush()


def propose(mode, message):
    first = message["parents"][0]
    # The parent again: it passes every gate and is never faster.
    answer = {"type": "proposals", "id": message["id"], "proposals": [{"name": "echo", "source": first["source"]}]}
    if mode == "middling":
        edit = {"search": "k < SPIN", "replace": "k < 3000"}
        answer["proposals"] = [{"name": "spin less", "edits": [edit]}]
    if mode == "watches":
        answer["proposals"][0]["name"] = watch(sys.argv[2])
    if mode == "slow":
        time.sleep(600)
    elif mode == "garbage":
        print("these are no words of the protocol", flush=True)
    elif mode == "long":
        say(type="proposals", id=message["id"], proposals=[{"name": "long", "source": "x" * (10 << 20)}])
    elif mode == "dies":
        sys.stderr.write("out of ideas\n")
        sys.stdout.write('{"v": 1, "type": "propos')
        sys.stdout.flush()
        sys.exit(3)
    elif mode == "flood":
        while True:
            say(type="chatter", id=message["id"])
    else:
        say(**answer)
        if mode == "duplicate":
            say(**answer)


def main():
    mode = sys.argv[1]
    for line in sys.stdin:
        message = json.loads(line)
        kind = message.get("type")
        if mode == "silent":
            continue
        if kind == "hello":
            say(type="ready", id=message["id"], name=mode)
        elif kind == "propose":
            propose(mode, message)
        elif kind == "shutdown":
            return
        elif kind not in ("result", "error"):
            say(type="error", id=message["id"], message=f"unknown type {kind}")


main()

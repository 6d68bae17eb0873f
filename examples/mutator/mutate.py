"""A mutator for `evo sweep --mutator "python3 mutate.py"`, without a network and without a model.

It knows one mistake: a sum inside of a loop over elements that does not depend on the element. It offers three ways
to mend it, of which one is wrong; evo finds out which. It reads and writes JSON lines (docs/MUTATORS.md) and needs
Python 3 only.
"""

import json
import re
import sys

# for (int AT = threadIdx.x; ...) {          the loop over elements
#     float SUM = 0.0f;                      what is computed again for each of them
#     for (int I = 0; I < COUNT; ++I) SUM += TERM;
REPEATED_SUM = re.compile(
    r"(?P<outer>[ \t]*for \(int (?P<at>\w+) = threadIdx\.x; [^\n]*\{\n)"
    r"(?P<inner>[ \t]*float (?P<sum>\w+) = 0\.0f;\n"
    r"[ \t]*for \(int (?P<i>\w+) = 0; (?P=i) < (?P<count>\w+); \+\+(?P=i)\) (?P=sum) \+= (?P<term>[^;\n]+);\n)"
)

EVERY_OTHER = """\
    float {sum} = 0.0f;
    for (int {i} = 0; {i} < {count}; {i} += 2) {sum} += 2.0f * ({term});
"""

EACH_THREAD = """\
    float {sum} = 0.0f;
    for (int {i} = 0; {i} < {count}; ++{i}) {sum} += {term};
"""

TOGETHER = """\
    __shared__ float parts[BLOCK];
    parts[threadIdx.x] = 0.0f;
    for (int {i} = threadIdx.x; {i} < {count}; {i} += BLOCK) parts[threadIdx.x] += {term};
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {{
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }}
    float {sum} = parts[0];
"""

IDEAS = [
    ("every other element", EVERY_OTHER, 4.0, "half of the row may be enough for its mean"),
    ("once per thread", EACH_THREAD, 3.0, "the sum does not depend on the element: take it out of the loop"),
    ("once per block", TOGETHER, 10.0, "the threads of a block can add up their row together"),
]


def ideas(parent):
    """Proposals for a parent: none where the mistake is not in it."""
    found = REPEATED_SUM.search(parent["source"])
    if found is None or re.search(rf"\b{found['at']}\b", found["term"]):
        return []
    names = {name: found[name] for name in ("sum", "i", "count", "term")}
    return [
        {
            "name": name,
            "parent": parent["id"],
            # Two lines that occur once: the loop's head gets the new sum before it, and the old sum goes.
            "edits": [
                {"search": found["outer"], "replace": text.format(**names) + found["outer"]},
                {"search": found["inner"], "replace": ""},
            ],
            "thought": thought,
            "expected": expected,
            "cost": {"tokens": 0},
        }
        for name, text, expected, thought in IDEAS
    ]


def say(kind, number, **fields):
    sys.stdout.write(json.dumps({"v": 1, "type": kind, "id": number, **fields}) + "\n")
    sys.stdout.flush()


def main():
    proposed = set()
    for line in sys.stdin:
        message = json.loads(line)
        kind, number = message["type"], message["id"]
        if kind == "hello":
            say("ready", number, name="hoist a repeated sum")
        elif kind == "propose":
            fresh = []
            for parent in message["parents"]:
                fresh += [idea for idea in ideas(parent) if (parent["source"], idea["name"]) not in proposed]
            fresh = fresh[: message["n"]]
            # Only of what is sent: an answer may have room for less.
            sources = {parent["id"]: parent["source"] for parent in message["parents"]}
            proposed |= {(sources[idea["parent"]], idea["name"]) for idea in fresh}
            say("proposals", number, proposals=fresh)
        elif kind == "result":
            mark = "accepted" if message["accepted"] else message["verdict"]
            print(f"{message['name']}: {mark}", file=sys.stderr)
        elif kind == "shutdown":
            return
        elif kind != "error":
            say("error", number, message=f"unknown type `{kind}`")


main()

"""Ideas for `loop.py`, without a network and without a model.

It knows one mistake: a sum inside of a loop over elements that does not depend on the element. It offers three ways
to mend it, of which one is wrong; evo finds out which.
"""

import re

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
    ("every other element", EVERY_OTHER, "half of the row may be enough for its mean"),
    ("once per thread", EACH_THREAD, "the sum does not depend on the element: take it out of the loop"),
    ("once per block", TOGETHER, "the threads of a block can add up their row together"),
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
        }
        for name, text, thought in IDEAS
    ]


PROPOSED = set()


def propose(task, order):
    """Proposals that were not made before, `n` at most."""
    fresh = []
    for parent in order["parents"]:
        for idea in ideas(parent):
            if (parent["source"], idea["name"]) not in PROPOSED and len(fresh) < order["n"]:
                PROPOSED.add((parent["source"], idea["name"]))
                fresh.append(idea)
    return fresh

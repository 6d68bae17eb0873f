"""What every verb of evo answers on the host device, so that two programs can be compared.

    golden.py EVO OUT.json          runs the cases and keeps what they answered
    golden.py --diff OLD.json NEW.json

An answer is kept as its shape: exit code, the names of its fields with the kinds of their values, words that are no
names, times, hashes or paths, and the files that the command left. Numbers that a clock or a random draw decides are
only numbers. It needs Python 3 and a C++ compiler; five minutes on two cores.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[2] / "examples" / "agent_loop"
SWEEP = ["--device", "host", "--seed", "7", "--no-prior", "--budget", "3"]
JUDGE = ["rows.toml", "--device", "host", "--seed", "7"]

# Name, words, and after how many seconds it is interrupted; they share one folder, in this order.
CASES = [
    *[(f"help {verb}", [verb, "--help"], None) for verb in ("sweep", "test-one", "evaluate", "gate", "bench")],
    ("sweep", ["sweep", "rows.toml", *SWEEP, "--json"], None),
    ("sweep again", ["sweep", "rows.toml", *SWEEP, "--resume", "--json"], None),
    ("sweep exhaustive", ["sweep", "rows.toml", *SWEEP, "--strategy", "exhaustive", "--study", "all", "--json"], None),
    ("sweep interrupted", ["sweep", "rows.toml", *SWEEP[:4], "--study", "cut", "--json"], 1.0),
    ("sweep of nothing", ["sweep", "nothere.toml", "--json"], None),
    ("sweep, wrong option", ["sweep", "rows.toml", "--budgt", "3", "--json"], None),
    *[
        (f"{verb}{name}", [verb, *JUDGE, *more, "--json"], None)
        for verb in ("test-one", "test", "benchmark", "evaluate", "profile", "sanitize")
        for name, more in (
            ("", ["BLOCK=32"]),
            (", a source", ["--source", "faster.cu"]),
            (", a wrong source", ["--source", "wrong.cu"]),
            (", a broken source", ["--source", "broken.cu"]),
            (", no such value", ["BLOCK=33"]),
        )
    ],
    ("build", ["build", "rows.toml", "--device", "host", "BLOCK=32", "--json"], None),
    ("build, a broken source", ["build", "rows.toml", "--device", "host", "--source", "broken.cu", "--json"], None),
    ("test-one interrupted", ["test-one", *JUDGE, "BLOCK=32", "--json"], 0.7),
    ("gate, no baseline", ["gate", *JUDGE, "--json"], None),
    ("gate, kept", ["gate", *JUDGE, "--init", "--json"], None),
    ("gate", ["gate", *JUDGE, "--threshold", "900%", "--json"], None),
    ("gate, another", ["gate", *JUDGE, "--candidate", "BLOCK=32", "--threshold", "900%", "--update", "--json"], None),
    ("invert", ["invert", *JUDGE, "BLOCK=32", "--json"], None),
    ("crosscheck", ["crosscheck", *JUDGE, "BLOCK=32", "--json"], None),
    ("micro", ["micro", "rows.toml", "--device", "host", "--seed", "7", "--json"], None),
    ("bench", ["bench", *JUDGE, "--json"], None),
    ("space", ["space", "rows.toml", "--json"], None),
    ("space, sampled", ["space", "rows.toml", "--sample", "2", "--seed", "3"], None),
    ("render", ["render", "rows.toml", "BLOCK=32", "--json"], None),
    ("compile", ["compile", "rows.toml", "--arch", "host", "--all", "--json"], None),
    ("export", ["export", "rows.toml", "@champion", "--to", "exported", "--json"], None),
    ("report", ["report", "--json"], None),
    ("leaderboard", ["leaderboard", "--json"], None),
    ("history", ["history", "normalize_rows", "--json"], None),
    ("summary", ["summary", "normalize_rows", "--json"], None),
    ("restore", ["restore", "normalize_rows", "@champion", "--to", "restored", "--json"], None),
    ("preflight", ["preflight", "--device", "host", "--json"], None),
    ("explain", ["explain", "wrong_answer", "--json"], None),
    ("explain, nothing", ["explain", "--json"], None),
    ("import", ["import", "nothere.json", "--json"], None),
    ("init", ["init", "rows.cu", "--to", "first.toml", "--json"], None),
    ("selftest", ["selftest", "device", "--device", "host", "--json"], None),
    ("cache", ["cache", "--json"], None),
    ("no verb", [], None),
    ("unknown verb", ["sweeep"], None),
    *[
        (f"shipped {path.stem}", ["space", path.stem, "--json"], None)
        for path in sorted((Path(__file__).resolve().parents[2] / "search_spaces").glob("*.toml"))
    ],
]
REQUESTS = [
    {"id": 1, "candidate": {"kind": "configuration", "configuration": {"BLOCK": 32}}, "level": "quick"},
    {"id": 2, "candidate": {"kind": "configuration", "configuration": {"BLOCK": 33}}},
    {"id": 3, "candidate": {"kind": "cuda", "sources": [{"path": "a.cu", "content": "WRONG"}]}, "level": "tiny"},
    {"id": 4, "level": "high"},
    {"id": 5, "candidate": {"kind": "cuda", "sources": [{"path": "a.cu", "content": "FASTER"}]}, "level": "confirm"},
]
# Words that chance decides, and words that name something of this run.
VOLATILE = re.compile(
    r"\d|[/\\]|^[0-9a-f]{8,}$|^(faster|slower|same|ambiguous|winner|tie|left|met|missed|gain|loss|noisy)$|second|time|busy"
)


def word(text):
    """A text as it is kept: a short word, else that it was a text."""
    return text if len(text) < 48 and "\n" not in text and not VOLATILE.search(text) else "…"


def shape(value):
    if isinstance(value, dict):
        names = {name: shape(inner) for name, inner in value.items()}
        return {re.sub(r"^[0-9a-f]{16,}$|^\d+$", "#", name): inner for name, inner in sorted(names.items())}
    if isinstance(value, list):
        kinds = {json.dumps(shape(inner), sort_keys=True, ensure_ascii=False) for inner in value}
        return [json.loads(kind) for kind in sorted(kinds)]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return "number"
    return word(value)


def answer(text):
    try:
        return [shape(json.loads(line)) for line in text.splitlines()]
    except ValueError:
        return [re.sub(r"\d+(\.\d+)?", "#", line) for line in text.splitlines()]


def files(folder):
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted({re.sub(r"[0-9a-f]{12,}|gen-\d+|\d+", "#", name) for name in found if ".cache" not in name})


def run(evo, folder, words, interrupt, text=None):
    environment = {**os.environ, "HOME": str(folder / "home"), "COLUMNS": "100"}
    environment.pop("XDG_CACHE_HOME", None)
    process = subprocess.Popen(
        [evo, *words], cwd=folder / "work", env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if interrupt is not None:
        time.sleep(interrupt)
        process.send_signal(signal.SIGINT)
    out, error = process.communicate(text, timeout=300)
    out, error = (text.replace(Path(evo).name, "evo") for text in (out, error))
    lines = [re.sub(r"\d+(\.\d+)?", "#", line) for line in error.splitlines() if line.startswith("error")]
    return {"exit": process.returncode, "answer": answer(out), "errors": lines}


def main():
    evo, kept = os.path.abspath(sys.argv[1]), {}
    folder = Path(tempfile.mkdtemp())
    shutil.copytree(HERE, folder / "work")
    (folder / "home").mkdir()
    faster = (HERE / "faster.cu").read_text()
    wrong = faster.replace("/", "*", 1) if "/" in faster else faster
    (folder / "work" / "wrong.cu").write_text(re.sub(r"= ([^;=]*);\s*\}\s*$", r"= 2.0f * (\1);\n}\n", faster))
    (folder / "work" / "broken.cu").write_text(wrong + "\nnonsense\n")
    for name, words, interrupt in CASES:
        begun = time.time()
        kept[name] = run(evo, folder, words, interrupt)
        print(f"{name}: {kept[name]['exit']} in {time.time() - begun:.1f} s", file=sys.stderr)
    text = "".join(json.dumps(request) + "\n" for request in REQUESTS)
    sources = {"WRONG": (folder / "work" / "wrong.cu").read_text(), "FASTER": faster}
    for mark, source in sources.items():
        text = text.replace(f'"{mark}"', json.dumps(source))
    kept["served"] = run(evo, folder, ["evaluate", *JUDGE, "--serve"], None, text)
    kept["files"] = files(folder / "work")
    Path(sys.argv[2]).write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    shutil.rmtree(folder)


def difference(old, new, place=""):
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            yield from difference(old.get(name, "(absent)"), new.get(name, "(absent)"), f"{place}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (before, after) in enumerate(zip(old, new)):
            yield from difference(before, after, f"{place}[{at}]")
    elif old != new:
        yield f"{place}: {json.dumps(old, ensure_ascii=False)[:300]}\n    now {json.dumps(new, ensure_ascii=False)[:300]}"


if sys.argv[1] == "--diff":
    found = list(difference(*(json.loads(Path(name).read_text()) for name in sys.argv[2:4])))
    print("\n".join(found) or "no difference")
    sys.exit(bool(found))
main()

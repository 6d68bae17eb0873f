"""A loop that has a program propose kernel sources, and evo judge them: propose, judge, archive, feed back.

    python3 loop.py SPACE [--ideas mutate.py] [--rounds 4] [--proposals 4] [--device auto] [--out evidence] [--seed N]

It talks to `evo serve SPACE`: a JSON line for each request, one for each answer (docs/requests.md). Each source
is a species with a small search over the space's parameters; the fastest of a round is compared side by side with the
best so far, by evo, which writes that down. Who proposes is a Python file with

    propose(task, order) -> [{"name", "source" or "edits" and "parent", "thought"}, ...]

which may ask a language model. `task` is what evo tells of the task; `order` has `operator` (init, mutate, crossover,
repair), `n`, `parents`, `failures` and `archive`. Every message is kept in OUT/mutator.jsonl. It needs Python 3 only;
the environment's EVO names the program.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

FIRST, FURTHER, FAILURES = 3, 6, 2  # configurations of a species: at first, of the faster half, and failures in a row
WITHIN = 1.05  # a screening so much slower than the best one's may still be the faster source
WORTH = 3.0  # a kind of kernel whose fastest takes so many times as long as the fastest of all is not a beginning


class Evo:
    """The judge: a process that answers a request a line."""

    def __init__(self, space, device, out, seed):
        words = [os.environ.get("EVO", "evo"), "serve", space, "--visibility", "agent", "--device", device]
        words += ["--out", out] + ([] if seed is None else ["--seed", seed])
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        Path(out).mkdir(parents=True, exist_ok=True)
        self.record = open(Path(out) / "mutator.jsonl", "a")
        self.asked = 0

    def keep(self, kind, message):
        self.record.write(json.dumps({"kind": kind, "at": time.time(), "message": message}) + "\n")
        self.record.flush()

    def ask(self, **request):
        self.asked += 1
        request = {"id": self.asked, **request}
        self.keep("request", request)
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.process.stdout.readline()
        if not line:
            sys.exit(self.end() or 4)  # it has said why on stderr
        answer = json.loads(line)
        self.keep("answer", answer)
        return answer

    def judge(self, species, configuration, level):
        """The verdict on a species at a configuration; without a time unless it passed."""
        candidate = {"kind": "configuration", "configuration": configuration}
        if species["source"] is not None:
            candidate |= {"kind": species["kind"], "sources": [{"path": "proposal", "content": species["source"]}]}
        answer = self.ask(candidate=candidate, level=level, hypothesis=species.get("thought"))
        times, error = answer.get("performance") or {}, answer.get("error") or {}
        return {
            "verdict": answer["verdict"] or answer["status"],
            "message": "; ".join(filter(None, [answer.get("message"), error.get("hint")])),
            "objective_ns": times.get("objective_ns"),
            "speedup": (times.get("speedup") or {}).get("value"),
            "accepted": answer.get("accepted", False),
            "number": (answer.get("acceptance") or {}).get("number"),
            "features": answer.get("features") or {},
            "log_tail": (answer.get("feedback") or {}).get("text") or "",
        }

    def end(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended already
        return self.process.wait()


def regions(source):
    """What may be edited between marks, and the rest; the whole source where it has no marks."""
    parts = re.split(r"(?m)^([ \t]*// evo: (?:begin|end) .*\n)", source)
    return parts[2::4], parts[0::4] + parts[1::4] + parts[3::4]


def edited(proposal, known):
    """The source that a proposal means.

    Raises ValueError where it breaks a rule: each text to be replaced occurs once, and nothing outside of regions changes.
    """
    parent = known.get(proposal.get("parent") or "space")
    if parent is None:
        raise ValueError(f"there is no proposal `{proposal['parent']}`")
    source = proposal.get("source") or parent
    for edit in proposal.get("edits") or []:
        if source.count(edit["search"]) != 1:
            raise ValueError(f"`{edit['search'].strip()[:60]}` occurs {source.count(edit['search'])} times, not once")
        source = source.replace(edit["search"], edit["replace"])
    if source == parent:
        raise ValueError("it changes nothing")
    if regions(parent)[0] and regions(source)[1] != regions(parent)[1]:
        raise ValueError("it changes something outside of the regions")
    return source


class Loop:
    def __init__(self, evo, propose, rounds, proposals):
        self.evo, self.propose, self.rounds, self.proposals = evo, propose, rounds, proposals
        self.task = evo.ask(ask="task")
        if self.task["status"] != "done":
            sys.exit(f"error: {self.task['error']['message']}")
        self.values = {parameter["name"]: parameter["values"] for parameter in self.task["parameters"]}
        default = {parameter["name"]: parameter["default"] for parameter in self.task["parameters"]}
        self.start = (self.task["known"] or {}).get("best_configuration") or default
        self.default, self.known, self.passed, self.winner = default, {"space": self.task["source"]}, [], None

    def species(self, identity, source, **more):
        return {"id": identity, "source": source, "kind": self.task["source_kind"], "tried": [], **more}

    def neighbors(self, configuration):
        """Configurations that differ in one parameter, by one step."""
        for name, values in self.values.items():
            at = values.index(configuration[name]) if configuration[name] in values else 0
            for near in (at + 1, at - 1):
                if 0 <= near < len(values):
                    yield {**configuration, name: values[near]}

    def screen(self, species, configurations, most):
        failed = 0
        for configuration in configurations:
            if most == 0 or failed == FAILURES:
                return
            if configuration in species["tried"]:
                continue
            most -= 1
            species["tried"].append(configuration)
            verdict = self.evo.judge(species, configuration, "quick")
            failed = 0 if verdict["objective_ns"] else failed + 1
            best = species.get("objective_ns")
            if best is None or verdict["objective_ns"] and verdict["objective_ns"] < best:
                species |= {**verdict, "configuration": configuration}

    def fastest(self, species):
        return sorted((one for one in species if one.get("objective_ns")), key=lambda one: one["objective_ns"])

    def archive(self):
        """The fastest of each kind: what its machine code does."""
        kinds = {}
        for one in self.fastest(self.passed):
            kinds.setdefault(tuple(one["features"].get(name) for name in ("arithmetic", "loads", "stages")), one)
        best = min((one["objective_ns"] for one in kinds.values()), default=0)
        return [one for one in kinds.values() if one["objective_ns"] <= WORTH * best]

    def order(self, number, last):
        failed = [one for one in last if not one.get("objective_ns")]
        archive = self.archive()
        best, other = archive[:1], archive[1:2] if number % 3 != 1 else []
        if number == 0:
            operator, parents = "init", best
        elif last and len(failed) == len(last):
            operator, parents = "repair", failed[:2]
        elif number % 3 == 0 and other:
            operator, parents = "crossover", best + other
        else:
            operator, parents = "mutate", other or best
        told = ("id", "name", "source", "configuration", "verdict", "message", "objective_ns", "features", "log_tail")
        shown = lambda one: {**{name: one.get(name) for name in told}, "source": self.known.get(one["id"])}
        return {
            "operator": operator,
            "n": self.proposals,
            "parents": [shown(one) for one in parents],
            "failures": [shown(one) for one in failed],
            "archive": [shown(one) for one in archive],
        }

    def run(self):
        own = self.species("space", None, name="the space's own source")
        self.screen(own, [self.start, self.default], 1)
        self.passed, last = self.fastest([own]), [own]
        for number in range(self.rounds):
            proposals = self.propose(self.task, self.order(number, last))[: self.proposals]
            if not proposals:
                break
            last = []
            for at, proposal in enumerate(proposals):
                identity = f"{number + 1}.{at + 1}"
                self.evo.keep("proposal", {"id": identity, **proposal})
                one = self.species(identity, None, name=proposal.get("name", identity), thought=proposal.get("thought"))
                try:
                    one["source"] = self.known[identity] = edited(proposal, self.known)
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    one |= {"verdict": "refused", "message": f"{type(error).__name__}: {error}"}
                else:
                    self.screen(one, [self.start, self.default, *self.neighbors(self.start)], FIRST)
                last.append(one)
            faster = self.fastest(last)
            for one in faster[: (len(faster) + 1) // 2]:
                for _ in range(FURTHER):  # each step begins at the best so far
                    self.screen(one, self.neighbors(one["configuration"]), 1)
            self.passed += self.fastest(last)
            self.confirm(self.fastest(last)[:1])
            for one in last:
                mark = f"accepted, {one['speedup']:.2f}×" if one.get("accepted") else one["verdict"]
                print(f"{one['id']}  {one['name']}: {mark}  {one.get('message') or ''}".rstrip())
        return self.winner

    def confirm(self, fastest):
        best = min((one["objective_ns"] for one in self.passed), default=0)
        for one in fastest:
            if one["objective_ns"] <= WITHIN * best:
                verdict = self.evo.judge(one, one["configuration"], "confirm")
                one |= {name: verdict[name] for name in ("verdict", "message", "speedup", "accepted", "number")}
                self.winner = one if one["accepted"] else self.winner


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("space")
    arguments.add_argument("--ideas", default=str(Path(__file__).with_name("mutate.py")))
    arguments.add_argument("--rounds", type=int, default=4)
    arguments.add_argument("--proposals", type=int, default=4)
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--out", default="evidence")
    arguments.add_argument("--seed")
    given = arguments.parse_args()
    spec = importlib.util.spec_from_file_location("ideas", given.ideas)
    ideas = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ideas)
    evo = Evo(given.space, given.device, given.out, given.seed)
    winner = Loop(evo, ideas.propose, given.rounds, given.proposals).run()
    code = evo.end()
    if winner:
        print(f"winner   {winner['name']}, {winner['speedup']:.2f}× the best before it; its source: "
              f"evo restore {given.space} @iteration-{winner['number']} --to FOLDER")
    else:
        print("nothing was accepted")
    sys.exit(code)


if __name__ == "__main__":
    main()

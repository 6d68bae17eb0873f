#!/usr/bin/env python3
"""Runs other tools' search strategies on one recording and prints a trace, a line a run; `search_peers.py` calls it.

usage: search_peers_worker.py FILE --until MILLISECONDS --strategies NAME,.. --runs FIRST:LAST [--seed 1] [--limit 600]
       search_peers_worker.py --list

FILE is `tuning-data/1`. Kernel Tuner's strategies are its own code, called as `tune_kernel` calls them, on its own search
space, with its simulation runner in front of the recorded values; only the runner is watched: it keeps what is asked for
and ends the run when the clock has passed the limit. `optuna_tpe` is Optuna's TPE sampler with each parameter as the
position among its values; what the constraints forbid and what fails is told as a violated constraint, Optuna's own way (told
as a failed trial, it teaches the sampler nothing, which then asks for little else).

The clock: an evaluation costs compiling, validation and runs as recorded, the same one again its runs, and what the space
does not allow nothing; on top comes the tool's own time from the end of one evaluation to the start of the next, as processor time, which other
work on the machine does not change.
Every run is a process of its own, forked when the space is ready, so that no run warms the caches of another; its seed is
SEED + its number, for `random` and `numpy.random`.
"""
import argparse
import gzip
import json
import math
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy

# Strategies of Kernel Tuner that minimize one objective; not `brute_force`, and none that needs settings or other packages.
KERNEL_TUNER = ["hybrid_vndx", "adaptive_tabu_greywolf", "pso", "diff_evo", "firefly_algorithm", "genetic_algorithm",
                "simulated_annealing", "random_sample", "dual_annealing", "basinhopping", "minimize", "greedy_ils",
                "greedy_mls", "ordered_greedy_mls", "mls", "bayes_opt"]
# Those that end after 100 evaluations, or a tenth of the space, unless they are told another number.
ENDLESS_ON_REQUEST = {"greedy_ils", "greedy_mls", "ordered_greedy_mls", "mls", "bayes_opt", "random_sample"}
OPTUNA = "optuna_tpe"

# A run that asks only for what costs nothing would never end.
ASKED_MAX_PER_ROW = 20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--list", action="store_true", help="print the names of all strategies")
    parser.add_argument("--until", type=float, help="milliseconds on the virtual clock")
    parser.add_argument("--strategies", default="")
    parser.add_argument("--runs", default="0:1", help="the first run and the one after the last")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=600, help="seconds of processor time that a run may take")
    arguments = parser.parse_args()
    if arguments.list:
        print(json.dumps(KERNEL_TUNER + [OPTUNA]))
        return
    recording = Recording(arguments.file)
    first, last = map(int, arguments.runs.split(":"))
    tuner = None
    for strategy in arguments.strategies.split(","):
        if strategy != OPTUNA:
            tuner = tuner or KernelTuner(recording)
        for run in range(first, last):
            play = (lambda clock: tpe(recording, clock, arguments.seed + run)) if strategy == OPTUNA \
                else (lambda clock: tuner.tune(strategy, clock))
            line = one_run(play, recording, arguments, arguments.seed + run)
            print(json.dumps({"tool": strategy, "dataset": recording.name, "run": run} | line,
                             separators=(",", ":")), flush=True)


class Recording:
    """One kernel on one GPU: the rows with what they give and cost."""

    def __init__(self, path):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as file:
            data = json.load(file)
        rows = data["rows"]
        self.name = f"{data['kernel']}__{data['gpu']}"
        self.parameters = {one["name"]: one["values"] for one in data["params"]}
        self.constraints = data["constraints"]
        columns = [[values[at] for at in rows["config"][name]] for name, values in self.parameters.items()]
        self.points = list(zip(*columns))
        self.row_of = {point: number for number, point in enumerate(self.points)}
        self.objective = rows["objective"]
        self.status = rows["status"]
        self.compile_ms, self.validate_ms = rows["compile_ms"], rows["validate_ms"]
        self.again_ms = [runs or 0.0 for runs in rows["runs_ms"]]
        self.first_ms = [sum(parts) for parts in zip(self.compile_ms, self.validate_ms, self.again_ms)]


class Done(BaseException):
    """The run is over. No strategy catches it."""


class Clock:
    """What a run asked for, and the virtual time."""

    def __init__(self, recording, until_ms):
        self.recording, self.until_ms = recording, until_ms
        self.now_ms, self.own_ms, self.seen = 0.0, 0.0, set()
        self.evals, self.overhead_ms = [], []
        self.mark = time.process_time()

    def pause(self):
        """The tool has asked: its own time ends."""
        self.own_ms += (time.process_time() - self.mark) * 1e3

    def resume(self):
        """The tool has its answer."""
        self.mark = time.process_time()

    def evaluate(self, point):
        """Notes an evaluation; the row, or `None` for what the space does not allow."""
        if self.now_ms > self.until_ms or len(self.evals) > ASKED_MAX_PER_ROW * len(self.recording.points):
            raise Done
        row = self.recording.row_of.get(tuple(point))
        # The time before something illegal stays due: scorers drop it with the evaluation.
        own_ms = 0.0 if row is None else round(self.own_ms, 4)
        self.evals.append(-1 if row is None else row)
        self.overhead_ms.append(own_ms)
        if row is not None:
            cost = self.recording.again_ms if row in self.seen else self.recording.first_ms
            self.now_ms += cost[row] + own_ms
            self.seen.add(row)
            self.own_ms = 0.0
        return row


def one_run(play, recording, arguments, seed):
    """Plays a run in a process of its own, at most so many seconds long."""
    def child(pipe):
        clock, line = Clock(recording, arguments.until), {}
        def over(*_):
            line["cut_off_s"] = arguments.limit
            raise Done
        seed_all(seed)
        signal.signal(signal.SIGPROF, over)
        signal.setitimer(signal.ITIMER_PROF, arguments.limit)
        try:
            clock.resume()
            play(clock)
        except Done:
            pass
        except Exception as error:
            line["failed"] = f"{type(error).__name__}: {error}"
            print(traceback.format_exc(), file=sys.stderr)
        signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send({"evals": clock.evals, "overhead_ms": clock.overhead_ms} | line)
        pipe.close()
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(there,))
    process.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        sys.exit(f"error: run with seed {seed} ends without an answer")
    finally:
        process.join()


def seed_all(seed):
    """Everything random that a strategy can reach; generators without a seed get ours."""
    random.seed(seed)
    numpy.random.seed(seed)
    fresh = numpy.random.default_rng
    numpy.random.default_rng = lambda own=None: fresh(random.getrandbits(63) if own is None else own)


class KernelTuner:
    """Kernel Tuner on one recording, as far as all runs share it."""

    def __init__(self, recording):
        import warnings
        warnings.filterwarnings("ignore")
        from kernel_tuner import interface, searchspace
        self.recording, self.interface = recording, interface
        # Kernel Tuner 1.5.0 takes `False` and `True` for masks when it looks for neighbors; 0 and 1 are equal to them.
        self.parameters = {name: [int(value) if isinstance(value, bool) else value for value in values]
                           for name, values in recording.parameters.items()}
        self.space = searchspace.Searchspace(self.parameters, recording.constraints, 1_000_000_000)
        if set(self.space.list) != set(recording.points):
            sys.exit(f"error: Kernel Tuner sees {self.space.size} configurations in `{recording.name}`, which "
                     f"holds {len(recording.points)}")
        # Keys are texts: they are made from the values that it knows.
        self.cache = {",".join(map(str, point)): self.result(recording.row_of[point]) for point in self.space.list}

    def result(self, row):
        """What its cache file would hold."""
        from kernel_tuner import util
        recording = self.recording
        result = dict(zip(recording.parameters, recording.points[row]))
        result |= {"compile_time": recording.compile_ms[row], "verification_time": recording.validate_ms[row],
                   "benchmark_time": recording.again_ms[row], "time": recording.objective[row]}
        if recording.objective[row] is None:
            kinds = {1: util.CompilationFailedConfig, 2: util.RuntimeFailedConfig}
            result["time"] = result["__error__"] = kinds.get(recording.status[row], util.InvalidConfig)()
        return result

    def tune(self, strategy, clock):
        """One run: the end of `tune_kernel` in simulation mode."""
        from kernel_tuner import util
        from kernel_tuner.runners.simulation import SimulationRunner

        class Watched(SimulationRunner):
            def run(self, parameter_space, tuning_options):
                clock.pause()
                results = []
                for point in parameter_space:
                    clock.evaluate(point)
                    results += super().run([point], tuning_options)
                clock.resume()
                return results

        Options = self.interface.Options
        runner = Watched(None, Options(kernel_name=self.recording.name), Options(quiet=True), 1, [])
        own = {"max_fevals": self.space.size} if strategy in ENDLESS_ON_REQUEST else {}
        options = Options(
            tune_params=self.parameters, restrictions=self.space._modified_restrictions,
            restrictions_unmodified=self.recording.constraints, strategy_options=Options(own), objective=["time"],
            objective_higher_is_better=[False], cache=self.cache, cachefile=None, metrics=None, verbose=False,
            quiet=True, simulated_time=0, simulation_mode=True, observers=None, iterations=1,
            budget=util.TuningBudget(None, self.space.size + 1), **own)
        clock.resume()
        self.interface.strategy_map[strategy].tune(self.space, runner, options)


def tpe(recording, clock, seed):
    """Optuna's sampler with its own settings, and with its own way to learn what is not possible."""
    import warnings
    import optuna
    warnings.filterwarnings("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    violation = lambda trial: (trial.user_attrs["violation"],)
    clock.resume()
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, constraints_func=violation))
    while True:
        trial = study.ask()
        point = tuple(values[trial.suggest_int(name, 0, len(values) - 1)] if len(values) > 1 else values[0]
                      for name, values in recording.parameters.items())
        clock.pause()
        row = clock.evaluate(point)
        time_ms = None if row is None else recording.objective[row]
        clock.resume()
        trial.set_user_attr("violation", float(time_ms is None))
        study.tell(trial, math.inf if time_ms is None else time_ms)


if __name__ == "__main__":
    # Texts have the same order in sets on every start, and no library works on more than one core.
    fixed = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if any(os.environ.get(name) != value for name, value in fixed.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | fixed)
    main()

"""Tests of what needs no GPU: spaces, answers, readers and the arithmetic of the report.

python3 -m unittest discover benches/throughput_peers
"""

import json
import math
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import report
import runs

try:
    import numpy as np
except ImportError:
    np = None
else:
    import spaces


def run(tool, seed, curve, **more):
    """A row as the script writes it, for kernel k and budget 3."""
    row = {"kind": "run", "kernel": "k", "tool": tool, "seed": seed, "budget": 3, "search_s": 1.0, "wall_s": 9.0}
    row["strategy"] = "evolve" if tool == "evo" else "random_sample"
    seen = {"curve": curve, "champion": None}
    return {**row, **runs.close(seen), **more}


EVO = run("evo", 1, [[2.0, "a", 200.0, "pass"], [2.5, "b", 101.0, "pass"], [3.0, "c", None, "hang"]])
PEER = run("kernel_tuner", 1, [[5.0, "d", 150.0, "correct"], [8.0, "b", 99.0, "correct"]])
TIMES = {"kind": "retime", "kernel": "k", "times_ns": {"a": 190.0, "b": 100.5, "d": 160.0, "e": 100.0}}


class Report(unittest.TestCase):
    def test_the_pace_counts_from_the_start_of_the_search_to_the_last_verdict(self):
        self.assertEqual(report.per_second(EVO), 3 / 2.0)
        self.assertIsNone(report.per_second(run("evo", 1, [])))

    def test_the_optimum_is_the_neutral_timers_even_where_a_tool_claims_less(self):
        best, _, neutral = report.optimum([EVO, PEER, TIMES], "k")
        self.assertEqual((best, neutral), (100.0, True))
        best, _, neutral = report.optimum([EVO, PEER], "k")
        self.assertEqual((best, neutral), (99.0, False))
        self.assertIsNone(report.optimum([run("evo", 1, [])], "k"))

    def test_within_one_percent_is_judged_by_neutral_times_and_stamped_by_the_command(self):
        times = TIMES["times_ns"]
        self.assertEqual(report.reached_s(EVO, 100.0, times), 2.5)
        self.assertEqual(report.reached_s(PEER, 100.0, times), 8.0)
        self.assertIsNone(report.reached_s(run("evo", 1, [[2.0, "a", 200.0, "pass"]]), 100.0, times))
        # A configuration that this tool could not run does not count, however fast it is for the other.
        self.assertIsNone(report.reached_s(run("evo", 1, [[2.0, "b", None, "wrong_answer"]]), 100.0, times))

    def test_the_curve_shows_the_best_by_then(self):
        self.assertIsNone(report.best_so_far(EVO, 1.0, {}))
        self.assertEqual(report.best_so_far(EVO, 2.0, {}), 200.0)
        self.assertEqual(report.best_so_far(EVO, 40.0, TIMES["times_ns"]), 100.5)

    def test_contenders_are_champions_first_and_then_whatever_is_close_by_the_same_tools_clock(self):
        other = run("evo", 2, [[2.0, "f", 104.0, "pass"], [3.0, "g", 120.0, "pass"]])
        self.assertEqual(report.contenders([EVO, other, PEER, TIMES]), ["b", "f"])
        self.assertEqual(report.contenders([EVO, other], limit=1), ["b"])
        self.assertEqual(report.contenders([run("evo", 1, [])]), [])

    def test_half_of_the_runs_without_the_optimum_have_no_median(self):
        self.assertIsNone(report.median_reached({"reached_s": [1.0, None]}))
        self.assertEqual(report.median_reached({"reached_s": [1.0, None, 3.0]}), 3.0)

    def test_ratios_compare_with_the_best_strategy_of_the_peer(self):
        slow = {**PEER, "strategy": "genetic_algorithm", "last_s": 20.0}
        one = report.comparison([EVO, PEER, slow, TIMES], "k", 3)
        self.assertAlmostEqual(one["pace"], 1.5 / (2 / 7))
        self.assertEqual((one["fastest"], one["bound"]), ("random_sample", False))
        self.assertAlmostEqual(one["time_ratio"], 8.0 / 2.5)
        never = run("kernel_tuner", 1, [[5.0, "d", 150.0, "correct"]])
        one = report.comparison([EVO, never, TIMES], "k", 3)
        self.assertEqual((one["bound"], one["time_ratio"]), (True, 9.0 / 2.5))
        self.assertIsNone(report.comparison([EVO, TIMES], "k", 3))

    def test_a_failed_run_stays_in_the_table_with_its_reason(self):
        failed = run("kernel_tuner", 2, [], error="no device", wall_s=0.5)
        skipped = {"kind": "skipped", "kernel": "k", "tool": "evo", "error": "3 s were left"}
        text = report.table([{"kind": "conditions", "values": {"GPU": "none"}}, EVO, PEER, failed, skipped, TIMES])
        for part in ("GPU: none", "seed 2: no device", "3 s were left", "evo, evolve | 1 | 3 | 1.5", "3.2 times sooner"):
            self.assertIn(part, text)
        # Its empty curve must not count as a quick search.
        (line,) = [line for line in report.summary([PEER, failed, TIMES], "k", 3)]
        self.assertEqual((line["runs"], line["wall_s"]), (1, [9.0]))


class Space:
    """As much of a space as the readers need."""

    def key(self, configuration):
        return str(configuration["X"])


class Readers(unittest.TestCase):
    def test_events_of_evo_become_a_curve(self):
        def finished(x, kind, evidence=None, **more):
            verdict = {"kind": kind, "evidence": evidence}
            return {"event": "finished", "evaluation": {"configuration": {"X": x}, "verdict": verdict, **more}}

        events = [
            (0.5, {"event": "started"}),
            (1.0, finished(1, "pass", objective_ns=7.0)),
            (2.0, finished(2, "too_slow", {"measured_ns": 9.0})),
            (2.5, finished(3, "passed_over")),
            (3.0, finished(4, "hang")),
            (4.0, {"event": "result", "evaluations": 3, "section": {"champion": {"configuration": {"X": 1}}}}),
        ]
        seen = runs.read_events([(at, json.dumps(event).encode()) for at, event in events] + [(5.0, b"{torn")], Space())
        self.assertEqual(seen["curve"], [[1.0, "1", 7.0, "pass"], [2.0, "2", 9.0, "too_slow"], [3.0, "4", None, "hang"]])
        self.assertEqual((seen["search_s"], seen["champion"], seen["evaluations"]), (0.5, "1", 3))
        self.assertEqual(seen["tool_says"]["evaluations"], 3)

    def test_a_cache_file_is_read_whole_open_and_torn(self):
        def entry(x, measured):
            return f'"{x}": ' + json.dumps({"X": x, "time": measured, "timestamp": f"1970-01-01 00:00:0{x}.5+00:00"})

        head = '{\n"device_name": "d",\n"cache": {'
        whole = f"{head}\n{entry(1, 2.0)},\n{entry(2, 'RuntimeFailedConfig')}"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cache.json"
            for text in (whole + "}\n}", whole + ",", whole + ',\n"3": {"X": 3, "ti'):
                path.write_text(text)
                seen = runs.read_cache(path, 0.5, Space())
                self.assertEqual([point[:3] for point in seen["curve"]], [[1.0, "1", 2e6], [2.0, "2", None]], text)
                self.assertEqual(seen["champion"], "1")
            self.assertEqual(runs.read_cache(path.with_name("none"), 0, Space())["evaluations"], 0)

    def test_a_command_that_outlasts_its_time_is_killed_and_its_lines_are_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            command = ["sh", "-c", "echo one; sleep 100"]
            lines, _, code, killed = runs.watch(command, None, Path(folder) / "log", 0.5)
        self.assertEqual(([text for _, text in lines], killed), ([b"one\n"], True))
        self.assertNotEqual(code, 0)


@unittest.skipIf(np is None, "NumPy is not installed")
class Spaces(unittest.TestCase):
    def test_each_space_has_its_points_and_both_tools_launch_the_same_blocks(self):
        for kernel, count in {"gemm": 7344, "convolution": 8032, "scale_add": 8280, "layer_norm": 40}.items():
            space = spaces.Space(kernel)
            launch = space.file["launches"][0]
            points = list(space.valid())
            self.assertEqual(len(points), count, kernel)
            for point in points:
                names = {**point, **space.sizes, "ceil_div": lambda a, b: -(-a // b)}
                grid = tuple(eval(extent, {}, names) for extent in launch["grid"])
                block = tuple(point[name] for name in launch["block"])
                self.assertEqual(space.launch(point), (grid, block))
            self.assertEqual(space.configuration(space.key(points[0])), points[0])

    def test_the_space_with_files_differs_in_inputs_and_problems_alone(self):
        for kernel in spaces.KERNELS:
            space = spaces.Space(kernel)
            file = tomllib.loads(space.with_files("cuda"))
            self.assertEqual(file["parameters"], space.file["parameters"])
            self.assertEqual(file.get("constraints"), space.file.get("constraints"))
            self.assertEqual(file["check"].pop("tiny"), "none")
            self.assertEqual(file["check"]["reference"], space.file["check"]["reference"])
            self.assertEqual([p["device"] for p in file["problems"]], ["cuda"])
            inputs = [a for a in file["arguments"] if a.get("role") == "input"]
            self.assertTrue(inputs)
            for argument in inputs:
                self.assertEqual(argument["fill"], {"npy": argument["name"] + ".npy"})

    def test_expected_answers_agree_with_plain_loops(self):
        generator = np.random.default_rng(1)
        image, weights = generator.standard_normal((20, 18)), generator.standard_normal((15, 15))
        got = spaces.ANSWERS["convolution"]({"image": image, "weights": weights})
        self.assertEqual(got.shape, (6, 4))
        for y, x in np.ndindex(got.shape):
            self.assertTrue(math.isclose(got[y, x], np.sum(weights * image[y : y + 15, x : x + 15]), abs_tol=1e-9))
        x, scale, shift = generator.standard_normal((3, 4)), np.array([1.0, 2.0, 3.0]), np.arange(4.0)
        got = spaces.ANSWERS["scale_add"]({"x": x, "row_scale": scale, "column_shift": shift})
        self.assertAlmostEqual(got[2, 3], 3 * x[2, 3] + 3)


if __name__ == "__main__":
    unittest.main()

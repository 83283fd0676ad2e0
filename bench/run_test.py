"""Tests of run.py and roofline.py that measure nothing."""

import json
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree

import roofline
import run

MEASURED = {"name": "prefill/float32/d128/2048/1/iterations:1/manual_time", "label": "avx512 GFLOP/s", "threads": 1.0,
            "median_ns": 2e6, "figure": 150.0, "limit": 180.0, "percent_of_limit": 83.3, "target_percent": 88.0,
            "spread_percent": 2.0, "samples": 5.0, "rejected": 1.0, "computing_then": 178.0, "reading_then": 240.0,
            "issuing_then": 10.0, "operations": 3e8, "bytes": 1e6}
LONG = MEASURED | {"name": "prefill/float32/d128/8192/1"}
LIMITS = [{"name": "limit/fma", "label": "avx512 GFLOP/s", "threads": 1.0, "median_ns": 5.0, "figure": 180.0},
          {"name": "limit/in-place/1024", "label": "avx512 GB/s", "threads": 1.0, "median_ns": 5.0, "figure": 85.0},
          {"name": "limit/read/262144", "label": "avx512 GB/s", "threads": 1.0, "median_ns": 5.0, "figure": 14.0}]


def row(**changes):
    return run.row_of(MEASURED | changes, "a machine")


class Run(unittest.TestCase):
    def test_a_row_has_what_readers_of_the_summary_expect(self):
        self.assertLessEqual({"name", "isa", "threads", "median_ns", "figure", "unit", "limit", "percent_of_limit",
                              "target_percent", "machine"}, row().keys())
        self.assertEqual(row()["name"], "prefill/float32/d128/2048/1")
        self.assertEqual((row()["isa"], row()["unit"]), ("avx512", "GFLOP/s"))

    def test_a_time_that_google_benchmark_measured_alone_has_no_limit(self):
        plain = run.row_of({"name": "exact", "label": "avx2", "real_time": 50.0, "time_unit": "us", "threads": 1}, "a machine")
        self.assertEqual((plain["median_ns"], plain["unit"], plain["limit"], plain["target_percent"]), (50000, "ns", None, None))

    def test_a_case_that_cannot_run_here_gives_no_row(self):
        self.assertIsNone(run.row_of({"name": "limit/bf16-dot", "error_occurred": True}, "a machine"))

    def test_cases_are_read_one_by_one(self):
        text = json.dumps({"context": {"date": "today"}, "benchmarks": [MEASURED, MEASURED | {"name": "b"}]}, indent=2)
        lines = text.splitlines(keepends=True)
        self.assertEqual([case["name"] for case in run.cases_in(lines)], [MEASURED["name"], "b"])

    def test_a_missed_target_is_said(self):
        self.assertIn("missed", run.words_of(row()))
        self.assertNotIn("missed", run.words_of(row(percent_of_limit=88.0)))
        self.assertNotIn("missed", run.words_of(row(target_percent=0)))

    def test_only_targets_that_are_there_are_counted(self):
        rows = [row(), row(percent_of_limit=90), row(target_percent=0)]
        self.assertEqual(run.summary_words(rows), "1 of 2 cases reach their target")

    def test_what_was_measured_on_a_slow_machine_is_measured_again(self):
        slow, shared, fast = row(computing_then=140), row(issuing_then=6), row()
        other = row(computing_then=80, label="avx2 GFLOP/s")
        self.assertEqual(run.slow_cases([slow, shared, fast, other]), [slow, shared])

    def test_of_two_measurements_the_one_at_full_speed_stays_and_both_are_counted(self):
        slow, fast = row(issuing_then=6, figure=120, rejected=2, samples=7), row(rejected=1)
        best = run.best_speeds([slow, fast])
        self.assertEqual(run.better(slow, fast, best)["figure"], 150)
        self.assertEqual(run.better(fast, slow, best)["figure"], 150)
        self.assertEqual(run.better(slow, fast, best)["rejected"], 2 + 1 + 7)

    def test_a_file_is_replaced_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "summary.json"
            run.write(path, "old")
            run.write(path, "new")
            self.assertEqual([entry.read_text() for entry in pathlib.Path(folder).iterdir()], ["new"])

    def test_quick_names_match_whole_names(self):
        self.assertRegex("limit/fma", run.pattern(run.QUICK))
        self.assertNotRegex("rotate/float32/half/HSD/table/512", run.pattern(run.QUICK))


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.programs = run.Programs(self.folder, 0.1)

    def write(self, name, script):
        (self.folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.folder / name).chmod(0o755)

    def last_words(self, call):
        with self.assertRaises(SystemExit) as caught:
            call()
        return caught.exception.code

    def test_the_best_two_instruction_sets_are_those_named_last_beside_those_of_bfloat16(self):
        self.write("limits", """echo '{"context": {"instruction_sets": "scalar sse4 avx2 avx512 "}}'""")
        self.assertEqual(self.programs.instruction_sets(), ["avx512", "avx2"])
        self.write("limits", """echo '{"context": {"instruction_sets": "sse4 avx2 avx512 avx512_bf16 amx "}}'""")
        self.assertEqual(self.programs.instruction_sets(), ["avx512", "avx2", "amx", "avx512_bf16"])

    def test_of_a_program_that_fails_the_last_words_are_shown(self):
        self.write("limits", "for i in 1 2 3 4 5 6; do echo reason $i >&2; done; exit 3")
        for call in (self.programs.instruction_sets, lambda: self.programs.names("limits", "avx2", "."),
                     lambda: list(self.programs.run("limits", "avx2", ["limit/fma"]))):
            words = self.last_words(call)
            self.assertRegex(words, r"^limits has failed.* \(exit status 3\)\n")
            self.assertEqual(words.splitlines()[1:], [f"  reason {i}" for i in range(2, 7)])

    def test_a_program_that_a_signal_ends_has_failed(self):
        self.write("limits", "kill -9 $$")
        self.assertEqual(self.last_words(self.programs.instruction_sets), "limits has failed (signal 9)")

    def test_a_program_that_is_missing_is_named(self):
        self.assertRegex(self.last_words(self.programs.instruction_sets), "^limits has failed: .*No such file")

    def test_a_case_that_does_not_come_is_missed(self):
        self.write("limits", "exit 0")
        words = self.last_words(lambda: list(self.programs.run("limits", "avx2", ["limit/fma"])))
        self.assertEqual(words, "limits has measured 0 of 1 cases with avx2")


class Roofline(unittest.TestCase):
    HEADER = {"machine": "a < machine", "date": "2026-01-01", "commit": "abc"}

    def picture(self, cases):
        return roofline.picture(self.HEADER, [run.row_of(case, "a machine") for case in cases])

    def test_is_xml_and_names_its_points_and_roofs(self):
        words = "".join(xml.etree.ElementTree.fromstring(self.picture([*LIMITS, LONG])).itertext())
        for expected in ("prefill f32, d128, 8192, 83 %", "multiply-add: 180 GFLOP/s", "in place, 1 MiB: 85 GB/s", "a < machine"):
            self.assertIn(expected, words)

    def test_leaves_out_what_runs_on_several_threads(self):
        self.assertNotIn("d128", self.picture([*LIMITS, LONG | {"threads": 2.0}]))

    def test_is_drawn_without_any_case(self):
        xml.etree.ElementTree.fromstring(self.picture([]))

    def test_an_axis_has_its_ends_where_they_belong(self):
        axis = roofline.Axis(0.1, 1000, 10, 110)
        self.assertEqual([round(axis(value)) for value in (0.1, 10, 1000)], [10, 60, 110])
        self.assertEqual([round(tick, 6) for tick in axis.ticks((1,))], [0.1, 1, 10, 100, 1000])


if __name__ == "__main__":
    unittest.main()

"""Tests of page.py that measure nothing."""

import pathlib
import unittest

import page

HEADER = {"date": "2026-01-02", "machine": "M, 2 cores", "compiler": "c++ 12", "commit": "abc", "seconds": 601}
PAGE = pathlib.Path(__file__).parent.parent / "docs" / "performance.md"


def row(name, **changes):
    return {"name": name, "isa": "avx512", "threads": 1, "median_ns": 450.0, "figure": 150.0, "unit": "GFLOP/s", "limit": 180.0,
            "percent_of_limit": 83.3, "target_percent": 88.0} | changes


def peer(name, ratio, **changes):
    return {"name": name, "peer": "torch", "threads": 1, "ours_ns": 2e6, "peer_ns": 2e6 * ratio, "ratio": ratio} | changes


class Page(unittest.TestCase):
    def test_a_number_is_bold_where_it_reaches_its_target(self):
        lines = page.prefill(page.Measured([row("prefill/float32/d128/2048/1"),
                                            row("prefill/float32/d128/8192/1", percent_of_limit=88.4)]))
        self.assertEqual(lines[2:], ["| avx512 float32, d 128 |  |  | 83 % |  | **88 %** |  |  |"])

    def test_rows_of_which_nothing_was_measured_are_left_out(self):
        self.assertEqual(len(page.decode(page.Measured([row("decode/int8/g4/4096")]))), 3)
        self.assertEqual(page.prefill_of_pairs(page.Measured([row("prefill/bfloat16/d64/512/1")])), [])

    def test_figures_of_pairs_are_compared_with_those_without(self):
        measured = page.Measured([row("prefill/bfloat16/d64/512/1", figure=100.0),
                                  row("prefill/bfloat16/d64/512/1", isa="amx", figure=250.0, percent_of_limit=9.0)])
        self.assertIn("| amx, d 64 | 250 (9 %, 2.5×) |", page.prefill_of_pairs(measured)[2])

    def test_times_are_held_against_their_limit(self):
        small = row("smallest/rotate", unit="ns", median_ns=160.0, limit=300.0)
        self.assertEqual(page.rest(page.Measured([small]))[2], "| the smallest rotation | **160 ns** | 300 ns |")

    def test_the_fastest_peer_counts(self):
        rows = [peer("decode", 3.0), peer("decode", 0.8, peer="other"), peer("decode", 1.2, threads=2)]
        self.assertEqual(page.peers(rows)[2:], ["| decode | 1 | 2.00 ms | 1.60 ms | other | 0.80 |",
                                                "| decode | 2 | 2.00 ms | 2.40 ms | torch | **1.2** |"])
        self.assertEqual(page.faster_peers(rows), ["- decode, 1 thread: other takes 0.80 of our time"])
        self.assertEqual(page.faster_peers([peer("decode", 2.0)]), ["- none"])

    def test_linear_attention_has_a_table_of_its_own(self):
        rows = [peer("elu, 8 heads, 1024 tokens", 3.14), peer("elu, 8 heads, 4096 tokens", 25.0)]
        self.assertEqual(page.linear_peers(rows), ["|  | 1,024 tokens | 4,096 tokens |", "|---|---|---|",
                                                   "| elu, torch | 3.1 | 25 |"])
        self.assertEqual(page.peers(rows), [])

    def test_a_block_ends_at_the_first_empty_line(self):
        text = "before\n\n<!-- a -->\n| old |\n| old |\n\nafter\n"
        self.assertEqual(page.with_block(text, "a", ["| new |"]), "before\n\n<!-- a -->\n| new |\n\nafter\n")
        self.assertEqual(page.with_block(text, "a", []), text)
        with self.assertRaises(SystemExit):
            page.with_block(text, "b", ["| new |"])

    def test_the_page_has_a_place_for_everything(self):
        text = PAGE.read_text(encoding="utf-8")
        for name, _ in page.blocks({"header": HEADER, "rows": []}, [peer("decode", 2.0)]):
            self.assertEqual(text.count(f"<!-- {name} -->\n"), 1, name)


if __name__ == "__main__":
    unittest.main()

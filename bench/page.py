"""Writes what was measured into the tables of docs/performance.md, so that the page says what the runs said.

    page.py PAGE SUMMARY.json [PEERS.json]

SUMMARY is what `make bench` leaves, PEERS what `make bench-peers` does. A table stands behind a line `<!-- NAME -->`; one of
which nothing was measured stays as it is. A number is bold where it reaches its target, or where no peer is faster.
"""

import json
import os
import pathlib
import re
import sys

LENGTHS = (512, 1024, 2048, 4096, 8192)
BEST, WEAKER = "avx512", "avx2"


def table(head, rows):
    """Lines of a table; nothing where every row is empty behind its first column."""
    rows = [row for row in rows if any(row[1:])]
    head_line, *lines = (f"| {' | '.join(cells)} |" for cells in (head, *rows))
    return [head_line, f"|{'---|' * len(head)}", *lines] if rows else []


def reaches(row):
    return bool(row["target_percent"]) and row["percent_of_limit"] >= row["target_percent"]


def bold(text, is_bold):
    return f"**{text}**" if is_bold else text


class Measured:
    """Rows of a summary by name, instruction set and number of threads."""

    def __init__(self, rows):
        self.rows = {(row["name"], row["isa"]): row for row in rows}

    def percent(self, name, isa=BEST):
        row = self.rows.get((name, isa))
        return bold(f"{row['percent_of_limit']:.0f} %", reaches(row)) if row else ""

    def rate(self, name, isa=BEST):
        row = self.rows.get((name, isa))
        digits = 1 if row and row["figure"] < 20 else 0
        return f"{row['figure']:.{digits}f} {row['unit']}" if row else ""

    def figure(self, name, isa=BEST):
        row = self.rows.get((name, isa))
        return row["figure"] if row else None

    def microseconds(self, name, isa=BEST):
        row = self.rows.get((name, isa))
        return bold(f"{row['median_ns'] / 1000:.2f} µs", row["median_ns"] <= 500) if row else ""


def limits(measured):
    kinds = [("multiply-add, float32", "fma"), ("products of bfloat16 pairs (AVX512_BF16)", "bf16-dot"),
             ("tiles of bfloat16 (AMX)", "bf16-tiles")]
    for kibibytes, size in ((32, "32 KiB"), (1024, "1 MiB"), (8192, "8 MiB"), (262144, "256 MiB")):
        kinds += [(f"read {size}", f"read/{kibibytes}"), (f"read and write {size} in place", f"in-place/{kibibytes}")]

    def of_any(name, isa):
        sets = (isa, "avx512_bf16", "amx") if isa == BEST else (isa,)
        return next((rate for rate in (measured.rate(name, each) for each in sets) if rate), "")

    return table(("limit of one core", "AVX-512", "AVX2"),
                 [(words, *(of_any(f"limit/{name}", isa) for isa in (BEST, WEAKER))) for words, name in kinds])


def rotation(measured):
    def row(isa, dtype, pairing):
        name = f"rotate/{dtype}/{pairing}/SHD"
        table_given = [measured.percent(f"{name}/table/{tokens}", isa) for tokens in (64, 512, 4096)]
        computed = [measured.percent(f"{name}/positions/{tokens}", isa) for tokens in (512, 4096)]
        return (f"{isa} {dtype}, {pairing}", measured.microseconds(f"{name}/table/1", isa), *table_given, *computed)

    return table(("", "1 token", "64", "512", "4096", "positions only: 512", "4096"),
                 [row(isa, dtype, pairing) for isa in (BEST, WEAKER) for dtype in ("float32", "bfloat16", "float16")
                  for pairing in ("half", "interleaved")])


PREFILL_HEAD = ("512 tokens", "1024", "2048", "4096", "8192", "2048, two threads", "8192, two threads")
PREFILL_CASES = [(length, 1) for length in LENGTHS] + [(2048, 2), (8192, 2)]


def prefill(measured):
    return table(("", *PREFILL_HEAD),
                 [(f"{isa} {dtype}, d {width}",
                   *(measured.percent(f"prefill/{dtype}/d{width}/{length}/{threads}", isa) for length, threads in PREFILL_CASES))
                  for isa in (BEST, WEAKER) for dtype in ("float32", "bfloat16", "float16") for width in (64, 128)])


def prefill_of_pairs(measured):
    def cell(isa, width, length, threads):
        name = f"prefill/bfloat16/d{width}/{length}/{threads}"
        figure, plain = measured.figure(name, isa), measured.figure(name)
        if figure is None or plain is None:
            return ""
        return f"{figure:.0f} ({measured.percent(name, isa)}, {figure / plain:.1f}×)"

    return table(("GFLOP/s", *PREFILL_HEAD),
                 [(f"{isa}, d {width}", *(cell(isa, width, length, threads) for length, threads in PREFILL_CASES))
                  for isa in ("amx", "avx512_bf16") for width in (64, 128)])


def decode(measured):
    cached = (1024, 4096, 16384, 32768, 131072)
    dtypes = {BEST: ("float32", "bfloat16", "float16", "int8"), WEAKER: ("float32", "bfloat16")}
    heads = {"g1": "1 query head to a KV head", "g4": "4 query heads", "g4-lanes": "4, keys are lanes",
             "g8": "8 query heads", "g8-lanes": "8, keys are lanes"}
    return table(("", "1024 cached", "4096", "16,384", "32,768", "131,072"),
                 [(f"{isa} {dtype}, {words}",
                   *(measured.percent(f"decode/{dtype}/{group}/{length}", isa) for length in cached))
                  for isa in (BEST, WEAKER) for dtype in dtypes[isa] for group, words in heads.items()])


def rest(measured):
    def row(words, name, isa=BEST):
        found = measured.rows.get((name, isa))
        if found is None:
            return (words, "")
        target = found["target_percent"]
        if found["unit"] == "ns":
            limit = found["limit"]
            return (words, bold(f"{found['median_ns']:.0f} ns", limit and found["median_ns"] <= limit),
                    f"{limit:.0f} ns" if limit else "")
        return (words, f"{measured.percent(name, isa)} ({measured.rate(name, isa)})", f"{target:.0f} %" if target else "")

    rows = [row(f"gradients, {dtype}, d {width}, {length} tokens", f"backward/{dtype}/d{width}/{length}/1")
            for dtype in ("float32", "bfloat16") for width in (64, 128) for length in (512, 2048, 4096)]
    rows += [row(f"window of 1024 at 8192 tokens, {dtype}, d {width}, of the rate without it", f"window/{dtype}/d{width}/8192")
             for dtype in ("float32", "bfloat16", "float16") for width in (64, 128)]
    rows += [row(f"shift of {keys} cached keys, {dtype}, half", f"shift/{dtype}/half/{keys}")
             for dtype in ("float32", "bfloat16", "float16") for keys in (512, 4096, 32768)]
    rows += [row(f"linear attention, RoFormer, {length} tokens of {heads} head{'s' if heads > 1 else ''}",
                 f"linear/roformer/{length}/16/{heads}")
             for length, heads in ((256, 8), (1024, 8), (8192, 8), (65536, 8), (1048576, 1))]
    rows += [row(f"linear attention, a step of {heads} head{'s' if heads > 1 else ''}", f"linear-step/{heads}")
             for heads in (1, 8, 64)]
    rows += [row("the smallest rotation", "smallest/rotate"), row("the smallest attention", "smallest/attention"),
             row("the same with four heads and a rotation", "smallest/attention/rotated")]
    return table(("work", "reaches", "target"), rows)


LINEAR = re.compile(r"(\w+), \d+ heads, (\d+) tokens")  # names of its cases


def best_peers(rows):
    """Of each case and number of threads the row of the fastest peer."""
    best = {}
    for row in rows:
        case = row["name"], row["threads"]
        if case not in best or row["peer_ns"] < best[case]["peer_ns"]:
            best[case] = row
    return list(best.values())


def peers(rows):
    def milliseconds(nanoseconds):
        return f"{nanoseconds / 1e6:.2f} ms"

    return table(("work", "threads", "ours", "best peer", "", "ratio"),
                 [(row["name"], str(row["threads"]), milliseconds(row["ours_ns"]), milliseconds(row["peer_ns"]), row["peer"],
                   bold(f"{row['ratio']:.1f}" if row["ratio"] >= 1 else f"{row['ratio']:.2f}", row["ratio"] >= 1))
                  for row in best_peers(rows) if not LINEAR.fullmatch(row["name"])])


def faster_peers(rows):
    faster = [row for row in best_peers(rows) if row["ratio"] < 1]
    return [f"- {row['name']}, {row['threads']} thread{'s' if row['threads'] > 1 else ''}: {row['peer']} takes"
            f" {row['ratio']:.2f} of our time" for row in faster] or ["- none"]


def linear_peers(rows):
    """How many times longer a peer takes; one thread."""
    found, lengths = {}, []
    for row in rows:
        case = LINEAR.fullmatch(row["name"])
        if not case or row["threads"] != 1:
            continue
        length = int(case[2])
        lengths += [length] if length not in lengths else []
        found.setdefault(f"{case[1]}, {row['peer'].removeprefix('torch, ')}", {})[length] = row["ratio"]
    cells = [(words, *(f"{ratios[n]:.0f}" if ratios.get(n, 0) >= 10 else f"{ratios[n]:.1f}" if n in ratios else ""
                       for n in lengths)) for words, ratios in found.items()]
    return table(("", *(f"{n:,} tokens" for n in lengths)), cells)


def about(header):
    minutes = round(header["seconds"] / 60)
    return [f"Measured on {header['date']} on an {header['machine']}, with {header['compiler']}, at commit `{header['commit']}`,",
            f"in one run of {minutes} minutes."]


def with_block(page, name, lines):
    """The page with the block behind `<!-- name -->`, up to an empty line, replaced."""
    if not lines:
        return page
    marker = f"<!-- {name} -->\n"
    if page.count(marker) != 1:
        sys.exit(f"page.py: the page must have one line {marker.strip()}, it has {page.count(marker)}")
    before, after = page.split(marker)
    _, _, behind = after.partition("\n\n")
    return before + marker + "\n".join(lines) + "\n\n" + behind


def blocks(summary, peer_rows):
    measured = Measured(summary["rows"])
    yield "about", about(summary["header"])
    for of_summary in (limits, rotation, prefill, prefill_of_pairs, decode, rest):
        yield of_summary.__name__.replace("_", "-"), of_summary(measured)
    for of_peers in (peers, linear_peers, faster_peers) if peer_rows else ():
        yield of_peers.__name__.replace("_", "-"), of_peers(peer_rows)


def main(page, summary, *peer_files):
    path = pathlib.Path(page)
    text = path.read_text(encoding="utf-8")
    peer_rows = json.loads(pathlib.Path(peer_files[0]).read_text(encoding="utf-8")) if peer_files else []
    for name, lines in blocks(json.loads(pathlib.Path(summary).read_text(encoding="utf-8")), peer_rows):
        text = with_block(text, name, lines)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])

"""Runs the benchmarks and says how near the machine's limits they come.

    run.py PROGRAMS OUT [--quick] [--isa NAME,NAME] [--only REGEX]

PROGRAMS is the folder of the programs, one per operation; each measures its cases against the machine's limits at the same
moment (gauge.h). This one chooses cases and instruction sets, repeats what was measured while the machine was slow, prints a
table, and writes OUT/summary.json and OUT/roofline.svg. --quick takes the main cases in under 90 seconds. It needs Python's
standard library only.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time

import roofline

OPERATIONS = ["limits", "rotate_bench", "attention_bench", "attention_backward_bench", "decode_bench", "linear_attention_bench",
              "angles_bench"]
QUICK = [
    r"limit/.*",
    r"rotate/.*/SHD/(table|positions)/(1|512|4096)",
    r"shift/(float32|bfloat16)/half/4096",
    r"smallest/.*",
    r"prefill/float32/d(64|128)/(512|2048)/1",
    r"prefill/(float32|bfloat16)/d128/(2048/2|8192/1)",
    r"prefill/b?float16/d128/2048/1",
    r"window/float32/d128/8192",
    r"decode/(float32|bfloat16)/g4/(1024|32768)",
    r"decode/bfloat16/g8(-lanes)?/32768",
    r"backward/(float32|bfloat16)/d128/2048/1",
    r"linear/roformer/8192/16/8",
    r"linear-step/8",
]
# Of instruction sets that are not the best of the machine:
QUICK_OF_WEAKER = [r"limit/fma", r"prefill/float32/d128/2048/1"]
FULL_OF_WEAKER = [r"limit/.*", r"rotate/.*/SHD/.*", r"shift/.*/4096", r"smallest/.*", r"prefill/.*", r"window/.*",
                  r"backward/.*/1", r"decode/(float32|bfloat16)/.*", r"linear.*/8"]
# Sets that are like another but for some kernels, which take bfloat16:
OF_BFLOAT16 = {"avx512_bf16", "amx"}
QUICK_OF_BFLOAT16 = [r"limit/bf16-.*", r"prefill/bfloat16/d128/2048/1"]
FULL_OF_BFLOAT16 = [r"limit/bf16-.*", r"(prefill|window)/bfloat16/.*"]
SECONDS = {"quick": 0.12, "full": 0.25}  # for the samples of a case
LIMIT = {"quick": 75, "full": 700}  # seconds after which nothing is repeated
ROUNDS = 3  # of repeating, at most
FULL_SPEED = 0.85  # of the best the machine has shown: a case measured at less is measured again
SPEEDS = ("computing_then", "reading_then", "issuing_then")  # of the machine, in 10^9 per second
LAST_LINES = 5  # of what a program has said on stderr: shown where it fails
COLUMNS = "{:46} {:7} {:>3} {:>12} {:>6} {:>17} {:>9} {:>6} {:>6}"


class Bar:
    """A line at the foot of a terminal that says how far we are; nothing elsewhere."""

    def __init__(self, total):
        self.total, self.done, self.begin = max(total, 1), 0, time.monotonic()
        self.shown = sys.stderr.isatty()

    def step(self, name):
        self.done += 1
        self.draw(name)

    def draw(self, name):
        if self.shown:
            filled = min(30, 30 * self.done // self.total)
            print(f"\r\033[K[{'#' * filled}{'.' * (30 - filled)}] {self.done}/{self.total}"
                  f" {time.monotonic() - self.begin:.0f} s  {name}", end="", file=sys.stderr, flush=True)

    def clear(self):
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def plain(name):
    """Without what Google Benchmark adds."""
    return name.removesuffix("/manual_time").removesuffix("/iterations:1")


def row_of(case, machine):
    """What Google Benchmark says of a case, as a row; None where the case could not run."""
    if case.get("error_occurred"):
        return None
    isa, _, unit = case.get("label", "").partition(" ")
    row = {"name": plain(case["name"]), "isa": isa}
    if "figure" not in case:  # measured by Google Benchmark alone: a time without a limit
        nanoseconds = case["real_time"] * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[case["time_unit"]]
        case = {"median_ns": nanoseconds, "figure": nanoseconds, "threads": case.get("threads", 1)}
        unit = "ns"
    row |= {key: int(case[key]) for key in ("threads",)}
    row |= {"median_ns": case["median_ns"], "figure": case["figure"], "unit": unit}
    for key in ("limit", "percent_of_limit", "target_percent"):
        row[key] = case.get(key) or None
    for key in ("spread_percent", "samples", "rejected", *SPEEDS, "operations", "bytes"):
        if key in case:
            row[key] = case[key]
    return row | {"machine": machine}


def cases_in(lines):
    """Yields the objects of Google Benchmark's JSON one by one, as they are written."""
    text = None
    for line in lines:
        if line.startswith("    {"):
            text = ""
        if text is not None:
            text += line
        if text and line.startswith("    }"):
            yield json.loads(text.strip().rstrip(","))
            text = None


def ending(status):
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def pattern(names):
    """A filter that chooses just these."""
    return "^(" + "|".join(names) + ")(/iterations:1)?(/manual_time)?$"


class Programs:
    def __init__(self, folder, seconds):
        self.folder, self.environment = folder, os.environ | {"ROTARY_BENCH_SECONDS": str(seconds)}

    def lines(self, program, isa, *arguments):
        """Yields what a program prints, as it is written; ends with a word why where it fails."""
        failed = f"{program} has failed" + (f" with {isa}" if isa else "")
        with tempfile.TemporaryFile() as errors:
            try:
                running = subprocess.Popen([self.folder / program, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True,
                                           env=self.environment | {"ROTARY_ISA": isa})
            except OSError as error:
                sys.exit(f"{failed}: {error}")
            with running:
                yield from running.stdout
            if running.returncode != 0:
                errors.seek(0)
                said = errors.read().decode(errors="replace").splitlines()[-LAST_LINES:]
                sys.exit("\n  ".join([f"{failed} ({ending(running.returncode)})", *said]))

    def instruction_sets(self):
        """The best two of this machine, best first, and then those of bfloat16."""
        answer = "".join(self.lines("limits", "", "--benchmark_format=json", "--benchmark_filter=limit/fma"))
        sets = json.loads(answer)["context"]["instruction_sets"].split()[::-1]
        return [isa for isa in sets if isa not in OF_BFLOAT16][:2] + [isa for isa in sets if isa in OF_BFLOAT16]

    def names(self, program, isa, chosen):
        listing = self.lines(program, isa, "--benchmark_list_tests", f"--benchmark_filter={chosen}")
        return [plain(name) for name in "".join(listing).split() if re.search(chosen, name)]

    def run(self, program, isa, names):
        """Yields what Google Benchmark says of these cases, each when it is done."""
        done = 0
        for case in cases_in(self.lines(program, isa, "--benchmark_format=json", f"--benchmark_filter={pattern(names)}")):
            done += 1
            yield case
        if done != len(names):
            sys.exit(f"{program} has measured {done} of {len(names)} cases with {isa}")


def machine():
    if pathlib.Path("/proc/cpuinfo").exists():
        for line in open("/proc/cpuinfo", encoding="utf-8"):
            if line.startswith("model name"):
                return f"{line.split(':', 1)[1].strip()}, {os.cpu_count()} cores"
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def first_line(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def compiler(programs):
    for folder in (programs, *programs.parents):
        cache = folder / "CMakeCache.txt"
        if cache.exists():
            found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache.read_text(encoding="utf-8"), re.MULTILINE)
            return first_line(found[1], "--version") if found else "unknown"
    return "unknown"


def header(programs, command):
    return {"date": datetime.date.today().isoformat(), "command": command, "machine": machine(), "compiler": compiler(programs),
            "commit": first_line("git", "describe", "--always", "--dirty")}


def words_of(row):
    limit, percent, target = row["limit"], row["percent_of_limit"], row["target_percent"]
    microseconds = f"{row['median_ns'] / 1000:.2f} µs"
    return COLUMNS.format(
        row["name"], row["isa"], row["threads"], microseconds,
        f"±{row['spread_percent'] / 2:.1f}%" if "spread_percent" in row else "",
        f"{row['figure']:.1f} {row['unit']}", f"{limit:.1f}" if limit else "", f"{percent:.0f}%" if percent else "",
        f"{target:.0f}%" if target else "") + note(row)


def note(row):
    missed = row["target_percent"] and row["percent_of_limit"] < row["target_percent"]
    rejected = f"  {row['rejected']:.0f} rejected" if row.get("rejected") else ""
    return ("  missed" if missed else "") + rejected


def best_speeds(rows):
    """What the machine has shown, by instruction set and number of threads."""
    best = {}
    for row in rows:
        for key in SPEEDS:
            place = row["isa"], row["threads"], key
            best[place] = max(best.get(place, 0), row.get(key, 0))
    return best


def speed(row, best):
    """Of the machine while a row was measured: 1 is the best it has shown."""
    return min((row[key] / best[row["isa"], row["threads"], key] for key in SPEEDS if row.get(key)), default=1)


def slow_cases(rows):
    best = best_speeds(rows)
    return [row for row in rows if speed(row, best) < FULL_SPEED]


def better(row, again, best):
    """The one that was measured at the higher speed, with the repeats counted."""
    chosen, other = (again, row) if speed(again, best) > speed(row, best) else (row, again)
    return chosen | {"rejected": row["rejected"] + again["rejected"] + other["samples"]}


def write(path, text):
    """At once: who reads the file sees the old one or the new one."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def plan(programs, sets, quick, only):
    """Yields (program, instruction set, names of cases)."""
    for isa in sets:
        if isa in OF_BFLOAT16:
            chosen = pattern(QUICK_OF_BFLOAT16 if quick else FULL_OF_BFLOAT16)
        elif isa == sets[0]:
            chosen = pattern(QUICK if quick else [".*"])
        else:
            chosen = pattern(QUICK_OF_WEAKER if quick else FULL_OF_WEAKER)
        for program in OPERATIONS:
            names = [name for name in programs.names(program, isa, chosen) if re.search(only, name)]
            if names:
                yield program, isa, names


def measure(programs, sets, quick, only):
    begin, about = time.monotonic(), machine()
    work = list(plan(programs, sets, quick, only))
    program_of, rows = {}, []
    bar = Bar(sum(len(names) for _, _, names in work))
    print(COLUMNS.format("case", "isa", "thr", "median", "", "figure", "limit", "of it", "target"))
    for program, isa, names in work:
        bar.draw(f"{program} {isa}")
        for case in programs.run(program, isa, names):
            bar.clear()
            row = row_of(case, about)
            if row:
                program_of[row["name"]] = program
                rows.append(row)
                print(words_of(row), flush=True)
            bar.step(f"{program} {isa}")
    bar.clear()
    repeat(programs, program_of, rows, begin + LIMIT["quick" if quick else "full"])
    return rows


def repeat(programs, program_of, rows, end):
    """Measures again what was measured on a slow machine, in `rows` themselves."""
    for _ in range(ROUNDS):
        best = best_speeds(rows)
        for row in slow_cases(rows):
            if time.monotonic() > end:
                return
            for case in programs.run(program_of[row["name"]], row["isa"], [row["name"]]):
                chosen = better(row, row_of(case, row["machine"]), best)
                rows[rows.index(row)] = chosen
                print(words_of(chosen) + "  (again)", flush=True)


def summary_words(rows):
    judged = [row for row in rows if row["target_percent"]]
    reached = sum(row["percent_of_limit"] >= row["target_percent"] for row in judged)
    return f"{reached} of {len(judged)} cases reach their target"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="the main cases only")
    parser.add_argument("--isa", default="", help="instruction sets; the first counts as the best (default: the best two)")
    parser.add_argument("--only", default="", help="cases whose name has this regular expression in it")
    options = parser.parse_args(arguments)
    about = header(options.programs, shlex.join(["bench/run.py", *arguments]))
    options.out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    programs = Programs(options.programs, SECONDS["quick" if options.quick else "full"])
    sets = options.isa.split(",") if options.isa else programs.instruction_sets()
    rows = measure(programs, sets, options.quick, options.only)
    about["seconds"] = round(time.monotonic() - begin)
    write(options.out / "summary.json", json.dumps({"header": about, "rows": rows}, indent=1) + "\n")
    write(options.out / "roofline.svg", roofline.picture(about, rows))
    print(f"{summary_words(rows)}; {options.out}/summary.json, {options.out}/roofline.svg")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit("\nstopped; nothing was written")

"""Compares rotary with other implementations of the same formulas: one file beside this one per operation.

    run.py PROGRAMS OUT.json [OPERATION ...]

PROGRAMS is the folder with our programs (ours.h says how they are driven). Both sides get the same numbers, and must agree on
the result before any time counts. Then they take turns; the best of each counts: machines are shared.
"""

import importlib
import json
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import numpy
import torch

import common

OPERATIONS = ["rotate", "attention", "decode", "attention_backward", "linear_attention"]
TURNS, SECONDS = 15, 1.5  # per case: no more turns than the first, and as many as fit into the second
REST = 0.01  # seconds between turns: idle threads of a pool may spin for a while


class Ours:
    """One of our programs, waiting to be asked."""

    def __init__(self, program, folder, arguments):
        self.process = subprocess.Popen([program, folder, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"{program} {' '.join(arguments)} has failed")

    def nanoseconds(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def nanoseconds(call):
    begin = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - begin


def rested(side):
    time.sleep(REST)
    return side()


def results_of(call):
    """One array for each result of a peer, which gives a tensor or several."""
    results = call()
    return [result.float().numpy() for result in (results if isinstance(results, (list, tuple)) else [results])]


def difference(ours, peer):
    """The largest, of the largest number."""
    apart = numpy.abs(ours - peer).max() / numpy.abs(peer).max()
    return float(apart) if numpy.isfinite(peer).all() else float("nan")


def largest_difference(ours, results):
    """`ours`: all our results, one after the other. Not a number where one of a peer's is none."""
    ends = numpy.cumsum([result.size for result in results])
    pairs = zip(numpy.split(ours, ends[:-1]), results)
    return float(numpy.max([difference(mine.reshape(result.shape), result) for mine, result in pairs]))


def take_turns(ours, call):
    times, end = [], time.monotonic() + SECONDS
    while len(times) < TURNS and (len(times) < 3 or time.monotonic() < end):
        times.append(tuple(rested(side) for side in (ours.nanoseconds, lambda: nanoseconds(call))))
    return (min(side) for side in zip(*times))


def machine():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def versions():
    modules = {"torch": torch, "onnxruntime": common.onnxruntime, "openvino": common.openvino}
    return {name: module.__version__ for name, module in modules.items() if module}


def compare(programs, operation, threads):
    for name, peer, arguments, inputs, call, tolerance in operation.cases(threads):
        with tempfile.TemporaryDirectory() as folder:
            for key, numbers in inputs.items():
                numbers.tofile(f"{folder}/{key}.bin")
            ours = Ours(f"{programs}/{operation.PROGRAM}", folder, arguments)
            apart = largest_difference(numpy.fromfile(f"{folder}/out.bin", numpy.float32), results_of(call))
            if not apart <= tolerance:
                sys.exit(f"{name}, {peer}: results are {apart:.1e} apart")
            ours_ns, peer_ns = take_turns(ours, call)
            ours.close()
        yield {"name": name, "peer": peer, "threads": threads, "ours_ns": ours_ns, "peer_ns": peer_ns,
               "ratio": round(peer_ns / ours_ns, 2), "difference": float(f"{apart:.1e}")}


def main(programs, out, *chosen):
    about = {"machine": machine(), "date": time.strftime("%Y-%m-%d")} | versions()
    for sentence in common.missing():
        print(f"bench-peers: {sentence}")
    rows = []
    for operation in chosen or OPERATIONS:
        for threads in sorted({1, torch.get_num_threads()}):
            torch.set_num_threads(threads)
            with torch.inference_mode():
                for row in compare(programs, importlib.import_module(operation), threads):
                    rows.append(row | about)
                    print(f"{row['name']:36} {row['peer']:32} {threads} threads  ours {row['ours_ns'] / 1e6:8.2f} ms"
                          f"  peer {row['peer_ns'] / 1e6:8.2f} ms  {row['ratio']:6.2f} x", flush=True)
    pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
    part = pathlib.Path(out + ".part")
    part.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    part.replace(out)
    print(f"{sum(row['ratio'] < 1 for row in rows)} of {len(rows)} cases are faster at the peer's; {out}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

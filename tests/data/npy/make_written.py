"""Write written.json: what NumPy itself writes in front of the data, for many types, shapes and orders.

Usage: make_written.py [OUT_FILE]   (NumPy 2.4, ml_dtypes)
"""
import io
import json
import pathlib
import sys

import ml_dtypes
import numpy as np

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool", "complex128", "complex64"]


def preamble(dtype, shape, fortran):
    file = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": fortran, "shape": tuple(shape)})
    return {"dtype": dtype, "shape": list(shape), "fortran_order": fortran, "bytes": file.getvalue().decode("latin-1")}


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent / "written.json"
    cases = [preamble(d, (2, 3), False) for d in DTYPES]
    # Every length of the header modulo 64, and the room that NumPy leaves for the first (in Fortran order: last) axis.
    for digits in range(64):
        lengths = [10 ** (min(18, digits - at) - 1) if digits > at else 0 for at in range(0, 64, 18)]
        cases.append(preamble("float32", [5] + lengths, False))
        cases.append(preamble("float32", lengths + [5], True))
    cases += [preamble("float32", s, f) for s in ((), (7,), (1234567,), (10 ** 18, 0), (3, 10 ** 6)) for f in (False, True)]
    out.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()

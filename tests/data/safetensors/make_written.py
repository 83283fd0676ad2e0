"""Write written/*.safetensors with the safetensors package: what our writer must equal byte for byte.

Usage: make_written.py [OUT_DIR]   (safetensors 0.8, NumPy 2.4)
Byte number i of a tensor is (7 * i + k) % 251, where k is the number of the tensor in the order of its file's list below.
"""
import pathlib
import sys

import numpy as np
from safetensors import TensorSpec, serialize

EVERY = ["float16", "bool", "float64", "int8", "uint64", "float8_e5m2", "int64", "uint16", "bfloat16", "float32", "float8_e4m3fn", "int32", "uint8", "complex64",
         "uint32", "int16", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz", "float4_e2m1fn_x2"]
BITS = {"bool": 8, "bfloat16": 16, "complex64": 64, "float4_e2m1fn_x2": 4, **{n: 8 for n in EVERY if n.startswith("float8")}}


def bits(dtype):
    return BITS.get(dtype) or np.dtype(dtype).itemsize * 8


def write(path, tensors, metadata):
    """tensors: (name, dtype, shape in elements)"""
    specs, keep = {}, []
    for k, (name, dtype, shape) in enumerate(tensors):
        size = int(np.prod(shape)) * bits(dtype) // 8
        data = ((7 * np.arange(size) + k) % 251).astype(np.uint8)
        keep.append(data)
        storage = list(shape)
        if dtype == "float4_e2m1fn_x2":
            storage[-1] //= 2  # the package counts pairs here
        specs[name] = TensorSpec(dtype=dtype, shape=storage, data_ptr=data.ctypes.data, data_len=size)
    path.write_bytes(serialize(specs, metadata))


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent / "written"
    out.mkdir(exist_ok=True)
    write(out / "every-dtype.safetensors", [(n, n, (2, 4)) for n in EVERY], None)
    write(out / "ordered-by-name.safetensors", [("z", "float32", (3,)), ("a", "float32", (2, 2)), ("ä", "float32", ()), ("Z", "float32", (0, 5)), ("b", "float16", (1,))],
          {"format": "pt"})
    write(out / "escapes.safetensors", [('quote " back \\ slash /', "int8", (1,)), ("tab \t line \n bell \x07 del \x7f", "int8", (2,)), ("größe ∮ 𝄞", "int8", (3,))], None)
    for length in range(1, 9):  # every amount of padding
        write(out / f"padding-{length}.safetensors", [("x" * length, "uint8", (1,))], None)


if __name__ == "__main__":
    main()

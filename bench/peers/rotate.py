"""Rotating q and k, 32 + 8 heads of 128, halves: as transformers writes it, plain and compiled by PyTorch; the operator of ONNX
Runtime. Tables of cosines and sines are made before the clock starts, on both sides. We turn in place; they write new tensors.
"""

import common
import torch

PROGRAM = "rotate_ours"


def eager(q, k, cos, sin):
    return common.turned(q, cos, sin), common.turned(k, cos, sin)


def ort_rotary(q, k, length, threads):
    onnx = common.onnx
    half = common.angles(length, 128)
    feed = {"q": q.numpy(), "k": k.numpy(), "cos": half.cos().float().numpy(), "sin": half.sin().float().numpy(),
            "position": torch.zeros(1, dtype=torch.int64).numpy()}
    nodes = [onnx.helper.make_node("RotaryEmbedding", [x, "position", "cos", "sin"], [f"{x}_turned"], domain="com.microsoft")
             for x in "qk"]
    shapes = {"q": (1, 32, length, 128), "k": (1, 8, length, 128)}
    kinds = [(name, array.shape, array.dtype) for name, array in feed.items()]
    session = common.ort_session(common.ort_model(nodes, kinds, [(f"{x}_turned", shapes[x], "float32") for x in "qk"]), threads)
    return lambda: [torch.from_numpy(result) for result in session.run(None, feed)]


def peers(dtype, length, threads, inputs):
    """Yields (name, call)."""
    x = common.tensors(inputs, dtype)
    cos, sin = common.table(length, 128, dtype)
    yield "torch", lambda: eager(x["q"], x["k"], cos, sin)
    compiled = torch.compile(eager, dynamic=False)
    yield "torch, compiled", lambda: compiled(x["q"], x["k"], cos, sin)
    if common.onnxruntime and common.onnx and dtype == "float32":
        yield "ONNX Runtime", ort_rotary(x["q"], x["k"], length, threads)


def cases(threads):
    for dtype in common.DTYPES:
        for length in (512, 4096):
            inputs = common.numbers(dtype, length, q=(32, length, 128), k=(8, length, 128))
            for peer, call in peers(dtype, length, threads, inputs):
                yield (f"rotate {dtype}, {length} tokens", peer, [dtype, str(length), str(threads)], inputs, call,
                       common.TOLERANCE[dtype])

"""Causal attention of a prompt with the rotation in it, 32 query heads and 8 KV heads: PyTorch's scaled_dot_product_attention
after transformers' rotation; GroupQueryAttention of ONNX Runtime, which rotates; ScaledDotProductAttention of OpenVINO after
the same rotation.
"""

import common
import numpy
import torch
from torch.nn.functional import scaled_dot_product_attention

PROGRAM = "attention_ours"
Q_HEADS, KV_HEADS = 32, 8


def torch_calls(x, length, width, dtype):
    cos, sin = common.table(length, width, dtype)

    def grouped():
        q, k = common.turned(x["q"], cos, sin), common.turned(x["k"], cos, sin)
        return scaled_dot_product_attention(q, k, x["v"], is_causal=True, enable_gqa=True)

    def repeated():
        q, k = common.turned(x["q"], cos, sin), common.turned(x["k"], cos, sin)
        k, v = (y.repeat_interleave(Q_HEADS // KV_HEADS, dim=1) for y in (k, x["v"]))
        return scaled_dot_product_attention(q, k, v, is_causal=True)

    yield "torch, enable_gqa", grouped
    yield "torch, keys repeated", repeated


def ort_grouped(x, length, width, threads):
    """Its layout: [1][LENGTH][heads * width]."""
    onnx = common.onnx
    half = common.angles(length, width)

    def packed(name):
        return x[name].transpose(1, 2).reshape(1, length, -1).contiguous().numpy()

    feed = {"q": packed("q"), "k": packed("k"), "v": packed("v"), "seqlens": numpy.array([length - 1], numpy.int32),
            "total": numpy.array(length, numpy.int32), "cos": half.cos().float().numpy(), "sin": half.sin().float().numpy()}
    node = onnx.helper.make_node("GroupQueryAttention", ["q", "k", "v", "", "", "seqlens", "total", "cos", "sin"],
                                 ["out", "present_k", "present_v"], domain="com.microsoft", num_heads=Q_HEADS,
                                 kv_num_heads=KV_HEADS, do_rotary=1)
    kept = (1, KV_HEADS, length, width)
    outputs = [("out", (1, length, Q_HEADS * width), "float32"), ("present_k", kept, "float32"), ("present_v", kept, "float32")]
    session = common.ort_session(common.ort_model([node], [(n, a.shape, a.dtype) for n, a in feed.items()], outputs), threads)
    return lambda: torch.from_numpy(session.run(None, feed)[0]).view(1, length, Q_HEADS, width).transpose(1, 2)


def ov_model(length, width, cos, sin):
    ov, ops = common.openvino, common.openvino.opset13
    q, k, v = (ops.parameter([1, heads, length, width], ov.Type.f32) for heads in (Q_HEADS, KV_HEADS, KV_HEADS))

    def turned(x):
        first, second = ops.split(x, ops.constant(3), 2).outputs()
        swapped = ops.concat([ops.multiply(second, ops.constant(-1.0, ov.Type.f32)), first], 3)
        return ops.add(ops.multiply(x, ops.constant(cos)), ops.multiply(swapped, ops.constant(sin)))

    def repeated(x):
        group = Q_HEADS // KV_HEADS
        wide = ops.broadcast(ops.unsqueeze(x, ops.constant(2)), ops.constant([1, KV_HEADS, group, length, width]))
        return ops.reshape(wide, ops.constant([1, Q_HEADS, length, width]), False)

    out = ops.scaled_dot_product_attention(turned(q), repeated(turned(k)), repeated(v), causal=True)
    return ov.Model([out], [q, k, v], "prefill")


def ov_call(x, length, width, threads, dtype):
    cos, sin = (part.numpy() for part in common.table(length, width, "float32"))
    request = common.ov_request(ov_model(length, width, cos, sin), threads, "bf16" if dtype == "bfloat16" else "f32")
    feed = [x[name].float().numpy() for name in "qkv"]
    return lambda: torch.from_numpy(request.infer(feed, share_inputs=True, share_outputs=True)[0])


def peers(dtype, width, length, threads, inputs):
    x = common.tensors(inputs, dtype)
    yield from torch_calls(x, length, width, dtype)
    if common.onnxruntime and common.onnx and dtype == "float32":
        yield "ONNX Runtime", ort_grouped(x, length, width, threads)
    if common.openvino:
        yield "OpenVINO", ov_call(x, length, width, threads, dtype)


def cases(threads):
    for dtype in common.DTYPES:
        for width in (64, 128):
            for length in (512, 2048):
                inputs = common.numbers(dtype, length, q=(Q_HEADS, length, width), k=(KV_HEADS, length, width),
                                        v=(KV_HEADS, length, width))
                arguments = [dtype, str(width), str(length), str(Q_HEADS), str(KV_HEADS), str(threads)]
                for peer, call in peers(dtype, width, length, threads, inputs):
                    yield (f"prefill {dtype}, d {width}, {length} tokens", peer, arguments, inputs, call,
                           common.TOLERANCE[dtype])

"""The gradients of causal attention with the rotation in it, 8 query heads and 2 KV heads: PyTorch's, after a forward pass that
is not timed. Both sides give dq, dk and dv.
"""

import common
import torch
from torch.nn.functional import scaled_dot_product_attention

PROGRAM = "attention_backward_ours"
Q_HEADS, KV_HEADS = 8, 2


def gradients(inputs, dtype, length, width):
    """A call that gives dq, dk and dv."""
    with torch.inference_mode(False), torch.enable_grad():
        x = common.tensors(inputs, dtype)
        q, k, v = (x[name].requires_grad_() for name in "qkv")
        cos, sin = common.table(length, width, dtype)
        group = Q_HEADS // KV_HEADS
        wide_k, wide_v = common.turned(k, cos, sin).repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        out = scaled_dot_product_attention(common.turned(q, cos, sin), wide_k, wide_v, is_causal=True)
    return lambda: torch.autograd.grad(out, (q, k, v), x["dout"], retain_graph=True)


def cases(threads):
    for dtype in common.DTYPES:
        for width in (64, 128):
            for length in (512, 2048):
                inputs = common.numbers(dtype, length, q=(Q_HEADS, length, width), k=(KV_HEADS, length, width),
                                        v=(KV_HEADS, length, width), dout=(Q_HEADS, length, width))
                arguments = [dtype, str(width), str(length), str(Q_HEADS), str(KV_HEADS), str(threads)]
                yield (f"backward {dtype}, d {width}, {length} tokens", "torch", arguments, inputs,
                       gradients(inputs, dtype, length, width), 2.5 * common.TOLERANCE[dtype])

"""One query of 32 heads against cached keys and values of 8 KV heads of 128: PyTorch's scaled_dot_product_attention. Keys are
rotated before the clock starts on both sides, the query after it.
"""

import common
from torch.nn.functional import scaled_dot_product_attention

PROGRAM = "decode_ours"


def torch_calls(inputs, dtype, length):
    x = common.tensors(inputs, dtype)
    cached = common.turned(x["k"].float(), *common.table(length, 128, "float32")).to(common.DTYPES[dtype])
    cos, sin = common.table(1, 128, dtype, first=length - 1)
    wide_k, wide_v = (y.repeat_interleave(4, dim=1) for y in (cached, x["v"]))
    yield "torch, enable_gqa", lambda: scaled_dot_product_attention(common.turned(x["q"], cos, sin), cached, x["v"],
                                                                    enable_gqa=True)
    yield "torch, cache four times as large", lambda: scaled_dot_product_attention(common.turned(x["q"], cos, sin), wide_k,
                                                                                   wide_v)


def cases(threads):
    for dtype in common.DTYPES:
        for length in (1024, 4096, 32768):
            inputs = common.numbers(dtype, length, q=(32, 1, 128), k=(8, length, 128), v=(8, length, 128))
            for peer, call in torch_calls(inputs, dtype, length):
                yield (f"decode {dtype}, {length} cached", peer, [dtype, str(length), str(threads)], inputs, call,
                       common.TOLERANCE[dtype])

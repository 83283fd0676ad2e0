"""RoFormer's and plain linear attention, elu + 1 and causal, as PyTorch programs write the formula: the same inputs, float32.

The tables of cosines and sines are made before the clock starts; ours makes its own at every call.
"""

import numpy
import torch

HEADS, WIDTH = 8, 64
PROGRAM = "linear_attention_ours"


def features(x):
    return torch.nn.functional.elu(x) + 1


def angle_tables(length):
    inv_freq = 10000.0 ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * inv_freq
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos().float(), angles.sin().float()


def turned(x, tables):
    first, second = x.chunk(2, dim=-1)
    return x * tables[0] + torch.cat([-second, first], dim=-1) * tables[1]


def mapped(q, k, tables):
    """Features of the numerator and of the denominator, which is not turned."""
    c, e = features(q), features(k)
    return (c, e, c, e) if tables is None else (turned(c, tables), turned(e, tables), c, e)


def masked_square(q, k, v, tables):
    a, b, c, e = mapped(q, k, tables)
    weights = (a @ b.transpose(-1, -2)).tril()
    return weights @ v / (c * e.cumsum(-2)).sum(-1, keepdim=True)


def sums_of_all_tokens(q, k, v, tables):
    a, b, c, e = mapped(q, k, tables)
    sums = (b[..., :, None] * v[..., None, :]).cumsum(-3)
    return torch.einsum("hnf,hnfd->hnd", a, sums) / (c * e.cumsum(-2)).sum(-1, keepdim=True)


def in_chunks(size):
    def attend(q, k, v, tables):
        a, b, c, e = mapped(q, k, tables)
        shape = (q.shape[0], q.shape[1] // size, size, WIDTH)
        a, b, values = a.view(shape), b.view(shape), v.view(shape)
        of_chunks = b.transpose(-1, -2) @ values
        before = of_chunks.cumsum(1) - of_chunks
        out = a @ before + (a @ b.transpose(-1, -2)).tril() @ values
        return out.view(v.shape) / (c * e.cumsum(-2)).sum(-1, keepdim=True)

    return attend


PEERS = {
    "masked square": masked_square,
    "sums of all tokens": sums_of_all_tokens,
    "chunks of 64": in_chunks(64),
    "chunks of 128": in_chunks(128),
}
LARGEST = {"masked square": 4096, "sums of all tokens": 1024}  # tokens: memory


def cases(threads):
    """Yields (name, peer, our arguments, inputs, a call of the peer, how far apart results may be)."""
    for method in ("roformer", "elu"):
        for length in (1024, 4096, 16384):
            generator = numpy.random.default_rng(length)
            shape = (HEADS, length, WIDTH)
            inputs = {name: generator.standard_normal(shape, dtype=numpy.float32) for name in "qkv"}
            q, k, v = (torch.from_numpy(inputs[name]) for name in "qkv")
            tables = angle_tables(length) if method == "roformer" else None
            for peer, attend in PEERS.items():
                if length > LARGEST.get(peer, length):
                    continue
                yield (f"{method}, {HEADS} heads, {length} tokens", f"torch, {peer}",
                       [method, str(HEADS), str(length), str(threads)], inputs,
                       lambda attend=attend: attend(q, k, v, tables), 1e-4)

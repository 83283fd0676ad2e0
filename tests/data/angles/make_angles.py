"""Exact angles for tests/angles_test.cc: python3 make_angles.py (needs mpmath, numpy, safetensors).

Writes angles.safetensors: position, inv_freq (the doubles that are multiplied), and cos and sin of their exact product from
300-bit arithmetic, each as a sum of two doubles (error below 2^-106).
"""
import numpy as np
from mpmath import mp, mpf, cos, sin, pi, floor
from safetensors.numpy import save_file

mp.prec = 300

plain = [0, 1, 2, 10, 255, 256, 257, 4095, 1e5, 131071, 1e6, 1048575, 1e7, 1e9, 2**31 - 1, 2**31, 2**32 + 1, 2**34 + 7,
         2**43 + 3, 2**49 - 1, 2**49 + 1, 2**51 + 5, 2**53 - 1, 2**53]
fractions = [0.5, 1 / 3, 0.1, 1e-9, 2**-40, 131071.37, 1e6 + 1 / 7, 123456789.0123, 2**40 + 1 / 16]
negatives = [-1, -10.25, -131071, -1e9, -(2**53)]


def near_quarters(inv_freq):
    """Whole positions whose angle is nearer to a multiple of a quarter turn than any smaller one: the denominators of the
    continued fraction of inv_freq / (pi / 2)."""
    x = mpf(inv_freq) / (pi / 2)
    before, denominator = 0, 1
    found = []
    while denominator <= 2**53:
        found.append(float(denominator))
        rest = x - floor(x)
        if rest < mpf(2) ** -200:
            break
        x = 1 / rest
        before, denominator = denominator, int(floor(x)) * denominator + before
    return found


def two_doubles(value):
    hi = float(value)
    return hi, float(value - mpf(hi))


rows = []
for base in (1e4, 5e5, 1e6):
    for pair in (0, 1, 2, 10, 23, 40, 63):
        inv_freq = base ** (-2.0 * pair / 128)
        for position in plain + fractions + negatives + near_quarters(inv_freq):
            angle = mpf(position) * mpf(inv_freq)
            rows.append((position, inv_freq, *two_doubles(cos(angle)), *two_doubles(sin(angle))))
for inv_freq in (-1.5, 100.0, 128.0, 5e-324, 1e-300):  # signs, fast pairs, almost none
    for position in (1.0, 3.25, -1e6, 2.0**53):
        angle = mpf(position) * mpf(inv_freq)
        rows.append((position, inv_freq, *two_doubles(cos(angle)), *two_doubles(sin(angle))))

columns = np.array(rows, dtype=np.float64).T
names = ("position", "inv_freq", "cos_hi", "cos_lo", "sin_hi", "sin_lo")
save_file({n: np.ascontiguousarray(c) for n, c in zip(names, columns)}, "angles.safetensors")
print(len(rows), "rows; smallest |cos| 2^%.1f, |sin| 2^%.1f" % tuple(
    np.log2(np.abs(columns[i])[columns[i] != 0].min()) for i in (2, 4)))

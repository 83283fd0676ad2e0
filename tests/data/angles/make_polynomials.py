"""The polynomials of src/kernels/cos_sin-inl.h: python3 make_polynomials.py (needs mpmath) prints their coefficients.

With z = r * r for r in turns, |r| <= 1/8:

    sin(2 pi r) = r * (s0 + z s1 + z^2 s2 + ...)        cos(2 pi r) = 1 + z * (c0 + z c1 + z^2 c2 + ...)

Each is the polynomial of n terms through the function at n Chebyshev nodes of z in [0, 1/64], computed with 200 bits and rounded
to double: nearly the best there is. 5 terms for floats, 7 for doubles. cos(0) = 1 exactly, so that position 0 is the identity.
"""
from mpmath import mp, mpf, pi, sin, cos, sqrt, matrix, lu_solve, log

mp.prec = 200


def sine(z):
    r = sqrt(z)
    return sin(2 * pi * r) / r


def cosine(z):
    return (cos(2 * pi * sqrt(z)) - 1) / z


def interpolate(function, terms):
    nodes = [(1 + cos(pi * (2 * i + 1) / (2 * terms))) / 128 for i in range(terms)]
    powers = matrix([[z**k for k in range(terms)] for z in nodes])
    return [float(c) for c in lu_solve(powers, matrix([function(z) for z in nodes]))]


def horner(coefficients, z):
    value = mpf(0)
    for c in reversed(coefficients):
        value = value * z + c
    return value


def worst(error):
    return float(log(max(abs(error(mpf(i) / 4000 / 64)) for i in range(1, 4001)), 2))


for terms in (5, 7):
    s, c = interpolate(sine, terms), interpolate(cosine, terms)
    print(terms, "terms")
    print("sin:", ", ".join(x.hex() for x in s))
    print("cos:", ", ".join(x.hex() for x in c))
    print("relative error of sin: 2^%.1f" % worst(lambda z: horner(s, z) / sine(z) - 1))
    print("relative error of cos: 2^%.1f" % worst(lambda z: (1 + z * horner(c, z)) / cos(2 * pi * sqrt(z)) - 1))

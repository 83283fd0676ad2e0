"""The roofline picture: how fast our operations compute, under what the machine allows for so many operations per byte.

A point is a case on one core. The thin line above it ends at its own limit, measured at the same moment: for work that moves
memory that is the rate of the memory in which it lies, so it may end below the roof of a nearer cache.
"""

import math
import re
from html import escape

WIDTH, HEIGHT = 960, 600
LEFT, RIGHT, TOP, BOTTOM = 76, 936, 84, 528
FAMILIES = [  # the beginning of names, words, colour on light and on dark paper
    ("rotate", "rotate", "#2563eb", "#6ea8fe"), ("shift", "shift of cached keys", "#0891b2", "#22d3ee"),
    ("decode", "decode", "#ea580c", "#ff9b5e"), ("linear", "linear attention", "#15803d", "#4ade80"),
    ("prefill", "prefill", "#be185d", "#f472b6"), ("backward", "backward", "#7c3aed", "#a78bfa"),
]
SHOWN = [
    (r"rotate/(float32|bfloat16)/half/SHD/table/(512)", "rotate {0}, {1}"),
    (r"rotate/(float32)/half/SHD/table/(4096)", "rotate {0}, {1}"),
    (r"shift/(float32)/half/(4096)", "shift {0}, {1}"),
    (r"decode/(float32|bfloat16)/(g[48])/(32768)", "decode {0}, {1}, {2}"),
    (r"linear/(roformer)/(8192)/16/8", "linear attention, {1}"),
    (r"linear-step/(8)", "linear step"),
    (r"prefill/(float32)/(d128)/(512|8192)/1", "prefill {0}, {1}, {2}"),
    (r"prefill/(float32)/(d64)/(2048)/1", "prefill {0}, {1}, {2}"),
    (r"prefill/(bfloat16)/(d128)/(2048)/1", "prefill {0}, {1}, {2}"),
    (r"backward/(float32)/(d128)/(2048)/1", "backward {0}, {1}, {2}"),
]
STYLE = """<style>
  text { font-family: system-ui, "Segoe UI", "Helvetica Neue", Helvetica, Arial, sans-serif; font-size: 11px; fill: #1f2937;
         paint-order: stroke; stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round; }
  .faint { fill: #6b7280; } .paper { fill: #ffffff; } .title { font-size: 18px; font-weight: 600; }
  .grid { stroke: #e5e7eb; } .axis { stroke: #6b7280; } .roof { stroke: #1f2937; fill: none; }
  .ring { fill: #ffffff; stroke-width: 2; }
  %s
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; stroke: #0d1117; } .faint { fill: #9da7b3; } .paper, .ring { fill: #0d1117; }
    .grid { stroke: #262c36; } .axis { stroke: #9da7b3; } .roof { stroke: #e6edf3; }
    %s
  }
</style>
"""


def style():
    def rules(tone):
        return "\n  ".join(f".{family[0]} .dot {{ fill: {family[tone]}; }} .{family[0]} .ring, .{family[0]} .room {{ stroke: {family[tone]}; }}"
                          for family in FAMILIES)

    return STYLE % (rules(2), rules(3))


class Axis:
    """Logarithmic, from numbers to pixels."""

    def __init__(self, low, high, first, last):
        self.low, self.high, self.first, self.last = low, high, first, last

    def __call__(self, value):
        return self.first + (self.last - self.first) * math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self, steps):
        """Multiples of powers of ten within."""
        for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            yield from (step * 10**power for step in steps if self.low * 0.999 <= step * 10**power <= self.high)


def number(value):
    return f"{value:g}"


def text(x, y, words, anchor="start", kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind and f" class={chr(34)}{kind}{chr(34)}"}>{escape(words)}</text>\n'


def line(x1, y1, x2, y2, kind, more=""):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"{more}/>\n'


def short(words):
    return words.replace("float32", "f32").replace("bfloat16", "bf16").replace("float16", "f16")


def points_of(rows):
    """(intensity, GFLOP/s, GFLOP/s of its limit, family, words, whether in 16 bits)."""
    for row in rows:
        for shown, words in SHOWN:
            found = re.fullmatch(shown, row["name"])
            if found and row.get("bytes") and row["limit"]:
                rate = row["operations"] / row["median_ns"]
                family = next(family for family, *_ in FAMILIES if row["name"].startswith(family))
                label = short(words.format(*found.groups()))
                percent = f", {row['percent_of_limit']:.0f} %"
                yield (row["operations"] / row["bytes"], rate, rate * 100 / row["percent_of_limit"], family, label + percent,
                       "16" in row["name"].split("/")[1])


def roofs_of(rows):
    """The peak in GFLOP/s and the slopes: (GB/s, words)."""
    limits = {row["name"]: row["figure"] for row in rows if row["name"].startswith("limit/")}
    slopes = [("limit/in-place/1024", "in place, 1 MiB"), ("limit/in-place/8192", "in place, 8 MiB"),
              ("limit/in-place/262144", "in place, 256 MiB"), ("limit/read/262144", "read, 256 MiB")]
    return limits.get("limit/fma"), [(limits[name], words) for name, words in slopes if name in limits]


def draw_axes(x, y):
    out = ""
    for value in x.ticks((1,)):
        out += line(x(value), BOTTOM, x(value), TOP, "grid") + text(x(value), BOTTOM + 18, number(value), "middle", "faint")
    for value in y.ticks((1, 2, 5)):
        out += line(LEFT, y(value), RIGHT, y(value), "grid") + text(LEFT - 8, y(value) + 4, number(value), "end", "faint")
    out += line(LEFT, BOTTOM, RIGHT, BOTTOM, "axis") + line(LEFT, BOTTOM, LEFT, TOP, "axis")
    out += text((LEFT + RIGHT) / 2, BOTTOM + 40, "operations per byte moved", "middle")
    middle = (TOP + BOTTOM) / 2
    return out + f'<text transform="translate(24 {middle:.0f}) rotate(-90)" text-anchor="middle">GFLOP/s on one core</text>\n'


def draw_roofs(x, y, peak, slopes):
    out = line(x(peak / max((rate for rate, _ in slopes), default=peak / x.low)), y(peak), RIGHT, y(peak), "roof",
               ' stroke-width="2"')
    out += text(RIGHT, y(peak) - 8, f"multiply-add: {peak:.0f} GFLOP/s", "end")
    for rate, words in slopes:
        low = max(x.low, y.low / rate)
        dashes = ' stroke-dasharray="5 4"' if words.startswith("read") else ""
        out += line(x(low), y(low * rate), x(peak / rate), y(peak), "roof", f' stroke-width="1.4" opacity="0.7"{dashes}')
    return out


def roof_names(x, y, slopes):
    """Beside their lines, turned to follow them."""
    out = ""
    for rate, words in slopes:
        at = y.high / 1.65 / rate
        turn = math.degrees(math.atan2(y(at * 10 * rate) - y(at * rate), x(at * 10) - x(at)))
        out += (f'<text transform="translate({x(at):.1f} {y(at * rate) - 5:.1f}) rotate({turn:.1f})" class="faint" text-anchor="end">'
                f"{escape(words)}: {rate:.0f} GB/s</text>\n")
    return out


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def place(at, words, taken):
    """Where a name beside a point covers as little as possible; right of it if there is room."""
    width = 5.7 * len(words)
    best, least = None, None
    for distance in range(0, 105, 13):
        for side in (1, -1):
            for up in ((0,) if distance == 0 else (-distance, distance)):
                left = at[0] + 9 if side > 0 else at[0] - 9 - width
                box = (left, at[1] + up - 8, left + width, at[1] + up + 4)
                outside = box[0] < LEFT + 2 or box[2] > RIGHT or box[1] < TOP or box[3] > BOTTOM - 2
                cost = sum(overlap(box, other) for other in taken) * 100 + outside * 1000 + abs(up) / 13
                if least is None or cost < least:
                    best, least = (box, up), cost
    return best


def draw_points(x, y, points, taken):
    out, names = "", ""
    taken = taken + [(x(a) - 5, y(rate) - 5, x(a) + 5, y(rate) + 5) for a, rate, *_ in points]
    for intensity, rate, limit, family, words, narrow in sorted(points, reverse=True):  # least room at the right: first
        at = x(intensity), y(rate)
        out += f'<g class="{family}">' + line(*at, at[0], y(limit), "room") + line(at[0] - 4, y(limit), at[0] + 4, y(limit), "room")
        out += f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="4" class="{"ring" if narrow else "dot"}"/></g>\n'
        box, up = place(at, words, taken)
        taken.append(box)
        if up:
            near = box[0] - 2 if box[0] > at[0] else box[2] + 2
            names += line(*at, near, box[1] + 6, "axis", ' opacity="0.5"')
        names += text(box[0], box[3] - 1, words)
    return names + out


def draw_legend(points):
    out, left = "", LEFT + 4
    for family, words, *_ in FAMILIES:
        if any(point[3] == family for point in points):
            out += f'<g class="{family}"><circle cx="{left}" cy="66" r="4" class="dot"/></g>' + text(left + 9, 70, words)
            left += 26 + 6 * len(words)
    return out + text(left + 4, 70, "rings: 16 bits; the line above a point ends at its own limit", kind="faint")


def picture(header, rows):
    best = next((row["isa"] for row in rows if row["name"] == "limit/fma"), None)
    rows = [row for row in rows if row["isa"] == best and row["threads"] == 1]
    points, (peak, slopes) = list(points_of(rows)), roofs_of(rows)
    peak = max([peak or 0] + [limit for _, _, limit, *_ in points]) or 100  # whichever moment showed the machine at its best
    y_low = min([peak / 20] + [rate / 1.5 for _, rate, *_ in points])
    x = Axis(0.1, max([1000.0] + [point[0] * 2 for point in points]), LEFT, RIGHT)
    y = Axis(y_low, peak * 1.5, BOTTOM, TOP)
    taken = [(x(peak / max((rate for rate, _ in slopes), default=peak / x.low)), y(peak) - 2, RIGHT, y(peak) + 2),
             (RIGHT - 170, y(peak) - 20, RIGHT, y(peak))]
    about = f"{header['machine']}, {best}, {header['date']}, {header['commit']}"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">\n'
            f"<title>Roofline of rotary's operations</title>\n{style()}"
            f'<rect width="{WIDTH}" height="{HEIGHT}" class="paper"/>\n'
            + text(22, 30, "How near the machine's limits", kind="title") + text(22, 48, about, kind="faint")
            + draw_axes(x, y) + draw_roofs(x, y, peak, slopes) + roof_names(x, y, slopes) + draw_points(x, y, points, taken) + draw_legend(points)
            + "</svg>\n")

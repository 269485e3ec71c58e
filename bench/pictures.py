# SPDX-License-Identifier: Apache-2.0
"""Pictures of ratios (SVG) for performance.md. No library is needed, and equal figures give equal bytes."""
import html
import math

TICKS = [a * 10.0 ** b for b in range(-3, 4) for a in (1, 2, 5)]
BETTER, WORSE, COLOURS = "#3f8f4f", "#c8641e", ["#1f5fa8", "#c8641e", "#3f8f4f", "#8a4fa0"]
WIDTH, ROW, TOP, BOTTOM = 760, 19, 62, 80  # pixels


class Drawing:
    """The elements of a picture. Coordinates are pixels from the upper left corner."""

    def __init__(self, height, title, caption):
        self.height, self.title = height, title
        self.lines = [f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
        self.text(12, 22, title, size=15, weight="bold")
        self.text(12, 41, caption, colour="#555555")

    def text(self, x, y, words, size=12, anchor="start", colour="black", weight="normal"):
        self.lines.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" '
                          f'font-weight="{weight}">{html.escape(words)}</text>')

    def line(self, x1, y1, x2, y2, colour="#dddddd", width=1.0):
        self.lines.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>')

    def box(self, x1, y1, x2, y2, colour):
        left, top = min(x1, x2), min(y1, y2)
        self.lines.append(f'<rect x="{left:.1f}" y="{top:.1f}" width="{abs(x2 - x1):.1f}" height="{abs(y2 - y1):.1f}" fill="{colour}"/>')

    def curve(self, points, colour):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        self.lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]

    def svg(self):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.height}" viewBox="0 0 {WIDTH} {self.height}" '
                f'font-family="Helvetica,Arial,sans-serif" role="img">')
        return "\n".join([head, f"<title>{html.escape(self.title)}</title>", *self.lines, "</svg>"]) + "\n"


class Axis:
    """A logarithmic axis of ratios that has 1 and all the values."""

    def __init__(self, values, start, end):
        low, high = min([*values, 0.9]), max([*values, 1.1])
        self.low, self.high = max(t for t in TICKS if t <= low), min(t for t in TICKS if t >= high)
        self.start, self.end = start, end
        self.ticks = [t for t in TICKS if self.low <= t <= self.high]

    def at(self, value):
        return self.start + (self.end - self.start) * math.log(value / self.low) / math.log(self.high / self.low)


def legend(known):
    return "Thin lines are the spread of the samples, where it was recorded." if known else "The spread was not recorded."


def bars(title, caption, rows):
    """A bar for each row (name, figures, ratio, lowest and highest ratio or None)."""
    known = any(low for *_, low, _ in rows)
    bottom = TOP + ROW * len(rows)
    picture = Drawing(bottom + BOTTOM, title, caption)
    axis = Axis([value for row in rows for value in row[2:] if value], 210, 540)
    for tick in axis.ticks:
        picture.line(axis.at(tick), TOP, axis.at(tick), bottom, "black" if tick == 1 else "#dddddd")
        picture.text(axis.at(tick), bottom + 15, f"{tick:g}", anchor="middle")
    picture.text(axis.at(1) - 6, TOP - 5, "slower", anchor="end", colour=WORSE)
    picture.text(axis.at(1) + 6, TOP - 5, "faster than natively", colour=BETTER)
    for number, (name, figures, ratio, low, high) in enumerate(rows):
        y = TOP + ROW * (number + 0.5)
        picture.text(202, y + 4, name, anchor="end")
        picture.box(axis.at(1), y - 6, axis.at(ratio), y + 6, BETTER if ratio >= 1 else WORSE)
        if low:
            picture.line(axis.at(low), y, axis.at(high), y, "black", 1.2)
        picture.text(575, y + 4, f"{ratio:.2f}", anchor="end")
        picture.text(585, y + 4, figures, colour="#555555")
    picture.text(12, bottom + 36, "A bar is the ratio of the medians: native time divided by virtual time, or virtual rate by native rate.")
    picture.text(12, bottom + 53, legend(known))
    picture.text(12, bottom + 70, "On the right: the ratio, and the medians natively → virtually.")
    return picture.svg()


def curves(title, caption, lines, sizes):
    """A curve for each line (name, [(place in `sizes`, ratio, lowest and highest ratio or None)])."""
    known = any(low for _, points in lines for _, _, low, _ in points)
    bottom, left, right = TOP + 300, 60, 590
    picture = Drawing(bottom + BOTTOM, title, caption)
    axis = Axis([value for _, points in lines for point in points for value in point[1:] if value], bottom, TOP)
    step = (right - left) / max(len(sizes) - 1, 1)
    for tick in axis.ticks:
        picture.line(left, axis.at(tick), right, axis.at(tick), "black" if tick == 1 else "#dddddd")
        picture.text(left - 8, axis.at(tick) + 4, f"{tick:g}", anchor="end")
    for place, size in enumerate(sizes):
        picture.text(left + step * place, bottom + 17, size, size=10, anchor="middle")
    picture.text(left + 6, axis.at(1) - 5, "native", colour="#555555")
    for number, (name, points) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        picture.curve([(left + step * place, axis.at(ratio)) for place, ratio, _, _ in points], colour)
        for place, _, low, high in points:
            if low:
                picture.line(left + step * place, axis.at(low), left + step * place, axis.at(high), colour, 1.2)
        picture.box(right + 18, TOP + 20 * number + 4, right + 30, TOP + 20 * number + 8, colour)
        picture.text(right + 36, TOP + 20 * number + 10, name)
    picture.text(12, bottom + 40, f"Ratios of medians: above 1, virtual copies are faster than native ones. {legend(known)}")
    return picture.svg()

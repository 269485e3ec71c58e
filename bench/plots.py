# SPDX-License-Identifier: Apache-2.0
"""The results as pictures (SVG), where matplotlib is installed."""

import re

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
COPIES = ["h2d_pinned", "h2d_pageable", "d2h_pinned", "d2h_pageable", "d2d"]
SHOWN_SIZES = ["4B", "4KiB", "64KiB", "1MiB", "32MiB", "512MiB"]
STYLES = {"native": "--", "virtual": "-"}


def library():
    """matplotlib's drawing functions, or None."""
    try:
        import matplotlib  # not every machine has it
    except ImportError:
        return None
    matplotlib.use("svg")
    from matplotlib import pyplot
    return pyplot


def size_of(name):
    """(what, bytes) of the name of a copy; None if it is none."""
    found = re.fullmatch(r"(.+)_(\d+)(B|KiB|MiB|GiB)", name)
    return (found[1], int(found[2]) * UNITS[found[3]]) if found else None


def size_text(size, _=None):
    unit = max((name for name in UNITS if UNITS[name] <= max(size, 1)), key=UNITS.get)
    return f"{size / UNITS[unit]:g} {unit}"


def plain(axis):
    """Numbers as they are read, not as powers, on an axis that has logarithms."""
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(lambda value, _: "")


def gigabytes(row, side, size):
    value = row[side]["median"]
    return value if row["unit"] == "GB/s" else size / value * 1e-3


def bandwidth(pyplot, rows, sides):
    rows = [row for row in rows if row["group"] == "copy"]
    figure, axes = pyplot.subplots(figsize=(9, 6))
    for number, what in enumerate(COPIES):
        for side in sides:
            points = [(size_of(row["name"])[1], gigabytes(row, side, size_of(row["name"])[1])) for row in rows
                      if size_of(row["name"]) and size_of(row["name"])[0] == what and side in row]
            if points:
                axes.plot(*zip(*sorted(points)), STYLES[side], color=f"C{number}", marker=".", label=f"{what}, {side}")
    axes.set(yscale="log", ylabel="GB/s", title="Copies, one at a time")
    axes.set_xscale("log", base=2)
    axes.set_xticks([4 << 2 * power for power in range(15)], minor=False)
    axes.xaxis.set_major_formatter(size_text)
    axes.tick_params(axis="x", labelsize="x-small")
    plain(axes.yaxis)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure if rows else None


def ratios(pyplot, rows, sides):
    shown = []
    for row in rows:
        size = re.search(r"_(\d+(?:B|KiB|MiB|GiB))$", row["name"]) if row["group"] == "copy" else None
        if row["ratio"] and row["unit"] not in ("%", "MiB") and (not size or size[1] in SHOWN_SIZES):
            shown.append(row)
    if not shown:
        return None
    figure, axes = pyplot.subplots(figsize=(9, 1.5 + 0.16 * len(shown)))
    names = [f"{row['group']}: {row['name']}" for row in shown]
    axes.barh(names, [row["ratio"] - 1 for row in shown], left=1, color=["C2" if row["ratio"] >= 1 else "C1" for row in shown])
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="of native; above 1 is better", title="Virtual, compared with native")
    plain(axes.xaxis)
    axes.set_xticks([tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
                     if min(row["ratio"] for row in shown) / 2 < tick < max(row["ratio"] for row in shown) * 2])
    axes.tick_params(axis="y", labelsize=6)
    axes.margins(y=0.005)
    axes.invert_yaxis()
    return figure


def scale(pyplot, rows, sides):
    points = {}
    for row in rows:
        found = re.fullmatch(r"request_(\d+)p_(\d+)s_(rate|p50|p99)", row["name"])
        if row["group"] == "scale" and found:
            for side in sides:
                if side in row:
                    points.setdefault((found[3], int(found[2]), side), []).append((int(found[1]), row[side]["median"]))
    if not points:
        return None
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4.5))
    titles = {"rate": "requests a second", "p50": "latency, median (us)", "p99": "latency, 99 % below (us)"}
    for place, (what, title) in zip(axes, titles.items()):
        streams = sorted({key[1] for key in points})
        for (figure_of, count, side), line in points.items():
            if figure_of == what:
                place.plot(*zip(*sorted(line)), STYLES[side], color=f"C{streams.index(count)}", marker="o",
                           label=f"{count} stream{'s' * (count > 1)}, {side}")
        place.set(xlabel="processes", title=title)
        place.set_xscale("log", base=2)
        place.set_yscale("log")
        plain(place.xaxis)
        plain(place.yaxis)
        place.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    return figure


def draw(folder, rows, sides):
    """The files that were written; None where matplotlib is missing."""
    pyplot = library()
    if not pyplot:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, picture in {"bandwidth": bandwidth, "ratios": ratios, "scale": scale}.items():
        figure = picture(pyplot, rows, sides)
        if figure:
            figure.tight_layout()
            figure.savefig(folder / f"{name}.svg")
            written.append(folder / f"{name}.svg")
        pyplot.close("all")
    return written

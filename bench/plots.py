# SPDX-License-Identifier: Apache-2.0
"""The results as pictures (SVG), where matplotlib is installed. Each says on which device and when it was measured."""

import re

import report

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
COPIES = ["h2d_pinned", "h2d_pageable", "d2h_pinned", "d2h_pageable", "d2d"]
SHOWN_SIZES = ["4B", "4KiB", "64KiB", "1MiB", "32MiB", "512MiB"]
STYLES = {"native": "--", "virtual": "-"}
ROW = 0.22  # inches for a case, so that its name can be read


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


def gigabytes(row, size, value):
    return value if row["unit"] == "GB/s" else size / value * 1e-3


def points_of(rows, what, side):
    """(size, median, lowest, highest) of each copy of the kind, in GB/s."""
    points = []
    for row in rows:
        kind, size = size_of(row["name"]) or (None, 0)
        if kind == what and side in row:
            lowest, highest = sorted(gigabytes(row, size, row[side][end]) for end in ("min", "max"))
            points.append((size, gigabytes(row, size, row[side]["median"]), lowest, highest))
    return sorted(points)


def caption(machine):
    """Device, software and date of the results, in a line."""
    known = {key: value for key, value in machine.items() if value is not None}
    parts = [known.get("gpu", "no device"), f"driver {known['driver']}" if "driver" in known else None,
             f"CUDA {known['cuda']}" if "cuda" in known else None, f"transport {known['transport']}" if "transport" in known else None,
             f"virtio-cuda {known.get('version', '?')}", str(known.get("date", "no date"))[:10]]
    return ", ".join(filter(None, parts))


def bandwidth(pyplot, rows, sides):
    rows = [row for row in rows if row["group"] == "copy"]
    figure, axes = pyplot.subplots(figsize=(9, 6))
    for number, what in enumerate(COPIES):
        for side in sides:
            points = points_of(rows, what, side)
            if points:
                sizes, medians, lowest, highest = zip(*points)
                axes.plot(sizes, medians, STYLES[side], color=f"C{number}", marker=".", label=f"{what}, {side}")
                axes.fill_between(sizes, lowest, highest, color=f"C{number}", alpha=0.15, linewidth=0)
    axes.set(yscale="log", ylabel="GB/s", title="Copies, one at a time: median, and from the slowest to the fastest")
    axes.set_xscale("log", base=2)
    largest = max((size_of(row["name"])[1] for row in rows if size_of(row["name"])), default=4)
    axes.set_xticks([4 << 2 * power for power in range(15) if 4 << 2 * power <= largest], minor=False)
    axes.xaxis.set_major_formatter(size_text)
    axes.tick_params(axis="x", labelsize="small", rotation=45)
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
    figure, axes = pyplot.subplots(figsize=(10, 1.5 + ROW * len(shown)))
    names = [f"{row['group']}: {row['name']}" for row in shown]
    ends = [report.ratio_range(row) for row in shown]
    spread = [[row["ratio"] - low for row, (low, _) in zip(shown, ends)], [high - row["ratio"] for row, (_, high) in zip(shown, ends)]]
    axes.barh(names, [row["ratio"] - 1 for row in shown], left=1, color=["C2" if row["ratio"] >= 1 else "C1" for row in shown],
              xerr=spread, error_kw={"elinewidth": 0.8, "ecolor": "0.3"})
    for place, row in enumerate(shown):
        axes.annotate(f"{row['ratio']:.2f}", (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=8)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="of native; above 1 is better; the line is the spread of the samples", title="Virtual, compared with native")
    plain(axes.xaxis)
    axes.set_xticks([tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
                     if min(low for low, _ in ends) / 2 < tick < max(high for _, high in ends) * 2])
    axes.tick_params(axis="y", labelsize=8)
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
                    entry = row[side]
                    points.setdefault((found[3], int(found[2]), side), []).append((int(found[1]), entry["median"], entry["min"], entry["max"]))
    if not points:
        return None
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4.5))
    titles = {"rate": "requests a second", "p50": "latency, median (us)", "p99": "latency, 99 % below (us)"}
    for place, (what, title) in zip(axes, titles.items()):
        streams = sorted({key[1] for key in points})
        for (figure_of, count, side), line in points.items():
            if figure_of == what:
                processes, medians, lowest, highest = zip(*sorted(line))
                place.plot(processes, medians, STYLES[side], color=f"C{streams.index(count)}", marker="o",
                           label=f"{count} stream{'s' * (count > 1)}, {side}")
                place.fill_between(processes, lowest, highest, color=f"C{streams.index(count)}", alpha=0.15, linewidth=0)
        place.set(xlabel="processes", title=title)
        place.set_xscale("log", base=2)
        place.set_yscale("log")
        plain(place.xaxis)
        plain(place.yaxis)
        place.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    return figure


def draw(folder, results):
    """Returns the files that were written. matplotlib must be there."""
    pyplot = library()
    rows, written = list(results.rows()), []
    for name, picture in {"bandwidth": bandwidth, "ratios": ratios, "scale": scale}.items():
        figure = picture(pyplot, rows, results.sides)
        if figure:
            figure.tight_layout(rect=(0, 0.3 / figure.get_figheight(), 1, 1))
            figure.text(0.01, 0.1 / figure.get_figheight(), caption(results.machine), fontsize=8, color="0.3")
            figure.savefig(folder / f"{name}.svg")
            written.append(folder / f"{name}.svg")
        pyplot.close("all")
    return written

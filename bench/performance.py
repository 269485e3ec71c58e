#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes doc/reference/performance.md and its pictures from bench/performance.md.in and the results in bench/results.

usage: performance.py [--check] [--root DIRECTORY]

--check writes nothing (the test "performance"): it names each mistake in a result, and says whether the page is what
would be written. The template is Markdown with lines of these forms:

    {{run FILE [short] [sides=NAME,...]}}      the command, machine, date and note of a result, and what its sides (these
                                               sides; `-`: none) are; short: without the command, and of the machine the
                                               device alone
    {{table FILE GROUP [OPTION=VALUE...]}}     a row for each case of the group; all groups: *
        names=PATTERN    the cases whose names the regular expression matches wholly
        sides=NAME,...   these sides
        mean=TITLE       a last row with the geometric mean of the ratios
        shown=PATTERN    rows of these of the cases only; the mean is that of all of them
    {{grid FILE GROUP PATTERN [sides=...]}}    the medians of the cases whose names PATTERN matches wholly:
                                               its groups `row` and `column` are the titles
    {{bars PICTURE FILE names=PATTERN title=TITLE}}
                                               a picture: the ratio of each of these cases, in doc/images
    {{curves PICTURE FILE PATTERN title=TITLE}}
                                               a picture: ratios by size. The groups `line` and `size` of PATTERN are
                                               the name of a curve and the place on it

The template names each result, in such a line or in a link.
"""
import argparse
import difflib
import json
import pathlib
import re
import shlex
import statistics
import sys
import textwrap

import pictures
import schema

PAGE, TEMPLATE, RESULTS = "doc/reference/performance.md", "bench/performance.md.in", "bench/results"
IMAGES = "doc/images"
DIRECTIVE = re.compile(r"\{\{(\w+)\s*(.*)\}\}")
OPTION = re.compile(r"(names|sides|mean|shown|title)=")
COLUMNS = 100


class Mistake(Exception):
    pass


def read_results(root):
    """({name: result}, mistakes) of all files."""
    results, wrong = {}, []
    for file in sorted((root / RESULTS).glob("*.json")):
        try:
            result = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as why:
            wrong.append(f"{RESULTS}/{file.name}: {why}")
            continue
        found = schema.mistakes(result)
        wrong += [f"{RESULTS}/{file.name}: {mistake}" for mistake in found]
        if not found:
            results[file.name] = result
    return results, wrong


def unit(name):
    return "µs" if name == "us" else name


def number(value):
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def cell(entry):
    if not entry:
        return "–"
    median, low, high = (schema.figure(entry, name) for name in ("median", "min", "max"))
    spread = f"{number(low)}–{number(high)}" if low is not None and number(low) != number(high) else ""
    if median is None:
        return spread or number(low)
    return number(median) + (f" ({spread})" if spread else "")


def ratio_of(case, sides, first):
    """How much better the last of the sides is. Only a result of two sides gives ratios itself."""
    return schema.ratio(case, first, sides[-1]) if case.get("ratio") is None else case["ratio"]


def ratio_cell(value):
    return f"{value:.2f}" if value else "–"


def markdown(titles, rows):
    return [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def chosen(result, name, group, names, sides):
    """The cases and the sides that have figures."""
    cases = [case for case in result["cases"] if group in ("*", case["group"]) and re.fullmatch(names or ".*", case["name"])]
    if not cases:
        raise Mistake(f"{name} has no such case")
    wanted = sides.split(",") if sides else result["sides"]
    for side in wanted:
        if side not in result["sides"]:
            raise Mistake(f"{name} has no side '{side}'")
    return cases, [side for side in result["sides"] if side in wanted and any(side in case for case in cases)]


def table(results, name, group, names=None, sides=None, mean=None, shown=None):
    cases, sides = chosen(results[name], name, group, names, sides)
    every = cases
    if shown:
        cases = chosen({**results[name], "cases": cases}, name, group, shown, None)[0]
    others = [side for side in sides[:-1] if any(ratio_of(case, sides, side) for case in cases)]
    notes = [case.get("note", "") for case in cases]
    titles = ["case", "unit", *sides, *("ratio" if len(sides) == 2 else f"to {side}" for side in others), *["note"] * any(notes)]
    rows = [[case["name"], unit(case["unit"]), *(cell(case.get(side)) for side in sides), *(ratio_cell(ratio_of(case, sides, side)) for side in others),
             *[note] * any(notes)] for case, note in zip(cases, notes)]
    if mean:
        means = [statistics.geometric_mean(filter(None, (ratio_of(case, sides, side) for case in every))) for side in others]
        rows.append([mean, *[""] * (1 + len(sides)), *map(ratio_cell, means), *[""] * any(notes)])
    return markdown(titles, rows)


def grid_cell(case, sides):
    if not case:
        return "–"
    present = [case.get(side) for side in sides]
    if len(sides) == 1:
        return cell(present[0])
    figures = " / ".join("–" if not entry else number(schema.figure(entry, "median")) if schema.figure(entry, "median") is not None
                         else cell(entry) for entry in present)
    ratio = ratio_of(case, sides, sides[0]) if len(sides) == 2 else None
    return figures + (f" ({ratio:.2f})" if ratio else "")


def grid(results, name, group, pattern, sides=None):
    """The unit is in the title of the columns, or of the rows where one column has several."""
    cases, sides = chosen(results[name], name, group, pattern, sides)
    places = {}
    for case in cases:
        found = re.fullmatch(pattern, case["name"])
        places[found["row"], found["column"]] = case
    rows, columns = (list(dict.fromkeys(place[side] for place in places)) for side in (0, 1))

    def units(side, title):
        return {unit(case["unit"]) for place, case in places.items() if place[side] == title}

    in_columns = all(len(units(1, column)) == 1 for column in columns)

    def titled(side, title):
        return f"{title}, {', '.join(sorted(units(side, title)))}" if in_columns == (side == 1) else title

    return markdown(["", *(titled(1, column) for column in columns)],
                    [[titled(0, row), *(grid_cell(places.get((row, column)), sides) for column in columns)] for row in rows])


def device(machine):
    """The GPU, or the processor that the software GPU has."""
    if not machine.get("gpu"):
        return machine.get("cpu") or "–"
    return f"{machine['gpus']} × {machine['gpu']}" if machine.get("gpus", 1) > 1 else machine["gpu"]


def machine_text(machine):
    known = {key: value for key, value in machine.items() if value is not None}
    parts = [device(known) if "gpu" in known else None, *(f"{title} {known[key]}" for key, title in (("driver", "driver"), ("cuda", "CUDA")) if key in known),
             f"{known['cores']} processors" if "cores" in known else None, known.get("cpu"), known.get("note"),
             f"{known['memory_gib']:g} GiB" if "memory_gib" in known else None, f"Linux {known['kernel']}" if "kernel" in known else None,
             *(f"{title} {version}" for title, version in known.get("software", {}).items()),
             f"back end {known['backend']}" if "backend" in known else None,
             f"transport {known['transport']}" if "transport" in known else None,
             f"virtio-cuda {known['version']}" if "version" in known else None, f"commit {known['commit']}" if "commit" in known else None,
             known["date"][:10]]
    return ", ".join(filter(None, parts))


def run(results, name, form=None, sides=None):
    if form not in (None, "short"):
        raise Mistake(f"'{form}' is no form of a run")
    result = results[name]
    command = f": `{result['command']}`" if result.get("command") else ""
    told = sides.split(",") if sides else result["sides"]
    for side in told:
        if side not in [*result["sides"], "-"]:
            raise Mistake(f"{name} has no side '{side}'")
    about = "; ".join(f"*{side}* is {text}" for side, text in result.get("about", {}).items() if side in told)
    measured = f"{device(result['machine'])}, {result['machine']['date'][:10]}." if form else \
        f"Measured by {result['benchmark']}{command}. Machine: {machine_text(result['machine'])}."
    text = " ".join(filter(None, [measured, f"Sides: {about}." if about else "", result.get("note"), f"[Data](../../{RESULTS}/{name})."]))
    return textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


class Picture(str):
    """The SVG of a picture, with its name."""

    def __new__(cls, name, text):
        picture = super().__new__(cls, text)
        picture.name = f"performance-{name}.svg"
        return picture


def caption(machine):
    known = {key: value for key, value in machine.items() if value is not None}
    return ", ".join(filter(None, [device(known), f"driver {known['driver']}" if "driver" in known else None,
                                   f"transport {known['transport']}" if "transport" in known else None, known["date"][:10]]))


def shown(name, title, text, result):
    """The lines of the page for a picture, and the picture."""
    picture = Picture(name, text)
    return [f"![{title}: {caption(result['machine'])}](../images/{picture.name})", picture]


def compared(result, name, pattern):
    """The cases of the pattern that have a median on both sides."""
    if len(result["sides"]) != 2:
        raise Mistake(f"{name} has not two sides")
    cases = [case for case in chosen(result, name, "*", pattern, None)[0] if schema.ratio(case, *result["sides"])]
    if not cases:
        raise Mistake(f"{name} has no such case with two medians")
    return cases


def bars(results, name, picture, names, title):
    result = results[name]
    first, last = result["sides"]
    rows = []
    for case in compared(result, name, names):
        medians = " → ".join(number(schema.figure(case[side], "median")) for side in (first, last))
        rows.append((case["name"], f"{medians} {unit(case['unit'])}", ratio_of(case, [first, last], first), *schema.ratio_spread(case, first, last)))
    return shown(picture, title, pictures.bars(title, caption(result["machine"]), rows), result)


def curves(results, name, picture, pattern, title):
    result = results[name]
    first, last = result["sides"]
    cases = [(re.fullmatch(pattern, case["name"]), case) for case in compared(result, name, pattern)]
    sizes = list(dict.fromkeys(found["size"] for found, _ in cases))
    lines = {}
    for found, case in cases:
        point = (sizes.index(found["size"]), ratio_of(case, [first, last], first), *schema.ratio_spread(case, first, last))
        lines.setdefault(found["line"], []).append(point)
    text = pictures.curves(title, caption(result["machine"]), [(line, sorted(points)) for line, points in lines.items()], sizes)
    return shown(picture, title, text, result)


def words_of(text):
    """As a shell reads them, but for backslashes, which patterns have."""
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split, lexer.escape, lexer.commenters = True, "", ""
    return list(lexer)


def expand(results, line):
    """The lines for one line of the template."""
    found = DIRECTIVE.fullmatch(line)
    if not found:
        return [line]
    words = words_of(found[2])
    options = dict(word.split("=", 1) for word in words if OPTION.match(word))
    arguments = [word for word in words if not OPTION.match(word)]
    make = {"run": run, "table": table, "grid": grid, "bars": bars, "curves": curves}.get(found[1])
    if not make:
        raise Mistake(f"there is no '{found[1]}'")
    if make in (bars, curves):
        arguments[:2] = reversed(arguments[:2])
    if arguments and arguments[0] not in results:
        raise Mistake(f"there is no result {arguments[0]}")
    try:
        return make(results, *arguments, **options)
    except (TypeError, IndexError, re.error) as why:
        raise Mistake(why) from None


def written(root, results):
    """{path: text} of the page and its pictures."""
    lines, template = [], (root / TEMPLATE).read_text(encoding="utf-8")
    for name in results:
        if name not in template:
            raise Mistake(f"{RESULTS}/{name} is not named in {TEMPLATE}: name or remove it")
    for line_number, line in enumerate(template.splitlines(), 1):
        try:
            lines += expand(results, line)
        except Mistake as why:
            raise Mistake(f"{TEMPLATE}:{line_number}: {why}") from None
    files = {f"{IMAGES}/{picture.name}": str(picture) for picture in lines if isinstance(picture, Picture)}
    return {PAGE: "\n".join(line for line in lines if not isinstance(line, Picture)) + "\n", **files}


def stale(root, files):
    """Paths that are not as they would be written, each with the reason."""
    for path, text in files.items():
        old = (root / path).read_text(encoding="utf-8") if (root / path).exists() else ""
        if old != text:
            yield f"{path} is not what bench/performance.py writes: run it, and edit {TEMPLATE} or {RESULTS}\n{difference(old, text)}"
    for file in sorted((root / IMAGES).glob("performance-*.svg")):
        if f"{IMAGES}/{file.name}" not in files:
            yield f"{IMAGES}/{file.name} is on no page: remove it"


def difference(old, new):
    """The first line that differs."""
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), "the page", "what is written", n=0, lineterm=""):
        if line.startswith(("-", "+")) and not line.startswith(("---", "+++")):
            return line
    return "the end of the file"


def main():
    parser = argparse.ArgumentParser(usage="performance.py [--check] [--root DIRECTORY]")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    given = parser.parse_args()
    results, wrong = read_results(given.root)
    if wrong:
        print("\n".join(wrong))
        return 1
    try:
        files = written(given.root, results)
    except Mistake as why:
        print(why)
        return 1
    if given.check:
        found = list(stale(given.root, files))
        print("\n".join(found), end="\n" if found else "")
        return 1 if found else 0
    for path, text in files.items():
        (given.root / path).parent.mkdir(parents=True, exist_ok=True)
        (given.root / path).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

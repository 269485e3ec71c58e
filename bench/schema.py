# SPDX-License-Identifier: Apache-2.0
"""The format of a result, which bench/results/README.md describes, and its check."""

import datetime
import json
import math
import statistics

FORMAT = 1
RESULT = {"format": int, "benchmark": str, "machine": dict, "sides": list, "cases": list}
RESULT_MORE = {"command": str, "about": dict, "note": str, "skipped": list, "failed": list}
MACHINE = {"date": str}
MACHINE_MORE = {"gpu": str, "gpus": int, "driver": str, "cuda": str, "cpu": str, "cores": int, "memory_gib": float, "load_before": float,
                "kernel": str, "backend": str, "transport": str, "version": str, "commit": str, "software": dict, "note": str}
CASE = {"group": str, "name": str, "unit": str}
CASE_MORE = {"better": str, "ratio": float, "note": str}
FIGURES = {"median", "min", "max"}
# Figures are kept with three digits where the samples are not known, ratios with two behind the point.
ROUNDING, RATIO_ROUNDING = 0.015, 0.006


def is_a(value, kind):
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def members(what, found, needed, optional):
    """Mistakes in the members of an object. An optional member may be null."""
    if not isinstance(found, dict):
        yield f"{what} is no object"
        return
    for name, kind in needed.items():
        if not is_a(found.get(name), kind):
            yield f"{what} has no '{name}' of type {kind.__name__}"
    for name, value in found.items():
        if name in optional and value is not None and not is_a(value, optional[name]):
            yield f"{what}: '{name}' is no {optional[name].__name__}"
        elif name not in needed and name not in optional:
            yield f"{what}: '{name}' is not known"


def is_date(text):
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def entry_mistakes(what, entry):
    """An entry has the figures of one side: samples, or the median, or the lowest and the highest."""
    if not isinstance(entry, dict) or set(entry) - FIGURES - {"samples"}:
        yield f"{what} has other members than samples, median, min and max"
        return
    samples = entry.get("samples", [])
    if not isinstance(samples, list) or not all(is_a(value, float) for value in [*samples, *(entry[n] for n in FIGURES & set(entry))]):
        yield f"{what} has a figure that is no number"
    elif samples and any(name in entry and entry[name] != figure(entry, name) for name in FIGURES):
        yield f"{what}: median, min or max are not those of the samples"
    elif not samples and (("min" in entry) != ("max" in entry) or "median" not in entry and "min" not in entry):
        yield f"{what} has neither samples nor a median nor a lowest and a highest figure"
    elif "min" in entry and not samples and not entry["min"] <= entry.get("median", entry["min"]) <= entry["max"]:
        yield f"{what}: the figures are not in order"


def figure(entry, name):
    """The median, lowest or highest figure of an entry; None if it is not known."""
    if not entry.get("samples"):
        return entry.get(name)
    return {"min": min, "max": max, "median": statistics.median}[name](entry["samples"])


def better(case):
    return case.get("better") or ("more" if case["unit"].endswith("/s") else "less")


def ratio(case, first, last):
    """How much better the last side is than the first: above 1, it is better. None: a median is missing or 0."""
    medians = [figure(case.get(side, {}), "median") for side in (first, last)]
    if not all(value and value > 0 for value in medians):
        return None
    return medians[1] / medians[0] if better(case) == "more" else medians[0] / medians[1]


def ratio_spread(case, first, last):
    """The lowest and the highest ratio of one sample of each side; None where a side has no spread."""
    ends = [[figure(case.get(side, {}), end) for end in ("min", "max")] for side in (first, last)]
    if not all(value and value > 0 for pair in ends for value in pair):
        return None, None
    (first_min, first_max), (last_min, last_max) = ends
    return (last_min / first_max, last_max / first_min) if better(case) == "more" else (first_min / last_max, first_max / last_min)


def case_mistakes(what, case, sides):
    more = {**CASE_MORE, **{side: dict for side in sides}}
    found = list(members(what, case, CASE, more))
    if found:
        yield from found
        return
    if case.get("better") not in (None, "more", "less"):
        yield f"{what}: 'better' is neither more nor less"
    if not any(case.get(side) for side in sides):
        yield f"{what} has no side"
    for side in sides:
        if side in case:
            yield from entry_mistakes(f"{what}, {side}", case[side])


def ratio_mistakes(what, case, sides):
    """A ratio that is given is that of the two sides, and agrees with the medians."""
    if case.get("ratio") is not None and len(sides) != 2:
        yield f"{what} has a ratio, and there are not two sides"
    computed = ratio(case, sides[0], sides[-1]) if case.get("ratio") is not None else None
    if computed and abs(case["ratio"] - computed) > ROUNDING * computed + RATIO_ROUNDING:
        yield f"{what}: the ratio is {case['ratio']}, that of the medians {computed:.3f}"


def mistakes(result):
    """All mistakes in a result, each in a sentence."""
    found = list(members("the file", result, RESULT, RESULT_MORE))
    if found:
        return found
    if result["format"] != FORMAT:
        return [f"the format is {result['format']}, not {FORMAT}"]
    found = list(members("the machine", result["machine"], MACHINE, MACHINE_MORE))
    if not found and not is_date(result["machine"]["date"]):
        found.append("the date of the machine is no date")
    sides = result["sides"]
    if not sides or not all(isinstance(side, str) for side in sides) or len(set(sides)) < len(sides):
        return [*found, "'sides' has no names, or one twice"]
    if set(sides) & {*CASE, *CASE_MORE}:
        found.append("a side has the name of a member of a case")
    if set(result.get("about", {})) - set(sides):
        found.append("'about' names a side that is none of the sides")
    if not result["cases"]:
        found.append("there are no cases")
    names = set()
    for number, case in enumerate(result["cases"]):
        what = f"case {number + 1}"
        wrong = list(case_mistakes(what, case, sides))
        if not wrong:
            what = f"{case['group']}, {case['name']}"
            wrong = list(ratio_mistakes(what, case, sides))
            wrong += [f"{what} is there twice"] if (case["group"], case["name"]) in names else []
            names.add((case["group"], case["name"]))
        found += wrong
    return found


def write(path, result):
    """Writes a result without mistakes, a case on each line."""
    found = mistakes(result)
    if found:
        raise ValueError("\n".join(found))
    members_text = [f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in result.items() if name != "cases"]
    cases_text = ",\n".join(f"  {json.dumps(case, ensure_ascii=False)}" for case in result["cases"])
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n" + "".join(f"{text},\n" for text in members_text) + f' "cases": [\n{cases_text}\n ]\n}}\n')

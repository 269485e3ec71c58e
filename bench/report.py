# SPDX-License-Identifier: Apache-2.0
"""The report: the samples of each case and side, as JSON and as Markdown."""

import json
import math
import statistics


def more_is_better(unit):
    return unit.endswith("/s")


class Results:
    """Cases in the order in which they first came."""

    def __init__(self, machine, sides, command):
        self.machine, self.sides, self.command = machine, sides, command
        self.cases = {}
        self.skipped, self.failed = [], []

    def add(self, group, side, figures):
        for name, (value, unit) in figures.items():
            case = self.cases.setdefault((group, name), {"unit": unit, "samples": {}})
            case["samples"].setdefault(side, []).append(value)

    def rows(self):
        """A dictionary a case: of each side samples, median, lowest and highest; the ratio, which is above 1 where the virtual side
        is better than the native one."""
        for (group, name), case in self.cases.items():
            row = {"group": group, "name": name, "unit": case["unit"],
                   "better": "more" if more_is_better(case["unit"]) else "less"}
            for side, samples in case["samples"].items():
                row[side] = {"median": statistics.median(samples), "min": min(samples), "max": max(samples), "samples": samples}
            row["ratio"] = ratio(row)
            yield row

    def compare_losses(self):
        """A loss of the virtual side must be the native one."""
        for row in self.rows():
            if row["unit"] == "loss" and row["ratio"] and len({*row["native"]["samples"], *row["virtual"]["samples"]}) > 1:
                self.failed.append({"what": f"{row['group']}: {row['name']}", "side": "virtual",
                                    "reason": f"{row['virtual']['samples']!r}, natively {row['native']['samples']!r}"})

    def as_json(self):
        """A result as bench/results/README.md describes it."""
        return {"format": 1, "benchmark": "vcuda bench", "command": self.command, "machine": self.machine, "sides": self.sides, "cases": list(self.rows()), "skipped": self.skipped,
                "failed": self.failed}

    def as_markdown(self):
        lines = ["# vcuda bench", "", machine_line(self.machine), ""]
        for group in dict.fromkeys(group for group, _ in self.cases):
            lines += [f"## {group}", "", *table([row for row in self.rows() if row["group"] == group], self.sides), ""]
        lines += self.summary()
        lines += [f"* Failed: {entry['what']}, {entry['side']}: {entry['reason']}" for entry in self.failed]
        lines += [f"* Left out: {entry['what']}: {entry['reason']}" for entry in self.skipped]
        return "\n".join(lines).rstrip() + "\n"

    def summary(self):
        """One line a group: the geometric mean of its ratios."""
        ratios = {}
        for row in self.rows():
            if row["ratio"] and row["unit"] not in ("%", "MiB", "loss"):
                ratios.setdefault(row["group"], []).append(row["ratio"])
        if not ratios:
            return []
        lines = ["## Ratios", "", "Above 1 is better than native; the mean is the geometric one.", "",
                 "| group | cases | mean | lowest | highest |", "|---|---|---|---|---|"]
        for group, values in ratios.items():
            mean = math.exp(statistics.mean(map(math.log, values)))
            lines.append(f"| {group} | {len(values)} | {mean:.2f} | {min(values):.2f} | {max(values):.2f} |")
        return [*lines, ""]


class Unreadable(Exception):
    pass


def read(file):
    """The results that as_json() has made of others."""
    try:
        saved = json.loads(file.read_text())
        if saved["format"] != 1:
            raise Unreadable(f"{file} has the format {saved['format']}; this vcuda knows 1")
        results = Results(saved["machine"], saved["sides"], saved.get("command"))
        for case in saved["cases"]:
            for side in saved["sides"]:
                for value in case.get(side, {}).get("samples", []):
                    results.add(case["group"], side, {case["name"]: (float(value), case["unit"])})
        results.skipped, results.failed = saved["skipped"], saved["failed"]
        machine_line(results.machine)
    except OSError as why:
        raise Unreadable(f"{file}: {why.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unreadable(f"{file} has no results of `vcuda bench --json`") from None
    return results


def ratio(row):
    """None: one side is missing, or idle."""
    if "native" not in row or "virtual" not in row:
        return None
    native, virtual = row["native"]["median"], row["virtual"]["median"]
    if native <= 0 or virtual <= 0:
        return None
    return virtual / native if row["better"] == "more" else native / virtual


def ratio_range(row):
    """The lowest and the highest ratio of any two samples, one of each side."""
    native, virtual = row["native"], row["virtual"]
    if row["better"] == "more":
        return virtual["min"] / native["max"], virtual["max"] / native["min"]
    return native["min"] / virtual["max"], native["max"] / virtual["min"]


def number(value):
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def cell(entry):
    if not entry:
        return "–"
    spread = f" ({number(entry['min'])}–{number(entry['max'])})" if len(entry["samples"]) > 1 else ""
    return number(entry["median"]) + spread


def table(rows, sides):
    compared = len(sides) > 1
    titles = ["what", "unit", *sides, *(["ratio"] if compared else [])]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        cells = [row["name"], row["unit"], *(cell(row.get(side)) for side in sides)]
        if compared:
            cells.append(f"{row['ratio']:.2f}" if row["ratio"] else "–")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def machine_line(machine):
    known = {key: value for key, value in machine.items() if value is not None}
    parts = [known.get("gpu", "no device"), f"driver {known['driver']}" if "driver" in known else None,
             f"CUDA {known['cuda']}" if "cuda" in known else None,
             f"back end {known['backend']}" if "backend" in known else None,
             f"transport {known['transport']}" if "transport" in known else None,
             f"{known['cores']} cores, {known['cpu']}", f"{known['memory_gib']} GiB", f"Linux {known['kernel']}",
             f"virtio-cuda {known['version']}" + (f" ({known['commit']})" if "commit" in known else ""), known["date"]]
    return ", ".join(part for part in parts if part) + "."

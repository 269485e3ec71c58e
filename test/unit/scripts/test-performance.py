#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The generator of performance.md makes each kind of table and picture, and finds each kind of mistake: test-performance.py"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

GENERATOR = pathlib.Path(__file__).resolve().parents[3] / "bench/performance.py"
RESULT, TEMPLATE, PAGE = "bench/results/a.json", "bench/performance.md.in", "doc/reference/performance.md"
BARS, CURVES = "doc/images/performance-x.svg", "doc/images/performance-y.svg"

GOOD = {
    "format": 1, "benchmark": "a benchmark", "command": "bench --all",
    "machine": {"gpu": "Test GPU", "gpus": 2, "driver": "580.1", "cores": 4, "software": {"NCCL": "2.1"}, "commit": None, "date": "2026-05-04T03:02:01+00:00"},
    "sides": ["native", "virtual"], "about": {"native": "the driver"}, "note": "One run.", "skipped": [], "failed": [],
    "cases": [
        {"group": "launch", "name": "issue", "unit": "us", "better": "less", "native": {"samples": [6, 2, 4, 4]}, "virtual": {"median": 2, "min": 1, "max": 3},
         "ratio": 2},
        {"group": "launch", "name": "rate", "unit": "1/s", "native": {"median": 1234.5}, "virtual": {"median": 617.25}, "note": "a note"},
        {"group": "launch", "name": "span", "unit": "ms", "virtual": {"min": 0.25, "max": 0.5}, "ratio": None},
        {"group": "copy", "name": "h2d_4KiB", "unit": "us", "native": {"median": 2}, "virtual": {"median": 1}},
        {"group": "copy", "name": "h2d_1MiB", "unit": "GB/s", "native": {"median": 10}, "virtual": {"median": 15}},
        {"group": "copy", "name": "d2h_1MiB", "unit": "GB/s", "virtual": {"median": 15}},
    ],
}
PATTERN = r'"(?P<column>\w+)_(?P<row>.*)"'
GOOD_TEMPLATE = f"""# Page

{{{{run a.json}}}}

{{{{run a.json short}}}}

{{{{run a.json short sides=virtual}}}}

{{{{table a.json launch mean=mean}}}}

{{{{table a.json launch mean=mean shown=rate}}}}

{{{{table a.json * names=issue sides=virtual}}}}

{{{{grid a.json copy {PATTERN}}}}}

{{{{bars x a.json names=issue|rate|span title="A & B"}}}}
{{{{curves y a.json "(?P<line>h2d)_(?P<size>.*)" title=Copies}}}}
"""
GOOD_PAGE = """# Page

Measured by a benchmark: `bench --all`. Machine: 2 × Test GPU, driver 580.1, 4 processors, NCCL 2.1,
2026-05-04. Sides: *native* is the driver. One run. [Data](../../bench/results/a.json).

2 × Test GPU, 2026-05-04. Sides: *native* is the driver. One run.
[Data](../../bench/results/a.json).

2 × Test GPU, 2026-05-04. One run. [Data](../../bench/results/a.json).

| case | unit | native | virtual | ratio | note |
|---|---|---|---|---|---|
| issue | µs | 4 (2–6) | 2 (1–3) | 2.00 |  |
| rate | 1/s | 1234 | 617 | 0.50 | a note |
| span | ms | – | 0.25–0.5 | – |  |
| mean |  |  |  | 1.00 |  |

| case | unit | native | virtual | ratio | note |
|---|---|---|---|---|---|
| rate | 1/s | 1234 | 617 | 0.50 | a note |
| mean |  |  |  | 1.00 |  |

| case | unit | virtual |
|---|---|---|
| issue | µs | 2 (1–3) |

|  | h2d | d2h |
|---|---|---|
| 4KiB, µs | 2 / 1 (2.00) | – |
| 1MiB, GB/s | 10 / 15 (1.50) | – / 15 |

![A & B: 2 × Test GPU, driver 580.1, 2026-05-04](../images/performance-x.svg)
![Copies: 2 × Test GPU, driver 580.1, 2026-05-04](../images/performance-y.svg)
"""

# (the path of a member, its new value or REMOVED, the mistake)
REMOVED = object()
BAD_RESULTS = [
    (["format"], 2, "the format is 2, not 1"),
    (["benchmark"], REMOVED, "the file has no 'benchmark' of type str"),
    (["comand"], "x", "the file: 'comand' is not known"),
    (["machine", "date"], "yesterday", "the date of the machine is no date"),
    (["machine", "gpus"], True, "the machine: 'gpus' is no int"),
    (["sides"], ["native", "native"], "'sides' has no names, or one twice"),
    (["sides"], ["native", "ratio"], "a side has the name of a member of a case"),
    (["about", "other"], "x", "'about' names a side that is none of the sides"),
    (["cases"], [], "there are no cases"),
    (["cases", 0, "unit"], REMOVED, "case 1 has no 'unit' of type str"),
    (["cases", 0, "vitrual"], {"median": 1}, "case 1: 'vitrual' is not known"),
    (["cases", 0, "better"], "most", "case 1: 'better' is neither more nor less"),
    (["cases", 0, "ratio"], 3, "launch, issue: the ratio is 3, that of the medians 2.000"),
    (["cases", 0, "native", "max"], 7, "case 1, native: median, min or max are not those of the samples"),
    (["cases", 0, "native", "samples"], ["1"], "case 1, native has a figure that is no number"),
    (["cases", 0, "virtual", "min"], REMOVED, "case 1, virtual has neither samples nor a median nor a lowest and a highest figure"),
    (["cases", 0, "virtual", "median"], 4, "case 1, virtual: the figures are not in order"),
    (["cases", 0, "virtual", "mean"], 2, "case 1, virtual has other members than samples, median, min and max"),
    (["cases", 1, "name"], "issue", "launch, issue is there twice"),
    (["cases", 2, "virtual"], REMOVED, "case 3 has no side"),
]
BAD_TEMPLATES = [
    ("{{run b.json}}", "there is no result b.json"),
    ("{{run a.json sides=third}}", "a.json has no side 'third'"),
    ("{{run a.json long}}", "'long' is no form of a run"),
    ("{{table a.json launch shown=h2d_4KiB}}", "a.json has no such case"),
    ("{{chart a.json}}", "there is no 'chart'"),
    ("{{table a.json none}}", "a.json has no such case"),
    ("{{table a.json launch sides=third}}", "a.json has no side 'third'"),
    ("{{table a.json}}", "table()"),
    ("{{grid a.json copy (}}", "missing )"),
    ("{{grid a.json copy .*}}", "no such group"),
    ("{{bars x b.json names=issue title=x}}", "there is no result b.json"),
    ("{{bars x a.json names=span title=x}}", "a.json has no such case with two medians"),
    ("{{bars x a.json names=issue}}", "bars()"),
    ("{{curves y a.json h2d_.* title=x}}", "no such group"),
]


def generate(root, *options):
    r = subprocess.run([sys.executable, GENERATOR, "--root", root, *options], capture_output=True, text=True, check=False)
    assert not r.stderr, r.stderr
    return r.returncode, r.stdout


def write(root, name, text):
    path = pathlib.Path(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def changed(path, value):
    result = copy.deepcopy(GOOD)
    place = result
    for step in path[:-1]:
        place = place[step]
    if value is REMOVED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(result)


def refused(root, name, text, expected):
    """The file with that text is refused."""
    good = pathlib.Path(root, name).read_text(encoding="utf-8")
    write(root, name, text)
    status, out = generate(root, "--check")
    assert status == 1 and expected in out and out.startswith(name), f"{text}\n{status} {out}\nexpected: {expected}"
    write(root, name, good)


def pictures(root):
    """The pictures have the names, the ratios, the medians and the spread. A changed, a missing and a left one are found."""
    def words(name):
        svg = xml.etree.ElementTree.parse(pathlib.Path(root, name))
        return [element.text for element in svg.iter() if element.tag.endswith("text")]

    shown = words(BARS)
    assert {"A & B", "2 × Test GPU, driver 580.1, 2026-05-04", "issue", "2.00", "4 → 2 µs", "0.50", "1234 → 617 1/s"} <= set(shown), shown
    assert "span" not in shown and any("Thin lines" in text for text in shown), shown
    shown = words(CURVES)
    assert {"h2d", "4KiB", "1MiB"} <= set(shown) and any("not recorded" in text for text in shown), shown
    good = pathlib.Path(root, BARS).read_text(encoding="utf-8")
    for text in (good.replace("2.00", "2.01"), ""):
        write(root, BARS, text)
        status, out = generate(root, "--check")
        assert status == 1 and out.startswith(f"{BARS} is not what"), out
    pathlib.Path(root, BARS).unlink()
    assert generate(root, "--check")[0] == 1
    assert generate(root) == (0, "") and pathlib.Path(root, BARS).read_text(encoding="utf-8") == good
    write(root, "doc/images/performance-z.svg", good)
    assert generate(root, "--check") == (1, "doc/images/performance-z.svg is on no page: remove it\n")
    pathlib.Path(root, "doc/images/performance-z.svg").unlink()


def main():
    with tempfile.TemporaryDirectory() as root:
        write(root, RESULT, json.dumps(GOOD))
        write(root, TEMPLATE, GOOD_TEMPLATE)
        write(root, PAGE, "")
        assert generate(root, "--check")[0] == 1
        assert generate(root) == (0, "")
        page = pathlib.Path(root, PAGE).read_text(encoding="utf-8")
        assert page == GOOD_PAGE, page
        assert generate(root, "--check") == (0, "")
        pictures(root)
        write(root, PAGE, page.replace("617", "618"))
        status, out = generate(root, "--check")
        assert status == 1 and "is not what bench/performance.py writes" in out and "618" in out, out
        write(root, PAGE, page)
        write(root, RESULT, changed(*BAD_RESULTS[0][:2]))
        status, out = generate(root)
        assert status == 1 and BAD_RESULTS[0][2] in out and pathlib.Path(root, PAGE).read_text(encoding="utf-8") == page, out
        write(root, RESULT, json.dumps(GOOD))
        for path, value, expected in BAD_RESULTS:
            refused(root, RESULT, changed(path, value), expected)
        refused(root, RESULT, "{", "Expecting property name")
        three = json.loads(json.dumps(GOOD)) | {"sides": ["native", "other", "virtual"]}
        refused(root, RESULT, json.dumps(three), "launch, issue has a ratio, and there are not two sides")
        for line, expected in BAD_TEMPLATES:
            refused(root, TEMPLATE, GOOD_TEMPLATE + line + "\n", expected)
        write(root, "bench/results/b.json", json.dumps(GOOD))
        status, out = generate(root, "--check")
        assert status == 1 and out == f"bench/results/b.json is not named in {TEMPLATE}: name or remove it\n", out
        pathlib.Path(root, "bench/results/b.json").unlink()
        assert generate(root, "--check") == (0, "")
    print("ok")


main()

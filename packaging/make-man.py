#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a manual page from the help text of a command.

make-man.py OUTPUT NAME SECTION VERSION COMMAND...

NAME may be several names with commas between them. The help text begins with "usage: ", and an empty line ends the
usage. A line that is indented by two spaces begins an item: a term, then two spaces and the item's text, or the text
in deeper lines. Other lines are paragraphs, a line that ends with a colon before an item is a heading.
"""
import re
import subprocess
import sys
import textwrap

ITEM = re.compile(r"  (\S.*)$")
TERM = re.compile(r"(.*?\S)(?:  +(\S.*)|$)")


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def help_text(command):
    r = subprocess.run(command, capture_output=True, text=True, check=False)
    if r.returncode or not r.stdout.lower().startswith("usage: "):
        sys.exit(f"make-man.py: {' '.join(command)}: status {r.returncode}, and no help text\n{r.stdout}{r.stderr}")
    usage, _, body = r.stdout.partition("\n\n")
    return usage, body


def usage_lines(usage):
    """One line for each form of the command."""
    lines = []
    for line in usage[len("usage: "):].splitlines():
        indented = line.startswith(" " * 8)
        if lines and indented:
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.strip())
    return lines


def blocks(body):
    """("item", term, text), ("heading", text) and ("text", text), in order."""
    lines, found, at = body.splitlines(), [], 0
    while at < len(lines):
        line, at = lines[at], at + 1
        if not line.strip():
            continue
        if not ITEM.match(line):
            paragraph = [line.strip()]
            while at < len(lines) and lines[at].strip() and not ITEM.match(lines[at]):
                paragraph.append(lines[at].strip())
                at += 1
            heading = len(paragraph) == 1 and line.endswith(":") and " " not in line
            found.append(("heading", line[:-1]) if heading else ("text", " ".join(paragraph)))
            continue
        deeper = []
        while at < len(lines) and lines[at].startswith("   "):
            deeper.append(lines[at].strip())
            at += 1
        term, text = TERM.match(line.strip()).groups()
        found.append(("item", term, " ".join(filter(None, [text, *deeper]))))
    return found


def summary(found):
    """The first sentence, as the line that apropos finds."""
    first = next(block[1] for block in found if block[0] == "text")
    sentence = re.split(r"[.:] ", first)[0].rstrip(".:")
    return sentence[0].lower() + sentence[1:]


def write_page(names, section, version, usage, body):
    found = blocks(body)
    page = [f'.TH {names[0].upper()} {section} "" "virtio-cuda {version}"', ".SH NAME",
            escape(", ".join(names)) + " \\- " + escape(summary(found)), ".SH SYNOPSIS", ".nf"]
    page += [escape(line) for line in usage_lines(usage)] + [".fi", ".SH DESCRIPTION"]
    for kind, *words in found:
        if kind == "heading":
            page += [".SH " + words[0].upper()]
        elif kind == "text":
            page += [".PP", *map(escape, textwrap.wrap(words[0], 100))]
        else:
            page += [".TP", ".B " + escape(words[0]), *map(escape, textwrap.wrap(words[1], 100))]
    others = [other for other in ("vcuda (1)", "vcudad (8)") if other.split()[0] != names[0]]
    page += [".SH SEE ALSO", *(".BR " + other + "," * (other != others[-1]) for other in others)]
    return "\n".join(page) + "\n"


def main():
    output, names, section, version, *command = sys.argv[1:]
    usage, body = help_text(command)
    with open(output, "w", encoding="utf-8") as f:
        f.write(write_page(names.split(","), section, version, usage, body))


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Comments and documents are in plain technical English.

usage: check-language.py [--counts | --sample SEED] [--root DIRECTORY] [PATH...]      (the test "language")

Reads the comments of C, Python, shell and Meson files and the text of Markdown files: below DIRECTORY (default: this
tree), or the PATHs alone. Each violation has one line "FILE:LINE: RULE: TEXT". --counts prints the number of violations
and of comments for each folder. --sample prints 20 comments and 20 paragraphs of at least six words, drawn at random by
the seed, to be read by a person: the rules find a part of the faults only.

The rules, whose reasons are in CONTRIBUTING.md: * headless: no sentence begins with `What`, `Who`, `Whose`, `Whoever`,
`Whatever`, `Of`, `Nobody` or `Somebody`. A question may. * pronoun: no comment begins with It, They, Its, Their,
Theirs, Those or That: the first word names its object. * word: no `lies`, `stands`, `nobody`, `somebody`, `whoever`,
`to be had`. * width: Markdown has at most 100 columns, but for tables, code and links. * long: no sentence of a page in
doc/design has more than 40 words. * link: a relative link of Markdown leads to a file that is there, and to a heading
in it. * head: a C header begins with a comment about the whole of it, behind the SPDX line.
"""
import argparse
import collections
import io
import os
import pathlib
import random
import re
import sys
import tokenize

HEADLESS = re.compile(r"(?:What|Who|Whose|Whoever|Whatever|Of|Nobody|Somebody)\b")
PRONOUN = re.compile(r"(?:It|They|Its|Their|Theirs|Those|That)\b")
WORD = re.compile(r"\b(?:lies|stands|nobody|somebody|whoever|to be had)\b", re.I)
SENTENCE = re.compile(r"(?<=[.!?:;])\s+")
C_TOKEN = re.compile(r'/\*(.*?)\*/|//([^\n]*)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEAD = re.compile(r"(?:/\* SPDX-[^\n]*\n)?\s*(?!/\* SPDX-)(?:/\*|//)")
SKIPPED = re.compile(r"build.*|dist|\..*|__pycache__|LICENSES")
MOST_COLUMNS, MOST_WORDS = 100, 40
SAMPLE = 20

Text = collections.namedtuple("Text", "line text comment")


def c_comments(source):
    for m in C_TOKEN.finditer(source):
        body = m.group(1) if m.group(1) is not None else m.group(2)
        if body is not None:
            yield Text(source.count("\n", 0, m.start()) + 1, re.sub(r"(?m)^[ \t]*\*(?= |$)", "", body), True)


def python_comments(source):
    """Comments, joined where they are on lines of their own; and docstrings."""
    line, lines = 0, []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if lines and token.start[0] == line + len(lines) and token.line.strip().startswith("#"):
                lines.append(token.string.lstrip("# "))
                continue
            yield from [Text(line, "\n".join(lines), True)] * bool(lines)
            line, lines = token.start[0], [token.string.lstrip("# ")]
        elif token.type == tokenize.STRING and token.string.startswith('"""') and token.line.strip().startswith('"""'):
            yield Text(token.start[0], token.string[3:-3], True)
    yield from [Text(line, "\n".join(lines), True)] * bool(lines)


def hash_comments(source):
    line, lines = 0, []
    for number, text in enumerate(source.split("\n"), 1):
        m = re.match(r"\s*#(?!!)\s?(.*)", text)
        if m:
            line = line if lines else number
            lines.append(m.group(1))
        elif lines:
            yield Text(line, "\n".join(lines), True)
            lines = []


def markdown_paragraphs(source):
    line, lines, code = 0, [], False
    for number, text in enumerate([*source.split("\n"), ""], 1):
        code ^= text.lstrip().startswith("```")
        plain = not code and not text.startswith(("    ", "|", "#", "```")) and text.strip()
        if lines and (not plain or re.match(r"\s*([*-]|\d+\.) ", text)):
            yield Text(line, "\n".join(lines), False)
            lines = []
        if plain:
            line = line if lines else number
            lines.append(re.sub(r"^\s*([*-]|\d+\.) ", "", text))


READERS = {".c": c_comments, ".h": c_comments, ".S": c_comments, ".cu": c_comments, ".cpp": c_comments, ".py": python_comments,
           ".sh": hash_comments, ".build": hash_comments, ".md": markdown_paragraphs}


def sentences(text):
    """(offset of its line, sentence); names between backquotes are no words."""
    plain = re.sub(r"`[^`]*`", lambda m: "`" + "\n" * m.group().count("\n"), text)
    at = 0
    for part in SENTENCE.split(plain):
        start = plain.index(part, at)
        at = start + len(part)
        yield plain.count("\n", 0, start), " ".join(part.split())


def rules_of_text(path, t):
    for i, (offset, sentence) in enumerate(sentences(t.text)):
        if sentence.startswith("SPDX-"):
            continue
        if HEADLESS.match(sentence) and not sentence.endswith("?"):
            yield t.line + offset, "headless", sentence
        elif t.comment and not i and PRONOUN.match(sentence):
            yield t.line + offset, "pronoun", sentence
        elif WORD.search(sentence):
            yield t.line + offset, "word", sentence
        if not t.comment and path.startswith("doc/design/") and len(sentence.split()) > MOST_WORDS:
            yield t.line + offset, "long", sentence


def rules_of_header(source):
    if not HEAD.match(source):
        yield 1, "head", "a comment below the SPDX line says what this header is for"


def anchors(markdown):
    for heading in re.findall(r"(?m)^#+ (.*)$", markdown):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def rules_of_markdown(root, path, source):
    code = False
    for number, line in enumerate(source.split("\n"), 1):
        code ^= line.startswith("```")
        if code or line.startswith("    "):
            continue
        if len(line) > MOST_COLUMNS and not line.startswith("|") and "http" not in line and "](" not in line:
            yield number, "width", line
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, anchor = target.partition("#")
            file = root / path if not name else (root / path).parent / name
            if not file.exists():
                yield number, "link", target
            elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
                yield number, "link", target


def check(root, path):
    """(violations, number of comments) of one file."""
    source = (root / path).read_text(encoding="utf-8", errors="replace")
    texts = list(READERS[pathlib.Path(path).suffix](source))
    found = [v for t in texts for v in rules_of_text(path, t)]
    if path.endswith(".md"):
        found += rules_of_markdown(root, path, source)
    if path.endswith(".h"):
        found += rules_of_header(source)
    return sorted(found), sum(t.comment for t in texts)


def files(root):
    for directory, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not SKIPPED.fullmatch(name))
        for name in sorted(names):
            if pathlib.Path(name).suffix in READERS:
                yield (pathlib.Path(directory) / name).relative_to(root).as_posix()


def print_counts(root):
    counts = collections.Counter()
    for path in files(root):
        found, comments = check(root, path)
        folder = os.path.dirname(path) or path
        counts[folder, "violations"] += len(found)
        counts[folder, "comments"] += comments
    for folder in sorted({folder for folder, _ in counts}):
        print(f"{counts[folder, 'violations']:5} {counts[folder, 'comments']:5} {folder}")
    print(f"{sum(n for (_, kind), n in counts.items() if kind == 'violations')} violations, "
          f"{sum(n for (_, kind), n in counts.items() if kind == 'comments')} comments")


def print_sample(root, seed):
    texts = []
    for path in files(root):
        source = (root / path).read_text(encoding="utf-8", errors="replace")
        texts += [(path, t.line, t.comment, " ".join(t.text.split())) for t in READERS[pathlib.Path(path).suffix](source)]
    generator = random.Random(seed)
    for comment in (True, False):
        drawn = [t for t in texts if t[2] == comment and len(t[3].split()) >= 6 and not t[3].startswith("SPDX-")]
        for path, line, _, text in generator.sample(drawn, min(SAMPLE, len(drawn))):
            print(f"{path}:{line}: {text}")


def main():
    parser = argparse.ArgumentParser(usage="check-language.py [--counts | --sample SEED] [--root DIRECTORY] [PATH...]")
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--sample", type=int, metavar="SEED")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("paths", nargs="*")
    given = parser.parse_args()
    if given.counts:
        print_counts(given.root)
        return 0
    if given.sample is not None:
        print_sample(given.root, given.sample)
        return 0
    bad = 0
    for path in files(given.root):
        if given.paths and not any(path == p or path.startswith(p.rstrip("/") + "/") for p in given.paths):
            continue
        for line, rule, text in check(given.root, path)[0]:
            print(f"{path}:{line}: {rule}: {text[:100]}")
            bad += 1
    if bad:
        print(f"{bad} violations; CONTRIBUTING.md, \"Language\", has the rules with examples")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

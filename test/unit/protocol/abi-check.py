#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare protocol/cuda-abi.h, cuda-runtime-abi.h and cublaslt-abi.h with the headers of an installed CUDA toolkit.

One C program is made per header; it prints every macro, enumerator, size, offset and signedness that our header states.
It is built once with our header and once with the toolkit's, and the two outputs must be equal.
Exit status: 0 equal, 1 different, 77 no toolkit of the same version.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROTOCOL = os.path.normpath(os.path.join(HERE, "..", "..", "..", "protocol"))
# our header, the toolkit's header, the macro that both must agree on before anything else is compared
HEADERS = (
    ("cuda-abi.h", "cuda.h", "CUDA_VERSION"),
    ("cuda-runtime-abi.h", "cuda_runtime_api.h", "CUDART_VERSION"),
    # of the same toolkit, or of none: it is a package of its own
    ("cublaslt-abi.h", "cublasLt.h", None),
)
SKIP = 77


def toolkit_include():
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    for root in filter(None, roots):
        include = os.path.join(root, "include")
        if all(os.path.exists(os.path.join(include, theirs)) for _, theirs, macro in HEADERS if macro):
            return include
    return None


def version_of(include, macro):
    for name in ("cuda.h", "cuda_runtime_api.h"):
        with open(os.path.join(include, name), encoding="utf-8", errors="replace") as f:
            found = re.search(r"^#define\s+%s\s+(\d+)" % macro, f.read(), re.M)
        if found:
            return int(found.group(1))
    return None


class Reader:
    """Turns the declarations of one of our headers into a list of (label, C expression) pairs."""

    def __init__(self, text):
        self.checks = []
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        self.macros(text)
        text = re.sub(r"^#.*$", "", text, flags=re.M)
        self.tokens = re.findall(r"\w+|[^\w\s]", text)
        self.at = 0
        while self.at < len(self.tokens):
            self.declaration()

    def add(self, label, expression):
        self.checks.append((label, expression))

    def macros(self, text):
        for name, value in re.findall(r"^#define[ \t]+(\w+)(?!\()[ \t]+(\S.*)$", text, re.M):
            if "sizeof" not in value:
                self.add(name, "(long long)(%s)" % name)

    def next(self):
        token = self.tokens[self.at]
        self.at += 1
        return token

    def statement(self):
        """Takes the tokens up to the next ';' or '{', which it also takes and returns."""
        taken = []
        while True:
            token = self.next()
            if token in ";{":
                return taken, token
            taken.append(token)

    def declaration(self):
        words, end = self.statement()
        if end == ";":
            if words and words[0] == "typedef":
                self.scalar(words)
            return
        kind = [w for w in words if w in ("struct", "union", "enum")][0]
        tag = words[words.index(kind) + 1] if words[-1] != kind else None
        if kind == "enum":
            self.enumerators()
            members = []
        else:
            members = self.members()
        tail, _ = self.statement()
        name = tail[-1] if words[0] == "typedef" else "%s %s" % (kind, tag)
        self.add("sizeof(%s)" % name, "(long long)sizeof(%s)" % name)
        for path in members:
            self.add("offsetof(%s, %s)" % (name, path), "(long long)offsetof(%s, %s)" % (name, path))
            self.add("sizeof(%s, %s)" % (name, path), "(long long)sizeof(((%s *)0)->%s)" % (name, path))

    def scalar(self, words):
        text = " ".join(words)
        pointer = re.search(r"\( \* (\w+) \)", text)
        name = pointer.group(1) if pointer else words[-1]
        self.add("sizeof(%s)" % name, "(long long)sizeof(%s)" % name)
        if words[1] not in ("struct", "union") and "(" not in words and not name.isupper() and self.is_integer(words):
            self.add("signed(%s)" % name, "(long long)((%s)-1 < (%s)1)" % (name, name))

    @staticmethod
    def is_integer(words):
        base = {"int", "unsigned", "long", "short", "char", "uint32_t", "uint64_t", "enum"}
        return "*" not in words and words[1] in base

    def enumerators(self):
        depth, start = 0, True
        while True:
            token = self.next()
            if token == "}":
                return
            if start and re.match(r"[A-Za-z_]", token):
                self.add(token, "(long long)(%s)" % token)
                start = False
            depth += (token == "(") - (token == ")")
            if token == "," and depth == 0:
                start = True

    def members(self):
        """The member paths of a struct or union whose '{' was just taken; nested ones carry their parents' names."""
        paths = []
        while self.tokens[self.at] != "}":
            words, end = self.statement()
            if end == "{":
                inner = self.members()
                tail, _ = self.statement()
                if tail:
                    paths.append(tail[0])
                    if "[" not in tail:
                        inner = ["%s.%s" % (tail[0], path) for path in inner]
                    else:
                        inner = ["%s[0].%s" % (tail[0], path) for path in inner]
                paths += inner
                continue
            pointer = re.search(r"\( \* (\w+) \)", " ".join(words))
            name = pointer.group(1) if pointer else re.split(r" [\[:]", " ".join(words))[0].split()[-1]
            paths.append(name)
        self.next()
        return paths


def program(header, checks):
    lines = ["#include <stddef.h>", "#include <stdio.h>", '#include "%s"' % header]
    lines.append("static const struct { const char *label; long long value; } checks[] = {")
    lines += ['\t{"%s", %s},' % check for check in checks]
    lines += ["};", "int main(void)", "{", "\tfor (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)"]
    lines += ['\t\tprintf("%s = %lld\\n", checks[i].label, checks[i].value);', "\treturn 0;", "}", ""]
    return "\n".join(lines)


def compile_and_run(compiler, folder, include, header, checks):
    """The program's output lines, or None and the compiler's complaint."""
    source, binary = os.path.join(folder, "check.c"), os.path.join(folder, "check")
    with open(source, "w", encoding="ascii") as f:
        f.write(program(header, checks))
    command = [compiler, "-std=gnu17", "-w", "-fmax-errors=0", "-I", include, "-o", binary, source]
    if "clang" in os.path.basename(compiler):
        command[3] = "-ferror-limit=0"
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode:
        return None, [line for line in built.stderr.splitlines() if "error:" in line]
    return subprocess.run([binary], capture_output=True, text=True, check=True).stdout.splitlines(), []


def compare(compiler, include, ours, theirs):
    with open(os.path.join(PROTOCOL, ours), encoding="ascii") as f:
        checks = Reader(f.read()).checks
    checks = [check for check in checks if not check[0].startswith("VCUDA_")]
    with tempfile.TemporaryDirectory() as folder:
        mine, errors = compile_and_run(compiler, folder, PROTOCOL, ours, checks)
        if mine is None:
            sys.exit("abi-check: %s does not build:\n%s" % (ours, "\n".join(errors)))
        other, errors = compile_and_run(compiler, folder, include, theirs, checks)
    if other is None:
        print("abi-check: %s names what %s does not have:" % (ours, theirs))
        print("\n".join("  " + error.split("error: ", 1)[1] for error in errors))
        return len(errors)
    wrong = [pair for pair in zip(mine, other) if pair[0] != pair[1]]
    for a, b in wrong:
        print("abi-check: %s: ours %s, the toolkit's %s" % (ours, a, b.rsplit(" ", 1)[1]))
    print("abi-check: %s: %d compared, %d different" % (ours, len(mine), len(wrong)))
    return len(wrong)


def main():
    include = toolkit_include()
    if not include:
        print("abi-check: skipped: no CUDA toolkit found; set CUDA_HOME to one to compare our headers with it")
        return SKIP
    compiler = os.environ.get("CC", "cc").split()[0]
    if not shutil.which(compiler):
        print("abi-check: skipped: no C compiler named %s" % compiler)
        return SKIP
    different = 0
    for ours, theirs, macro in HEADERS:
        if not macro:
            if os.path.exists(os.path.join(include, theirs)):
                different += compare(compiler, include, ours, theirs)
            continue
        with open(os.path.join(PROTOCOL, ours), encoding="ascii") as f:
            expected = int(re.search(r"^#define %s (\d+)" % macro, f.read(), re.M).group(1))
        found = version_of(include, macro)
        if found != expected:
            print("abi-check: skipped: the toolkit's %s is %s, our headers state %d" % (macro, found, expected))
            return SKIP
        different += compare(compiler, include, ours, theirs)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

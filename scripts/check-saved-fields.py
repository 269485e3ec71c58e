#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds arguments that travel through a field: a function sets the field, calls others and sets the field back.

usage: check-saved-fields.py [ROOT]

The check reads all product code below the project's root, and knows these forms:
* x = p->field; ... p->field = other; ... call(); ... p->field = x;
* The same field of the calling thread's structure, or a _Thread_local variable, is set before a call and cleared after
  it: libcuda_thread()->field = true; call(); libcuda_thread()->field = false;
* A function does nothing but set such a field, and another one of the program does nothing but clear it. Each function
  that calls one of the two is reported.

An argument does the same, and a function that returns early cannot leave it behind.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRODUCT = ["common", "protocol", "ring", "random", "guest", "host", "softgpu", "cli", "bench"]
# Fields that no argument replaces, with the reason.
STATE = {
    "libcuda_thread()->in_callback": "the program's function runs in between, and cu* functions have no such parameter",
    "l->at.": "struct lower_place says where code is emitted, as the insertion point of LLVM's builder does",
}

COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
FUNCTION = re.compile(r"^\w[^;{}#]*?\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", re.M | re.S)
VALUE = r"[A-Za-z_]\w*(?:\(\))?(?:\s*(?:->|\.)\s*\w+|\[[^\]\n]*\])*"
ASSIGNMENT = re.compile(rf"(?<![\w.>])(\.?{VALUE})\s*=(?!=)\s*([^;,{{}}]+)[;,}}]")
THREAD_LOCAL = re.compile(r"^(?:static |extern )*_Thread_local\b[^;={]*?(\w+)(?:\s*=[^;]*)?;", re.M)
CALL = re.compile(r"\b(\w+)\s*\(")
NO_CALLS = {"if", "while", "for", "switch", "return", "sizeof", "libcuda_thread", "assert", "offsetof", "_Static_assert"}
EMPTY = {"NULL", "false", "0"}

Assignment = collections.namedtuple("Assignment", "at target value")


def blank(match):
    """A comment or a string without its text, on as many lines."""
    return re.sub(r"[^\n]", " ", match[0])


class Function:
    def __init__(self, program, path, text, match):
        self.program, self.path, self.text, self.start = program, path, text, match.start(2)
        self.name, self.body = match[1], match[2]
        # A variable that points to the thread's structure is another name of that.
        self.threads = re.findall(r"(\w+) = libcuda_thread\(\)[;,]", self.body)
        self.calls = [(m.start(), m[1]) for m in CALL.finditer(self.body) if m[1] not in NO_CALLS]
        self.assignments = [Assignment(m.start(), self.plain(m[1]), self.plain(m[2])) for m in ASSIGNMENT.finditer(self.body)]

    def plain(self, text):
        text = re.sub(r"\s+", "", text).lstrip("*")
        for name in self.threads:
            text = re.sub(rf"\b{name}->", "libcuda_thread()->", text)
        return text

    def line(self, at):
        return self.text.count("\n", 0, self.start + at) + 1

    def called_between(self, start, end):
        return any(start < at < end for at, _ in self.calls)


def functions(root):
    """All functions, each with the _Thread_local variables of its file. A program is a folder two levels deep."""
    for folder in PRODUCT:
        for path in sorted((root / folder).rglob("*.[ch]")):
            name = path.relative_to(root)
            text = COMMENT.sub(blank, path.read_text(encoding="utf-8"))
            local = THREAD_LOCAL.findall(text)
            for match in FUNCTION.finditer(text):
                yield Function(name.parts[:2], name, text, match), local


def of_thread(target, local):
    """A field of the thread's structure, or of a _Thread_local variable."""
    return target.startswith("libcuda_thread()->") or re.split(r"->|\.|\[", target)[0] in local


def is_state(target):
    return target.startswith(tuple(STATE))


def is_put_back(function, local, last):
    """Whether an assignment puts back a field that the function has set before a call."""
    before = [a for a in function.assignments if a.at < last.at]
    saves = [a.at for a in before if (a.target, a.value) == (last.value, last.target)]
    clears = of_thread(last.target, local) and last.value in EMPTY
    for first in before:
        if first.target == last.target and function.called_between(first.at, last.at):
            if any(at < first.at for at in saves) or clears and first.value not in EMPTY:
                return True
    return False


def put_back(function, local):
    for last in function.assignments:
        if (re.search(r"->|\.", last.target) or last.target in local) and not is_state(last.target) and is_put_back(function, local, last):
            yield function, last.at, f"sets {last.target} and puts it back after a call"


def setter(function, local):
    """The assignment to a field of the thread, of a function that does nothing else."""
    if len(function.assignments) == 1 and function.body.count(";") == 1 and of_thread(function.assignments[0].target, local):
        return function.assignments[0]
    return None


def paired_setters(everything):
    """{(program, function): field} of the functions that set or clear a field, where the program has both."""
    setters = collections.defaultdict(dict)  # {(program, field): {function: whether it clears the field}}
    for function, local in everything:
        only = setter(function, local)
        if only and not is_state(only.target):
            setters[function.program, only.target][function.name] = only.value in EMPTY
    return {(program, name): target for (program, target), names in setters.items() if len(set(names.values())) == 2 for name in names}


def setter_calls(function, pairs):
    """The first one of a function."""
    for at, name in function.calls:
        if (function.program, name) in pairs and (function.program, function.name) not in pairs:
            return [(function, at, f"calls {name}(), which sets {pairs[function.program, name]} for later calls")]
    return []


def main(argv):
    everything = list(functions(pathlib.Path(argv[0]).resolve() if argv else ROOT))
    pairs = paired_setters(everything)
    found = [place for function, local in everything for place in [*put_back(function, local), *setter_calls(function, pairs)]]
    for function, at, text in found:
        print(f"{function.path}:{function.line(at)}: {function.name}() {text}: pass an argument instead")
    print(f"{len(everything)} functions, {len(found)} fields that are set and put back")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes sass-forms.h and sass-forms.c of the table of forms: sass-forms.py TABLE HEADER SOURCE

The header has enum sass_op, enum sass_field and the list of lifting functions. The source has the forms, and the number
of each 12-bit opcode's form.
"""
import re
import sys

CONTROL = ((1 << 128) - 1) & ~((1 << 105) - 1)
GUARD, OPCODE = 0xf << 12, 0xfff
ALU_FORMS = range(1, 8)


def bits(low, width):
    return ((1 << width) - 1) << low


class Form:
    def __init__(self, line, text):
        try:
            self.name, self.function, self.kind, opcode, sources, *fields = text.split()
            self.opcode = int(opcode, 16)
            self.sources = {} if sources == "." else {m[0]: m[1] for m in re.findall(r"([dabc])([-|h]*)", sources)}
            self.fields = [self.field(word) for word in fields]
        except ValueError as e:
            sys.exit(f"line {line}: {e}")
        self.line = line
        if self.kind not in ("alu", "ualu", "op"):
            sys.exit(f"line {line}: `{self.kind}` is no kind")

    @staticmethod
    def field(word):
        m = re.fullmatch(r"(-|[a-z]\w*)(?:=(\d+))?@(\d+)(?::(\d+)(s?))?", word)
        if not m:
            raise ValueError(f"`{word}` is no field")
        name, value, low, width, signed = m.groups()
        return name, int(low), int(width or 1), bool(signed), int(value) if value else None

    def opcodes(self):
        return [self.opcode] if self.kind == "op" else [self.opcode | form << 9 for form in ALU_FORMS]

    def sources_known(self, opcode):
        known = 0
        for source, low in zip("dabc", (16, 24, 32, 64)):
            if source in self.sources and self.kind == "op":
                known |= bits(low, 8)
        if self.kind == "op":
            return known
        known |= bits(16, 8) | bits(24, 8) | bits(64, 8)
        form = opcode >> 9
        known |= {1: bits(32, 8), 6: bits(32, 8), 7: bits(32, 8), 2: bits(32, 32), 4: bits(32, 32), 3: bits(32, 27), 5: bits(32, 27)}[form]
        if form in (3, 5, 6, 7) or self.kind == "ualu":
            known |= bits(91, 1)
        second = form in (2, 3, 7)
        slots = {"a": (72, 73, 74)}
        half = any("h" in flags for flags in self.sources.values())
        far = (84, 83, 81) if half else (75, 74, 0)
        slots["c" if second else "b"] = (63, 62, 60)
        slots["b" if second else "c"] = far
        # A source alone is wherever the form has something else than a register.
        if ("b" in self.sources) != ("c" in self.sources):
            only = "b" if "b" in self.sources else "c"
            if form != 1:
                slots[only] = (63, 62, 60)
            elif only == "c":
                known |= bits(32, 32)
        for source, flags in self.sources.items():
            if source == "d":
                continue
            negate, absolute, part = slots[source]
            immediate = negate == 63 and form in (2, 4)
            if not immediate:
                known |= bits(negate, 1) * ("-" in flags) | bits(absolute, 1) * ("|" in flags) | bits(part, 2) * ("h" in flags)
        return known

    def known(self, opcode):
        known = CONTROL | GUARD | OPCODE | self.sources_known(opcode)
        for _, low, width, _, _ in self.fields:
            known |= bits(low, width)
        return known


def read(path):
    forms = []
    with open(path, encoding="utf-8") as file:
        for line, text in enumerate(file, 1):
            text = text.split("#")[0]
            if text.strip():
                forms.append(Form(line, text))
    return forms


def header(forms):
    names = list(dict.fromkeys(field[0] for form in forms for field in form.fields if field[0] != "-"))
    functions = list(dict.fromkeys(form.function for form in forms))
    out = ["/* Made by sass-forms.py of sass-forms.table. */", "enum sass_field {"]
    out += [f"\tSASS_F_{name.upper()}," for name in names]
    out += ["\tSASS_FIELDS", "};", "", "/* Each field's name. */", "#define SASS_FIELD_NAMES(X) \\"]
    out += [f"\tX({name}) \\" for name in names]
    out += ["", "/* Each lifting function. */", "#define SASS_FUNCTIONS(X) \\"]
    out += [f"\tX({name}) \\" for name in functions]
    out += ["", "enum sass_function_id {"]
    out += [f"\tSASS_LIFT_{name.upper()}," for name in functions]
    return out + ["};", ""]


def c_flags(flags):
    return " | ".join(["SASS_HAS"] + [name for flag, name in (("-", "SASS_NEGATE"), ("|", "SASS_ABSOLUTE"), ("h", "SASS_HALF")) if flag in flags])


def source(forms):
    out = ['/* Made by sass-forms.py of sass-forms.table. */', '#include "sass/lift/decode.h"', "", "static const struct sass_form_field fields[] = {"]
    starts, count = [], 0
    for form in forms:
        starts.append(count)
        for name, low, width, signed, value in form.fields:
            if name != "-":
                out.append(f"\t{{SASS_F_{name.upper()}, {low}, {width}, {int(signed)}, {-1 if value is None else value}}},")
                count += 1
    out += ["};", "", "const struct sass_form sass_forms[] = {", "\t{0},"]
    numbers, number = {}, 0
    for form, start in zip(forms, starts):
        for opcode in form.opcodes():
            number += 1
            if opcode in numbers:
                sys.exit(f"line {form.line}: opcode {opcode:03x} is there twice")
            numbers[opcode] = number
            known = form.known(opcode)
            named = sum(field[0] != "-" for field in form.fields)
            sources = ", ".join(c_flags(form.sources[s]) if s in form.sources else "0" for s in "dabc")
            out.append(f'\t{{"{form.name}", SASS_LIFT_{form.function.upper()}, SASS_{form.kind.upper()}, {{{sources}}}, '
                       f"{{{known & (1 << 64) - 1:#x}, {known >> 64:#x}}}, fields + {start}, {named}}},")
    out += ["};", "", "const uint16_t sass_form_of[4096] = {"]
    out += [f"\t[{opcode:#05x}] = {n}," for opcode, n in sorted(numbers.items())]
    return out + ["};", ""]


def main():
    table, to_header, to_source = sys.argv[1:]
    forms = read(table)
    for path, lines in ((to_header, header(forms)), (to_source, source(forms))):
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))


if __name__ == "__main__":
    main()

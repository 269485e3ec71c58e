#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the description of BLAS (blas.api, where its language is explained) into code.

blas.py OUTPUT_KIND DESCRIPTION   writes one generated file to standard output. Kinds: see EMITTERS at the end.
A mistake in the description ends with «FILE:LINE: what is wrong» on standard error and exit status 1.

A call crosses the wire as 8-byte words, one a parameter: but a scalar has two (its value, or its address), a vector and a matrix
have two (the address; the increment or leading dimension).
"""
import re
import sys

TYPES = "SDCZ"
SIZE = {"S": 4, "D": 8, "C": 8, "Z": 16}
REAL = {"S": "float", "D": "double", "C": "float", "Z": "double"}
VARIANTS = 8
OPTIONS = {"trans": 2, "fill": 1, "side": 1, "diag": 1}  # the largest value
CBLAS_OPTION = {"trans": "111 + {}", "fill": "122 - {}", "diag": "131 + {}", "side": "141 + {}"}
WORDS = {"scalar": 2, "vector": 2, "matrix": 2}
FLAGS = {"trans": {"symmetric", "hermitian"}, "size": {"any"}, "scalar": {"real"}, "vector": {"out", "any"}, "matrix": {"out"}, "packed": {"out"}}
LENGTHS = {"vector": 1, "matrix": 2, "packed": 1}
HEADER = "/* Generated from the description of BLAS by protocol/blas.py. */\n"


class DescriptionError(Exception):
    pass


class Param:
    def __init__(self, kind, name, lengths, flags, word):
        self.kind, self.name, self.lengths, self.flags, self.word = kind, name, lengths, flags, word

    @property
    def is_operand(self):
        return self.kind in LENGTHS


class Routine:
    def __init__(self, number, family, variants):
        self.number, self.family, self.variants, self.params, self.words = number, family, variants, [], 0

    def by_kind(self, *kinds):
        return [p for p in self.params if p.kind in kinds]

    @property
    def result(self):
        return next(iter(self.by_kind("result")), None)

    def functions(self):
        for i, (name, letter) in enumerate(self.variants):
            yield self.number * VARIANTS + i, name.lstrip("="), letter, "" if name.startswith("=") else "_v2"


def length(routine, text):
    """A C expression of words for a length; sizes below 0 are caught before it is used."""
    if "?" in text:
        option, rest = text.split("?", 1)
        first, colon, second = rest.partition(":")
        known = [p for p in routine.by_kind("trans", "side") if p.name == option]
        if not known or not colon:
            raise DescriptionError(f"'{text}' is not OPTION?A:B")
        return f"(w[{known[0].word}] ? {length(routine, second)} : {length(routine, first)})"
    terms = []
    for term in text.split("+"):
        sizes = [p for p in routine.by_kind("size") if p.name == term]
        if not sizes and not term.isdecimal():
            raise DescriptionError(f"'{term}' is no size of {routine.family}")
        terms.append(f"(int64_t)w[{sizes[0].word}]" if sizes else term)
    return " + ".join(terms) if len(terms) == 1 else f"({' + '.join(terms)})"


def parse_routine(words, known):
    if len(words) < 4 or not words[1].isdecimal() or not re.fullmatch(r"[a-z]\w*", words[2]):
        raise DescriptionError("a routine is: routine NUMBER FAMILY VARIANT/TYPE...")
    variants = [tuple(v.split("/")) for v in words[3:]]
    if any(len(v) != 2 or v[1] not in TYPES or not re.fullmatch(r"=?\w+", v[0]) for v in variants):
        raise DescriptionError("a variant is NAME/TYPE, and the types are S D C Z")
    if len(variants) > VARIANTS:
        raise DescriptionError(f"more than {VARIANTS} variants")
    for r in known:
        if r.number == int(words[1]) or r.family == words[2]:
            raise DescriptionError(f"number {words[1]} or name '{words[2]}' stands twice")
    return Routine(int(words[1]), words[2], variants)


def parse_param(routine, words):
    kind, rest = words[0], words[1:]
    if kind == "result":
        if len(rest) != 1 or rest[0] not in ("real", "same", "index") or routine.result:
            raise DescriptionError("a result is real, same or index, once")
        param = Param(kind, "result", [], set(rest), routine.words)
    elif kind in OPTIONS or kind in FLAGS:
        count = LENGTHS.get(kind, 0)
        if len(rest) < 1 + count or not set(rest[1 + count:]) <= FLAGS.get(kind, set()):
            raise DescriptionError(f"not a {kind}: {' '.join(words)}")
        if any(p.name == rest[0] for p in routine.params):
            raise DescriptionError(f"'{rest[0]}' stands twice")
        param = Param(kind, rest[0], [length(routine, t) for t in rest[1:1 + count]], set(rest[1 + count:]), routine.words)
    else:
        raise DescriptionError(f"unknown parameter '{kind}'")
    routine.params.append(param)
    routine.words += WORDS.get(kind, 1)


def parse(path):
    routines = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            text = line.split("#", 1)[0].rstrip()
            try:
                if not text.strip():
                    continue
                if text[0] not in " \t":
                    routines.append(parse_routine(text.split(), routines))
                elif routines:
                    parse_param(routines[-1], text.split())
                else:
                    raise DescriptionError("a parameter outside of a routine")
            except DescriptionError as e:
                raise DescriptionError(f"{path}:{number}: {e}") from None
    return routines


# ---- both sides ----

def result_bytes(r, letter):
    if not r.result:
        return 0
    if "index" in r.result.flags:
        return 4
    return SIZE[letter] if "same" in r.result.flags else SIZE[letter] // (2 if letter in "CZ" else 1)


def emit_h(routines):
    limit = max(r.number for r in routines) * VARIANTS + VARIANTS
    out = [HEADER, "#ifndef VCUDA_BLAS_ROUTINES_H\n#define VCUDA_BLAS_ROUTINES_H\n", "enum vcuda_blas_function {"]
    out += [f"\tVCUDA_BLAS_{n} = {f}," for r in routines for f, n, _, _ in r.functions()]
    out += [f"\tVCUDA_BLAS_LIMIT = {limit}", "};\n", f"#define VCUDA_BLAS_MAX_WORDS {max(r.words for r in routines)}",
            f"#define VCUDA_BLAS_MAX_OPERANDS {max(sum(p.is_operand for p in r.params) for r in routines)}\n", "#endif"]
    return out


def emit_check(r):
    """What cuBLAS calls an invalid value."""
    body = []
    for p in r.params:
        w = f"(int64_t)w[{p.word}]"
        if p.kind in OPTIONS:
            body.append(f"\tif (w[{p.word}] > {OPTIONS[p.kind]})\n\t\treturn false;")
        elif p.kind == "size" and "any" not in p.flags:
            body.append(f"\tif ({w} < 0)\n\t\treturn false;")
    for p in r.params:
        w = f"(int64_t)w[{p.word + 1}]"
        if p.kind == "vector" and "any" not in p.flags:
            body.append(f"\tif (!{w})\n\t\treturn false;")
        elif p.kind == "matrix":
            body.append(f"\tif ({w} < 1 || {w} < {p.lengths[0]})\n\t\treturn false;")
    return [f"static bool check_{r.family}(const uint64_t *w)\n{{", "\t(void)w;"] + body + ["\treturn true;\n}\n"]


def emit_operands(r):
    body = []
    for i, p in enumerate(p for p in r.params if p.is_operand):
        written = str("out" in p.flags).lower()
        if p.kind == "vector":
            body.append(f"\to[{i}] = vcuda_blas_vector(w[{p.word}], {p.lengths[0]}, (int64_t)w[{p.word + 1}], {written});")
        elif p.kind == "matrix":
            body.append(f"\to[{i}] = vcuda_blas_matrix(w[{p.word}], {p.lengths[0]}, {p.lengths[1]}, (int64_t)w[{p.word + 1}], {written});")
        else:
            body.append(f"\to[{i}] = vcuda_blas_packed(w[{p.word}], {p.lengths[0]}, {written});")
    count = sum(p.is_operand for p in r.params)
    return [f"static unsigned int operands_{r.family}(const uint64_t *w, struct vcuda_blas_operand *o)\n{{"] + body + [f"\treturn {count};\n}}\n"]


def forbidden(r):
    flags = set().union(*(p.flags for p in r.by_kind("trans")))
    return 2 if "symmetric" in flags else 1 if "hermitian" in flags else 0


def emit_table_c(routines):
    out = [HEADER, '#include "blas-abi.h"\n']
    for r in routines:
        small = [str(p.word) for p in r.by_kind("size")] + [str(p.word + 1) for p in r.by_kind("vector", "matrix")]
        out += emit_check(r) + emit_operands(r)
        out += [f"static const struct vcuda_blas_family family_{r.family} = {{",
                f"\t.name = \"{r.family}\", .check = check_{r.family}, .operands = operands_{r.family},",
                f"\t.words = {r.words}, .sizes = {{{', '.join(small)}}}, .size_count = {len(small)},"]
        scalars = r.by_kind("scalar")
        out += [f"\t.scalars = {{{', '.join(str(p.word) for p in scalars) or '0'}}}, .scalar_count = {len(scalars)},",
                f"\t.result = {r.result.word if r.result else -1}, .gives_index = {str(bool(r.result) and 'index' in r.result.flags).lower()},",
                f"\t.trans = {next((p.word for p in r.by_kind('trans') if p.flags), 0)}, .no_trans = {forbidden(r)},",
                f"\t.has_alpha = {str(any(p.name == 'alpha' for p in scalars)).lower()},", "};\n"]
    out += ["const struct vcuda_blas_routine vcuda_blas_routines[VCUDA_BLAS_LIMIT] = {"]
    for r in routines:
        real = [("real" in p.flags) for p in r.by_kind("scalar")]
        for f, name, letter, suffix in r.functions():
            scalar = [SIZE[letter] // (2 if is_real and letter in "CZ" else 1) for is_real in real]
            out.append(f'\t[{f}] = {{"cublas{name}{suffix}", &family_{r.family}, {SIZE[letter]}, {result_bytes(r, letter)}, '
                       f"{{{', '.join(map(str, scalar)) or '0'}}}, {str(letter in 'DZ').lower()}, {str(letter in 'CZ').lower()}}},")
    return out + ["};"]


# ---- the guest ----

def guest_parameters(r, integer):
    out = ["void *handle"]
    for p in r.params:
        if p.kind in OPTIONS:
            out.append(f"int {p.name}")
        elif p.kind == "size":
            out.append(f"{integer} {p.name}")
        elif p.kind == "result":
            out.append("void *result")
        else:
            out.append(f"{'' if 'out' in p.flags else 'const '}void *{p.name}")
            if p.kind in ("vector", "matrix"):
                out.append(f"{integer} {'inc' if p.kind == 'vector' else 'ld'}{p.name}")
    return ", ".join(out)


def guest_body(r, function, wide):
    out = [f"\tstruct blas_call call;\n\n\tblas_begin(&call, handle, {function}, {str(wide).lower()});"]
    scalars = 0
    for p in r.params:
        if p.kind == "scalar":
            out.append(f"\tblas_scalar(&call, {p.name}, {scalars});")
            scalars += 1
        elif p.kind == "result":
            out.append("\tblas_result(&call, result);")
        elif p.is_operand:
            out.append(f"\tblas_word(&call, (uint64_t)(uintptr_t){p.name});")
            if p.kind != "packed":
                out.append(f"\tblas_word(&call, (uint64_t)(int64_t){'inc' if p.kind == 'vector' else 'ld'}{p.name});")
        else:
            out.append(f"\tblas_word(&call, (uint64_t)(int64_t){p.name});")
    return out + ["\treturn blas_end(&call);"]


def emit_guest_c(routines):
    out = [HEADER, '#include "handle.h"\n']
    for r in routines:
        for f, name, _, suffix in r.functions():
            for integer, tail in (("int", ""), ("int64_t", "_64")):
                out += [f"BLAS_API int cublas{name}{suffix}{tail}({guest_parameters(r, integer)})\n{{"]
                out += guest_body(r, f"VCUDA_BLAS_{name}", tail == "_64") + ["}\n"]
    return out


# ---- the host's cuBLAS ----

def cuda_call(r, integer):
    """The function's type and its arguments, from the words."""
    types, values = ["void *"], ["handle"]
    for p in r.params:
        if p.kind in OPTIONS:
            types.append("int")
            values.append(f"(int)w[{p.word}]")
        elif p.kind == "size":
            types.append(integer)
            values.append(f"({integer})w[{p.word}]")
        elif p.kind == "scalar":
            types.append("const void *")
            values.append(f"scalar(w + {p.word}, device)")
        elif p.kind == "result":
            types.append("void *")
            values.append(f"device ? (void *)(uintptr_t)w[{p.word}] : value")
        else:
            types.append("void *")
            values.append(f"(void *)(uintptr_t)w[{p.word}]")
            if p.kind != "packed":
                types.append(integer)
                values.append(f"({integer})w[{p.word + 1}]")
    return f"((int (*)({', '.join(types)}))function)({', '.join(values)})"


def emit_cuda_c(routines):
    out = [HEADER, '#include "blas-call.h"\n',
           "/* A double complex is aligned to 16 bytes, and cuBLAS reads it so. */",
           "struct aligned {\n\t_Alignas(16) uint64_t words[2];\n};\n",
           "#define scalar(w, device) \\\n\t((device) ? (const void *)(uintptr_t)*(w) : &(const struct aligned){{(w)[0], (w)[1]}})\n"]
    for r in routines:
        uses = "" if r.by_kind("scalar", "result") else "\t(void)device;\n"
        uses += "" if r.result else "\t(void)value;\n"
        out += [f"static int call_{r.family}(void (*function)(void), void *handle, const uint64_t *w, bool device, bool wide, void *value)\n{{",
                f"{uses}\tif (wide)\n\t\treturn {cuda_call(r, 'int64_t')};", f"\treturn {cuda_call(r, 'int')};\n}}\n"]
    out += ["const vcuda_cuda_blas_call vcuda_cuda_blas_calls[VCUDA_BLAS_LIMIT] = {"]
    out += [f"\t[{f}] = call_{r.family}," for r in routines for f, _, _, _ in r.functions()]
    return out + ["};"]


# ---- CBLAS ----

def cblas_name(name):
    return f"cblas_{name.lower()}"


def cblas_call(r, letter, name):
    complex_type = letter in "CZ"
    types, values = (["int"], ["102"]) if r.number >= 20 else ([], [])
    for p in r.params:
        if p.kind in OPTIONS:
            types.append("int")
            values.append(CBLAS_OPTION[p.kind].format(f"(int)w[{p.word}]"))
        elif p.kind == "size":
            types.append("int")
            values.append(f"(int)w[{p.word}]")
        elif p.kind == "scalar" and (not complex_type or "real" in p.flags):
            types.append(REAL[letter])
            values.append(f"*(const {REAL[letter]} *)(w + {p.word})")
        elif p.kind == "scalar":
            types.append("const void *")
            values.append(f"w + {p.word}")
        elif p.kind != "result":
            types.append("void *")
            values.append(f"(void *)(uintptr_t)w[{p.word}]")
            if p.kind != "packed":
                types.append("int")
                values.append(f"(int)w[{p.word + 1}]")
    returned, before = "void", ""
    if r.result and "index" in r.result.flags:
        returned, before = "size_t", "*(uint64_t *)value = (int64_t)w[0] < 1 || (int64_t)w[2] < 1 ? 0 : 1 + "
    elif r.result and "same" in r.result.flags and complex_type:
        types.append("void *")
        values.append("value")
    elif r.result:
        returned, before = REAL[letter], f"*({REAL[letter]} *)value = "
    sub = "_sub" if r.result and "same" in r.result.flags and complex_type else ""
    return cblas_name(name) + sub, f"{before}(({returned} (*)({', '.join(types)}))function)({', '.join(values)});"


def emit_cpu_c(routines):
    out = [HEADER, '#include "blas-call.h"\n']
    rows = []
    for r in routines:
        done = {}
        for f, name, letter, _ in r.functions():
            symbol, call = cblas_call(r, letter, name)
            if call not in done:
                done[call] = f"call_{name}"
                unused = "" if r.result else "\t(void)value;\n"
                out += [f"static void call_{name}(void (*function)(void), const uint64_t *w, void *value)\n{{\n{unused}\t{call}\n}}\n"]
            rows.append(f'\t[{f}] = {{"{symbol}", {done[call]}}},')
    return out + ["const struct cpu_blas_call cpu_blas_calls[VCUDA_BLAS_LIMIT] = {"] + rows + ["};"]


EMITTERS = {"blas-routines.h": emit_h, "blas-table.c": emit_table_c, "blas-guest.c": emit_guest_c, "blas-cuda.c": emit_cuda_c,
            "blas-cpu.c": emit_cpu_c}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in EMITTERS:
        sys.exit("usage: blas.py OUTPUT_KIND DESCRIPTION")
    try:
        print("\n".join(EMITTERS[sys.argv[1]](parse(sys.argv[2]))))
    except DescriptionError as e:
        sys.exit(str(e))


main()

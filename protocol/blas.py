#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the description of BLAS (blas.api, where its language is explained) into code.

blas.py OUTPUT_KIND DESCRIPTION   writes one generated file to standard output. Kinds: see EMITTERS at the end.
A mistake in the description ends with «FILE:LINE: what is wrong» on standard error and exit status 1.

A call crosses the wire as 8-byte words, in the order of the parameters: a scalar has two (its value, or its address), a vector and a
matrix an address and the increment or leading dimension; behind these come a type that is an argument and a stride.
"""
import re
import sys

SIZE = {"S": 4, "D": 8, "C": 8, "Z": 16}
REAL = {"S": "float", "D": "double", "C": "float", "Z": "double"}
TYPE = {"S": "VCUDA_BLAS_R_32F", "D": "VCUDA_BLAS_R_64F", "C": "VCUDA_BLAS_C_32F", "Z": "VCUDA_BLAS_C_64F", "H": "VCUDA_BLAS_R_16F",
        "T": "VCUDA_BLAS_R_16BF", "X": "VCUDA_BLAS_NO_TYPE"}
VARIANTS = 8
SMALL = 32
OPTIONS = {"trans": 2, "fill": 1, "side": 1, "diag": 1}  # the largest value
NUMBERS = ("compute", "algorithm", "type")  # arguments of the library's call, each an int
CBLAS_OPTION = {"trans": "111 + {}", "fill": "122 - {}", "diag": "131 + {}", "side": "141 + {}"}
MEMORY = {"out", "pointers", "strided"}
FLAGS = {"trans": {"symmetric", "hermitian"}, "size": {"any", "small"}, "scalar": {"real", "typed", "next", "scale", "five", "optional"},
         "vector": MEMORY | {"any", "typed"}, "matrix": MEMORY | {"typed"}, "packed": MEMORY,
         "elements": {"out", "pointers", "each", "optional", "int", "real"}}
LENGTHS = {"vector": 1, "matrix": 2, "packed": 1, "elements": 1}
RESULTS = ("real", "same", "index", "typed")
# As in cublas.h, where sizes are ints, options letters, scalars values, and what is computed is returned.
V1_TYPE = {"S": "float", "D": "double", "C": "struct blas_complex", "Z": "struct blas_double_complex"}
HEADER = "/* Generated from the description of BLAS by protocol/blas.py. */\n"


class DescriptionError(Exception):
    pass


class Param:
    def __init__(self, kind, name, lengths, flags, word):
        self.kind, self.name, self.lengths, self.flags, self.word = kind, name, lengths, flags, word

    @property
    def is_memory(self):
        return self.kind in LENGTHS

    @property
    def has_step(self):
        return self.kind in ("vector", "matrix")

    @property
    def step(self):
        return ("inc" if self.kind == "vector" else "ld") + self.name

    @property
    def roles(self):
        """The meanings of the parameter's words."""
        if self.kind == "info":
            return []
        if self.kind == "scalar":
            return ["value"] + [f"more{i}" for i in range(4 if "five" in self.flags else 1)] + ["type"] * ("typed" in self.flags)
        return ["value"] + ["step"] * self.has_step + ["type"] * ("typed" in self.flags) + ["stride"] * ("strided" in self.flags)

    def at(self, role):
        return self.word + self.roles.index(role)


class Routine:
    def __init__(self, number, family, variants):
        self.number, self.family, self.variants, self.params, self.lines, self.base = number, family, variants, [], [], None
        self.own = self.goes = self.own_variant = None
        self.narrow = self.local = False

    @property
    def words(self):
        return sum(len(p.roles) for p in self.params)

    def by_kind(self, *kinds):
        return [p for p in self.params if p.kind in kinds]

    def one(self, kind):
        return next(iter(self.by_kind(kind)), None)

    @property
    def result(self):
        return self.one("result")

    @property
    def operands(self):
        return [p for p in self.params if p.is_memory or p.kind in ("scalar", "result")]

    def functions(self):
        for i, (name, letters) in enumerate(self.variants):
            yield self.number * VARIANTS + i, name.lstrip("=~"), letters, "" if name.startswith("=") else "_v2"


def length(routine, text):
    """A C expression of words for a length; sizes below 0 are caught before it is used."""
    least = re.fullmatch(r"min\((\w+),(\w+)\)", text)
    if least:
        a, b = (length(routine, t) for t in least.groups())
        return f"({a} < {b} ? {a} : {b})"
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
    if any(len(v) != 2 or not re.fullmatch(f"[{''.join(TYPE)}]|[{''.join(TYPE)}]{{3}}", v[1]) or not re.fullmatch(r"[=~]?\w+", v[0])
           for v in variants):
        raise DescriptionError("a variant is NAME/TYPE, and the types are " + " ".join(TYPE))
    if len(variants) > VARIANTS:
        raise DescriptionError(f"more than {VARIANTS} variants")
    for r in known:
        if r.number == int(words[1]) or r.family == words[2]:
            raise DescriptionError(f"number {words[1]} or name '{words[2]}' stands twice")
    return Routine(int(words[1]), words[2], variants)


def parse_batch(routine, words, known):
    """The parameters of another routine, whose operands are those of a batch."""
    base = [r for r in known if r.family == words[1:2][0]] if len(words) == 3 and words[2] in ("pointers", "strided") else []
    if not base or routine.params:
        raise DescriptionError("a batch is: batch FAMILY pointers|strided, of a routine above, and instead of parameters")
    routine.base = base[0]
    routine.own, routine.own_variant, routine.goes = routine.base.own, routine.base.own_variant, routine.base.goes
    lines = [line + [words[2]] if line[0] in LENGTHS else line for line in routine.base.lines]
    last = max(i for i, line in enumerate(lines) if line[0] in LENGTHS)
    for line in lines[:last + 1] + [["count", "batch"]] + lines[last + 1:]:
        parse_param(routine, line)


def parse_line(routine, words, known):
    if words[0] == "batch":
        parse_batch(routine, words, known)
    elif words[0] in ("own", "goes") and len(words) == 2:
        setattr(routine, words[0], words[1])
    elif words[0] == "own" and len(words) == 3:
        if words[2] not in [name for name, _ in routine.variants]:
            raise DescriptionError(f"no variant '{words[2]}'")
        routine.own, routine.own_variant = words[1:]
    elif words in (["narrow"], ["local"]):
        setattr(routine, words[0], True)
    else:
        parse_param(routine, words)


def parse_param(routine, words):
    kind, rest = words[0], words[1:]
    if kind == "result":
        if len(rest) != 1 or rest[0] not in RESULTS or routine.result:
            raise DescriptionError("a result is one of " + " ".join(RESULTS) + ", once")
        param = Param(kind, "result", [], set(rest), routine.words)
    elif kind in OPTIONS or kind in FLAGS or kind in NUMBERS or kind in ("count", "info"):
        count = LENGTHS.get(kind, 0)
        if len(rest) < 1 + count or not set(rest[1 + count:]) <= FLAGS.get(kind, set()):
            raise DescriptionError(f"not {kind}: {' '.join(words)}")
        if any(p.name == rest[0] for p in routine.params):
            raise DescriptionError(f"'{rest[0]}' stands twice")
        param = Param(kind, rest[0], [length(routine, t) for t in rest[1:1 + count]], set(rest[1 + count:]), routine.words)
    else:
        raise DescriptionError(f"unknown parameter '{kind}'")
    routine.params.append(param)
    routine.lines.append(words)


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
                    parse_line(routines[-1], text.split(), routines)
                else:
                    raise DescriptionError("a parameter outside of a routine")
            except DescriptionError as e:
                raise DescriptionError(f"{path}:{number}: {e}") from None
    return routines


# ---- both sides ----

def types_of(letters):
    """The types of operands that are read, of scalars, and of operands that are written."""
    return [TYPE[letter] for letter in (letters if len(letters) == 3 else letters * 3)]


def emit_h(routines):
    limit = max(r.number for r in routines) * VARIANTS + VARIANTS
    out = [HEADER, "#ifndef VCUDA_BLAS_ROUTINES_H\n#define VCUDA_BLAS_ROUTINES_H\n", "enum vcuda_blas_function {"]
    out += [f"\tVCUDA_BLAS_{n} = {f}," for r in routines for f, n, _, _ in r.functions()]
    out += [f"\tVCUDA_BLAS_LIMIT = {limit}", "};\n", f"#define VCUDA_BLAS_MAX_WORDS {max(r.words for r in routines)}",
            f"#define VCUDA_BLAS_MAX_OPERANDS {max(len(r.operands) for r in routines)}\n", "#endif"]
    return out


def emit_check(r):
    """The C function that returns the first parameter with a value that cuBLAS calls invalid."""
    body, late, place = [], [], 0
    for p in r.params:
        w = f"(int64_t)w[{p.word}]"
        place += 1
        if p.kind in OPTIONS:
            body.append(f"\tif (w[{p.word}] > {OPTIONS[p.kind]})\n\t\treturn {place};")
        elif (p.kind == "size" and "any" not in p.flags) or p.kind == "count":
            beyond = f" || {w} > {SMALL}" if "small" in p.flags else ""
            body.append(f"\tif ({w} < 0{beyond})\n\t\treturn {place};")
        place += "typed" in p.flags
        place += p.has_step
        if p.kind == "vector" and "any" not in p.flags:
            late.append(f"\tif (!w[{p.at('step')}])\n\t\treturn {place};")
        elif p.kind == "matrix":
            w = f"(int64_t)w[{p.at('step')}]"
            late.append(f"\tif ({w} < 1 || {w} < {p.lengths[0]})\n\t\treturn {place};")
        place += "strided" in p.flags
        if "strided" in p.flags:
            late.append(f"\tif ((int64_t)w[{p.at('stride')}] < 0)\n\t\treturn {place};")
    return [f"static int check_{r.family}(const uint64_t *w)\n{{", "\t(void)w;"] + body + late + ["\treturn 0;\n}\n"]


def scale_type(r, word):
    """The type of the scalars, by the type of computation; `word` makes an argument of a parameter's role."""
    return f"vcuda_blas_scale({word(r.one('compute'), 'value')}, {word(r.params[[p.name for p in r.params].index('C')], 'type')})"


def operand_type(r, p):
    if p.kind == "scalar" and "scale" in p.flags:
        return scale_type(r, lambda q, role: f"w[{q.at(role)}]")
    if "typed" in p.flags and not p.is_memory:
        return f"(w[{p.at('type')}] < VCUDA_BLAS_NO_TYPE ? (uint8_t)w[{p.at('type')}] : VCUDA_BLAS_NO_TYPE)"
    if "next" in p.flags:
        return operand_type(r, r.params[r.params.index(p) + 1])
    if "int" in p.flags or "index" in p.flags:
        return "VCUDA_BLAS_R_32I"
    which = "r->scalar" if p.kind == "scalar" else "r->written" if "out" in p.flags else "r->read"
    return f"vcuda_blas_real({which})" if "real" in p.flags else which


def emit_operands(r):
    body, scalar = ["\t(void)r;"], None
    count = r.one("count")
    names = {"out": "OUT", "typed": "TYPED", "pointers": "POINTERS", "strided": "STRIDED", "each": "EACH", "optional": "OPTIONAL"}
    for i, p in enumerate(r.operands):
        if not p.is_memory:
            kind = "SCALAR" if p.kind == "scalar" else "RESULT"
            body.append(f"\to[{i}] = (struct vcuda_blas_operand){{.kind = VCUDA_BLAS_{kind}, .word = {p.word}, .type = {operand_type(r, p)}, "
                        f".elements = {5 if 'five' in p.flags else 1}}};")
            scalar = i if p.kind == "scalar" else scalar
            continue
        flags = " | ".join(f"VCUDA_BLAS_{names[f]}" for f in sorted(p.flags) if f in names) or "0"
        batch = f"(int64_t)w[{count.word}]" if count else "1"
        body.append(f"\tvcuda_blas_{p.kind}(&o[{i}], w + {p.word}, {operand_type(r, p)}, {flags}, {batch}, {', '.join(p.lengths)});")
        body.append(f"\to[{i}].word = {p.word};")
        if scalar is not None and "out" not in p.flags and r.operands[scalar].name in ("alpha", "beta"):
            body.append(f"\to[{i}].unless = {scalar};")
    return [f"static unsigned int operands_{r.family}(const struct vcuda_blas_routine *r, const uint64_t *w, "
            "struct vcuda_blas_operand *o)\n{"] + body + [f"\treturn {len(r.operands)};\n}}\n"]


def forbidden(r):
    flags = set().union(*(p.flags for p in r.by_kind("trans")))
    return 2 if "symmetric" in flags else 1 if "hermitian" in flags else 0


def base_words(r):
    """Where the words of the base are among those of a batch."""
    own = {p.name: p for p in r.params}
    return [str(own[p.name].at(role)) for p in r.base.params for role in p.roles]


def emit_table_c(routines):
    out = [HEADER, '#include "protocol/blas-abi.h"\n']
    for r in routines:
        small = [str(p.word) for p in r.by_kind("size", "count")]
        small += [str(p.at(role)) for p in r.params for role in p.roles if role in ("step", "stride")]
        out += emit_check(r) + emit_operands(r)
        if r.base:
            out += [f"static const uint8_t words_{r.family}[] = {{{', '.join(base_words(r))}}};\n"]
        out += [f"static const struct vcuda_blas_family family_{r.family} = {{",
                f"\t.name = \"{r.family}\", .check = check_{r.family}, .operands = operands_{r.family},",
                f"\t.goes = {f'vcuda_blas_goes_{r.goes}' if r.goes else 'NULL'},",
                f"\t.words = {r.words}, .sizes = {{{', '.join(small) or '0'}}}, .size_count = {len(small)},"]
        if r.base:
            out += [f"\t.base = &family_{r.base.family}, .base_words = words_{r.family},"]
        out += [f"\t.result = {r.result.word if r.result else -1}, .gives_index = {str(bool(r.result) and 'index' in r.result.flags).lower()},",
                f"\t.batch = {r.one('count').word if r.one('count') else -1}, .by_address = {str(r.local).lower()}, "
                f".has_scalars = {str(bool(r.by_kind('scalar', 'result'))).lower()},",
                f"\t.trans = {next((p.word for p in r.by_kind('trans') if p.flags), 0)}, .no_trans = {forbidden(r)},", "};\n"]
    out += ["const struct vcuda_blas_routine vcuda_blas_routines[VCUDA_BLAS_LIMIT] = {"]
    for r in routines:
        out += [f'\t[{f}] = {{"cublas{name}{suffix}", &family_{r.family}, {", ".join(types_of(letters))}}},'
                for f, name, letters, suffix in r.functions()]
    return out + ["};"]


# ---- the guest ----

def guest_parameters(r, integer):
    out = ["void *handle"]
    for p in r.params:
        if p.kind in OPTIONS or p.kind in NUMBERS:
            out.append(f"int {p.name}")
        elif p.kind in ("size", "count"):
            out.append(f"{integer} {p.name}")
        elif p.kind == "info":
            out.append(f"int *{p.name}")
        elif p.kind == "result":
            out.append("void *result")
        else:
            out.append(f"{'' if 'out' in p.flags else 'const '}void *{p.name}")
        if "typed" in p.flags:
            out.append(f"int type{p.name}")
        if p.has_step:
            out.append(f"{integer} {p.step}")
        if "strided" in p.flags:
            out.append(f"long long stride{p.name}")
    return ", ".join(out)


def guest_type(r, p, letters):
    """The type of a scalar or result."""
    if "typed" in p.flags:
        return f"type{p.name}"
    if "next" in p.flags:
        return guest_type(r, r.params[r.params.index(p) + 1], letters)
    if "scale" in p.flags:
        return scale_type(r, lambda q, role: f"(uint64_t)({'vcuda_blas_compute(' + q.name + ')' if role == 'value' else 'type' + q.name})")
    if "index" in p.flags:
        return "VCUDA_BLAS_R_32I"
    fixed = types_of(letters)[1]
    return f"vcuda_blas_real({fixed})" if "real" in p.flags else fixed


def guest_body(r, function, letters, wide):
    out = ["\tstruct blas_call call;\n"]
    if r.local:
        arguments = ", ".join([types_of(letters)[0]] + [p.name for p in r.params])
        out += [f"\tif (blas_is_local(handle))\n\t\treturn blas_local_{r.family}(handle, {arguments});"]
    out += [f"\tblas_begin(&call, handle, {function}, {str(wide).lower()});"]
    for p in r.params:
        if p.kind == "scalar":
            function = "blas_optional_scalar" if "optional" in p.flags else "blas_scalar"
            out.append(f"\t{function}(&call, {p.name}, {guest_type(r, p, letters)}, {5 if 'five' in p.flags else 1});")
        elif p.kind == "result":
            out.append(f"\tblas_result(&call, result, {guest_type(r, p, letters)});")
        elif p.kind == "info":
            out.append(f"\tblas_info(&call, {p.name});")
        elif p.is_memory:
            out.append(f"\tblas_word(&call, (uint64_t)(uintptr_t){p.name});")
        elif p.kind == "compute":
            out.append(f"\tblas_word(&call, (uint64_t)(int64_t)vcuda_blas_compute({p.name}));")
        else:
            out.append(f"\tblas_word(&call, (uint64_t)(int64_t){p.name});")
        if p.has_step:
            out.append(f"\tblas_word(&call, (uint64_t)(int64_t){p.step});")
        if "typed" in p.flags:
            out.append(f"\tblas_word(&call, (uint64_t)(int64_t)type{p.name});")
        if "strided" in p.flags:
            out.append(f"\tblas_word(&call, (uint64_t)(int64_t)stride{p.name});")
    return out + ["\treturn blas_end(&call);"]


def emit_guest_c(routines):
    out = [HEADER, '#include "handle.h"\n']
    for r in routines:
        for f, name, letters, suffix in r.functions():
            for integer, tail in (("int", ""), ("int64_t", "_64"))[:1 if r.narrow else 2]:
                out += [f"BLAS_API int cublas{name}{suffix}{tail}({guest_parameters(r, integer)})\n{{"]
                out += guest_body(r, f"VCUDA_BLAS_{name}", letters, tail == "_64") + ["}\n"]
    return out


# ---- cublas.h ----

def v1_type(p, letters):
    letter = letters[0]
    return V1_TYPE["SD"["DZ".find(letter) >= 0] if "real" in p.flags else letter]


def v1_parameters(r, letters):
    out = []
    for p in r.params:
        if p.kind in OPTIONS:
            out.append(f"char {p.name}")
        elif p.kind == "size":
            out.append(f"int {p.name}")
        elif p.kind == "scalar":
            out.append(f"const void *{p.name}" if "five" in p.flags else f"{v1_type(p, letters)} {p.name}")
        elif p.kind != "result":
            out.append(f"{'' if 'out' in p.flags else 'const '}void *{p.name}")
        if p.has_step:
            out.append(f"int {p.step}")
    return ", ".join(out)


def v1_arguments(r):
    out = ["blas_v1()"]
    for p in r.params:
        if p.kind in OPTIONS:
            out.append(f"blas_v1_{p.kind}({p.name})")
        elif p.kind == "scalar" and "five" not in p.flags:
            out.append(f"&{p.name}")
        elif p.kind == "result":
            out.append("&result")
        else:
            out.append(p.name)
        if p.has_step:
            out.append(p.step)
    return ", ".join(out)


def emit_v1_c(routines):
    out = [HEADER, '#include "v1.h"\n']
    for r in routines:
        for (variant, _), (_, name, letters, suffix) in zip(r.variants, r.functions()):
            if not suffix or variant.startswith("~"):
                continue
            returned = "void" if not r.result else "int" if "index" in r.result.flags else v1_type(r.result, letters)
            out += [f"BLAS_API int cublas{name}_v2({guest_parameters(r, 'int')});\n",
                    f"BLAS_API {returned} cublas{name}({v1_parameters(r, letters)})\n{{"]
            if r.result:
                out += [f"\t{returned} result = {{0}};\n" if "struct" in returned else f"\t{returned} result = 0;\n"]
            out += [f"\tblas_v1_status(cublas{name}_v2({v1_arguments(r)}));"] + (["\treturn result;"] if r.result else []) + ["}\n"]
    return out


# ---- the host's cuBLAS ----

def cuda_call(r, integer):
    """The function's type and its arguments, from the words."""
    types, values = ["void *"], ["handle"]
    for p in r.params:
        if p.kind in OPTIONS or p.kind in NUMBERS:
            types.append("int")
            values.append(f"(int)w[{p.word}]")
        elif p.kind in ("size", "count"):
            types.append(integer)
            values.append(f"({integer})w[{p.word}]")
        elif p.kind == "scalar":
            types.append("const void *")
            values.append(f"{'five' if 'five' in p.flags else 'scalar'}(w + {p.word}, device)")
        elif p.kind == "result":
            types.append("void *")
            values.append(f"device ? (void *)(uintptr_t)w[{p.word}] : value")
        elif p.kind == "info":
            types.append("int *")
            values.append("&info")
        else:
            types.append("void *")
            values.append(f"(void *)(uintptr_t)w[{p.word}]")
        if "typed" in p.flags:
            types.append("int")
            values.append(f"(int)w[{p.at('type')}]")
        if p.has_step:
            types.append(integer)
            values.append(f"({integer})w[{p.at('step')}]")
        if "strided" in p.flags:
            types.append("long long")
            values.append(f"(long long)w[{p.at('stride')}]")
    return f"((int (*)({', '.join(types)}))function)({', '.join(values)})"


def emit_cuda_c(routines):
    out = [HEADER, '#include "blas-call.h"\n',
           "/* A double complex is aligned to 16 bytes, and cuBLAS reads it so. */",
           "struct aligned {\n\t_Alignas(16) uint64_t words[5];\n};\n",
           "#define scalar(w, device) \\\n\t((device) ? (const void *)(uintptr_t)*(w) : &(const struct aligned){{(w)[0], (w)[1]}})\n",
           "#define five(w, device) \\\n\t((device) ? (const void *)(uintptr_t)*(w) : \\\n"
           "\t&(const struct aligned){{(w)[0], (w)[1], (w)[2], (w)[3], (w)[4]}})\n"]
    for r in routines:
        before = "" if r.by_kind("scalar", "result") else "\t(void)device;\n"
        before += "" if r.result else "\t(void)value;\n"
        before = ("\tint info = 0;\n\n" if r.one("info") else "") + before
        out += [f"static int call_{r.family}(void (*function)(void), void *handle, const uint64_t *w, bool device, bool wide, void *value)\n{{",
                f"{before}\tif (wide)\n\t\treturn {cuda_call(r, 'int64_t')};", f"\treturn {cuda_call(r, 'int')};\n}}\n"]
    out += ["const backend_blas_call backend_blas_calls[VCUDA_BLAS_LIMIT] = {"]
    out += [f"\t[{f}] = call_{r.family}," for r in routines for f, _, _, _ in r.functions()]
    return out + ["};"]


# ---- CBLAS ----

def cblas_call(r, letter):
    complex_type = letter in "CZ"
    types, values = (["int"], ["102"]) if r.number >= 20 else ([], [])
    for p in r.params:
        if p.kind in OPTIONS:
            types.append("int")
            values.append(CBLAS_OPTION[p.kind].format(f"(int)w[{p.word}]"))
        elif p.kind == "size":
            types.append("int")
            values.append(f"(int)w[{p.word}]")
        elif p.kind == "scalar" and (not complex_type or "real" in p.flags) and "five" not in p.flags:
            types.append(REAL[letter])
            values.append(f"*(const {REAL[letter]} *)(w + {p.word})")
        elif p.kind == "scalar":
            types.append("const void *")
            values.append(f"w + {p.word}")
        elif p.kind != "result":
            types.append("void *")
            values.append(f"(void *)(uintptr_t)w[{p.word}]")
            if p.has_step:
                types.append("int")
                values.append(f"(int)w[{p.at('step')}]")
    returned, before = "void", ""
    if r.result and "index" in r.result.flags:
        returned, before = "size_t", "*(uint64_t *)value = (int64_t)w[0] < 1 || (int64_t)w[2] < 1 ? 0 : 1 + "
    elif r.result and "same" in r.result.flags and complex_type:
        types.append("void *")
        values.append("value")
    elif r.result:
        returned, before = REAL[letter], f"*({REAL[letter]} *)value = "
    return f"{before}(({returned} (*)({', '.join(types)}))function)({', '.join(values)});"


def cblas_name(r, name, letter):
    return f"cblas_{name.lower()}" + ("_sub" if r.result and "same" in r.result.flags and letter in "CZ" else "")


def emit_cpu_c(routines):
    """The calls of CBLAS. A batch calls its base's variant of the same type for each computation."""
    out = [HEADER, '#include "math/blas-call.h"\n']
    rows, calls = [], {}
    for r in routines:
        for f, name, letters, _ in r.functions():
            if r.own and r.own_variant in (None, name):
                rows.append(f"\t[{f}] = {{.own = softgpu_blas_{r.own}}},")
                continue
            base = r.base or r
            symbol = next(cblas_name(base, n, l) for _, n, l, _ in base.functions() if l == letters and (r.base or n == name))
            call = (base.family, cblas_call(base, letters))
            if call not in calls:
                calls[call] = f"call_{name}"
                unused = "" if base.result else "\t(void)value;\n"
                out += [f"static void call_{name}(void (*function)(void), const uint64_t *w, void *value)\n{{\n{unused}\t{call[1]}\n}}\n"]
            rows.append(f'\t[{f}] = {{"{symbol}", {calls[call]}, NULL}},')
    return out + ["const struct softgpu_blas_call softgpu_blas_calls[VCUDA_BLAS_LIMIT] = {"] + rows + ["};"]


EMITTERS = {"blas-routines.h": emit_h, "blas-table.c": emit_table_c, "blas-guest.c": emit_guest_c, "blas-v1.c": emit_v1_c,
            "blas-cuda.c": emit_cuda_c, "blas-cpu.c": emit_cpu_c}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in EMITTERS:
        sys.exit("usage: blas.py OUTPUT_KIND DESCRIPTION")
    try:
        print("\n".join(EMITTERS[sys.argv[1]](parse(sys.argv[2]))))
    except DescriptionError as e:
        sys.exit(str(e))


main()

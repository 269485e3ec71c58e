#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what tracing needs to stand in front of every function that libcuda.so.1 exports.

usage: trace.py rename names.txt
       trace.py calls names.txt before-init.txt OUTPUT DEPFILE SOURCE... -- PREPROCESSOR...

rename: a header of macros, which every file of the library is compiled with: the functions in the sources become vcuda_do_NAME.
calls: a C file with the exported NAME, which jumps through a table to vcuda_do_NAME, and for each a function that the table holds instead
when tracing is on. Before cuInit the table has only the functions of before-init.txt. The parameters are read from the definitions, after
the preprocessor. A function without a definition is refused (unsupported.py), and its parameters are not known.
"""
import re
import subprocess
import sys

EXPORT = 'visibility("default")'
HEX = {"CUdeviceptr", "CUtexObject", "CUsurfObject", "CUmemGenericAllocationHandle", "CUgraphConditionalHandle"}
FUNCTIONS = {"CUfunction", "CUkernel"}
HANDLES = {"CUstream": "STREAM", "CUevent": "EVENT"}
LISTS = {"attributes", "deps", "from", "functions", "jit", "kernels", "nodes", "options", "sizes", "to"}  # parameters: no single value
SIGNED = {"int", "long", "long long", "short", "signed char", "CUdevice"}


def read_names(path):
    with open(path, encoding="ascii") as lines:
        return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def preprocess(command, sources, output, depfile):
    """All sources as one text, and a list of what it was made of for ninja."""
    text = "".join(f'#include "{s}"\n' for s in sources)
    done = subprocess.run(command + ["-E", "-P", "-w", "-x", "c", "-MD", "-MF", depfile, "-MT", output, "-"], input=text,
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"trace.py: the preprocessor ended with status {done.returncode}")
    return " ".join(done.stdout.split())


def parameters(text):
    """Splits at the commas that are in no parentheses."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    parts = [p.strip() for p in parts]
    return [] if parts == ["void"] or parts == [""] else parts


def functions(text):
    """{name: [parameter]} of the exported functions that the sources define."""
    found = {}
    same = r'extern __typeof__\((\w+)\) (\w+) __attribute__\(\(alias\("\1"\), ' + re.escape(EXPORT)
    others = re.findall(same, text)
    text = re.sub(same, "", text)
    for part in text.split(EXPORT)[1:]:
        match = re.match(r"\)\) CUresult (cu\w+) ?\(", part)
        if not match:
            sys.exit(f"trace.py: not the beginning of an exported function: {part[:80]}")
        end, depth = match.end(), 1
        while depth:
            depth += (part[end] == "(") - (part[end] == ")")
            end += 1
        found[match[1]] = parameters(part[match.end():end - 1])
    return found | {name: found[function] for function, name in others}


class Types:
    """The typedefs of the sources, by kind."""

    def __init__(self, text):
        self.aliases = dict((b, a) for a, b in re.findall(r"\btypedef (\w+) (\w+) ?;", text))
        self.handles = set(re.findall(r"\btypedef struct \w+ ?\* ?(\w+) ?;", text))
        self.callbacks = set(re.findall(r"\btypedef [\w ]+[ *]\( ?\* ?(\w+) ?\)", text))
        self.structs = set(re.findall(r"\} ?(\w+) ?;", text))
        self.enums = {}
        for body, name in re.findall(r"\btypedef enum \w* ?\{([^}]*)\} ?(\w+) ?;", text):
            self.enums[name] = [e.split("=")[0].strip() for e in body.split(",") if e.strip()]
        self.structs -= set(self.enums)

    def enum_of(self, name):
        while name not in self.enums and name in self.aliases:
            name = self.aliases[name]
        return name if name in self.enums else None

    def of_value(self, base, name):
        """How a value of a type that is no pointer is shown."""
        seen = base
        while seen not in HEX and seen not in SIGNED and seen not in self.structs and seen in self.aliases:
            seen = self.aliases[seen]
        if self.enum_of(base):
            return "ENUM"
        if base in FUNCTIONS:
            return "FUNCTION"
        if base in HANDLES:
            return HANDLES[base]
        if base in self.handles | self.callbacks or seen in HEX:
            return "HEX"
        if seen in self.structs:
            return "STRUCT"
        if seen in ("float", "double"):
            return "FLOAT"
        if seen in SIGNED:
            return "SIGNED"
        return "HEX" if "flags" in name.lower() else "UNSIGNED"


def describe(types, parameter):
    """(name, how it is shown, type of what it points at if that is shown too, enum)"""
    match = re.search(r"\( ?\* ?(\w+) ?\) ?\(", parameter)
    if match:
        return match[1], "HEX", None, None
    match = re.match(r"(.*?)(\w+) ?(\[\w*\])?\Z", parameter)
    kind, name = match[1].strip(), match[2]
    base = " ".join(re.sub(r"\bconst\b|\*", " ", kind).split())
    stars = kind.count("*") + bool(match[3])
    constant = re.match(r"const\b", kind)
    if stars == 0:
        how = types.of_value(base, name)
        if base == "double":
            sys.exit(f"trace.py: {parameter}: such a number is shown only where a function returns it")
        return name, how, None, types.enum_of(base)
    if base == "char" and stars == 1:
        return name, "STRING" if constant else "TEXT", None, None
    if base == "char" and stars == 2:
        return name, "STRING", "const char *", None
    if base == "void" and stars == 2 and not re.search("values|params|extra", name, re.I):
        return name, "HEX", "void *", None
    if stars == 1 and not constant and name not in LISTS and base not in ("void", "unsigned char") and types.of_value(base, name) != "STRUCT":
        return name, types.of_value(base, name), base, types.enum_of(base)
    return name, "HEX", None, None


def write_rename(names):
    print("/* Generated by trace.py: what the library exports under these names stands in front of them. */")
    for name in names:
        print(f"#define {name} vcuda_do_{name}")


def write_entries(names, known):
    """The exported symbols. One that only refuses stays weak, by which the list of what is implemented is made."""
    print("asm(\".text\\n\"")
    for i, name in enumerate(names):
        bind = ".globl" if name in known else ".weak"
        print(f'    "{bind} {name}\\n.type {name}, @function\\n{name}: .cfi_startproc\\n"')
        print(f'    "jmp *libcuda_trace_jump+{8 * i}(%rip)\\n.cfi_endproc\\n.size {name}, . - {name}\\n"')
    print(");\n")


def value(name, how, target):
    """An argument as 64 bits."""
    if how == "STRUCT":
        return f"(uintptr_t)&{name}"
    return f"(union {{float number; uint32_t bits;}}){{{name}}}.bits" if how == "FLOAT" and not target else f"(uint64_t){name}"


def member(parameter):
    """A parameter as a member of a structure: an array is a pointer."""
    return re.sub(r"(\w+) ?\[\w*\]\Z", r"*\1", parameter)


def write_wrapper(name, params, described, is_early):
    values = [value(*d[:3]) for d in described]
    arguments = ", ".join(d[0] for d in described)
    print(f"static CUresult traced_{name}({', '.join(params) or 'void'})\n{{")
    if params:
        print(f"\tconst struct {{ {' '.join(member(p) + ';' for p in params)} }} as_struct = {{{arguments}}};")
    call = f"{name}({arguments})" if is_early else f"libcuda_trace_is_open() ? {name}({arguments}) : CUDA_ERROR_NOT_INITIALIZED"
    print(f"\tconst uint64_t as_words[] = {{{', '.join(values) or '0'}}};")
    print("\tstruct libcuda_trace t;\n\tCUresult result;\n")
    print(f"\tlibcuda_trace_enter(&t, CALL_{name}, {'&as_struct' if params else 'NULL'}, as_words);\n\tresult = {call};")
    print(f"\tlibcuda_trace_leave(&t, CALL_{name}, result, as_words);\n\treturn result;\n}}\n")


def write_table(declaration, functions_):
    print(f"{declaration} = {{\n" + "".join(f"\t(void (*)(void)){f},\n" for f in functions_) + "};\n")


def write_calls(names, known, types, early):
    described = {n: [describe(types, p) for p in known[n]] for n in names if n in known}
    enums = sorted({d[3] for ds in described.values() for d in ds if d[3]})
    print("/* Generated by trace.py from names.txt and the functions themselves. */\n#include \"trace/trace.h\"\n\n#include \"protocol/types.h\"\n")
    write_entries(names, known)
    print("enum {\n" + "".join(f"\tCALL_{n},\n" for n in names) + "};\n")
    for name in names:
        print(f"CUresult {name}({', '.join(known.get(name, [])) or 'void'});")
    print("\nstatic CUresult before_init(void)\n{\n\treturn CUDA_ERROR_NOT_INITIALIZED;\n}\n")
    write_table("void (*_Atomic libcuda_trace_jump[])(void)", [n if n in early else "before_init" for n in names])
    write_table("void (*const libcuda_trace_closed[])(void)", [n if n in early else "before_init" for n in names])
    write_table("void (*const libcuda_trace_plain[])(void)", names)
    for enum in enums:
        print(f"static const struct libcuda_trace_value values_{enum}[] = {{")
        print("".join(f'\t{{{e}, "{e}"}},\n' for e in types.enums[enum]) + "\t{0, NULL},\n};\n")
    for name, ds in described.items():
        if ds:
            print(f"static const struct libcuda_trace_param params_{name}[] = {{")
            for param, how, target, enum in ds:
                size = f"sizeof({target})" if target else "0"
                print(f'\t{{"{param}", LIBCUDA_TRACE_{how}, {size}, {"values_" + enum if enum else "NULL"}}},')
            print("};\n")
    for name in names:
        write_wrapper(name, known.get(name, []), described.get(name, []), name in early)
    write_table("void (*const libcuda_trace_traced[])(void)", [f"traced_{n}" for n in names])
    print("const struct libcuda_trace_call libcuda_trace_calls[] = {")
    for name in names:
        ds = described.get(name)
        print(f'\t{{"{name}", {-1 if ds is None else len(ds)}, {f"params_{name}" if ds else "NULL"}}},')
    print(f"}};\n\nconst unsigned int libcuda_trace_call_count = {len(names)};")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "rename":
        return write_rename(read_names(sys.argv[2]))
    if len(sys.argv) < 7 or sys.argv[1] != "calls" or "--" not in sys.argv:
        sys.exit(__doc__)
    names, early, output, depfile = sys.argv[2:6]
    end = sys.argv.index("--")
    text = preprocess(sys.argv[end + 1:], sys.argv[6:end], output, depfile)
    names, early, known = read_names(names), read_names(early), functions(text)
    for name in sorted(set(early) - set(names)):
        sys.exit(f"trace.py: {name} is in before-init.txt and not in names.txt")
    for name in sorted(set(known) - set(names)):
        sys.exit(f"trace.py: {name} is exported and not in names.txt")
    with open(output, "w", encoding="ascii") as sys.stdout:
        write_calls(names, known, Types(text), set(early))
    return None


main()

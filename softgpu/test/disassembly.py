# SPDX-License-Identifier: Apache-2.0
"""disassembly.py PRINT_SASS RUN_CASES ARCHITECTURE CUBIN... -- FAMILY.ptxt...: the decoder of machine code against nvdisasm.

The code is that of the cubins, and what ptxas makes of the PTX tests. Each different instruction is compared: the
name of the opcode, the guard, registers with their signs, predicates with their negations, immediates, constants and
targets of branches. Modifiers: instructions that nvdisasm prints with different ones have different fields. The fields
of NAMED and VALUES also have the values of the words that nvdisasm prints.

Not compared: the fields that have no effect on what is lifted (`-` in sass-forms.table), scoreboards, stall counts,
reuse flags, and the order of operands. ptxas or nvdisasm of a CUDA toolkit missing: the test is skipped.
"""

import collections
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

PREDICATES = [("p0", None), ("p1", None), ("pc", "pc_not"), ("pd", "pd_not"), ("pe", "pe_not"), ("pg", "pg_not")]
# Fields that are operands in the text.
OPERANDS = {"p0", "p1", "pc", "pc_not", "pd", "pd_not", "pe", "pe_not", "pg", "pg_not", "u", "offset", "offset_to", "target", "near",
            "bytes", "lut", "lut2", "low", "shift", "clamp", "lane", "threads", "id", "index", "source", "bank", "has_u"}
# The word that is printed if a field is set; and the forms that this is for, else all that have the field.
SHIFTS, MEMORY = {"SHF", "USHF"}, {"LD", "LDG", "ST", "STG", "RED", "ATOMG", "ATOM"}
NAMED = {"ftz": ("FTZ", None), "sat": ("SAT", None), "x": ("X", None), "ex": ("EX", None), "relu": ("RELU", None), "wrap": ("W", None),
         "xorsign": ("XORSIGN", None), "bf16": ("BF16", None), "sx32": ("SX32", None), "nan": ("NAN", {"FMNMX", "HMNMX2"}),
         "right": ("R", SHIFTS), "high": ("HI", SHIFTS | {"LEA", "ULEA"}), "and": ("PAND", {"LOP3", "ULOP3"}), "wide": ("E", MEMORY),
         "keep": ("KEEPREFCOUNT", None), "noinc": ("NOINC", None), "nodec": ("NODEC", None), "transposed": ("MT88", None)}
# The words of a field's values; an empty one: none of the others.
COMPARISONS = ["F", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU", "T"]
VALUES = {"compare": (COMPARISONS, {"FSETP", "FSET", "DSETP", "HSETP2", "HSET2"}),
          "bool": (["AND", "OR", "XOR"], None), "round": (["", "RM", "RP", "RZ"], {"FADD", "FMUL", "FFMA", "DADD", "DMUL", "DFMA"}),
          "type": (["U8", "S8", "U16", "S16", "", "64", "128", "U"], {"LD", "LDG", "ST", "STG", "LDS", "STS", "LDL", "STL", "LDC"})}
VALUES_3 = ["F", "LT", "EQ", "LE", "GT", "NE", "GE", "T"]
# By operands nvdisasm calls these as other instructions are called.
ALIASES = {"IMAD": {"MOV", "SHL", "IADD"}}
# Parts of a form's name that are no words of nvdisasm's.
OWN_WORDS = {"SIGN", "IDX", "F"}
# A variant of the same meaning.
VARIANTS = {"CAS": "CAST", "RED": "REDG"}
UNIFORM_RESULTS = {"ULDC", "ULDC.IDX", "S2UR", "VOTEU", "REDUX", "R2UR", "ELECT"}
# Without an effect on what is lifted: only names and guards are compared.
WITHOUT_EFFECT = {"BSSY", "BSYNC", "BREAK", "BMOV", "CCTL", "ERRBAR", "CGAERRBAR", "YIELD", "NOP"}

# The test local-machine-code-textures compares what kernels compute with these, so that names are enough here.
TEXTURES = {"TEX", "TLD", "TLD4", "TXD", "TXQ", "SULD.D", "SUST.D", "SUST.P", "SURED"}

TOKEN = re.compile(r"""(?P<guard>^@(?P<guard_not>!?)(?P<guard_reg>U?P[0-7T]))|
    (?P<constant>(?P<csign>[-~]?)(?P<cabs>\|?)(?<![a-z])cx?\[(?P<bank>[^\]]*)\]\[(?P<place>[^\]]*)\])|
    (?P<sign>[-~]?)(?P<abs>\|?)(?P<reg>U?R(?:Z|\d+))\|?(?P<regmods>(?:\.\w+)*)|
    (?P<not>!?)(?P<pred>U?P[0-6T])\b|
    (?P<number>[-+]?(?:0x[0-9a-f]+|\d+\.?\d*(?:e[-+]?\d+)?|INF|QNAN|SNAN))""", re.X)


def check(condition, message):
    if not condition:
        sys.exit(message)


def tool(name):
    path = shutil.which(name) or shutil.which(f"/usr/local/cuda/bin/{name}")
    if not path:
        print(f"SKIPPED: {name} of a CUDA toolkit is missing")
        sys.exit(77)
    return path


def assembled(run_cases, ptxas, architecture, families, folder):
    """The cubins of the families' texts, but for those that the architecture does not have."""
    cubins = []
    for family in families:
        texts = subprocess.run([run_cases, "--dump", family], capture_output=True, text=True, check=True).stdout
        for number, text in enumerate(re.split(r"(?m)^(?=\.version)", texts)[1:]):
            path = os.path.join(folder, f"{os.path.basename(family)}-{number}")
            text = re.sub(r"(?m)^\.target .*", f".target sm_{architecture}", text)
            with open(path + ".ptx", "w", encoding="utf-8") as file:
                file.write(text)
            r = subprocess.run([ptxas, f"-arch=sm_{architecture}", "-o", path, path + ".ptx"], capture_output=True, text=True, check=False)
            if r.returncode == 0:
                cubins.append(path)
    return cubins


def disassemble(nvdisasm, architecture, words, folder):
    """The text of each instruction; a branch has the address that it leads to from its place in the list."""
    path = os.path.join(folder, "code")
    with open(path, "wb") as file:
        for pair in words:
            file.write(struct.pack("<QQ", *pair))
    r = subprocess.run([nvdisasm, "-b", f"SM{architecture}", "-ndf", path], capture_output=True, text=True, check=False)
    check(r.returncode == 0, f"nvdisasm: {r.stderr}")
    lines = dict((int(at, 16), text.strip()) for at, text in re.findall(r"(?m)^\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;", r.stdout))
    return [lines.get(16 * n) for n in range(len(words))]


class Ours:
    """A line of print-sass."""

    def __init__(self, line):
        words = line.split()
        self.architecture, self.words = int(words[0]), (int(words[1], 16), int(words[2], 16))
        self.name = None if words[3] == "unknown" else words[3]
        if not self.name:
            return
        self.kind, self.guard, self.operands = words[4], words[5], words[6:10]
        self.fields = {name: int(value) for name, value in (word.split("=") for word in words[10:])}
        self.uniform = self.kind == "ualu" or self.name.startswith("U") and self.name[1:] != "CGABAR"

    def registers(self):
        """With their signs, without those that are zero."""
        found = []
        for place, text in enumerate(self.operands):
            if not place and self.name in UNIFORM_RESULTS:
                text = "U" + text
            if self.name == "WARPSYNC" and text == "R0":
                text = f"R{self.fields['source']}"
            if self.name in ("BRA", "BRXU") and self.fields["uniform"]:
                text = "U" + text
            m = re.match(r"(-?)(\|?)(U?R)(\d+)(?:\.h\d)?$", text)
            if m and not (m[3] == "R" and m[4] == "255" or m[3] == "UR" and m[4] == "63"):
                found.append((bool(m[1]), bool(m[2]), m[3] + m[4]))
        if self.fields.get("sparse") and self.fields["metadata"] != 255:
            found.append((False, False, f"R{self.fields['metadata']}"))
        u = self.fields.get("u", 63)
        has_u = self.fields.get("has_u", 0)
        # before sm_90 nvdisasm does not print the descriptor
        if self.fields.get("descriptor", 0):
            has_u = self.architecture >= 90
        if u not in (63, 255) and has_u:
            found.append((False, False, f"UR{u & 63}"))
        if self.fields.get("indexed"):
            found.append((False, False, f"UR{self.fields['index']}"))
        return collections.Counter(found)

    def predicates(self):
        """Without those that are true."""
        letter = "UP" if self.uniform or self.name == "R2UR" else "P"
        found = []
        for field, negation in PREDICATES:
            number, negated = self.fields.get(field, 0 if field == "pg" else 7), self.fields.get(negation, 0)
            number ^= 7 if field == "pg" else 0
            if self.name == "LD" and field == "p0":
                continue  # it has none
            if number != 7:
                found.append((bool(negated), f"{'U' if field == 'pe' and self.fields.get('uniform') else ''}{letter}{number}"))
        return collections.Counter(found)

    def numbers(self):
        return [int(text, 16) for text in self.operands if re.match(r"0x|0$", text)]

    def constants(self):
        found = [text.replace("[0]", "[0x0]") for text in self.operands if "][" in text]
        if "bank" in self.fields:
            found.append(f"c[{self.fields['bank']:#x}][{self.fields['offset']:#x}]")
        return collections.Counter(found)

    def modifiers(self):
        halves = [text[-1] if ".h" in text else "" for text in self.operands]
        fields = sorted((k, v) for k, v in self.fields.items() if k not in OPERANDS or (self.name, k) == ("FLO", "shift"))
        # this name has forms without an operand
        form = self.words[0] & 0xfff if self.name == "WARPSYNC" else 0
        return (self.name, self.kind, form, *halves, *fields)


class Theirs:
    """A line of nvdisasm."""

    def __init__(self, text):
        self.text = text
        self.guard, self.registers, self.predicates, self.numbers, self.constants = "7", [], [], [], []
        guard = re.match(r"@(!?)U?P([0-7T])\s+", text)
        if guard:
            self.guard = guard[1] + guard[2].replace("T", "7")
            text = text[guard.end():]
        self.mnemonic, _, rest = text.partition(" ")
        self.parts = self.mnemonic.split(".")
        self.words = []
        for m in TOKEN.finditer(rest):
            self.take(m)
        left = TOKEN.sub(" ", rest)
        self.words += re.findall(r"[A-Z_][A-Z_0-9.]*", left)

    def take(self, m):
        if m["constant"]:
            self.take_constant(m)
        elif m["reg"]:
            self.words += [word for word in m["regmods"].split(".") if word and word != "reuse"]
            if not m["reg"].endswith("Z"):
                self.registers.append((bool(m["sign"]), bool(m["abs"]), m["reg"]))
        elif m["pred"]:
            if not m["pred"].endswith("T"):
                self.predicates.append((bool(m["not"]), m["pred"]))
        elif m["number"]:
            self.numbers.append(m["number"])

    def take_constant(self, m):
        prefix = ("-" if m["csign"] else "") + ("|" if m["cabs"] else "")
        register = re.match(r"(U?R(?:Z|\d+))(?:\.\w+)*\+?(.*)$", m["place"])
        if register and not register[1].endswith("Z"):
            self.registers.append((False, False, register[1]))
        place = (register[2] or "0x0") if register else m["place"]
        self.constants.append(f"{prefix}{'cx' if m['bank'].startswith('UR') else 'c'}[{m['bank']}][{place}]")


def value_of(number, bits):
    """The bits of a number that nvdisasm prints, as what it may be of `bits` bits."""
    sign = -1 if number.startswith("-") else 1
    plain = number.lstrip("+-")
    if plain.startswith("0x"):
        return {sign * int(plain, 16) & 0xffffffff}
    if plain in ("QNAN", "SNAN"):
        return None
    value = sign * float(plain.replace("INF", "inf"))
    found = {struct.unpack("<I", struct.pack("<f", value))[0]} if abs(value) < 3.5e38 or value in (float("inf"), -float("inf")) else set()
    found.add(struct.unpack("<Q", struct.pack("<d", value))[0] >> 32)
    if value == int(value if abs(value) < 1e18 else 0):
        found.add(int(value) & 0xffffffff)
    return found


class Comparison:
    def __init__(self):
        self.faults = collections.Counter()
        self.examples = {}
        self.printed = collections.defaultdict(dict)
        self.compared = 0

    def fault(self, kind, ours, theirs):
        key = (kind, ours.name)
        self.faults[key] += 1
        self.examples.setdefault(key, f"{theirs.text}\n\t{ours.words[1]:016x}{ours.words[0]:016x} {ours.operands} {ours.fields}")

    def one(self, ours, theirs, address):
        self.compared += 1
        form = ours.name.split(".")
        if theirs.parts[0] not in (form[0], VARIANTS.get(form[0])) or any({w, VARIANTS.get(w)}.isdisjoint(theirs.parts) for w in set(form[1:]) - OWN_WORDS):
            self.fault("name", ours, theirs)
        if theirs.guard != ours.guard:
            self.fault("guard", ours, theirs)
        if ours.name in WITHOUT_EFFECT | TEXTURES:
            return
        # a branch has a register in some of its modes
        if ours.registers() != collections.Counter(theirs.registers) and (ours.name not in ("BRA", "WARPSYNC") or theirs.registers):
            self.fault("registers", ours, theirs)
        # a barrier has a predicate if it reduces
        if ours.predicates() != collections.Counter(theirs.predicates) and (ours.name != "BAR" or "RED" in theirs.parts):
            self.fault("predicates", ours, theirs)
        if ours.constants() != collections.Counter(theirs.constants):
            self.fault("constants", ours, theirs)
        self.numbers(ours, theirs, address)
        self.modifiers(ours, theirs)

    def numbers(self, ours, theirs, address):
        """Immediates are in the text, and all numbers of the text are immediates or fields."""
        known = [v & 0xffffffff for v in ours.fields.values()] + ours.numbers()
        if "target" in ours.fields:
            target = ours.fields["target"] * 4
            if ours.architecture >= 90:
                target = (ours.fields["target"] * 256 + ours.fields.get("near", 0)) * 4
            known += [target & 0xffffffff, address + 16 + target & 0xffffffff]
        if "bytes" in ours.fields:
            known.append(address + 16 + ours.fields["bytes"] & 0xffffffff)
        if "lut2" in ours.fields and "low" in ours.fields:
            known += [ours.fields["high"] << 3 | ours.fields["low"]]
        values = [value_of(n, 32) for n in theirs.numbers]
        if any(v is not None and not v & set(known) for v in values) and not ours.name.startswith("H"):
            self.fault("numbers", ours, theirs)
        for number in ours.numbers():
            if number and values and not any(v is None or number in v for v in values) and not ours.name.startswith("H"):
                self.fault("immediate", ours, theirs)

    def modifiers(self, ours, theirs):
        words = [w for w in theirs.parts[1:] if w not in ALIASES.get(ours.name, ())] + theirs.words
        words = tuple(sorted(words))
        before = self.printed[ours.modifiers()].setdefault(words, theirs)
        if before is theirs and len(self.printed[ours.modifiers()]) > 1:
            other = next(iter(self.printed[ours.modifiers()].values()))
            self.fault("modifiers", ours, theirs)
            self.examples.setdefault(("beside", ours.name), other.text)
        # both flags together, and those of other conversions, have other meanings
        if ours.fields.get("e8") or ours.fields.get("pack") == 1 or ours.fields.get("ftz") and ours.fields.get("fmz"):
            return
        for field, (word, names) in NAMED.items():
            if field in ours.fields and (not names or ours.name in names) and bool(ours.fields[field]) != any(w in (word, word + "_V2") for w in words):
                self.fault(f"field {field}", ours, theirs)
        self.values(ours, theirs, theirs.parts[1:])

    def values(self, ours, theirs, words):
        tables = dict(VALUES)
        if ours.name in ("ISETP", "UISETP"):
            tables["compare"] = (VALUES_3, None)
        if ours.name == "DSETP":
            tables["compare"] = (["MIN"] + COMPARISONS[1:15] + ["MAX"], None)
        for field, (values, names) in tables.items():
            if field not in ours.fields or names and ours.name not in names:
                continue
            value = ours.fields[field]
            word = values[value] if value < len(values) else "?"
            if not set(words) & {word} if word else set(words) & set(values):
                self.fault(f"field {field}", ours, theirs)


def main():
    print_sass, run_cases, architecture, *paths = sys.argv[1:]
    ptxas, nvdisasm = tool("ptxas"), tool("nvdisasm")
    split = paths.index("--")
    comparison = Comparison()
    with tempfile.TemporaryDirectory() as folder:
        cubins = paths[:split] + assembled(run_cases, ptxas, architecture, paths[split + 1:], folder)
        lines = set()
        for path in cubins:
            lines |= set(subprocess.run([print_sass, path], capture_output=True, text=True, check=True).stdout.splitlines())
        ours = [o for o in map(Ours, sorted(lines)) if o.architecture == int(architecture)]
        texts = disassemble(nvdisasm, architecture, [o.words for o in ours], folder)
    unknown = 0
    for number, (o, text) in enumerate(zip(ours, texts)):
        check(text, f"nvdisasm prints nothing for {o.words[1]:016x}{o.words[0]:016x}")
        if not o.name:
            unknown += 1
            comparison.examples.setdefault(("unknown", text.split()[0]), text)
            continue
        comparison.one(o, Theirs(text), 16 * number)
    for (kind, name), count in sorted(comparison.faults.items()):
        print(f"{kind}: {name}: {count}: {comparison.examples[kind, name]}")
        if kind == "modifiers":
            print(f"\tbeside {comparison.examples['beside', name]}")
    names = {o.name for o in ours}
    print(f"sm_{architecture}: {comparison.compared} instructions of {len(names)} names are compared, "
          f"{unknown} are not decoded, {sum(comparison.faults.values())} differ")
    for (kind, name), text in comparison.examples.items():
        if kind == "unknown":
            print(f"not decoded: {text}")
    sys.exit(bool(comparison.faults or unknown or not comparison.compared))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The forms of PTX's instructions: the software GPU compiles each form that ptxas accepts, or refuses it by name.

usage: forms.py [--all] [--keep FOLDER] [--part TEXT] CHECKER [TABLE]

forms.table holds lines of a name and its operands; each choice in <|> makes a form of its own (%or% is a |), and
`let NAME a|b` a choice for $NAME. A line that begins with `: ` is whole statements, in which %% is a number of their
own; one that begins with `= ` goes before the kernel, with names f, g, x, y of its own. In operands, @ and a letter
stand for what depends on the name:

  @t @T @D      a register of the first or second type, of twice the first
  @b @h @r @l @q @f @d @p   a register of 8, 16, 32, 64, 128 bits, an f32, an f64, a predicate
  @A @V         an address in the state space that the name says; a value, or a vector of them
  @S            a register with or without a selector
  @c @N @H @K   the second value of .cas, the mask of .sync, the policy of .L2::cache_hint, the mask of .cp_mask
  @X @Y @W @M   the registers of a matrix; behind @W and @M: which one, D, A, B or C
  @G @I @g @o @B  coordinates, coordinates in bytes, gradients, offsets, a level

Of each line's first form of its types there are more: with a guard, and with each source a number.
From lines with very many forms some are tried, always the same ones; --all tries all. CHECKER compiles the forms that
ptxas accepts for any of TARGETS. A form that CHECKER refuses must be in REFUSED, which doc/reference/software-gpu.md
describes.
"""
import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

TARGETS = (('9.0', 'sm_90a', ''), ('9.0', 'sm_100a', ''), ('9.0', 'sm_103a', ''), ('9.0', 'sm_120a', ''),
           ('9.0', 'sm_121a', ''), ('6.3', 'sm_70', 'sm_75'), ('3.1', 'sm_20', 'sm_75'), ('2.3', 'sm_13', 'sm_75'))
MOST = 400  # forms of one line
GROUP = 60  # forms in one kernel
REFUSED = (
    r'\btcgen05\.', r'\bwgmma\.', r'\bmultimem\.',
    r'\btensormap\.replace\.tile\.(interleave_layout|swizzle_atomicity)\..*, [1-9]', r'\btensormap\.replace\.tile\.swizzle_mode\..*, 4',
    r'\btensormap\.replace\.tile\.elemtype\..*, 1[3-5]',
    r'\bcp\.(reduce\.)?async\.bulk\.(prefetch\.)?tensor\..*\.(im2col::w|tile::(gather|scatter)4|cta_group)', r'\bmma\.sp.*\.m16n8k32\..*\.f32\.f16\.f16\.f32 .*, [23];', r'\bmma\..*\.block_scale\.',
    r'\bldmatrix\..*\.m16n16\.', r'\bstmatrix\..*\.m16n8\.', r'\bcvt\.rs\.',
    r'\.reqnctapercluster ([2-9]|.*, [2-9])', r'\.param \.(tex|surf)ref\b', r'\.texref \w* = ', r'^= \.local ',
    r'\btex\.a?2dms\.', r'\btex\.(base\.)?[^lg].*\], (%f|0f)', r'\btex\.level\..*\], [^,]*, .*(%f|0f)\w*;',
    r'\btld4\..*\], (%f|0f)', r'\b(txq|suq)\.(channel|num_samples|filter_mode|addr_mode|memory_layout)')
BITS = {'b8': 8, 'u8': 8, 's8': 8, 'e2m1x2': 8, 'b16': 16, 'u16': 16, 's16': 16, 'f16': 16, 'bf16': 16, 'e4m3x2': 16,
        'e5m2x2': 16, 'e2m3x2': 16, 'e3m2x2': 16, 'ue8m0x2': 16, 'b32': 32, 'u32': 32, 's32': 32, 'f16x2': 32,
        'bf16x2': 32, 'u16x2': 32, 's16x2': 32, 'tf32': 32, 'f32': 32, 'b64': 64, 'u64': 64, 's64': 64, 'f64': 64,
        'f32x2': 64, 'b128': 128, 'pred': 1}
LETTERS = {8: 'b', 16: 'h', 32: 'r', 64: 'l', 128: 'q', 1: 'p'}
SMALL = {'s4': 4, 'u4': 4, 'b1': 1, 'e4m3': 8, 'e5m2': 8, 'e2m3': 8, 'e3m2': 8, 'e2m1': 8}
MODULE = """.version {version}
.target {target}
.address_size 64
.visible .global .align 16 .b8 gv[64];
.visible .const .align 16 .b8 cv[64];
.global .texref tv;
.global .surfref uv;
.func (.reg .b32 o) fn(.reg .b32 a)
{{
add.u32 o, a, 1;
ret;
}}
.func fp(.param .b32 a, .param .b64 b)
{{
ret;
}}
.func fz()
{{
ret;
}}
.func (.param .align 8 .b8 o[16]) fa(.param .b32 a)
{{
ret;
}}
.visible .entry k(.param .align 16 .b8 kp[64])
{{
.reg .pred %p<9>;
.reg .b8 %b<9>;
.reg .b16 %h<9>;
.reg .b32 %r<9>;
.reg .b64 %l<9>;
.reg .f32 %f<9>;
.reg .f64 %d<9>;
{wide}
.shared .align 128 .b8 sv[1024];
.local .align 16 .b8 lv[64];
{forms}
$OUT: ret;
}}
"""


def expand(text):
    """All texts that the choices in <|> make."""
    start = re.search('<(?![0-9]+>)', text)
    if not start:
        return [text]
    start = start.start()
    choices, depth, at = [''], 1, start
    while depth:
        at += 1
        depth += (text[at] == '<') - (text[at] == '>')
        if text[at] == '|' and depth == 1:
            choices.append('')
        elif depth:
            choices[-1] += text[at]
    rest = expand(text[at + 1:])
    return [text[:start] + chosen + r for choice in choices for chosen in expand(choice) for r in rest]


def sample(texts, most):
    if len(texts) <= most:
        return texts
    chosen = set(sorted(texts, key=lambda t: hashlib.sha256(t.encode()).digest())[:most])
    return [t for t in texts if t in chosen]


class Name:
    """The facts about the operands in an instruction's name."""

    def __init__(self, name):
        self.words = name.split('.')
        self.types = [w for w in self.words if w in BITS]
        self.count = next((int(w[1:]) for w in self.words if re.fullmatch('v[248]', w)), 0)

    def has(self, *words):
        return any(w.split('::')[0] in words for w in self.words)

    def register(self, which):
        """The letter of the registers of the first or second type; of the last one, or of twice the first."""
        if not self.types:
            return 'r'
        kind = {'t': self.types[0], 'T': self.types[min(1, len(self.types) - 1)], 'V': self.types[-1]}.get(which)
        if which == 'D':
            return LETTERS[min(2 * BITS[self.types[0]], 128)]
        if kind == 'f32' or kind == 'f64':
            return 'f' if kind == 'f32' else 'd'
        if which == 'V':
            return LETTERS[max(BITS[kind], 16)]
        if BITS[kind] == 8 and kind != 'e2m1x2':
            return 'h'
        return LETTERS[BITS[kind]]

    def shape(self):
        m = next(re.fullmatch('m([0-9]+)n([0-9]+)k([0-9]+)', w) for w in self.words if re.fullmatch('m.*n.*k.*', w))
        return [int(n) for n in m.groups()]

    def matrix(self, which, wmma):
        """How many registers a matrix has, and their letter."""
        kinds = [w for w in self.words if w in BITS or w in SMALL]
        m, n, k = self.shape()
        if len(kinds) == 2:
            kinds = [kinds[0], 'f16', 'f16', kinds[1]]
        if len(kinds) == 1:
            kinds *= 4
        kind = kinds['DABC'.index(which)]
        bits = BITS.get(kind) or SMALL[kind]
        if self.has('kind') and which in 'AB':
            bits = 4 if self.has('block_scale') else 8
        cells = {'A': m * k // (2 if self.has('sp') else 1), 'B': n * k}.get(which, m * n)
        count = max(1, cells * bits // 1024)
        if wmma and kind == 'f16':
            count = 8 if which in 'AB' else 4
        if not wmma and (m, n, k) == (8, 8, 4) and kind == 'f16':
            count = 2 if which in 'AB' else 4
        if kind == 'f64':
            return cells // 32, 'd'
        if not wmma and (m, n, k) == (8, 8, 4) and kind == 'f32':
            count = 8
        return count, 'f' if kind == 'f32' and which in 'DC' else 'r'


class Operands:
    """Writes out the operands of a name."""

    def __init__(self, name, choice):
        self.name, self.choice, self.used = name, choice, 0
        self.dims = next((w for w in name.words if w in ('1d', '2d', '3d', 'a1d', 'a2d', 'cube', 'acube')), '1d')

    def new(self, letter):
        self.used += 1
        return f'%{letter}{self.used % 9}'

    def vector(self, count, letter):
        return '{' + ', '.join(self.new(letter) for _ in range(count)) + '}'

    def address(self):
        n = self.name
        if n.has('param'):
            return ('[kp]', '[kp+8]', '[%l1]')[self.choice % 3]
        for space in ('shared', 'local', 'const', 'global'):
            if n.has(space):
                register, symbol = '%r1' if space in ('shared', 'local') else '%l1', space[0] + 'v'
                kinds = register, f'{register}+32', symbol, f'{symbol}+32', f'{register}+-32'
                return f'[{kinds[self.choice % len(kinds)]}]'
        return ('[%l1]', '[%l1+32]', '[%l1+-32]')[self.choice % 3]

    def matrix(self, which):
        wmma = self.name.words[0] == 'wmma'
        return self.vector(*self.name.matrix(which, wmma))

    def coordinates(self, letter):
        array, width = {'1d': ('', 1), '2d': ('', 2), '3d': ('', 4), 'a1d': ('r', 1), 'a2d': ('r', 3), 'cube': ('', 4),
                        'acube': ('r', 3)}[self.dims]
        return '{' + ', '.join([self.new('r')] * len(array) + [self.new(letter) for _ in range(width)]) + '}'

    def of_matrix(self, code):
        n = self.name
        if code in 'XY':
            count = next((int(w[1]) for w in n.words if w in ('x1', 'x2', 'x4')), 1)
            return self.vector(count * (1 + (code == 'Y')), 'r')
        return self.matrix(code[1:] or n.words[2].upper())

    def of_texture(self, code):
        width = {'1d': 1, 'a1d': 1, '2d': 2, 'a2d': 2}.get(self.dims, 4)
        if code == 'G':
            return self.coordinates(self.name.register('T'))
        if code == 'I':
            return self.coordinates('r')
        if code == 'B':
            return ', ' + self.new('f') if self.name.has('level') else ''
        if width == 1:
            return self.vector(1, 'f' if code == 'g' else 'r')
        return self.vector(width, 'f' if code == 'g' else 'r')

    def one(self, match):
        code, n = match[1], self.name
        if code in 'tTD':
            return self.new(n.register(code))
        if code in 'bhrlqfdp':
            return self.new(code)
        if code == 'A':
            return self.address()
        if code == 'V':
            return self.vector(n.count, n.register('V')) if n.count else self.new(n.register('V'))
        if code == 'S':
            return self.new('r') + ('', '.b0', '.b3', '.h0', '.h1')[self.choice % 5]
        there = {'c': n.has('cas'), 'N': n.has('sync'), 'H': 'L2::cache_hint' in n.words, 'K': n.has('cp_mask')}
        if code in there:
            return ', ' + self.new({'c': n.register('t'), 'N': 'r', 'H': 'l', 'K': 'h'}[code]) if there[code] else ''
        return self.of_matrix(code) if code[0] in 'XYMW' else self.of_texture(code)

    def write(self, text):
        return re.sub('@(M[DABC]|W[DABC]?|[A-Za-z])', self.one, text)


NUMBERS = {'r': '5', 'l': '7', 'h': '3', 'f': '0f3FC00000', 'd': '0d3FF8000000000000', 'b': '1'}


def others(name, operands):
    """The same with guards, and with numbers for sources."""
    texts = [f'@%p7 {name} {operands};', f'@!%p7 {name} {operands};']
    parts = re.split(r'(?<=[^,]), (?![^{\[]*[}\]])', operands)
    for n, part in enumerate(parts):
        if n and re.fullmatch('%[rlhfdb][0-9]', part):
            texts.append(f'{name} {", ".join(parts[:n] + [NUMBERS[part[1]]] + parts[n + 1:])};')
    return texts


def forms_of(line, most, number):
    """The forms of a line of the table."""
    if line.startswith('= '):
        return [re.sub(r'\b([fgxy])\b', rf'\1_{number}_{n}', text) for n, text in enumerate(expand(line))]
    if line.startswith(': '):
        return [t.replace('%or%', '|').replace('%%', str(number)) for t in expand(line[2:])]
    parts = re.split(r'\s\s+', line, maxsplit=1)
    texts, seen = [], set()
    for at, both in enumerate(sample(expand('\0'.join(parts)), most)):
        name, _, operands = both.partition('\0')
        n = Name(name.split(' ')[0])
        operands = Operands(n, at).write(operands).replace('%or%', '|')
        texts.append(f'{name} {operands};' if operands else f'{name};')
        if operands and tuple(n.types) not in seen:
            texts += others(name, operands)
            seen.add(tuple(n.types))
    return texts


def read_table(path, most, part):
    names, forms = {}, {}
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip('\n')
            if line.startswith('let '):
                _, name, value = line.split(' ', 2)
                names[name] = value
            elif line and not line.startswith('#') and part in line:
                line = re.sub(r'\$([A-Z][A-Z0-9]*)', lambda m: names.get(m[1], m[0]), line)
                forms.update(dict.fromkeys(forms_of(line, most, number)))
    return list(forms)


def module(forms, version, target):
    """The text, and the line of its first form."""
    if forms[0].startswith('= '):
        head = f'.version {version}\n.target {target}\n.address_size 64\n'
        return head + '\n'.join(f[2:] for f in forms) + '\n.visible .entry k()\n{\nret;\n}\n', 4
    wide = '.reg .b128 %q<9>;' if float(version) >= 8.3 else ''
    text = MODULE.format(version=version, target=target, wide=wide, forms='\n'.join('{ ' + f + ' }' for f in forms))
    return text, text[:text.index('\n{ ' + forms[0])].count('\n') + 2


def groups(forms, size):
    kinds = [f for f in forms if f.startswith('= ')], [f for f in forms if not f.startswith('= ')]
    return [kind[n:n + size] for kind in kinds for n in range(0, len(kind), size)]


class Assembler:
    """The verdicts of ptxas on forms."""

    def __init__(self, path, folder):
        self.path, self.folder = path, folder
        self.hopeless = set()  # forms that no target can have: they are not read, or have no message

    def complaints(self, forms, target, number):
        """The forms that it names, or None: it is content; an empty set: it says nothing of any."""
        text, first = module(forms, *target[:2])
        path = os.path.join(self.folder, f'{target[1]}-{number}.ptx')
        with open(path, 'w', encoding='ascii') as file:
            file.write(text)
        run = subprocess.run([self.path, '-arch', target[2] or target[1], '-O1', path, '-o', os.devnull], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
        if run.returncode == 0:
            return None
        found = [(int(n) - first, kind) for n, kind in re.findall(r'line ([0-9]+); (error|fatal)', run.stdout)]
        if 'no longer supported' in run.stdout:  # addresses of 32 bits, of which it only warns
            found += [(int(n) - first, 'fatal') for n in re.findall(r"on line '([0-9]+)'", run.stdout)]
        found = [(forms[n], kind) for n, kind in found if 0 <= n < len(forms)]
        if not found and len(forms) == 1:
            found = [(forms[0], 'fatal')]
        self.hopeless |= {form for form, kind in found if kind == 'fatal'}
        return {form for form, _ in found}

    def legal(self, forms, target, number):
        """The forms that ptxas accepts for this target."""
        while forms:
            bad = self.complaints(forms, target, number)
            if bad is None:
                return forms
            if not bad:
                half = len(forms) // 2
                return self.legal(forms[:half], target, number) + self.legal(forms[half:], target, number)
            forms = [f for f in forms if f not in bad]
        return []


class Checker:
    """The verdicts of the software GPU on forms."""

    def __init__(self, path, folder):
        self.path, self.folder = path, folder

    def refused(self, forms, target, number):
        """{form: why}"""
        text, first = module(forms, *target[:2])
        path = os.path.join(self.folder, f'check-{number}.ptx')
        with open(path, 'w', encoding='ascii') as file:
            file.write(text)
        run = subprocess.run([self.path, path], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                             env=dict(os.environ, VCUDA_CPU_CACHE='0'), check=False)
        found = {int(line) - first: why for line, why in re.findall(r':([0-9]+): [0-9]+ (.*)', run.stdout)}
        inside = all(0 <= n < len(forms) for n in found)
        if run.returncode in (0, 1) and inside:
            return {forms[n]: why for n, why in found.items()}
        if len(forms) == 1:
            return {forms[0]: ' '.join(found.values()) or f'exit status {run.returncode} {run.stderr[-200:]}'}
        half = len(forms) // 2
        return {**self.refused(forms[:half], target, number), **self.refused(forms[half:], target, number)}


def find_legal(assembler, forms, jobs):
    """{form: the first target that has it}"""
    legal = {}
    for target in TARGETS:
        parts = groups([f for f in forms if f not in legal and f not in assembler.hopeless], 1500)
        with ThreadPoolExecutor(jobs) as pool:
            for part in pool.map(lambda n: assembler.legal(parts[n], target, n), range(len(parts))):
                legal.update(dict.fromkeys(part, target))
    return legal


def check(checker, legal, jobs):
    parts = [(part, target) for target in TARGETS for part in groups([f for f in legal if legal[f] == target], GROUP)]
    refused = {}
    with ThreadPoolExecutor(jobs) as pool:
        for part in pool.map(lambda n: checker.refused(*parts[n], n), range(len(parts))):
            refused.update(part)
    return refused


def judge(legal, refused, every):
    """Prints what is not as the documentation says; returns whether all is."""
    known = {pattern: [f for f in refused if re.search(pattern, f)] for pattern in REFUSED}
    told = {f for forms in known.values() for f in forms}
    wrong = [f for f in refused if f not in told]
    for form in wrong:
        print(f'{form}\n\tlegal for {legal[form][1]}: {refused[form]}')
    taken = [f for f in legal if f not in refused and any(re.search(pattern, f) for pattern in REFUSED)]
    for form in taken:
        print(f'{form}\n\tis said to be refused, and is not')
    stale = [pattern for pattern, forms in known.items() if every and not forms]
    for pattern in stale:
        print(f'{pattern}\n\tis said to be refused, and no form is')
    print(f'{len(legal)} legal forms: {len(legal) - len(refused)} taken, {len(refused)} refused, '
          f'{len(wrong)} of them unexpectedly')
    return not wrong and not taken and not stale


def main():
    options = argparse.ArgumentParser()
    options.add_argument('--all', action='store_true', help='all forms of each line')
    options.add_argument('--part', default='', help='only lines with this text')
    options.add_argument('--keep', help='leave the texts in this folder')
    options.add_argument('--jobs', type=int, default=2)
    options.add_argument('checker')
    options.add_argument('table', nargs='?', default=os.path.join(os.path.dirname(__file__), 'forms.table'))
    options = options.parse_args()
    path = shutil.which('ptxas') or shutil.which('/usr/local/cuda/bin/ptxas')
    if not path:
        print('skipped: there is no ptxas, neither on PATH nor in /usr/local/cuda/bin')
        return 77
    forms = read_table(options.table, sys.maxsize if options.all else MOST, options.part)
    with tempfile.TemporaryDirectory() as folder:
        if options.keep:
            os.makedirs(options.keep, exist_ok=True)
            folder = options.keep
        legal = find_legal(Assembler(path, folder), forms, options.jobs)
        refused = check(Checker(options.checker, folder), legal, options.jobs)
    print(f'{len(forms)} forms were tried')
    return 0 if judge(legal, refused, options.all and not options.part) else 1


if __name__ == '__main__':
    sys.exit(main())

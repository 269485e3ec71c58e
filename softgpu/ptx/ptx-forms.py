#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes C of ptx-forms.table, which says how it is read.

usage: ptx-forms.py TABLE HEADER
"""
import re
import sys

NO_END = 9999
LISTS = 'states ', 'fields ', 'packings ', 'references ', 'referring ', 'again '


class Need:
    """First and last PTX version (times ten), first and last target; `specific`: only targets that end with a or f."""

    def __init__(self, text=''):
        version, _, target = text.partition('/')
        self.version, self.last_version = self.bounds(version.replace('.', ''))
        self.specific = 's' in target
        self.target, self.last_target = self.bounds(target.replace('s', ''))

    @staticmethod
    def bounds(text):
        least, _, last = text.partition('-')
        return int(least or 0), int(last or NO_END)

    def key(self):
        return self.version, self.last_version, self.target, self.last_target, self.specific


class Slot:
    """A choice of words."""

    def __init__(self, text):
        self.optional = text.startswith('?')
        self.follows = text.startswith('+')
        self.any = text == '*'
        words = [] if self.any else text.lstrip('?+').split('|')
        self.words = [(word, Need(need)) for word, _, need in (w.partition('@') for w in words)]

    def key(self):
        return self.optional, self.follows, self.any, tuple((word, need.key()) for word, need in self.words)


class Form:
    """A line of the table."""

    def __init__(self, line):
        text, _, need = re.fullmatch(r'(.*?)(?: (@)(\S+))?', line).groups('')
        text, _, self.operands = text.partition(' | ')
        mods, _, types = text.partition(' : ')
        self.opcode, *mods = mods.split()
        self.need = Need(need)
        self.mods = [Slot(m) for m in mods]
        self.types = [Slot(t) for t in types.split()]
        assert len(self.mods) + len(self.types) <= 32, line  # ptx-forms.c has a bit for each


def substitute(line, names):
    """A choice in a choice is one: the ? of the inner one counts if the outer one has nothing else."""
    while '$' in line:
        line = re.sub(r'\$([A-Z][A-Z0-9]*)', lambda m: names[m[1]], line)
    return re.sub(r'[?]([?+])', r'\1', line)


def choices_of(line):
    """The line, once for each choice in its opcode."""
    match = re.match(r'(\S*?)\{(.*?)\}', line)
    if not match:
        return [line]
    return [one for word in match[2].split('|') for one in choices_of(match[1] + word + line[match.end():])]


def read(path):
    """The forms, and the lists of words: {name: words}."""
    names, forms, lists = {}, [], {}
    with open(path, encoding='ascii') as file:
        for line in file:
            line = line.rstrip()
            if line.startswith('let '):
                _, name, names[name] = line.split(' ', 2)
            elif line.startswith(LISTS):
                lists[line.split(' ')[0]] = line.split(' ')[1].split('|')
            elif line and not line.startswith('#'):
                forms += [Form(one) for one in choices_of(substitute(line, names))]
    return sorted(forms, key=lambda f: f.opcode.split('.')[0]), lists


class Pool:
    """Equal rows are one."""

    def __init__(self):
        self.at, self.rows = {}, []

    def add(self, key, row):
        if key not in self.at:
            self.at[key] = len(self.rows)
            self.rows.append(row)
        return self.at[key]


def row_of(need):
    return f'{{{need.version}, {need.last_version}, {need.target}, {need.last_target}, {str(need.specific).lower()}}}'


def slot_row(slot, needs, choices, at):
    first = at.get(slot.key())
    if first is None:
        first = at[slot.key()] = len(choices)
        choices += [f'{{"{word}", {needs.add(need.key(), row_of(need))}}}' for word, need in slot.words]
    return f'{{{first}, {len(slot.words)}, {str(slot.optional).lower()}, {str(slot.follows).lower()}, {str(slot.any).lower()}}}'


def table(kind, name, rows):
    return f'static const {kind} {name}[] = {{\n' + ''.join(f'\t{row},\n' for row in rows) + '};\n'


def main():
    forms, lists = read(sys.argv[1])
    needs, choices, slots, rows, at = Pool(), [], [], [], {}
    for form in forms:
        first = len(slots)
        slots += [slot_row(slot, needs, choices, at) for slot in form.mods + form.types]
        operands = f'"{form.operands.replace("!", "")}"' if form.operands else 'NULL'
        rows.append(f'{{"{form.opcode}", {operands}, {first}, {len(form.mods)}, {len(form.types)}, '
                    f'{needs.add(form.need.key(), row_of(form.need))}}}')
    assert len(needs.rows) < 256 and len(choices) < 65536 and len(slots) < 65536
    with open(sys.argv[2], 'w', encoding='ascii') as out:
        out.write('/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by ptx-forms.py of ptx-forms.table. */\n')
        out.write(table('struct need', 'needs', needs.rows) + table('struct choice', 'choices', choices))
        for name, words in lists.items():
            out.write(f'static const char *const {name}[] = {{' + ''.join(f'"{w}", ' for w in words) + 'NULL};\n')
        out.write(table('struct slot', 'slots', slots) + table('struct form', 'forms', rows))
    return 0


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutated PTX instructions: does the software GPU refuse at load what NVIDIA's ptxas refuses, and only that?

usage: mutate.py [--count N] [--seed N] [--record FILE] CHECKER    mutants of forms.table, which ptxas judges
       mutate.py --check FILE CHECKER                              mutants with ptxas's recorded answers

CHECKER is check-load. A record is a line: taken or refused, version, target, instruction, with tabs between them.
Fails if one that ptxas takes is refused (but for what is not supported, which doc/reference/software-gpu.md tells), or if of those
that ptxas refuses more than one in MOST_WRONG is taken.
"""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import forms

TARGETS = (('9.0', 'sm_90a'), ('9.0', 'sm_100a'), ('9.0', 'sm_120a'), ('9.0', 'sm_90'), ('6.3', 'sm_70'), ('3.1', 'sm_20'))
OLDER = (('3.1', 'sm_20'), ('4.2', 'sm_35'), ('5.0', 'sm_53'), ('6.0', 'sm_61'), ('6.3', 'sm_70'), ('6.5', 'sm_75'),
         ('7.0', 'sm_80'), ('7.4', 'sm_86'), ('7.8', 'sm_89'), ('8.0', 'sm_90'), ('8.1', 'sm_90a'), ('8.6', 'sm_100'),
         ('8.8', 'sm_120a'))
MOST_WRONG = 100
NOT_SUPPORTED = 2  # a status of check-load: natively it loads
REGISTERS = ('%r1', '%l1', '%f1', '%d1', '%h1', '%b1', '%p1')


def split_operands(text):
    return re.split(r', (?![^{\[]*[}\]])', text) if text else []


class Mutant:
    """A form, taken apart."""

    def __init__(self, form, words, generator):
        match = re.fullmatch(r'(@!?%p\d+ )?(\S+?)(?: (.*))?;', form)
        self.guard, name, operands = match.groups('')
        self.name, self.operands = name.split('.'), split_operands(operands)
        self.words, self.random = words, generator

    def text(self):
        operands = ', '.join(self.operands)
        return f'{self.guard}{".".join(self.name)}{" " + operands if operands else ""};'

    def word(self):
        """The number of a word other than the opcode; None: the name has no other word."""
        return self.random.randrange(1, len(self.name)) if len(self.name) > 1 else None

    def drop_word(self):
        self.name.pop(self.word())

    def add_word(self):
        self.name.insert(self.random.randrange(1, len(self.name) + 1), self.random.choice(self.words))

    def replace_word(self):
        at = self.word()
        kinds = list(forms.BITS)
        self.name[at] = self.random.choice(kinds if self.name[at] in kinds and self.random.random() < .8 else self.words)

    def swap_words(self):
        at = self.random.randrange(1, len(self.name) - 1)
        self.name[at], self.name[at + 1] = self.name[at + 1], self.name[at]

    def double_word(self):
        at = self.word()
        self.name.insert(at, self.name[at])

    def misspell(self):
        at = self.random.randrange(len(self.name))
        word = self.name[at]
        letter = self.random.randrange(len(word))
        self.name[at] = word[:letter] + self.random.choice('abcdefstxyz0123_') + word[letter + self.random.randrange(2):]

    def other_register(self):
        where = [n for n, o in enumerate(self.operands) if re.search('%[a-z][0-9]', o)]
        at = self.random.choice(where)
        found = self.random.choice(list(re.finditer('%[a-z][0-9]', self.operands[at])))
        self.operands[at] = self.operands[at][:found.start()] + self.random.choice(REGISTERS) + self.operands[at][found.end():]

    def number(self):
        where = [n for n, o in enumerate(self.operands) if re.fullmatch('%[a-z][0-9]', o)]
        self.operands[self.random.choice(where)] = self.random.choice(('5', '-1', '1.5', '0f3F800000'))

    def address(self):
        where = [n for n, o in enumerate(self.operands) if re.fullmatch('%[a-z][0-9]', o)]
        self.operands[self.random.choice(where)] = self.random.choice(('[%l1]', '[%r1]', '{%r1, %r2}', 'gv', '$OUT', '%tid.x'))

    def no_address(self):
        where = [n for n, o in enumerate(self.operands) if o[0] in '[{']
        self.operands[self.random.choice(where)] = self.random.choice(('%l1', '%r1', '5', 'sv'))

    def drop_operand(self):
        self.operands.pop(self.random.randrange(len(self.operands)))

    def add_operand(self):
        self.operands.insert(self.random.randrange(len(self.operands) + 1), self.random.choice(REGISTERS + ('5', '[%l1]')))

    def swap_operands(self):
        at = self.random.randrange(len(self.operands) - 1)
        self.operands[at], self.operands[at + 1] = self.operands[at + 1], self.operands[at]


OPERATIONS = [Mutant.drop_word, Mutant.add_word, Mutant.replace_word, Mutant.swap_words, Mutant.double_word, Mutant.misspell,
              Mutant.other_register, Mutant.number, Mutant.address, Mutant.no_address, Mutant.drop_operand,
              Mutant.add_operand, Mutant.swap_operands, None, None]


def mutate(form, target, words, generator):
    """(version, target, instruction) of a form that is legal for the target."""
    while True:
        operation = generator.choice(OPERATIONS)
        mutant = Mutant(form, words, generator)
        if not operation:
            return *generator.choice(OLDER), form
        try:
            operation(mutant)
        except (IndexError, ValueError, TypeError):
            continue  # the form has no such part
        if mutant.text() != form:
            return *target, mutant.text()


class Judge:
    """The verdict of ptxas on one instruction."""

    def __init__(self, path, folder):
        self.path, self.folder = path, folder

    def takes(self, number, version, target, instruction):
        text, _ = forms.module([instruction], version, target)
        path = os.path.join(self.folder, f'{number}.ptx')
        with open(path, 'w', encoding='ascii') as file:
            file.write(text)
        arch = target if int(re.sub('[^0-9]', '', target)) >= 75 else 'sm_75'
        run = subprocess.run([self.path, '-arch', arch, path, '-o', os.devnull], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, timeout=300, check=False)
        os.unlink(path)
        return run.returncode == 0


def draw(judge, count, generator, jobs):
    """Mutants of forms that are legal for a target: (taken, version, target, instruction)."""
    pool = [f for f in forms.read_table(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'forms.table'), forms.MOST, '')
            if re.fullmatch(r'(@!?%p\d+ )?[a-z][^{}:]*(\{.*)?;', f) and not f.startswith('= ') and f.count(';') == 1]
    words = sorted({w for f in pool for w in f.split(' ')[0].rstrip(';').split('.')[1:] if w})
    by_opcode = {}
    for form in pool:
        by_opcode.setdefault(re.sub(r'^@!?%p\d+ ', '', form).split('.')[0], []).append(form)
    opcodes, mutants = sorted(by_opcode), []
    with ThreadPoolExecutor(jobs) as workers:
        while len(mutants) < count:
            drawn = [(generator.choice(by_opcode[generator.choice(opcodes)]), *generator.choice(TARGETS))
                     for _ in range(count - len(mutants) + 20)]
            legal = list(workers.map(lambda n, d: judge.takes(n, d[1], d[2], d[0]), range(len(drawn)), drawn))
            mutants += [mutate(d[0], d[1:], words, generator) for d, good in zip(drawn, legal) if good]
        mutants = mutants[:count]
        answers = workers.map(lambda n, m: judge.takes(n, *m), range(count), mutants)
        return [(taken, *mutant) for taken, mutant in zip(answers, mutants)]


def load(path):
    with open(path, encoding='ascii') as file:
        lines = [line.rstrip('\n').split('\t') for line in file if not line.startswith('#')]
    return [(verdict == 'taken', *rest) for verdict, *rest in lines]


def store(path, records, seed):
    with open(path, 'w', encoding='ascii') as file:
        file.write(f'# SPDX-License-Identifier: Apache-2.0\n# What ptxas of CUDA 13.0 says of mutated instructions; seed {seed}. mutate.py says more.\n')
        for taken, *rest in records:
            file.write('\t'.join(['taken' if taken else 'refused', *rest]) + '\n')


def ask(checker, records):
    """(status, line in the text, reason) of each."""
    texts = ''.join(forms.module([r[3]], *r[1:3])[0] + '\0' for r in records)
    run = subprocess.run([checker], input=texts, stdout=subprocess.PIPE, text=True, timeout=600, check=True,
                         env=dict(os.environ, VCUDA_CPU_CACHE='0'))
    answers = [line.split(' ', 2) for line in run.stdout.splitlines()]
    if len(answers) != len(records):
        sys.exit(f'{checker} answers {len(answers)} of {len(records)} texts')
    return [(int(status), int(line), why) for status, line, why in answers]


def compare(records, answers, verbose):
    """Prints the counts; returns whether they are good enough."""
    false_refusals = [(r, a) for r, a in zip(records, answers) if r[0] and a[0] not in (0, NOT_SUPPORTED)]
    unsupported = [(r, a) for r, a in zip(records, answers) if r[0] and a[0] == NOT_SUPPORTED]
    accepted = [(r, a) for r, a in zip(records, answers) if not r[0] and not a[0]]
    wrong_line = [(r, a) for r, a in zip(records, answers) if not r[0] and a[0] == 1 and
                  a[1] != forms.module([r[3]], *r[1:3])[0][:forms.module([r[3]], *r[1:3])[0].index('\n{ ' + r[3])].count('\n') + 2]
    refused = sum(not r[0] for r in records)
    for kind, found in ('refused, and legal', false_refusals), ('another line', wrong_line):
        for record, answer in found:
            print(f'{kind}: {record[1]} {record[2]} {record[3]}\n\t{answer[2]}')
    for record, _ in accepted if verbose else accepted[:20]:
        print(f'taken, and not legal: {record[1]} {record[2]} {record[3]}')
    print(f'{len(records)} mutants, of which ptxas refuses {refused}: {len(false_refusals)} refused that are legal, '
          f'{len(unsupported)} legal ones are not supported, {len(accepted)} taken that are not legal, '
          f'{len(wrong_line)} refused at another line')
    return not false_refusals and not wrong_line and len(accepted) * MOST_WRONG <= refused


def main():
    options = argparse.ArgumentParser()
    options.add_argument('--count', type=int, default=2000)
    options.add_argument('--seed', type=int, default=1)
    options.add_argument('--record', help='a file for the mutants and the answers')
    options.add_argument('--check', help='such a file: ptxas is not asked')
    options.add_argument('--jobs', type=int, default=2)
    options.add_argument('--verbose', action='store_true', help='print all that is taken')
    options.add_argument('checker')
    options = options.parse_args()
    path = shutil.which('ptxas') or shutil.which('/usr/local/cuda/bin/ptxas')
    if not options.check and not path:
        print('skipped: there is no ptxas, neither on PATH nor in /usr/local/cuda/bin')
        return 77
    if options.check:
        records = load(options.check)
    else:
        print(f'seed {options.seed}')
        with tempfile.TemporaryDirectory() as folder:
            records = draw(Judge(path, folder), options.count, random.Random(options.seed), options.jobs)
        if options.record:
            store(options.record, records, options.seed)
    return 0 if compare(records, ask(options.checker, records), options.verbose) else 1


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Renames what the tables name, in the whole tree, by what the compiler says each identifier means.

    scripts/rename.py [--build build] [--lenient] [--dry-run] [--list WORD] TABLE...

An entry of a table is one line; '#' begins a comment. GLOB matches a path or its end ('stream/*.c', '*').
An entry may end with conditions: 'in GLOB' (a file that declares or defines it), 'type GLOB' (its type).

    function OLD NEW            struct OLD NEW (union, enum)    typedef OLD NEW     variable OLD NEW (of a file)
    enum-constant OLD NEW       macro OLD NEW                   field STRUCT.OLD NEW (STRUCT may be a GLOB)
    '*' in OLD matches any letters, which '*' in NEW repeats; the first entry that fits is taken
    local FUNCTION/OLD NEW      a parameter or local variable; FUNCTION may be a GLOB
    prefix GLOB OLD NEW         every function, struct, typedef, variable of a file, constant and macro that begins
                                with OLD and is declared below GLOB and nowhere else in product code; OLD and NEW in
                                capitals for constants and macros; applied to what the entries above give; a NEW that
                                is there already is not doubled
    keep NAME...                names (or GLOBs) that no prefix entry changes
    file PATH NEW               PATH ends with the old name, NEW is the new last part of it
    code GLOB OLD NEW           a token that clang cannot see (before '##', in code that is not compiled)
    mention GLOB KIND OLD       in files that are not C OLD is a name of that kind, where it is one of several kinds
    text GLOB OLD NEW           words: in comments and strings of C files, anywhere in other files

Entries that match nothing are errors, before anything is written; with --lenient they are warnings. Places that keep an
old name are listed. Needs python3-clang-19, git, clang-format-14, and a build directory with its generated headers. For
git log --follow: first --files and a commit, then a run without it and another commit. """
import argparse
import bisect
import collections
import fnmatch
import os
import re
import shlex
import subprocess
import sys

import c_index

CONDITIONS = ('in', 'type')
C_KINDS = ('function', 'struct', 'typedef', 'variable', 'enum-constant', 'macro', 'field', 'local')
GLOBAL_KINDS = ('function', 'struct', 'typedef', 'variable', 'enum-constant', 'macro')
NOT_PRODUCT = ('test/', 'bench/', 'examples/')
UNTOUCHED = re.compile(r'(^|/)(CHANGELOG\.md|LICENSE.*|\.git.*|long-results\.txt|glossary\.md|'
                       r'names-[\w-]+\.txt|rename\.py|c_index\.py)$|^bench/results/')
TOKEN = re.compile(rb'''(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<include>^[ \t]*\#[ \t]*include[^\n]*)|'''
                   rb'''(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?P<name>[A-Za-z_]\w*)|'''
                   rb'''(?P<number>\.?\d[\w.]*)''', re.S | re.M)
DEFINE = re.compile(rb'^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(?:\\\n|[^\n])*', re.M)
WORD = re.compile(r'[A-Za-z_]\w*')
ESCAPE_OR_WORD = re.compile(r'\\[a-z]|[A-Za-z_]\w*')


class Entry:
    def __init__(self, kind, words, where):
        self.kind, self.where, self.conditions, self.matched = kind, where, {}, False
        while kind in C_KINDS and len(words) > 3 and words[-2] in CONDITIONS:
            self.conditions[words[-2]] = words[-1]
            words = words[:-2]
        self.words = words

    def __str__(self):
        return '%s: %s %s' % (self.where, self.kind, ' '.join(self.words))


def read_tables(paths):
    counts = dict.fromkeys(C_KINDS + ('file',), 2)
    counts.update(prefix=3, code=3, text=3, mention=3)
    entries, keep = [], set()
    for path in paths:
        with open(path) as file:
            for number, line in enumerate(file, 1):
                words = shlex.split(line, comments=True)
                if not words:
                    continue
                if words[0] == 'keep':
                    keep.update(words[1:])
                    continue
                entry = Entry(words[0], words[1:], '%s:%d' % (path, number))
                if counts.get(entry.kind) != len(entry.words):
                    sys.exit('%s: not an entry: %s' % (entry.where, line.strip()))
                entries.append(entry)
    return entries, keep


def matches(path, glob):
    return fnmatch.fnmatchcase(path, glob) or fnmatch.fnmatchcase(path, '*/' + glob)


def tracked(root):
    out = subprocess.run(['git', '-C', root, 'ls-files', '-z'], check=True, capture_output=True, text=True).stdout
    return [path for path in out.split('\0') if path and os.path.isfile(os.path.join(root, path))
            and not os.path.islink(os.path.join(root, path))]


def is_c(path):
    return path.endswith(('.c', '.h'))


def is_product(path):
    return not path.startswith(NOT_PRODUCT)


class Tree:
    """The tracked text files, their tokens, and what the compiler knows of them."""

    def __init__(self, root, build, jobs):
        self.root, self.text = root, {}
        for path in tracked(root):
            with open(os.path.join(root, path), 'rb') as file:
                data = file.read()
            if b'\0' not in data:
                self.text[path] = data
        self.index = c_index.Index(root, build, jobs)
        self.entities = set(self.index.entities)
        self.add_macros()
        self.by_name = collections.defaultdict(list)
        for entity in self.entities:
            self.by_name[entity.name].append(entity)
        self.used_in = collections.defaultdict(set)
        for path, places in self.index.uses.items():
            for found in places.values():
                for entity in found:
                    self.used_in[entity].add(path)

    def add_macros(self):
        macros = {}
        for path, data in self.text.items():
            if not is_c(path):
                continue
            for match in DEFINE.finditer(data):
                name = match.group(1).decode()
                if name.endswith('_H') and re.search(rb'#ifndef[ \t]+' + match.group(1) + rb'\n', data):
                    continue
                macro = macros.setdefault(name, c_index.Entity('macro', name, '', ''))
                macro.places.add((path, match.start(1)))
        self.entities |= set(macros.values())


class Renames:
    """New names of entities, from the tables."""

    def __init__(self, tree, entries, keep):
        self.tree, self.keep, self.new, self.moved = tree, keep, {}, {}
        self.was = self.moved_before(entries)
        for entry in entries:
            if entry.kind in C_KINDS:
                self.rename(entry)
        for entry in entries:
            if entry.kind == 'prefix':
                self.rename_prefix(entry)
            elif entry.kind == 'file':
                self.rename_file(entry)
        self.rename_fakes()
        self.names = collections.defaultdict(set)
        for entity, new in self.new.items():
            self.names[entity.name].add(new)

    def moved_before(self, entries):
        """Old paths of files that an earlier run has moved (--files): conditions and GLOBs name these."""
        was = {}
        for entry in entries:
            if entry.kind == 'file':
                name = os.path.join(os.path.dirname(entry.words[0]), entry.words[1])
                for path in self.tree.text:
                    if ('/' + path).endswith('/' + name):
                        was[path] = os.path.join(os.path.dirname(path), os.path.basename(entry.words[0]))
                        entry.matched = True
        return was

    def matches(self, path, glob):
        return matches(path, glob) or path in self.was and matches(self.was[path], glob)

    def rename(self, entry):
        old, new = entry.words
        parent, _, name = old.rpartition('.' if entry.kind == 'field' else '/')
        head, star, tail = name.partition('*')
        names = [n for n in self.tree.by_name if n.startswith(head) and n.endswith(tail)] if star else [name]
        for name in names:
            for entity in self.tree.by_name.get(name, ()):
                if entity.kind == entry.kind and self.fits(entity, entry, parent):
                    entry.matched = True
                    middle = name[len(head):len(name) - len(tail)]
                    self.new.setdefault(entity, new.replace('*', middle) if star else new)

    def fits(self, entity, entry, parent):
        if parent and not fnmatch.fnmatchcase(entity.parent, parent):
            return False
        if 'in' in entry.conditions and not any(self.matches(path, entry.conditions['in']) for path in entity.files):
            return False
        return 'type' not in entry.conditions or fnmatch.fnmatchcase(entity.type, entry.conditions['type'])

    def rename_prefix(self, entry):
        glob, old, new = entry.words
        for entity in self.tree.entities:
            name = self.new.get(entity, entity.name)
            if entity.kind not in GLOBAL_KINDS or not name.startswith(old):
                continue
            if self.is_kept(entity.name) or self.is_kept(name) or entity.generated and entity not in self.new:
                continue
            product = [path for path in entity.files if is_product(path)]
            if not product or not all(matches(path, glob) for path in product):
                continue
            rest = name[len(old):]
            entry.matched = True
            self.new[entity] = rest if rest.startswith(new) else new + rest

    def rename_fakes(self):
        """A test's replacement of a function of the product, without its header, gets the function's name."""
        for entity in self.tree.entities:
            if entity.kind not in ('function', 'variable') or entity.type == 'static':
                continue
            if any(map(is_product, entity.files)):
                continue
            real = {self.final(e) for e in self.tree.by_name[entity.name]
                    if e.kind == entity.kind and e.type != 'static' and any(map(is_product, e.files))}
            if len(real) == 1 and real != {entity.name}:
                self.new[entity] = real.pop()

    def is_kept(self, name):
        return any(fnmatch.fnmatchcase(name, glob) for glob in self.keep)

    def rename_file(self, entry):
        found = [path for path in self.tree.text if path == entry.words[0] or path.endswith('/' + entry.words[0])]
        if len(found) == 1:
            entry.matched = True
            self.moved[found[0]] = os.path.join(os.path.dirname(found[0]), entry.words[1])
        elif found:
            sys.exit('%s: means several files: %s' % (entry, ' '.join(found)))

    def final(self, entity):
        return self.new.get(entity, entity.name)

    def clashes(self):
        """Pairs of different entities that would have one name in one file, and have two today."""
        taken = collections.defaultdict(list)
        for entity in self.tree.entities:
            if entity.places and entity.kind != 'label':
                taken[self.space_of(entity), self.final(entity)].append(entity)
        for (space, name), found in sorted(taken.items()):
            for i, one in enumerate(found):
                for other in found[i + 1:]:
                    if one.name != other.name and self.files_of(one) & self.files_of(other):
                        yield '%s %s: from %s and %s' % (space, name, self.described(one), self.described(other))

    @staticmethod
    def described(entity):
        return '%s (%s)' % (entity.name, ' '.join(sorted(entity.files)[:2]))

    @staticmethod
    def space_of(entity):
        if entity.kind in ('field', 'local'):
            return entity.kind + ' of ' + entity.parent
        return 'struct' if entity.kind == 'struct' else 'name'

    def files_of(self, entity):
        return self.tree.used_in.get(entity, set()) | entity.files


class Rewriter:
    """Applies renames to the text of the files."""

    def __init__(self, tree, renames, entries):
        self.tree, self.renames, self.warnings = tree, renames, []
        self.texts = [e for e in entries if e.kind == 'text']
        self.codes = [e for e in entries if e.kind == 'code']
        self.mentions = [e for e in entries if e.kind == 'mention']
        self.prefixes = [e for e in entries if e.kind == 'prefix']
        self.stems, self.included = {}, {}
        self.outside = self.names_outside()
        for old, new in renames.moved.items():
            self.stems.setdefault(os.path.basename(old), []).append((old, new))

    def names_outside(self):
        """Names that comments and files of other languages may mention: global, and not ambiguous."""
        names = {}
        for name in self.renames.names:
            found = self.tree.by_name[name]
            finals = {self.renames.final(e) for e in found if e.kind in GLOBAL_KINDS}
            kinds = {e.kind for e in found if e in self.renames.new}
            if len(finals) == 1 and '_' in name and kinds & set(GLOBAL_KINDS):
                names[name] = finals.pop()
        return names

    def all(self):
        result = {}
        for path, data in self.tree.text.items():
            if UNTOUCHED.search(path):
                continue
            new = self.rewrite_c(path, data) if is_c(path) else self.rewrite_text(path, data)
            if new != data:
                result[path] = new
        return result

    def entries_for(self, entries, path):
        new = self.renames.moved.get(path, path)
        return [e for e in entries if self.renames.matches(path, e.words[0]) or matches(new, e.words[0])]

    # C

    def rewrite_c(self, path, data):
        texts, codes = self.entries_for(self.texts, path), self.entries_for(self.codes, path)
        defines = [match.span() for match in DEFINE.finditer(data)]
        starts = [span[0] for span in defines]
        pieces, end = [], 0
        for match in TOKEN.finditer(data):
            kind, token = match.lastgroup, match.group().decode()
            if kind == 'number':
                continue
            if kind == 'name':
                i = bisect.bisect_right(starts, match.start()) - 1
                in_define = i >= 0 and match.start() < defines[i][1]
                new = self.new_name(path, match.start(), token, in_define, data[match.end():match.end() + 4], codes)
            elif kind == 'include':
                new = self.new_include(path, data.count(b'\n', 0, match.start()) + 1, token)
            elif kind == 'comment':
                new = self.new_text(self.new_mentions(path, self.new_paths(path, token)), texts)
            else:
                new = self.new_text(self.new_paths(path, token), texts)
                self.warn_of_string(path, token)
            if new != token:
                pieces += [data[end:match.start()], new.encode()]
                end = match.end()
        return self.new_guard(path, b''.join(pieces + [data[end:]]))

    def new_name(self, path, offset, name, in_define, after, codes):
        for entry in codes:
            if entry.words[1] == name:
                entry.matched = True
                return entry.words[2]
        if after.lstrip(b' ').startswith(b'##') and name.endswith('_'):
            return self.new_paste(path, name)
        if name not in self.renames.names:
            return name
        found = self.tree.index.uses.get(path, {}).get(offset)
        if not found:
            found = self.guess(path, name, in_define)
        finals = {self.renames.final(entity) for entity in found}
        if len(finals) > 1:
            line = self.tree.text[path].count(b'\n', 0, offset) + 1
            self.warnings.append('%s:%d: %s may become %s' % (path, line, name, ' or '.join(sorted(finals))))
        return finals.pop() if len(finals) == 1 else name

    def guess(self, path, name, in_define):
        """The possible entities of a name that has no parsed declaration or reference."""
        macros = [e for e in self.tree.by_name[name] if e.kind == 'macro']
        if macros:
            return macros
        if in_define and self.tree.index.in_macro.get(name):
            found = self.tree.index.in_macro[name]
            return [e for where, e in found if where == path] or [e for where, e in found if path in e.files] \
                or [e for where, e in found]
        known = self.tree.by_name[name]
        here = [e for e in known if path in self.renames.files_of(e)]
        return here or [e for e in known if e.kind in GLOBAL_KINDS and e.type != 'static' and self.is_included(path, e)]

    def is_included(self, path, entity):
        """Whether a file that was not compiled can see an entity: a file of its folder includes the header."""
        folder = os.path.dirname(path)
        if folder not in self.included:
            self.included[folder] = {m.decode() for p, data in self.tree.text.items() if os.path.dirname(p) == folder
                                     for m in re.findall(rb'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', data, re.M)}
        return any(('/' + file).endswith('/' + name) for file in entity.files for name in self.included[folder]
                   if '/' in name or os.path.dirname(file) == folder)

    def new_paste(self, path, name):
        for entry in self.prefixes:
            glob, old, new = entry.words
            if name.startswith(old) and matches(path, glob) and not self.renames.is_kept(name):
                return new + name[len(old):]
        return name

    def new_include(self, path, line, token):
        target = self.tree.index.includes.get((path, line))
        moved = self.renames.moved.get(target)
        if moved:
            return token.replace(os.path.basename(target) + '"', os.path.basename(moved) + '"')
        return self.new_paths(path, token) if target is None else token

    def new_guard(self, path, data):
        moved = self.renames.moved.get(path)
        if not moved or not path.endswith('.h'):
            return data
        old, new = (re.sub(r'\W', '_', os.path.basename(p)).upper() for p in (path, moved))
        return re.sub(rb'\b(\w+_|)' + old.encode() + rb'\b', rb'\g<1>' + new.encode(), data)

    def new_mentions(self, path, comment):
        """Identifiers in a comment: those that look like identifiers and can mean one thing only here."""
        def new(match):
            name = match.group()
            if name not in self.renames.names or '_' not in name and not comment[match.end():].startswith('()') \
                    and not comment[:match.start()].endswith('struct '):
                return name
            here = [e for e in self.tree.by_name[name] if path in self.renames.files_of(e)]
            if not here and path not in self.tree.index.uses:
                here = self.guess(path, name, False)
                return self.renames.final(here[0]) if here else name
            finals = {self.renames.final(e) for e in here} or {self.outside.get(name, name)}
            return finals.pop() if len(finals) == 1 else name
        return WORD.sub(new, comment)

    def warn_of_string(self, path, token):
        for name in WORD.findall(token):
            if name in self.outside:
                self.warnings.append('%s: string %s has the old name %s' % (path, token, name))

    # Everything

    def new_text(self, text, entries):
        for entry in entries:
            old, new = entry.words[1:]
            words = re.escape(old).replace(r'\ ', r'(\s+(?:\*\s+)?)')
            pattern = r'(?:(?<![\w/-])|(?<=\\[nt]))%s(?![\w-]|/\w|\.(?:c|h|py|md)\b)' % words
            if re.search(pattern, text):
                entry.matched = True
                text = re.sub(pattern, lambda m: self.spread(new, m.groups()), text)
        return text

    @staticmethod
    def spread(new, gaps):
        """The new words with the line breaks of the old ones."""
        words, gaps = new.split(' '), list(gaps)
        gaps = gaps[:len(words) - 1] if len(gaps) >= len(words) else gaps
        gaps = [' '] * (len(words) - 1 - len(gaps)) + gaps
        return ''.join(word + gap for word, gap in zip(words, gaps + ['']))

    def new_paths(self, path, text):
        """Mentions of files that have a new name."""
        if not self.stems:
            return text

        def new(match):
            mention = match.group()
            for old, moved in self.stems.get(os.path.basename(mention), ()):
                if self.means(path, mention, old):
                    return mention[:len(mention) - len(os.path.basename(mention))] + os.path.basename(moved)
            return mention
        return re.sub(r'(?<![\w-])[\w./-]*[\w-]+\.(?:c|h|py|pml|sh|txt)\b', new, text)

    def means(self, path, mention, old):
        folder = os.path.dirname(path)
        for base in ('', folder):
            spot = os.path.normpath(os.path.join(base, mention))
            if spot in self.tree.text:
                return spot == old
        if '/' in mention:
            return ('/' + old).endswith('/' + mention.lstrip('./'))
        same = [p for p in self.tree.text if os.path.basename(p) == mention]
        return same == [old]

    # Other languages

    def mentioned(self, path):
        names = {}
        for entry in self.entries_for(self.mentions, path):
            kind, old = entry.words[1:]
            finals = {self.renames.final(e) for e in self.tree.by_name.get(old, ()) if e.kind == kind}
            if len(finals) == 1:
                entry.matched, names[old] = True, finals.pop()
        return names

    @staticmethod
    def new_stems(path, text, old, moved):
        """Names of programs and tests that are made of the name of a file."""
        stem, new = (os.path.splitext(os.path.basename(p))[0] for p in (old, moved))
        if '-' in stem:
            text = re.sub(r'(?<![\w/-])%s(?![\w.-])' % re.escape(stem), new, text)
        if stem.startswith('test-') and path.endswith('meson.build'):
            for one, other in ((stem[5:], new[5:]), uncommon(stem, new)):
                text = text.replace("'%s'" % one, "'%s'" % other)
        return text

    def rewrite_text(self, path, data):
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return data
        if not path.endswith('meson.build'):
            names = dict(self.outside, **self.mentioned(path))
            text = ESCAPE_OR_WORD.sub(lambda m: names.get(m.group(), m.group()), text)
        text = self.new_paths(path, text)
        for old, moved in self.renames.moved.items():
            text = self.new_stems(path, text, old, moved)
        return self.new_text(text, self.entries_for(self.texts, path)).encode()


def uncommon(one, other):
    """Two names without the words, between hyphens, that both begin with."""
    one, other = one.split('-'), other.split('-')
    while len(one) > 1 and len(other) > 1 and one[0] == other[0]:
        one, other = one[1:], other[1:]
    return '-'.join(one), '-'.join(other)


def is_formatted(path, data):
    out = subprocess.run(['clang-format-14', '--assume-filename=' + path], input=data, capture_output=True)
    return out.returncode == 0 and out.stdout == data


def write(root, tree, renames, changed):
    for path, data in changed.items():
        full = os.path.join(root, path)
        neat = is_c(path) and is_formatted(full, tree.text[path])
        with open(full, 'wb') as file:
            file.write(data)
        if neat:
            subprocess.run(['clang-format-14', '-i', full], check=True)
    for old, new in renames.moved.items():
        subprocess.run(['git', '-C', root, 'mv', old, new], check=True)


def list_words(tree, words):
    for entity in sorted(tree.entities, key=lambda e: (sorted(e.files), e.kind, e.name)):
        if entity.places and any(word in entity.name.lower().split('_') for word in words):
            name = entity.parent + '.' + entity.name if entity.parent else entity.name
            files = ' '.join(sorted(entity.files)[:3])
            print('%-13s %s  uses %d  %s  %s' % (entity.kind, name, entity.uses, files, entity.type))


def report(title, lines):
    if lines:
        print('%s: %d' % (title, len(lines)))
        for line in lines:
            print('   ', line)


def leftovers(root, rewriter):
    found = []
    for path in tracked(root):
        if UNTOUCHED.search(path):
            continue
        with open(os.path.join(root, path), encoding='utf-8', errors='replace') as file:
            for number, line in enumerate(file, 1):
                found += ['%s:%d: %s' % (path, number, n) for n in WORD.findall(line) if n in rewriter.outside]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('tables', nargs='*')
    parser.add_argument('--build', default='build')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--lenient', action='store_true', help='entries that match nothing are warnings')
    parser.add_argument('--dry-run', action='store_true', help='write nothing')
    parser.add_argument('--files', action='store_true', help='only move the files')
    parser.add_argument('--list', action='append', help='print what has this word in its name, with its kind and type')
    options = parser.parse_args()
    sys.setrecursionlimit(100000)
    root = subprocess.run(['git', 'rev-parse', '--show-toplevel'], check=True, capture_output=True, text=True)
    root = root.stdout.strip()
    entries, keep = read_tables(options.tables)
    if options.files:
        entries = [entry for entry in entries if entry.kind == 'file']
    tree = Tree(root, options.build, options.jobs)
    report('clang could not read everything of', ['%s: %s' % failed for failed in tree.index.failed])
    if options.list:
        list_words(tree, options.list)
        return 0
    renames = Renames(tree, entries, keep)
    rewriter = Rewriter(tree, renames, entries)
    changed = rewriter.all()
    clashes = list(renames.clashes())
    unmatched = [str(entry) for entry in entries if not entry.matched]
    report('entries that match nothing', unmatched)
    report('new names that are taken', clashes)
    report('look at', sorted(set(rewriter.warnings)))
    print('%d things renamed, %d files moved, %d files changed' % (len(renames.new), len(renames.moved), len(changed)))
    if clashes or unmatched and not options.lenient:
        print('nothing was written')
        return 1
    if options.files:
        report('moved', ['| `%s` | `%s` |' % pair for pair in sorted(renames.moved.items())])
    if not options.dry_run:
        write(root, tree, renames, changed)
        report('old names that are left', leftovers(root, rewriter))
    return 0


if __name__ == '__main__':
    sys.exit(main())

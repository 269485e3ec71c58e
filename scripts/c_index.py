# SPDX-License-Identifier: Apache-2.0
"""An index of the C code's declarations and of the uses of each name.

Works on the compile commands of a build directory, through libclang (Debian: python3-clang-19).
"""
import collections
import ctypes
import json
import multiprocessing
import os
import shlex
import sys

try:
    import clang.cindex as cindex
except ImportError:
    sys.exit('rename.py: the Python interface of libclang is missing: apt-get install python3-clang-19, '
             'and run /usr/bin/python3 scripts/rename.py')

NULL = ctypes.c_void_p
TAGS = {2: 'struct', 3: 'struct', 5: 'struct'}
DECLARATIONS = {**TAGS, 6: 'field', 7: 'enum-constant', 8: 'function', 9: 'variable', 10: 'local', 20: 'typedef',
                201: 'label'}
REFERENCES = {43, 47, 48, 101, 102}
CONTINUE, RECURSE = 1, 2


class Entity:
    """One declared thing: its kind, its name, and what tells it from others of the same name."""
    __slots__ = ('kind', 'name', 'parent', 'type', 'places', 'generated', 'uses')

    def __init__(self, kind, name, parent, type_name):
        self.kind, self.name, self.parent, self.type = kind, name, parent, type_name
        self.places, self.generated, self.uses = set(), False, 0

    @property
    def files(self):
        return {place[0] for place in self.places}


class Part:
    """The index of some compile commands; merge() of several gives the index of the tree."""

    def __init__(self):
        self.declared = {}                       # spot: (path, offset, name) -> (kind, name, parent, type)
        self.same = []                           # pairs of spots that declare one entity
        self.used = collections.defaultdict(set) # (path, offset) -> spots of declarations
        self.in_macro = set()                    # (path, name, spot): used by the body of a macro, expanded in path
        self.includes = {}                       # (path, line) -> path
        self.parsed, self.failed = set(), []


def library():
    lib = cindex.conf.lib
    if not hasattr(lib, 'vcuda_ready'):
        number = ctypes.POINTER(ctypes.c_uint)
        lib.clang_getFileLocation.argtypes = [cindex.SourceLocation, ctypes.POINTER(NULL), number, number, number]
        lib.clang_getFileLocation.restype = None
        lib.vcuda_ready = True
    return lib


class Walker:
    """Walks the declarations of one translation unit that are in files of the tree."""

    def __init__(self, root, build, part, visited):
        self.root, self.build, self.part, self.visited = root + '/', build + '/', part, visited
        self.lib = library()
        self.text = {}

    def open(self, directory, arguments, source):
        unit = cindex.Index.create().parse(None, args=arguments + [source], options=0)
        self.unit, self.directory = unit, directory
        self.paths, self.known, self.usrs, self.pending = {}, {}, {}, []
        errors = [d.spelling for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
        if errors:
            self.part.failed.append((source, errors[0]))
        for inclusion in unit.get_includes():
            self.note_include(inclusion)
        self.walk(unit.cursor)
        self.visited |= self.pending_files
        self.link_usrs()

    def note_include(self, inclusion):
        if inclusion.location.file is None:
            return
        includer, line = self.path_of_name(inclusion.location.file.name), inclusion.location.line
        target = self.path_of_name(inclusion.include.name)
        if includer and target:
            self.part.includes[(includer, line)] = target

    def path_of_name(self, name):
        """Path from the root, None outside of the tree, with 'build:' in front of what is generated."""
        path = os.path.realpath(os.path.join(self.directory, name))
        if path.startswith(self.build):
            return 'build:' + path[len(self.build):]
        return path[len(self.root):] if path.startswith(self.root) else None

    def place(self, cursor):
        file, line, column, offset = NULL(), ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
        location = self.lib.clang_getCursorLocation(cursor)
        self.lib.clang_getFileLocation(location, ctypes.byref(file), ctypes.byref(line), ctypes.byref(column),
                                       ctypes.byref(offset))
        if not file.value:
            return None
        path = self.paths.get(file.value, 0)
        if path == 0:
            name = cindex.File(ctypes.cast(file, cindex.c_object_p)).name
            path = self.paths[file.value] = self.path_of_name(name)
        return (path, offset.value) if path else None

    def walk(self, top):
        self.pending_files = set()
        callback_type = cindex.callbacks['cursor_visit']

        def visit_top(cursor, parent, data):
            cursor._tu, kind = self.unit, cursor._kind_id
            place = self.place(cursor)
            if not place:
                return CONTINUE
            if place[0].startswith('build:'):
                self.declare(cursor, kind, place)
                return CONTINUE
            if place[0] in self.visited:
                self.declare(cursor, kind, place)
                return CONTINUE
            self.pending_files.add(place[0])
            self.take(cursor, kind, place)
            self.lib.clang_visitChildren(cursor, inner, None)
            return CONTINUE

        def visit(cursor, parent, data):
            cursor._tu, kind = self.unit, cursor._kind_id
            if kind in DECLARATIONS or kind in REFERENCES:
                place = self.place(cursor)
                if place:
                    self.take(cursor, kind, place)
            return RECURSE

        inner = callback_type(visit)
        self.lib.clang_visitChildren(top, callback_type(visit_top), None)

    def take(self, cursor, kind, place):
        if kind in DECLARATIONS:
            self.declare(cursor, kind, place)
        elif kind in REFERENCES:
            self.refer(cursor, place)

    def declare(self, cursor, kind, place):
        if kind not in DECLARATIONS:
            return
        name = cursor.spelling
        if not name or '(' in name or ' ' in name:
            return
        word, spot = DECLARATIONS[kind], place + (name,)
        if spot not in self.part.declared:
            self.part.declared[spot] = self.describe(cursor, word, name)
        self.note_use(place, spot, name)
        if word in ('function', 'struct', 'typedef', 'variable'):
            self.usrs.setdefault(cursor.get_usr(), set()).add(spot)

    def describe(self, cursor, word, name):
        parent, type_name = '', ''
        if word in ('variable', 'local', 'label'):
            up = cursor.semantic_parent
            if up is not None and up._kind_id == 8:
                word, parent = ('label' if word == 'label' else 'local'), up.spelling
            type_name = cursor.type.spelling
        elif word == 'field':
            parent, type_name = self.owner(cursor), cursor.type.spelling
        elif word == 'enum-constant':
            parent = cursor.semantic_parent.spelling
        elif word == 'function':
            type_name = 'static' if cursor.linkage == cindex.LinkageKind.INTERNAL else ''
        return word, name, parent, type_name

    def owner(self, cursor):
        """The next named structure around a field."""
        up = cursor.semantic_parent
        while up is not None and up._kind_id in TAGS:
            if up.spelling and '(' not in up.spelling and ' ' not in up.spelling:
                return up.spelling
            up = up.semantic_parent
        return ''

    def refer(self, cursor, place):
        target = self.lib.clang_getCursorReferenced(cursor)
        if not isinstance(target, cindex.Cursor):
            return
        key = (ctypes.cast(target.data[0] or 0, NULL).value, target._kind_id)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.resolve(target)
        if found[0]:
            self.note_use(place, found[0], found[1])

    def resolve(self, target):
        if target._kind_id not in DECLARATIONS:
            return None, ''
        place = self.place(target)
        if not place:
            return None, ''
        name = target.spelling
        spot = place + (name,)
        if spot not in self.part.declared and name:
            self.part.declared[spot] = self.describe(target, DECLARATIONS[target._kind_id], name)
        for other in (target.canonical, target.get_definition()):
            place = self.place(other) if other is not None else None
            if place and place + (name,) != spot:
                self.part.same.append((spot, place + (name,)))
        return spot, name

    def note_use(self, place, spot, name):
        if place[0].startswith('build:'):
            return
        text = self.text.get(place[0])
        if text is None:
            with open(self.root + place[0], 'rb') as file:
                text = self.text[place[0]] = file.read()
        if text[place[1]:place[1] + len(name)] == name.encode():
            self.part.used[place].add(spot)
        else:
            self.part.in_macro.add((place[0], name, spot))

    def link_usrs(self):
        for spots in self.usrs.values():
            spots = sorted(spots)
            self.part.same += [(spots[0], other) for other in spots[1:]]


def clang_arguments(entry):
    """The command of an entry without what only the compiler's output needs."""
    words, result = shlex.split(entry['command']), []
    while words and not words[0].startswith('-'):
        words.pop(0)
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ('-o', '-MF', '-MQ', '-MT'):
            skip = True
        elif word.startswith(('-I', '-D', '-U', '-std', '-include', '-isystem', '-f', '-m', '-pthread')) \
                and not word.startswith(('-fsanitize', '-fdiagnostics', '-fopenmp')):
            result.append(word)
        elif result and result[-1] in ('-include', '-isystem', '-I', '-D'):
            result.append(word)
    return ['-x', 'c', '-w', '-ferror-limit=0', '-working-directory', entry['directory']] + result


def index_some(job):
    root, build, entries = job
    sys.setrecursionlimit(100000)
    part, visited = Part(), set()
    walker = Walker(root, build, part, visited)
    for entry in entries:
        source = os.path.realpath(os.path.join(entry['directory'], entry['file']))
        if source.startswith(build + '/'):
            continue
        part.parsed.add(os.path.relpath(source, root))
        visited.discard(os.path.relpath(source, root))
        walker.open(entry['directory'], clang_arguments(entry), source)
    part.used = dict(part.used)
    return part


class Index:
    """Entities of the whole tree and their uses."""

    def __init__(self, root, build, jobs):
        root, build = os.path.realpath(root), os.path.realpath(build)
        with open(os.path.join(build, 'compile_commands.json')) as file:
            entries = [e for e in json.load(file) if e['file'].endswith('.c')]
        entries = list({(e['file'], tuple(clang_arguments(e))): e for e in entries}.values())
        slices = [(root, build, entries[i::jobs]) for i in range(jobs)]
        with multiprocessing.Pool(jobs) as pool:
            self.merge(pool.map(index_some, slices))

    def merge(self, parts):
        leader = {}

        def find(spot):
            while leader.get(spot, spot) != spot:
                spot = leader[spot]
            return spot

        for part in parts:
            for one, other in part.same:
                one, other = find(one), find(other)
                if one != other:
                    leader[other] = one
        found = {}
        for part in parts:
            for spot, what in part.declared.items():
                entity = found.setdefault(find(spot), None) or Entity(*what)
                found[find(spot)] = entity
                if spot[0].startswith('build:'):
                    entity.generated = True
                else:
                    entity.places.add(spot[:2])
        self.entities, self.uses, self.in_macro = set(found.values()), {}, collections.defaultdict(set)
        self.includes, self.parsed, self.failed = {}, set(), []
        for part in parts:
            for place, spots in part.used.items():
                self.uses.setdefault(place[0], {}).setdefault(place[1], set()).update(found[find(s)] for s in spots)
            for path, name, spot in part.in_macro:
                self.in_macro[name].add((path, found[find(spot)]))
            self.includes.update(part.includes)
            self.parsed |= part.parsed
            self.failed += part.failed
        for places in self.uses.values():
            for entities in places.values():
                for entity in entities:
                    entity.uses += 1

# SPDX-License-Identifier: Apache-2.0
"""The call descriptions (*.api), read and checked. The language is described in wire-format.md."""

import re
import typing

SCALARS = {"i32": 4, "u32": 4, "u64": 8, "u16": 2, "u8": 1, "f32": 4, "f64": 8}
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
PARAM = re.compile(r"([A-Za-z_]\w*)(?:\[(.+)\])?\Z")
BOUNDS = re.compile(r"\s*([A-Za-z_]\w*|\d+)(?:\s*\*\s*([A-Za-z_]\w*|\d+))?\s*\Z")
MAX_OP = 0xFFFF
RESERVED = {"a", "call", "result"}  # names of variables in the generated functions


class Handle(typing.NamedTuple):
    kind: str
    specials: list  # small values that are no ids and reach the back end as they are
    shared: bool  # the back end may return one object several times
    accepts: list  # kinds taken in its place
    transient: bool  # objects that are made from it outlive it
    where: str


class DescriptionError(Exception):
    """A mistake in a description. `where`: its line, if it is not the line being read."""

    def __init__(self, message, where=None):
        super().__init__(message)
        self.where = where


class Param:
    """One parameter: direction (in, out, out?, destroy), C type, and what kind of thing crosses."""

    def __init__(self, direction, name, ctype, kind, bounds, resolver, where):
        self.where = where
        self.direction = direction
        self.name = name
        self.ctype = ctype
        self.kind = kind  # scalar, struct, handle, string, array, mapping, pointer
        self.bounds = bounds  # C expression over the args struct for array and mapping
        self.is_in = direction in ("in", "destroy")
        self.is_out = direction.startswith("out")
        self.resolver = resolver if self.is_in else None  # NAME of the vcuda_resolve_NAME() that a generated guest function calls

    def field(self):
        """The member in the args struct."""
        if self.kind in ("array", "mapping", "pointer", "string"):
            const = "const " if self.kind == "string" else ""
            base = {"array": self.ctype, "mapping": "void", "pointer": "void", "string": "char"}[self.kind]
            return f"{const}{base} *{self.name};"
        return f"{self.ctype} {self.name};"

    def declaration(self):
        """The parameter of the C function, as CUDA declares it."""
        if self.kind == "string":
            return f"const char *{self.name}"
        if self.kind == "pointer":
            return f"void **{self.name}" if self.name in ("kernelParams", "extra") else f"void *{self.name}"
        if self.kind == "array":
            return f"{'const ' if self.is_in else ''}{self.ctype} *{self.name}"
        if self.kind == "mapping":
            return f"{'const ' if self.is_in and self.name.startswith('src') else ''}void *{self.name}"
        if self.is_out:
            return f"{self.ctype} *{self.name}"
        return f"{self.ctype} {self.name}"


class Call:
    def __init__(self, number, name, where):
        self.number = number  # None: a back-end function that never crosses the wire
        self.name = name
        self.where = where
        self.sync = None
        self.since = None
        self.context = True
        self.waits = False
        self.quiet = False
        self.uncaptured = False
        self.retired = False
        self.timed = False
        self.queues = None
        self.guest = "auto" if name.startswith("cu") else "none"
        self.host = "auto"
        self.params = []

    @property
    def leaves_work(self):
        """Whether a stream may have something to do, or to note, when the call has returned."""
        return not (self.sync and self.quiet)

    @property
    def stream(self):
        """The parameter with the call's stream, or None."""
        return next((p for p in self.params if p.ctype == "CUstream"), None)

    @property
    def ins(self):
        """The inputs in wire order: arrays last, so that the decoder knows every length when it meets one."""
        ins = [p for p in self.params if p.is_in or p.kind == "mapping"]
        return sorted(ins, key=lambda p: p.kind == "array")

    @property
    def outs(self):
        return [p for p in self.params if p.is_out and p.kind != "mapping"]

    def prototype(self):
        return ", ".join(p.declaration() for p in self.params) or "void"


class Description:
    def __init__(self):
        self.types = {}  # C name -> scalar encoding
        self.resolvers = {}  # C name -> NAME of vcuda_resolve_NAME()
        self.structs = set()
        self.handles = {}  # C name -> Handle
        self.calls = []
        self.backend = []

    # ---- parsing ----

    def parse(self, path):
        call = None
        where = f"{path}:1"
        try:
            with open(path, encoding="utf-8") as f:
                for number, line in enumerate(f, 1):
                    where = f"{path}:{number}"
                    text = line.split("#", 1)[0].rstrip()
                    if not text.strip():
                        continue
                    if text[0] in " \t":
                        if call is None:
                            raise DescriptionError("a parameter outside a call")
                        self.param(call, text.split(None, 2), where)
                    else:
                        self.finish(call)
                        call = self.statement(text.split(), where)
            self.finish(call)
        except DescriptionError as e:
            raise DescriptionError(f"{e.where or where}: {e}") from None
        except UnicodeDecodeError:
            raise DescriptionError(f"{path}:1: the file is not UTF-8") from None

    def check(self):
        """Makes the checks that need the whole description."""
        kinds = {h.kind for h in self.handles.values()}
        for name, handle in self.handles.items():
            for kind in handle.accepts:
                if kind not in kinds:
                    raise DescriptionError(f"{handle.where}: handle '{name}' accepts '{kind}', which is no handle's kind")

    def statement(self, words, where):
        if words[0] == "type" and (len(words) == 3 or len(words) == 5 and words[3] == "resolved"):
            if words[2] not in SCALARS:
                raise DescriptionError(f"unknown encoding '{words[2]}'")
            self.new_type(words[1])
            self.types[words[1]] = words[2]
            if words[4:]:
                self.resolvers[words[1]] = words[4]
        elif words[0] == "struct" and len(words) == 2:
            self.new_type(words[1])
            self.structs.add(words[1])
        elif words[0] == "handle" and len(words) >= 3:
            self.handle(words, where)
        elif words[0] == "call" and len(words) >= 3:
            return self.call(words, where)
        elif words[0] == "backend" and len(words) == 2:
            call = Call(None, self.new_call(words[1]), where)
            self.backend.append(call)
            return call
        else:
            raise DescriptionError(f"not a statement: '{' '.join(words)}'")
        return None

    def new_type(self, name):
        if not NAME.match(name):
            raise DescriptionError(f"'{name}' is not a name")
        if name in self.types or name in self.structs or name in self.handles:
            raise DescriptionError(f"type '{name}' is declared twice")

    def new_call(self, name):
        if not NAME.match(name):
            raise DescriptionError(f"'{name}' is not a name")
        for other in self.calls + self.backend:
            if other.name == name:
                raise DescriptionError(f"'{name}' is described twice (first at {other.where})")
        return name

    def handle(self, words, where):
        self.new_type(words[1])
        specials, shared, accepts, transient, rest = [], False, [], False, words[3:]
        if not NAME.match(words[2]):
            raise DescriptionError(f"'{words[2]}' is not a name")
        while rest:
            word = rest.pop(0)
            if word == "shared":
                shared = True
            elif word == "transient":
                transient = True
            elif word == "resolved":
                self.resolvers[words[1]] = words[2]
            elif word == "special" and rest:
                while rest and rest[0].isdecimal():
                    specials.append(int(rest.pop(0)))
            elif word == "accepts" and rest:
                accepts.append(rest.pop(0))
            else:
                raise DescriptionError(f"unknown word '{word}' in a handle")
        for other, handle in self.handles.items():
            if handle.kind == words[2]:
                raise DescriptionError(f"kind '{words[2]}' belongs to {other}")
        self.handles[words[1]] = Handle(words[2], specials, shared, accepts, transient, where)

    def call(self, words, where):
        if not words[1].isdecimal() or not 0 < int(words[1]) <= MAX_OP:
            raise DescriptionError(f"a call's number is 1 to {MAX_OP}, not '{words[1]}'")
        number = int(words[1])
        for other in self.calls:
            if other.number == number:
                raise DescriptionError(f"number {number} belongs to {other.name} ({other.where})")
        call = Call(number, self.new_call(words[2]), where)
        rest = words[3:]
        while rest:
            word = rest.pop(0)
            if word in ("sync", "async"):
                if call.sync is not None:
                    raise DescriptionError("a call is either 'sync' or 'async', said once")
                call.sync = word == "sync"
            elif word == "noctx":
                call.context = False
            elif word == "waits":
                call.waits = True
            elif word == "quiet":
                call.quiet = True
            elif word == "uncaptured":
                call.uncaptured = True
            elif word == "retired":
                call.retired = True
            elif word == "timed":
                call.timed = True
            elif word == "queues" and rest and rest[0].isdecimal():
                call.queues = int(rest.pop(0))
            elif word == "guest=manual":
                call.guest = "manual"
            elif word == "host=manual":
                call.host = "manual"
            elif word == "since" and rest:
                call.since = rest.pop(0)
                if not re.match(r"\d+\.\d+\Z", call.since):
                    raise DescriptionError(f"'{call.since}' is not a version")
            else:
                raise DescriptionError(f"unknown word '{word}' in a call")
        if call.sync is None:
            raise DescriptionError("a call is 'sync' or 'async'")
        if call.since is None:
            raise DescriptionError("a call says since which version it exists")
        if call.uncaptured and call.guest != "auto":
            raise DescriptionError("'uncaptured' is for a function that is written here")
        if call.retired and call.guest == "auto":
            raise DescriptionError(f"{call.name} is retired: no guest function can be generated that sends it")
        if call.timed and not call.context:
            raise DescriptionError(f"{call.name} is timed: it needs a context")
        if not call.context:
            call.quiet = True
        if call.host == "auto" and not call.name.startswith("cu"):
            raise DescriptionError(f"{call.name} is no function of the driver: it needs host=manual")
        self.calls.append(call)
        return call

    def param(self, call, words, where):
        if len(words) != 3:
            raise DescriptionError("a parameter is: direction name type")
        direction, name, text = words
        if direction not in ("in", "out", "out?", "destroy"):
            raise DescriptionError(f"unknown direction '{direction}'")
        if not NAME.match(name):
            raise DescriptionError(f"'{name}' is not a name")
        if name in RESERVED:
            raise DescriptionError(f"'{name}' is a name that the generated code uses itself")
        if any(p.name == name for p in call.params):
            raise DescriptionError(f"parameter '{name}' stands twice")
        match = PARAM.match(text.strip())
        if not match:
            raise DescriptionError(f"'{text}' is not a type")
        ctype, bounds = match.groups()
        kind = self.kind_of(call, ctype, bounds, direction)
        resolver = None if bounds else self.resolvers.get(ctype)
        call.params.append(Param(direction, name, ctype, kind, bounds, resolver, where))

    def kind_of(self, call, ctype, bounds, direction):
        if ctype == "mapping":
            kind = "mapping"
        elif ctype == "string":
            kind = "string"
        elif ctype == "pointer" and call.number is None:
            kind = "pointer"
        elif ctype in self.handles:
            kind = "handle"
        elif ctype in self.structs:
            kind = "struct"
        elif ctype in self.types:
            kind = "scalar"
        else:
            raise DescriptionError(f"unknown type '{ctype}'")
        if kind == "mapping" and not bounds:
            raise DescriptionError("a mapping says how many bytes it has: mapping[EXPR]")
        if bounds and kind not in ("mapping", "scalar"):
            raise DescriptionError(f"no arrays of {ctype}")
        if direction == "destroy" and kind != "handle":
            raise DescriptionError("only a handle can be destroyed")
        if direction.startswith("out") and kind == "string":
            raise DescriptionError("a string goes in only; out is char[EXPR]")
        if direction == "out?" and (bounds or kind == "pointer"):
            raise DescriptionError("only a single value can be 'out?'")
        return "array" if bounds and kind == "scalar" else kind

    def finish(self, call):
        """Makes the checks that need all parameters of a call."""
        if call is None:
            return
        inputs = {p.name: p for p in call.params if p.direction == "in" and p.kind == "scalar"}
        if call.queues is not None and (call.sync or not call.stream):
            raise DescriptionError(f"{call.name} queues nothing: it is sync, or has no stream", call.where)
        for p in call.params:
            if p.bounds is not None:
                p.bounds = self.length(call, p, inputs)
            if call.sync is False and p.is_out and p.kind != "mapping":
                raise DescriptionError(f"{call.name} is async and cannot give back '{p.name}'", p.where)
            if call.sync is False and p.direction == "destroy":
                raise DescriptionError(f"{call.name} is async and cannot destroy '{p.name}'", p.where)
            if p.direction == "destroy" and len(call.params) > 1:
                raise DescriptionError(f"{call.name} destroys '{p.name}' and takes nothing else", p.where)

    def length(self, call, p, inputs):
        """The C expression for how many elements `p` has. A product saturates: one that wraps round would pass every check."""
        match = BOUNDS.match(p.bounds)
        if not match:
            raise DescriptionError(f"'{p.bounds}' is not a length: NAME, NUMBER, or a product of two", p.where)
        terms = [t for t in match.groups() if t]
        for t in terms:
            if t.isdecimal():
                continue
            if t not in inputs:
                raise DescriptionError(f"length of '{p.name}': '{t}' is no scalar input of {call.name}", p.where)
            if self.types[inputs[t].ctype] in ("f32", "f64"):
                raise DescriptionError(f"length of '{p.name}': '{t}' is not an integer", p.where)
        terms = [t if t.isdecimal() else f"(uint64_t)a->{t}" for t in terms]
        return terms[0] if len(terms) == 1 else f"vcuda_wire_product({', '.join(terms)})"

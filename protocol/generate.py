#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the call descriptions (*.api) into both sides' code. The language is described in wire-format.md.

generate.py OUTPUT_KIND DESCRIPTION...   writes one generated file to standard output. Kinds: see EMITTERS at the end.
A mistake in a description ends with «FILE:LINE: what is wrong» on standard error and exit status 1.
"""

import sys

from description import SCALARS, Description, DescriptionError

GETTERS = {"i32": "vcuda_reader_get_i32", "u32": "vcuda_reader_get_u32"}
HEADER = "/* Generated from the call descriptions by protocol/generate.py. */\n"


def put(desc, p, out):
    """C statements that write one parameter; `a` is the args struct, `w` the writer."""
    v = f"a->{p.name}"
    if p.kind == "scalar":
        enc = desc.types[p.ctype]
        if enc in ("f32", "f64"):
            out.append(f"\tvcuda_writer_put_bytes(w, &{v}, sizeof({v}));")
        elif enc == "i32":  # an enum is unsigned in C
            out.append(f"\tvcuda_writer_put_word(w, (uint64_t)(int64_t)(int32_t){v});")
        elif enc == "u64":
            out.append(f"\tvcuda_writer_put_word(w, {v});")
        else:  # the cast keeps a signed C type, such as char, from being sign-extended
            out.append(f"\tvcuda_writer_put_word(w, (uint{8 * SCALARS[enc]}_t){v});")
    elif p.kind in ("handle", "mapping"):
        out.append(f"\tvcuda_writer_put_word(w, (uint64_t)(uintptr_t){v});")
    elif p.kind == "struct":
        out.append(f"\tvcuda_writer_put_bytes(w, &{v}, sizeof({v}));")
    elif p.kind == "string":
        out.append(f"\tvcuda_writer_put_word(w, strlen({v}) + 1);")
        out.append(f"\tvcuda_writer_put_bytes(w, {v}, strlen({v}) + 1);")
    elif p.kind == "array":
        out.append(f"\tvcuda_writer_put_array(w, {v}, {p.bounds}, sizeof(*{v}));")


def get(desc, p, out, reply):
    """C statements that read one parameter; `r` is the reader."""
    v = f"a->{p.name}"
    if p.kind == "scalar":
        enc = desc.types[p.ctype]
        if enc in GETTERS:
            out.append(f"\t{v} = ({p.ctype}){GETTERS[enc]}(r);")
        elif enc == "u64":
            out.append(f"\t{v} = ({p.ctype})vcuda_reader_get_word(r);")
        elif enc in ("f32", "f64"):
            out.append(f"\tvcuda_get_copy(r, &{v}, 1, sizeof({v}));")
        else:
            out.append(f"\t{v} = ({p.ctype})vcuda_get_narrow(r, sizeof({v}));")
    elif p.kind in ("handle", "mapping"):
        out.append(f"\t{v} = (void *)(uintptr_t)vcuda_reader_get_word(r);")
    elif p.kind == "struct":
        out.append(f"\tvcuda_get_copy(r, &{v}, 1, sizeof({v}));")
    elif p.kind == "string":
        out.append(f"\t{v} = vcuda_reader_get_string(r);")
    elif p.kind == "array" and reply:
        out.append(f"\tvcuda_get_copy(r, {v}, {p.bounds}, sizeof(*{v}));")
    elif p.kind == "array":
        out.append(f"\t{v} = (void *)(uintptr_t)vcuda_reader_get_array(r, {p.bounds}, sizeof(*{v}));")


def emit_call_info_h(desc):
    """The table of calls that both sides use, without CUDA's types."""
    return [
        HEADER, "#ifndef VCUDA_CALL_INFO_H\n#define VCUDA_CALL_INFO_H\n", "#include <stdbool.h>\n#include <stdint.h>\n",
        "/*",
        " * By number; name is NULL where no call has it. waits: it also reports the thread's earlier asynchronous errors. quiet: it leaves",
        " * the device nothing to do.",
        " */",
        "struct vcuda_call_info {\n\tconst char *name;\n\tbool sync, context, waits, quiet;\n\tuint32_t since_minor;\n};\n",
        f"#define VCUDA_CALL_LIMIT {max(c.number for c in desc.calls) + 1}\n",
        "extern const struct vcuda_call_info vcuda_call_table[VCUDA_CALL_LIMIT];\n",
        "#endif",
    ]


def emit_calls_h(desc):
    """Numbers, argument structs, codec prototypes."""
    out = [HEADER, "#ifndef VCUDA_CALLS_H\n#define VCUDA_CALLS_H\n", '#include "protocol/call-info.h"', '#include "protocol/types.h"', '#include "protocol/wire.h"\n', "enum vcuda_op {"]
    out += [f"\tVCUDA_OP_{c.name} = {c.number}," for c in desc.calls]
    out += ["\tVCUDA_OP_LIMIT = VCUDA_CALL_LIMIT", "};\n"]
    kinds = [h.kind for h in desc.handles.values()]
    out += ["enum vcuda_kind {", "\tVCUDA_KIND_NONE,"] + [f"\tVCUDA_KIND_{k.upper()}," for k in kinds] + ["};\n"]
    for c in desc.calls:
        fields = [f"\t{p.field()}" for p in c.params] or ["\tchar nothing;"]
        out += [f"struct vcuda_args_{c.name} {{"] + fields + ["};"]
        a = f"struct vcuda_args_{c.name} *a"
        out += [
            f"size_t vcuda_size_{c.name}(const {a});",
            f"void vcuda_encode_{c.name}(struct vcuda_writer *w, const {a});",
            f"void vcuda_decode_{c.name}(struct vcuda_reader *r, struct vcuda_arena *arena, {a});",
            f"void vcuda_encode_reply_{c.name}(struct vcuda_writer *w, const {a});",
            f"void vcuda_decode_reply_{c.name}(struct vcuda_reader *r, {a});\n",
        ]
    out += ["#endif"]
    return out


def emit_codec_c(desc):
    out = [
        HEADER,
        '#include "calls.h"\n\n#include <string.h>\n',
        "static inline void vcuda_get_copy(struct vcuda_reader *r, void *to, uint64_t count, size_t size)\n{",
        "\tconst void *p = vcuda_reader_get_array(r, count, size);\n\n\tif (p && count)\n\t\tmemcpy(to, p, count * size);\n}\n",
        "static inline uint32_t vcuda_get_narrow(struct vcuda_reader *r, size_t bytes)\n{",
        "\tuint32_t v = vcuda_reader_get_u32(r);\n",
        "\tif (v >> (8 * bytes))\n\t\tr->error = true;\n\treturn v;\n}\n",
    ]
    for c in desc.calls:
        args = f"struct vcuda_args_{c.name} *a"
        words = []
        for p in c.ins:
            if p.kind == "array":
                words.append(f"vcuda_wire_array({p.bounds}, sizeof(*a->{p.name}))")
            elif p.kind == "struct":
                words.append(f"vcuda_wire_pad(sizeof(a->{p.name}))")
            elif p.kind == "string":
                words.append(f"8 + vcuda_wire_pad(strlen(a->{p.name}) + 1)")
            else:
                words.append("8")
        out += [
            f"size_t vcuda_size_{c.name}(const {args})\n{{",
            f"\t(void)a;\n\treturn {' + '.join(words) or '0'};\n}}\n",
        ]
        body = []
        for p in c.ins:
            put(desc, p, body)
        out += [f"void vcuda_encode_{c.name}(struct vcuda_writer *w, const {args})\n{{\n\t(void)w;\n\t(void)a;"] + body + ["}\n"]
        body = []
        for p in c.ins:
            get(desc, p, body, reply=False)
        for p in c.outs:
            if p.kind == "array":
                body.append(f"\ta->{p.name} = vcuda_arena_array(arena, r, {p.bounds}, sizeof(*a->{p.name}));")
        out += [
            f"void vcuda_decode_{c.name}(struct vcuda_reader *r, struct vcuda_arena *arena, {args})\n{{",
            "\t(void)r;\n\t(void)arena;\n\t(void)a;",
        ] + body + ["}\n"]
        body = []
        for p in c.outs:
            put(desc, p, body)
        out += [f"void vcuda_encode_reply_{c.name}(struct vcuda_writer *w, const {args})\n{{\n\t(void)w;\n\t(void)a;"] + body + ["}\n"]
        body = []
        for p in c.outs:
            get(desc, p, body, reply=True)
        out += [f"void vcuda_decode_reply_{c.name}(struct vcuda_reader *r, {args})\n{{\n\t(void)r;\n\t(void)a;"] + body + ["}\n"]
    out.append("const struct vcuda_call_info vcuda_call_table[VCUDA_CALL_LIMIT] = {")
    for c in desc.calls:
        flags = f"{str(c.sync).lower()}, {str(c.context).lower()}, {str(c.waits).lower()}, {str(c.quiet).lower()}, {c.since.split('.')[1]}"
        out.append(f'\t[VCUDA_OP_{c.name}] = {{"{c.name}", {flags}}},')
    out.append("};")
    return out


def with_options(c):
    """The parameters of a call's function with options."""
    return ", ".join(["const struct call_options *how"] + [c.prototype()] * bool(c.params))


def sent_calls(desc):
    """The calls that this guest sends: a retired one comes from older guests only."""
    return [c for c in desc.calls if not c.retired]


def emit_guest_h(desc):
    out = [HEADER, "#ifndef VCUDA_GUEST_CALLS_H\n#define VCUDA_GUEST_CALLS_H\n", '#include <stddef.h>\n', '#include "calls.h"\n#include "cuda-functions.h"\n',
           "struct call_options; /* guest/client/call.h */\n",
           "/*",
           " * Two functions a call. Each sends the call to the worker; a sync call waits for its result. The first takes options, NULL for none.",
           " */"]
    for c in sent_calls(desc):
        names = ", ".join(["NULL"] + [p.name for p in c.params])
        out += [f"CUresult vcuda_call_{c.name}_with({with_options(c)});",
                f"static inline CUresult vcuda_call_{c.name}({c.prototype()})\n{{\n\treturn vcuda_call_{c.name}_with({names});\n}}\n"]
    out += ["\n/* Hand-written: checks what a program passes, and sets `resolved` to the worker's name for it. Missing one is a link error. */"]
    out += [f"CUresult vcuda_resolve_{name}({ctype} given, {ctype} *resolved);" for ctype, name in desc.resolvers.items()]
    out += ["\n#endif"]
    return out


def emit_erased_codec(c):
    """The call's codec in the form of struct call_request."""
    out = [f"static void encode_{c.name}(struct vcuda_writer *w, const void *a)\n{{\n\tvcuda_encode_{c.name}(w, a);\n}}\n"]
    if c.outs:
        out.append(f"static void decode_{c.name}(struct vcuda_reader *r, void *a)\n{{\n\tvcuda_decode_reply_{c.name}(r, a);\n}}\n")
    return out


def emit_guest_c(desc):
    out = [HEADER, '#include "guest-calls.h"\n#include "core/request.h"\n']
    for c in sent_calls(desc):
        out += emit_erased_codec(c)
        out += [f"CUresult vcuda_call_{c.name}_with({with_options(c)})\n{{", f"\tstruct vcuda_args_{c.name} a = {{0}};", "\tstruct call_request request;", "\tCUresult result;\n"]
        for p in c.params:
            if p.direction == "out" and p.kind != "mapping" or p.kind == "string":
                out.append(f"\tif (!{p.name})\n\t\treturn CUDA_ERROR_INVALID_VALUE;")
        for p in c.params:
            if p.is_in or p.kind in ("array", "mapping"):
                cast = f"({'void' if p.kind == 'mapping' else p.ctype} *)(uintptr_t)" if p.kind in ("array", "mapping") else ""
                out.append(f"\ta.{p.name} = {cast}{p.name};")
        for p in c.params:
            if p.kind == "array" and p.is_in:
                out.append(f"\tif (!{p.name} && {p.bounds.replace('a->', 'a.')})\n\t\treturn CUDA_ERROR_INVALID_VALUE;")
        if c.queues is not None:
            out.append(f"\tresult = libcuda_throttle_take(how, a.{c.stream.name}, {c.queues});\n\tif (result != CUDA_SUCCESS)\n\t\treturn result;")
        queue = f"libcuda_completion_queue(a.{c.stream.name})" if c.leaves_work and c.stream and c.stream.direction == "in" else "NULL"
        decode = f"decode_{c.name}" if c.outs else "NULL"
        out += [
            f"\trequest = (struct call_request){{VCUDA_OP_{c.name}, vcuda_size_{c.name}(&a), encode_{c.name}, {decode}, &a, {queue}}};",
            "\tresult = libcuda_request(how, &request);",
        ]
        if c.outs:
            out += ["\tif (result == CUDA_SUCCESS) {"]
            for p in c.outs:
                if p.kind == "array":
                    continue
                if p.direction == "out?":
                    out.append(f"\t\tif ({p.name})\n\t\t\t*{p.name} = a.{p.name};")
                else:
                    out.append(f"\t\t*{p.name} = a.{p.name};")
            out += ["\t}"]
        if c.stream and c.stream.direction == "destroy":
            out.append(f"\tif (result == CUDA_SUCCESS)\n\t\tlibcuda_stream_destroyed(how, {c.stream.name});")
        out.append("\treturn result;\n}\n")
    return out


def emit_guest_api_c(desc):
    """The exported functions that resolve what they are given, and send it."""
    out = [HEADER, '#include "core/capture.h"\n#include "core/object.h"\n#include "core/request.h"\n#include "guest-calls.h"\n']
    for c in desc.calls:
        if c.guest != "auto":
            continue
        steps = [f"vcuda_resolve_{p.resolver}({p.name}, &{p.name})" for p in c.params if p.resolver]
        if c.uncaptured:
            steps.append("libcuda_capture_unsafe()")
        steps.append(f"vcuda_call_{c.name}({', '.join(p.name for p in c.params)})")
        out += [f"VCUDA_EXPORT CUresult {c.name}({c.prototype()})\n{{", f"\tCUresult result = {'libcuda_require_context' if c.context else 'libcuda_require_init'}();\n"]
        out += [f"\tif (result == CUDA_SUCCESS)\n\t\tresult = {step};" for step in steps]
        out += [f"\tif (result == CUDA_SUCCESS)\n\t\tlibcuda_object_drop({p.name});" for p in c.params if p.direction == "destroy" and p.resolver]
        out.append("\treturn result;\n}\n")
    return out


def backend_calls(desc):
    """Functions of the back-end ops struct: what auto handlers call, what manual ones of driver calls may call, and backend statements."""
    return [c for c in desc.calls if c.name.startswith("cu") and not any(p.ctype == "vcuda_image" for p in c.params)] + desc.backend


def emit_backend_h(desc):
    out = [
        HEADER,
        "#ifndef VCUDA_BACKEND_H\n#define VCUDA_BACKEND_H\n",
        '#include "protocol/types.h"\n',
        "/*",
        " * A back end: CUDA driver functions by name, with the driver's own signatures and semantics, per-thread current context included.",
        " * A NULL entry is a function that the back end does not have: the worker answers CUDA_ERROR_NOT_SUPPORTED for it.",
        " */",
        "struct vcuda_backend_ops {",
        "\tconst char *name; /* \"cpu\", \"cuda\" */",
        "\tCUresult (*cuModuleLoadData)(CUmodule *module, const void *image);",
        "\tCUresult (*cuModuleLoadDataEx)(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,",
        "\t\t\t\t       void **values);",
        "\tCUresult (*cuLibraryLoadData)(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,",
        "\t\t\t\t      unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,",
        "\t\t\t\t      unsigned int numLibraryOptions);",
    ]
    out += [f"\tCUresult (*{c.name})({c.prototype()});" for c in backend_calls(desc)]
    out += ["};\n", "/* Every function of the struct: X(name). */", "#define VCUDA_BACKEND_FUNCTIONS(X) \\", "\tX(cuModuleLoadData) X(cuModuleLoadDataEx) X(cuLibraryLoadData) \\"]
    names = [c.name for c in backend_calls(desc)]
    out += [f"\tX({n}) \\" for n in names[:-1]] + [f"\tX({names[-1]})", "\n#endif"]
    return out


def emit_handlers_h(desc):
    out = [HEADER, "#ifndef VCUDA_HANDLERS_H\n#define VCUDA_HANDLERS_H\n", '#include "calls.h"\n', "struct worker_session;\n",
           "/* Hand-written handlers: in and destroy handles of `a` are resolved; what it gives back is put into `a`. Missing one is a link error. */"]
    out += [f"CUresult vcuda_handle_{c.name}(struct worker_session *session, struct vcuda_args_{c.name} *a);" for c in desc.calls if c.host == "manual"]
    out += ["\n#endif"]
    return out


def accepted_kinds(handle):
    return " | ".join(f"WORKER_ACCEPT(VCUDA_KIND_{k.upper()})" for k in [handle.kind] + handle.accepts)


def emit_destruction(desc, c):
    """A call that destroys has two functions: the second one runs when no command uses the object any more."""
    p = c.params[0]
    out = [f"static CUresult destroy_{c.name}(struct worker_session *s, void *object)\n{{"]
    if c.host == "manual":
        out.append(f"\treturn vcuda_handle_{c.name}(s, &(struct vcuda_args_{c.name}){{.{p.name} = object}});\n}}\n")
    else:
        out.append(f"\treturn s->ops->{c.name}(object);\n}}\n")
    out += [f"static CUresult run_{c.name}(struct worker_session *s, struct vcuda_reader *r, struct vcuda_arena *arena, struct vcuda_writer *w)\n{{",
            f"\tstruct vcuda_args_{c.name} a = {{0}};\n", "\t(void)w;",
            f"\tvcuda_decode_{c.name}(r, arena, &a);", "\tif (!vcuda_reader_finished(r))\n\t\treturn worker_malformed(s);"]
    if c.host == "auto":
        out.append(f"\tif (!s->ops->{c.name})\n\t\treturn worker_unsupported(s, VCUDA_OP_{c.name});")
    return out + [f"\treturn worker_destroy(s, {accepted_kinds(desc.handles[p.ctype])}, a.{p.name}, destroy_{c.name});\n}}\n"]


def emit_dispatch_c(desc):
    out = [HEADER, '#include "handlers.h"\n#include "host/worker/session/activity.h"\n#include "host/worker/session/dispatch.h"\n#include "host/worker/session/session.h"\n']
    for c in desc.calls:
        if any(p.direction == "destroy" for p in c.params):
            out += emit_destruction(desc, c)
            continue
        out += [f"static CUresult run_{c.name}(struct worker_session *s, struct vcuda_reader *r, struct vcuda_arena *arena, struct vcuda_writer *w)\n{{",
                f"\tstruct vcuda_args_{c.name} a = {{0}};", "\tCUresult result;"]
        gives_handle = any(p.kind == "handle" and p.is_out for p in c.params)
        parents = [p for p in c.params if p.kind == "handle" and p.direction == "in" and gives_handle and not desc.handles[p.ctype].transient]
        keep_id = parents[:1]
        out += [f"\tuint64_t id_{p.name};" for p in keep_id]
        out += [f"\n\tvcuda_decode_{c.name}(r, arena, &a);", "\tif (!vcuda_reader_finished(r))\n\t\treturn worker_malformed(s);"]
        if c.host == "auto":
            out.append(f"\tif (!s->ops->{c.name})\n\t\treturn worker_unsupported(s, VCUDA_OP_{c.name});")
        for p in c.params:
            if p.kind == "handle" and p.is_in:
                handle = desc.handles[p.ctype]
                if p in keep_id:
                    out.append(f"\tid_{p.name} = (uint64_t)(uintptr_t)a.{p.name};")
                limit = max(handle.specials) + 1 if handle.specials else 0
                out.append(f"\tresult = worker_resolve(s, {accepted_kinds(handle)}, {limit}, (void **)&a.{p.name});")
                out.append("\tif (result != CUDA_SUCCESS)\n\t\treturn result;")
            if p.kind == "mapping":
                bounds = p.bounds.replace("a->", "a.")
                out.append(f"\tresult = worker_mapping_check(s, a.{p.name}, {bounds}, {'true' if p.is_out else 'false'});")
                out.append("\tif (result != CUDA_SUCCESS)\n\t\treturn result;")
        for p in c.outs:
            if p.kind == "handle":
                out.append(f"\tif (!worker_room(s, VCUDA_KIND_{desc.handles[p.ctype].kind.upper()}))\n\t\treturn CUDA_ERROR_OUT_OF_MEMORY;")
        stream = f"a.{c.stream.name}" if c.stream else "NULL"
        if c.timed:
            out.append(f"\tworker_activity_begin(s, {stream});")
        if c.host == "manual":
            out.append(f"\tresult = vcuda_handle_{c.name}(s, &a);")
        else:
            names = ", ".join(f"&a.{p.name}" if p.is_out and p.kind not in ("array", "mapping") else f"a.{p.name}" for p in c.params)
            out.append(f"\tresult = s->ops->{c.name}({names});")
        if c.timed:
            out.append(f"\tworker_activity_end(s, {stream});")
        if c.outs:
            out.append("\tif (result != CUDA_SUCCESS)\n\t\treturn result;")
            for p in c.outs:
                if p.kind == "handle":
                    handle = desc.handles[p.ctype]
                    parent = f"id_{parents[0].name}" if parents else "0"
                    out.append(f"\tresult = worker_publish(s, VCUDA_KIND_{handle.kind.upper()}, {str(handle.shared).lower()}, {parent}, (void **)&a.{p.name});")
                    out.append("\tif (result != CUDA_SUCCESS)\n\t\treturn result;")
            out.append(f"\tvcuda_encode_reply_{c.name}(w, &a);")
        else:
            out.append("\t(void)w;")
        out += ["\treturn result;\n}\n"]
    out.append("const worker_run_call worker_dispatch_table[VCUDA_OP_LIMIT] = {")
    out += [f"\t[VCUDA_OP_{c.name}] = run_{c.name}," for c in desc.calls] + ["};"]
    return out


def emit_coverage_md(desc):
    manual_guest = sum(c.guest == "manual" for c in desc.calls)
    manual_host = sum(c.host == "manual" for c in desc.calls)
    out = ["# Calls of the wire", "", "Generated from the call descriptions.", "",
           f"{len(desc.calls)} calls; {manual_guest} have a hand-written function in the guest, {manual_host} a hand-written handler in the worker.", "",
           "| number | call | kind | guest | host | since |", "|---|---|---|---|---|---|"]
    for c in sorted(desc.calls, key=lambda call: call.number):
        out.append(f"| {c.number} | `{c.name}` | {'sync' if c.sync else 'async'} | {'retired' if c.retired else c.guest} | {c.host} | {c.since} |")
    return out


def emit_codec_test_c(desc):
    """A test per call: round trip, every truncation, every word corrupted. The driver is test/unit/protocol/test-codec.c."""
    out = [HEADER, '#include "test/unit/protocol/codec-test.h"\n\n#include "calls.h"\n\n#include <string.h>\n']
    for c in desc.calls:
        args = f"struct vcuda_args_{c.name}"
        out += [f"static void fill_{c.name}(struct codec_random *random, struct vcuda_arena *arena, {args} *a)\n{{", "\t(void)random;\n\t(void)arena;\n\t(void)a;"]
        for p in c.params:
            if p.kind == "scalar":
                lengths = any(q.bounds and f"a->{p.name}" in q.bounds for q in c.params if q.kind == "array")
                out.append(f"\ta->{p.name} = ({p.ctype})codec_random_{'length' if lengths else 'word'}(random);")
            elif p.kind in ("handle", "mapping"):
                out.append(f"\ta->{p.name} = (void *)(uintptr_t)codec_random_word(random);")
            elif p.kind == "struct":
                out.append(f"\tcodec_random_bytes(random, &a->{p.name}, sizeof(a->{p.name}));")
            elif p.kind == "string":
                out.append(f"\ta->{p.name} = codec_random_string(random, arena);")
        for p in c.params:
            if p.kind == "array":
                out.append(f"\ta->{p.name} = codec_random_array(random, arena, {p.bounds}, sizeof(*a->{p.name}));")
        out += ["}\n", f"static bool equal_{c.name}(const {args} *a, const {args} *b, bool reply)\n{{", "\t(void)a;\n\t(void)b;\n\t(void)reply;"]
        for p in c.params:
            which = "reply" if p.is_out and p.kind != "mapping" else "!reply"
            if p.kind in ("scalar", "struct"):
                cond = f"memcmp(&a->{p.name}, &b->{p.name}, sizeof(a->{p.name}))"
            elif p.kind == "string":
                cond = f"strcmp(a->{p.name}, b->{p.name})"
            elif p.kind == "array":
                cond = f"memcmp(a->{p.name}, b->{p.name}, ({p.bounds}) * sizeof(*a->{p.name}))"
            else:
                cond = f"a->{p.name} != b->{p.name}"
            out.append(f"\tif ({which} && {cond})\n\t\treturn false;")
        out += ["\treturn true;\n}\n"]
        for part in ("", "reply_"):
            out += [f"static void encode_{part}{c.name}(struct vcuda_writer *w, const void *a)\n{{\n\tvcuda_encode_{part}{c.name}(w, a);\n}}\n"]
        # A reply is decoded by the caller of the call, who knows the lengths and owns the arrays.
        out += [f"static void decode_{c.name}(struct vcuda_reader *r, struct vcuda_arena *arena, void *a)\n{{\n\tvcuda_decode_{c.name}(r, arena, a);\n}}\n"]
        out += [f"static void decode_reply_{c.name}(struct vcuda_reader *r, struct vcuda_arena *arena, const void *sent, void *to)\n{{",
                f"\t{args} *a = to;\n\n\t*a = *(const {args} *)sent;\n\t(void)arena;"]
        for p in c.outs:
            if p.kind == "array":
                out.append(f"\ta->{p.name} = codec_random_array(NULL, arena, {p.bounds}, sizeof(*a->{p.name}));")
            else:
                out.append(f"\tmemset(&a->{p.name}, 0, sizeof(a->{p.name}));")
        out += [f"\tvcuda_decode_reply_{c.name}(r, a);\n}}\n"]
        out += [f"static void fill_void_{c.name}(struct codec_random *random, struct vcuda_arena *arena, void *a)\n{{\n\tfill_{c.name}(random, arena, a);\n}}\n",
                f"static bool equal_void_{c.name}(const void *a, const void *b, bool reply)\n{{\n\treturn equal_{c.name}(a, b, reply);\n}}\n",
                f"static size_t size_{c.name}(const void *a)\n{{\n\treturn vcuda_size_{c.name}(a);\n}}\n"]
    out.append("const struct codec_case codec_cases[] = {")
    for c in desc.calls:
        n = c.name
        out.append(f'\t{{"{n}", sizeof(struct vcuda_args_{n}), size_{n}, fill_void_{n}, equal_void_{n}, encode_{n}, encode_reply_{n}, decode_{n}, decode_reply_{n}}},')
    out += ["};", f"const size_t codec_case_count = {len(desc.calls)};"]
    return out


EMITTERS = {
    "call-info.h": emit_call_info_h,
    "calls.h": emit_calls_h,
    "codec.c": emit_codec_c,
    "guest-calls.h": emit_guest_h,
    "guest-calls.c": emit_guest_c,
    "guest-api.c": emit_guest_api_c,
    "backend.h": emit_backend_h,
    "handlers.h": emit_handlers_h,
    "dispatch.c": emit_dispatch_c,
    "coverage.md": emit_coverage_md,
    "codec-test.c": emit_codec_test_c,
}


def main(argv):
    if len(argv) < 3 or argv[1] not in EMITTERS:
        sys.stderr.write(f"usage: generate.py {{{'|'.join(EMITTERS)}}} DESCRIPTION...\n")
        return 2
    desc = Description()
    try:
        for path in argv[2:]:
            desc.parse(path)
        desc.check()
        if not desc.calls:
            raise DescriptionError(f"{argv[-1]}:1: no calls")
    except (DescriptionError, OSError) as e:
        sys.stderr.write(f"{e}\n")
        return 1
    sys.stdout.write("\n".join(EMITTERS[argv[1]](desc)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

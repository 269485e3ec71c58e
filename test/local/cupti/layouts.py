#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our records and numbers are those of the headers in NVIDIA's wheels.

usage: layouts.py [PROJECT]          with PyPI: downloads wheels of three releases and compares them

Records: each member of theirs is at the same place and has the same size as one of ours, or as several in a row where it is a structure
or union. A record of a release whose structures are shorter is the beginning of ours. Numbers: kinds, results, domains and the numbers
of functions.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[3])
OURS = PROJECT / "guest/libcupti/cupti-abi.h"
CC = ["cc", "-w", "-x", "c"]
# The release of this project's records, wheels, and whether it is the newest of the release, whose records are not
# shorter.
RELEASES = [
    ("13", ["nvidia-cuda-cupti==13.5.25", "nvidia-cuda-runtime==13.5.37", "nvidia-cuda-crt==13.5.37"], True),
    ("13", ["nvidia-cuda-cupti==13.0.85", "nvidia-cuda-runtime==13.0.88", "nvidia-cuda-crt==13.0.88"], False),
    ("12", ["nvidia-cuda-cupti-cu12==12.9.79", "nvidia-cuda-runtime-cu12==12.9.79"], True),
]
# NVIDIA's records have a version behind their name; the highest of a release counts.
RECORDS = {
    "kernel": "Kernel", "memcpy": "Memcpy", "peer": "MemcpyPtoP", "memset": "Memset", "api": "API", "external": "ExternalCorrelation",
    "device": "Device", "context": "Context", "stream": "Stream", "synchronization": "Synchronization", "event": "CudaEvent",
    "overhead": "Overhead", "graph": "GraphTrace", "marker": "Marker",
}
OTHERS = {"cupti_callback_data": "CUpti_CallbackData", "cupti_resource_data": "CUpti_ResourceData",
          "cupti_synchronize_data": "CUpti_SynchronizeData", "cupti_nvtx_data": "CUpti_NvtxData"}
wrong = []


def structures(text):
    """{name: [member]} of a text without directives, for `struct NAME { ... }` and `typedef struct { ... } NAME;`."""
    found = {}
    for match in re.finditer(r"\bstruct\b([^{};]*)\{", text):
        at, depth = match.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        body, rest = text[match.end():at - 1], text[at:at + 200]
        name = re.match(r"\s*(?:__attribute__\s*\(\(.*?\)\)\s*)*(\w+)?", rest)[1]
        name = name or (re.findall(r"\w+", match[1]) or [None])[-1]
        while re.search(r"\{[^{}]*\}", body):
            body = re.sub(r"\b(struct|union)\b[^{};]*\{[^{}]*\}", "int", body)
        members = []
        for line in body.split(";"):
            last = [re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*\Z", part) for part in line.split(",")]
            members += [match[1] for match in last if match]
        if name:
            found[name] = members
    return found


def ask(source, options, text):
    """The output of a program whose main() has the text."""
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/program"
        code = f"{source}\n#include <stdio.h>\n#include <stddef.h>\nint main(void)\n{{\n{text}\nreturn 0;\n}}\n"
        subprocess.run([*CC, *options, "-o", program, "-"], input=code, text=True, check=True)
        return subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()


def layouts(source, options, types, members):
    """{type: (size, [(member, offset, size)])}"""
    text = ""
    for kind, name in types:
        text += f'printf("%zu\\n", sizeof({kind}));\n'
        for member in members[name]:
            text += f'printf("%zu %zu\\n", offsetof({kind}, {member}), sizeof((({kind} *)0)->{member}));\n'
    numbers, found = iter(map(int, ask(source, options, text))), {}
    for _, name in types:
        size = next(numbers)
        found[name] = size, [(member, next(numbers), next(numbers)) for member in members[name]]
    return found


def compare(what, ours, theirs, is_newest):
    (our_size, our_members), (their_size, their_members) = ours, theirs
    if their_size > our_size or (is_newest and their_size != our_size):
        wrong.append(f"{what}: {our_size} bytes, and theirs {their_size}")
    for member, offset, size in their_members:
        within = [m for m in our_members if offset <= m[1] < offset + size]
        if not within or within[0][1] != offset or sum(m[2] for m in within) != size:
            wrong.append(f"{what}: theirs has {member} of {size} bytes at {offset}, ours there {within}")


def check_records(label, release, include, is_newest):
    ours_text = subprocess.run([*CC, "-E", "-P", f"-DLIBCUPTI={release}", f"-I{PROJECT}", str(OURS)], capture_output=True, text=True, check=True).stdout
    header = "#include <cupti.h>\n"
    theirs_text = subprocess.run([*CC, "-E", "-P", *include, "-"], input=header, capture_output=True, text=True, check=True).stdout
    our_members, their_members = structures(ours_text), structures(theirs_text)
    pairs = dict(OTHERS)
    for ours, theirs in RECORDS.items():
        versions = [(int(m[1] or 0), n) for n in their_members if (m := re.fullmatch(rf"CUpti_Activity{theirs}(\d*)", n))]
        pairs[f"cupti_{ours}_record"] = max(versions)[1]
    ours = layouts(f'#include "{OURS}"', [f"-DLIBCUPTI={release}", f"-I{PROJECT}"], [(f"struct {n}", n) for n in pairs], our_members)
    theirs = layouts(header, include, [(n, n) for n in pairs.values()], their_members)
    for our_name, their_name in pairs.items():
        compare(f"{label}: {our_name}, {their_name}", ours[our_name], theirs[their_name], is_newest)
    return sum(len(t[1]) for t in theirs.values())


def check_numbers(label, release, include):
    """Enumerators of ours whose names are like theirs."""
    text = OURS.read_text(encoding="ascii")
    names = {n: n.replace("CUPTI_KIND_", "CUPTI_ACTIVITY_KIND_") for n in re.findall(r"\bCUPTI_KIND_\w+", text)}
    names |= {n: n for n in re.findall(r"\bCUPTI_(?:ERROR_\w+|SUCCESS)", text)}
    names |= {f"CUPTI_DOMAIN_{n}": f"CUPTI_CB_DOMAIN_{t}" for n, t in (("DRIVER", "DRIVER_API"), ("RUNTIME", "RUNTIME_API"), ("RESOURCE", "RESOURCE"),
                                                                      ("SYNCHRONIZE", "SYNCHRONIZE"), ("NVTX", "NVTX"), ("STATE", "STATE"))}
    names |= {f"CUPTI_RESOURCE_{n}": f"CUPTI_CBID_RESOURCE_{t}" for n, t in (
        ("CONTEXT_CREATED",) * 2, ("CONTEXT_DESTROY_STARTING",) * 2, ("STREAM_CREATED",) * 2, ("STREAM_DESTROY_STARTING",) * 2,
        ("INIT_FINISHED", "CU_INIT_FINISHED"))}
    names |= {f"CUPTI_SYNC_{n}": f"CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_{t}" for n, t in (
        ("EVENT", "EVENT_SYNCHRONIZE"), ("STREAM_WAIT_EVENT",) * 2, ("STREAM", "STREAM_SYNCHRONIZE"), ("CONTEXT", "CONTEXT_SYNCHRONIZE"))}
    names |= {f"CUPTI_COPY_{n}": f"CUPTI_ACTIVITY_MEMCPY_KIND_{n}" for n in ("HTOD", "DTOH", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA", "DTOD", "HTOH", "PTOP")}
    names |= {f"CUPTI_MEMORY_{n}": f"CUPTI_ACTIVITY_MEMORY_KIND_{n}" for n in ("PAGEABLE", "PINNED", "DEVICE", "ARRAY")}
    names |= {"CUPTI_OVERHEAD_BUFFER_FLUSH": "CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH", "CUPTI_CHANNEL_COPY": "CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY",
              "CUPTI_CHANNEL_COMPUTE": "CUPTI_CHANNEL_TYPE_COMPUTE", "CUPTI_FLAG_ASYNC": "CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC",
              "CUPTI_FLAG_MARKER_INSTANTANEOUS": "CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS", "CUPTI_FLAG_MARKER_START": "CUPTI_ACTIVITY_FLAG_MARKER_START",
              "CUPTI_FLAG_MARKER_END": "CUPTI_ACTIVITY_FLAG_MARKER_END",
              "CUPTI_FLAG_FLUSH_FORCED": "CUPTI_ACTIVITY_FLAG_FLUSH_FORCED", "CUPTI_SYNC_NONE": "CUPTI_SYNCHRONIZATION_INVALID_VALUE"}
    show = "".join
    ours = ask(f'#include "{OURS}"', [f"-DLIBCUPTI={release}", f"-I{PROJECT}"], show(f'printf("%lu\\n", (unsigned long){n});\n' for n in names))
    theirs = ask("#include <cupti.h>", include, show(f'printf("%lu\\n", (unsigned long){n});\n' for n in names.values()))
    for name, our, their in zip(names, ours, theirs):
        if our != their:
            wrong.append(f"{label}: {name} is {our}, theirs {their}")
    return len(names)


def check_functions(label, release, folder, is_newest):
    count = 0
    for domain in ("driver", "runtime"):
        generated = subprocess.run([sys.executable, PROJECT / "guest/libcupti/numbers.py", release, PROJECT / "guest/libcupti/driver-numbers.txt",
                                    PROJECT / "guest/libcupti/runtime-numbers.txt"], capture_output=True, text=True, check=True).stdout
        part = generated.split(f"cupti_{domain}_names[]")[1].split("};")[0]
        ours = {name: int(number) for name, number in re.findall(r'\{"(\w+)", (\d+)\}', part)}
        header = (folder / f"cupti_{domain}_cbid.h").read_text(encoding="utf-8", errors="replace")
        theirs = {name: int(number) for name, number in re.findall(rf"CUPTI_{domain.upper()}_TRACE_CBID_(\w+)\s*=\s*(\d+)", header)}
        for name, number in theirs.items():
            if name in ("INVALID", "SIZE", "FORCE_INT") or re.fullmatch(r"cuda\d+", name):
                continue
            count += 1
            if name in ours and ours[name] != number:
                wrong.append(f"{label}: {name} is {ours[name]}, theirs {number}")
            elif name not in ours and is_newest:
                wrong.append(f"{label}: {name} is missing")
    return count


def main():
    for release, wheels, is_newest in RELEASES:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--no-deps", "--target", folder, *wheels], check=True)
            headers = {p.parent for p in pathlib.Path(folder).glob("nvidia/*/include/*.h")}
            include = [f"-I{p}" for p in headers]
            cupti, = (p for p in headers if (p / "cupti_activity.h").exists())
            label = wheels[0]
            members = check_records(label, release, include, is_newest)
            numbers = check_numbers(label, release, include)
            functions = check_functions(label, release, cupti, is_newest)
            print(f"{label}: {members} members, {numbers} numbers, {functions} functions")
    if wrong:
        print("\n".join(wrong))
    sys.exit(bool(wrong))


main()

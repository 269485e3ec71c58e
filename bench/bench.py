#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`vcuda bench`: runs timed programs natively and through virtio-cuda, in turns, and prints both beside one another.

The vcuda command starts this and names its own parts in --parts; nothing else has to be set.
"""

import argparse
import json
import pathlib
import re
import shlex
import signal
import sys
import time

import groups
import machine
import plots
import report
import sides

FAILED = 125  # of vcuda itself, as everywhere in the command

DESCRIPTION = """Measures this machine's CUDA driver and virtio-cuda side by side: timed programs run natively and
virtually in turns, several rounds of each. Prints medians (lowest–highest) and the ratio as a user feels it: above 1 is
better than native. Without a native driver, the virtual side alone."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(FAILED, f"vcuda: bench: {message}; see `vcuda bench --help`\n")


def positive(kind):
    def convert(text):
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"'{text}' is not above 0")
        return value
    convert.__name__ = "number"
    return convert


def group_list(text):
    names = [name for name in re.split(r"[,\s]+", text) if name]
    unknown = [name for name in names if name not in groups.GROUPS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"there is no group '{(unknown or [''])[0]}'; there are {', '.join(groups.GROUPS)}")
    return names


def parse(arguments):
    listed = "\n".join(f"  {name:10} {text}" for name, (text, _) in groups.GROUPS.items())
    parser = Parser(prog="vcuda bench", description=DESCRIPTION, epilog=f"groups:\n{listed}",
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of short cases: does it work?")
    parser.add_argument("--only", type=group_list, metavar="GROUP,...", help="only these groups")
    parser.add_argument("--rounds", type=positive(int), metavar="N", help="runs of each program on each side (5)")
    parser.add_argument("--budget", type=positive(float), metavar="SECONDS",
                        help="no further round of a group after that (45); the first is always finished")
    parser.add_argument("--max-mib", type=positive(int), metavar="N", help="the largest copy (1024)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all samples, and the machine")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="the table that is printed")
    parser.add_argument("--plots", type=pathlib.Path, metavar="DIR", help="pictures (SVG); needs matplotlib")
    parser.add_argument("--from", type=pathlib.Path, metavar="FILE", dest="saved",
                        help="measures nothing: the table and the pictures of what --json FILE has saved")
    parser.add_argument("--backend", choices=["auto", "cuda", "cpu"], default="auto",
                        help="who computes virtually: a GPU, the software GPU, or a GPU if there is one (auto)")
    parser.add_argument("--no-native", action="store_true", help="the virtual side alone")
    parser.add_argument("--native", metavar="COMMAND", default="", help="what stands before a program natively (nothing)")
    parser.add_argument("--virtual", metavar="COMMAND",
                        help="and virtually, such as 'vcuda vm run --' (`vcuda run --`, with a daemon that runs all the time)")
    parser.add_argument("--samples", type=pathlib.Path, metavar="DIR",
                        help="cuda-samples, as test/programs/samples.py --build DIR builds them")
    parser.add_argument("--rodinia", type=pathlib.Path, metavar="DIR",
                        help="the Rodinia benchmarks, as test/programs/rodinia.py --build DIR builds them")
    parser.add_argument("--nccl", default="libnccl.so.2", metavar="FILE", help="NCCL's library (libnccl.so.2)")
    parser.add_argument("--vector-add", type=pathlib.Path, metavar="PROGRAM",
                        help="a program to time from start to exit (the example vectorAdd of a build tree)")
    parser.add_argument("--parts", nargs=5, required=True, help=argparse.SUPPRESS,
                        metavar=("VCUDA", "DAEMON", "GUEST_LIB", "PROGRAMS", "VERSION"))
    options = parser.parse_args(arguments)
    check_outputs(parser, options)
    return options if options.saved else check(parser, options)


def check_outputs(parser, options):
    """Before anything is measured: what cannot be written later is said now."""
    if options.saved:
        given = [name for name in ("quick", "only", "rounds", "budget", "max_mib", "json", "no_native", "native", "virtual", "samples", "rodinia",
                                   "vector_add", "backend", "nccl") if getattr(options, name) != parser.get_default(name)]
        if given:
            parser.error(f"--from measures nothing: --{given[0].replace('_', '-')} has no meaning with it")
    if options.plots and not plots.library():
        parser.error("--plots needs matplotlib, which this Python does not have (Debian's package python3-matplotlib)")
    if options.plots:
        try:
            options.plots.mkdir(parents=True, exist_ok=True)
        except OSError as why:
            parser.error(f"--plots: {options.plots}: {why.strerror}")
    for file in filter(None, (options.json, options.markdown)):
        try:
            file.open("a").close()
        except OSError as why:
            parser.error(f"cannot write to {file}: {why.strerror}")


def check(parser, options):
    options.vcuda, options.daemon, options.guest_lib, programs, options.version = options.parts
    options.programs = pathlib.Path(programs)
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.budget = options.budget or (10 if options.quick else 45)
    options.driver_options = (["--quick"] if options.quick else [])
    if options.max_mib:
        options.driver_options += ["--max-mib", str(options.max_mib)]
    options.seconds = 0.1 if options.quick else 1
    options.counts = (1, 2) if options.quick else (1, 4, 16)
    for name in ("samples", "rodinia"):
        folder = getattr(options, name)
        if folder:
            setattr(options, name, folder.resolve())
            if not folder.is_dir():
                parser.error(f"--{name}: there is no folder {folder}")
    if options.vector_add and not options.vector_add.is_file():
        parser.error(f"--vector-add: there is no program {options.vector_add}")
    if not (options.programs / "driver-bench").is_file():
        parser.error(f"the timed programs are not in {options.programs}")
    return options


def example(options, side):
    """vectorAdd of the build tree, the one whose runtime library is its own first: it must run here as it is."""
    for name in ("vectorAdd-static", "vectorAdd"):
        program = options.programs.parent / "examples" / name
        if program.is_file():
            try:
                side.run([program], 60)
                return program
            except sides.Failed:
                continue
    return None


def progress(text):
    print(f"vcuda: bench: {text}", file=sys.stderr, flush=True)


def run_job(options, results, name, job, turn):
    """One turn of it on each side. False: it failed on one, and is not tried again."""
    for _ in range(job.repeats):
        order = options.sides if turn % 2 == 0 else options.sides[::-1]
        for side in order:
            try:
                results.add(name, side.name, job.measure(side))
            except sides.Failed as why:
                results.failed.append({"what": f"{name}: {job}", "side": side.name, "reason": str(why)})
                progress(f"{name}: {job}, {side.name}: {why}")
                return False
        turn += 1
    return True


def run_group(options, results, name):
    _, make = groups.GROUPS[name]
    try:
        jobs = make(options)
    except sides.Failed as why:
        results.skipped.append({"what": name, "reason": str(why)})
        progress(f"{name}: left out: {why}")
        return
    begin = time.monotonic()
    for turn in range(options.rounds):
        start = time.monotonic()
        progress(f"{name}, round {turn + 1} of {options.rounds}")
        jobs = [job for job in jobs if run_job(options, results, name, job, turn)]
        now = time.monotonic()
        if not jobs or now + (now - start) > begin + options.budget:
            break


def command_line(arguments):
    """The command as it was typed: without --parts, which the vcuda command adds with its five values."""
    at = arguments.index("--parts")
    return shlex.join(["vcuda", "bench", *arguments[:at], *arguments[at + 6:]])


def measure(options):
    virtual = sides.virtual_side(options)
    try:
        native, why = sides.native_side(options)
        facts = machine.describe(options, virtual)
        options.sides = [side for side in (native, virtual) if side]
        options.software = facts["backend"] == "cpu"
        options.vector_add = (options.vector_add.resolve() if options.vector_add else
                              example(options, native or virtual))
        results = report.Results(facts, [side.name for side in options.sides], command_line(sys.argv[1:]))
        if not native:
            results.skipped.append({"what": "native", "reason": why})
            progress(f"no native side, only the virtual one: {why}")
        for name in options.only or groups.GROUPS:
            run_group(options, results, name)
        results.compare_losses()
        return results
    finally:
        if virtual.daemon:
            virtual.daemon.stop()


def write(options, results):
    text = results.as_markdown()
    print(text, end="")
    if options.json:
        options.json.write_text(json.dumps(results.as_json(), indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(text)
    if options.plots:
        written = plots.draw(options.plots, results)
        progress(f"wrote {', '.join(map(str, written)) or 'no plots: nothing to draw'}")


def main():
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        results = report.read(options.saved) if options.saved else measure(options)
    except report.Unreadable as why:
        progress(why)
        return FAILED
    except sides.Failed as why:
        progress(why)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    write(options, results)
    return 1 if results.failed and not options.saved else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""`make install`, `install-host`, `install-guest` and `uninstall`: test-install.py MESON BUILD SCENARIO"""
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

MESON, BUILD = sys.argv[1], pathlib.Path(sys.argv[2])
PROJECT = pathlib.Path(__file__).resolve().parents[2]


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def run(*command, **environment):
    r = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    check(r.returncode == 0, f"{' '.join(map(str, command))}: status {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout


def install(top, *tags):
    select = ["--tags", ",".join(tags)] if tags else []
    run(MESON, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--strip", "--destdir", top, *select)


def files_below(top):
    return [path for path in pathlib.Path(top).rglob("*") if path.is_symlink() or not path.is_dir()]


def one(top, pattern):
    found = list(pathlib.Path(top).glob(pattern))
    check(len(found) == 1, f"{pattern}: {found}")
    return found[0]


def files():
    """Programs and libraries know no folder of the build, and a library is no program."""
    with tempfile.TemporaryDirectory() as top:
        install(top)
        folders = [str(folder).encode() for folder in {PROJECT, BUILD.resolve()}]
        for path in files_below(top):
            if path.is_symlink():
                check(path.exists() or path.parent.joinpath(os.readlink(path)).exists(), f"{path} leads nowhere")
                continue
            data = path.read_bytes()
            # UBSan writes the path of each header with a check into the file.
            check(b"__ubsan_handle_" in data or not any(folder in data for folder in folders), f"{path} names a folder of the build")
            if not data.startswith(b"\x7fELF"):
                continue
            is_library = ".so" in path.name
            executable = bool(path.stat().st_mode & stat.S_IXUSR)
            check(executable != is_library, f"{path}: executable {executable}")
            dynamic = run("readelf", "-d", path)
            for search in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
                check(search in ("$ORIGIN", "$ORIGIN/.."), f"{path} looks for libraries in {search}")


def parts():
    """A guest has no daemon and no LLVM, and its own libraries are complete."""
    with tempfile.TemporaryDirectory() as top:
        install(top, "guest")
        names = {path.name for path in files_below(top)}
        for name in ("vcuda", "libcuda.so.1", "libcuda.so", "libcudart.so.13", "libnvidia-ml.so.1", "zz-virtio-cuda.conf"):
            check(name in names, f"a guest has no {name}")
        for name in ("vcuda-worker", "libvcuda-cpu.so", "libvcuda-sass.so", "libcublas.so.12", "main.c"):
            check(name not in names, f"a guest has {name}")
        check(not list(pathlib.Path(top).glob("**/bin/vcudad")), "a guest has vcudad")
    whole = []
    with tempfile.TemporaryDirectory() as top:
        install(top)
        whole = sorted(str(path.relative_to(top)) for path in files_below(top))
    each = []
    for tag in ("host", "softgpu", "softgpu-sass", "guest", "math", "driver", "slurm", "dev", "doc"):
        with tempfile.TemporaryDirectory() as top:
            install(top, tag)
            each += [str(path.relative_to(top)) for path in files_below(top)]
    check(sorted(each) == whole, f"files without a tag, or with two: {set(whole) ^ set(each)}, {len(each)} and {len(whole)}")


def uninstall():
    """Nothing of ours is left, and nothing of others is lost."""
    with tempfile.TemporaryDirectory() as top:
        install(top)
        other = one(top, "**/share/bash-completion/completions") / "other"
        other.write_text("other\n")
        kept = one(top, "**/share/virtio-cuda") / "kept"
        kept.write_text("kept\n")
        run(PROJECT / "scripts/uninstall.sh", BUILD, DESTDIR=top)
        left = files_below(top)
        check(sorted(left) == sorted([other, kept]), f"left: {left}")
        folders = [path for path in pathlib.Path(top).rglob("*") if path.is_dir() and path.name in ("vcuda", "virtio-cuda")]
        check(folders == [kept.parent], f"folders of ours that are left: {folders}")


def words_of(text):
    return " ".join(text.split())


def help_items(text):
    """The terms of a help text: what begins a line after two spaces, up to two more spaces."""
    return [re.split(r"  +", line[2:])[0] for line in text.partition("\n\n")[2].splitlines() if re.match(r"  \S", line)]


def check_page(top, command, section, said):
    """The page has the usage, the items in their order, and all words of the help text, and no more."""
    name = "-".join(command)
    text = one(top, f"**/man{section}/{name}.{section}").read_text()
    text = re.sub(r"\\&", "", text).replace("\\-", "-").replace("\\e", "\\")
    synopsis, _, description = text.partition(".SH SYNOPSIS\n.nf\n")[2].partition("\n.fi\n.SH DESCRIPTION\n")
    description = description.rpartition(".SH SEE ALSO")[0]
    usage, _, body = said.partition("\n\n")
    check(words_of(synopsis) == words_of(usage[len("usage: "):]), f"{name}: another usage:\n{synopsis}\n{usage}")
    check(re.findall(r"^\.B (.*)$", description, re.M) == help_items(said), f"{name}: other items than in the help")
    plain = re.sub(r"^\.SH (.*)$", r"\1:", re.sub(r"^\.(?:PP|TP|B) ?", "", description, flags=re.M), flags=re.M)
    check(words_of(plain).lower() == words_of(body).lower(), f"{name}: another text:\n{words_of(plain)}\n{words_of(body)}")


def check_summary(command, row, said):
    """`vcuda help` names no option that the command's own help does not name."""
    for option in re.findall(r"--[a-z][a-z-]*", row):
        check(re.search(rf"{option}(?![a-z-])", said), f"`vcuda help` has {option} for {command}, its own help has not")


def pages():
    """Each command of `vcuda help` has a page, and each page a command; the page says what the help says."""
    with tempfile.TemporaryDirectory() as top:
        install(top)
        vcuda = one(top, "**/bin/vcuda")
        words = run("bash", "-c", '. "$1" && _vcuda_commands "$2"', "bash", one(top, "**/bash-completion/completions/vcuda"), vcuda)
        commands = [command.split() for command in words.splitlines() if command != "help"]
        check({"run", "vm run", "vm set", "top", "move", "doctor"} <= {" ".join(c) for c in commands}, f"commands: {commands}")
        parts = [part.strip() for line in run(vcuda, "help").splitlines() if re.match(r"  [a-z]", line) for part in line.split(",")]
        for command in commands:
            said = run(vcuda, *command, "--help")
            check_page(top, ["vcuda", *command], 1, said)
            row = max((part for part in parts if part.split()[:len(command)] == command), key=len)
            check_summary(" ".join(command), row, said)
        check_page(top, ["vcuda"], 1, run(vcuda, "--help"))
        check_page(top, ["vcudad"], 8, run(one(top, "**/bin/vcudad"), "--help"))
        names = {path.name for path in pathlib.Path(top).glob("**/man1/*")}
        groups = {f"vcuda-{command[0]}.1" for command in commands}
        extra = names - groups - {"vcuda.1"} - {f"vcuda-{'-'.join(command)}.1" for command in commands}
        check(not extra, f"pages without a command: {extra}")


COMPLETE = """
. "$1"
PATH=$(dirname "$2"):$PATH
shift 2
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_vcuda
printf '%s\\n' "${COMPREPLY[@]}"
"""

# zsh's own functions are replaced by some that print what they are given.
COMPLETE_ZSH = """
fpath=(${1:h} $fpath)
autoload -U compinit && compinit -u -D
[[ $_comps[vcuda] == _vcuda && $_comps[vcudad] == _vcuda ]] || print not-registered
PATH=${2:h}:$PATH
shift 2
compadd() { if [[ $1 == -a ]]; then print -l -- ${(P)2}; else shift; print -l -- "$@"; fi }
_files() { : }
typeset -a words=("$@")
CURRENT=$# PREFIX=${@[-1]}
_vcuda
"""


def completion_zsh(top, vcuda):
    """zsh's offers are not narrowed by the first letters: its own compadd does that."""
    if not shutil.which("zsh"):
        print("zsh is missing: its completion was not tried")
        return
    script = one(top, "**/zsh/site-functions/_vcuda")

    def complete(*words):
        return set(run("zsh", "-f", "-c", COMPLETE_ZSH, "zsh", script, vcuda, *words).split())
    check({"run", "vm", "pause", "doctor", "config"} <= complete("vcuda", ""), complete("vcuda", ""))
    check(complete("vcuda", "vm", "") == {"run", "list", "kill", "set", "exports", "free", "init", "xml"}, complete("vcuda", "vm", ""))
    options = complete("vcuda", "vm", "run", "--s")
    check({"--sandbox", "--share", "--stats"} <= options and "--max-contexts" not in options, options)
    check(complete("vcuda", "run", "--", "./program", "--") == set(), "the program's options are ours")
    check({"--max-contexts", "--vhost-socket"} <= complete("vcudad", "--"), complete("vcudad", "--"))


def completion():
    with tempfile.TemporaryDirectory() as top:
        install(top, "guest", "host")
        script, vcuda = one(top, "**/bash-completion/completions/vcuda"), one(top, "**/bin/vcuda")

        def complete(*words):
            return set(run("bash", "-c", COMPLETE, "bash", script, vcuda, *words).split())
        check({"run", "vm", "pause", "doctor", "config"} <= complete("vcuda", ""), complete("vcuda", ""))
        check(complete("vcuda", "vm", "") == {"run", "list", "kill", "set", "exports", "free", "init", "xml"}, complete("vcuda", "vm", ""))
        check(complete("vcuda", "pa") == {"pause"}, complete("vcuda", "pa"))
        check(complete("vcuda", "config", "") == {"check", "show"}, complete("vcuda", "config", ""))
        options = complete("vcuda", "vm", "run", "--s")
        check(options == {"--sandbox", "--share", "--stats"}, options)
        options = complete("vcuda", "run", "--")
        check("--trace" in options and "--error-exitcode" not in options, options)
        check(complete("vcuda", "run", "--", "./program", "--") == set(), "the program's options are ours")
        check({"--max-contexts", "--vhost-socket"} <= complete("vcudad", "--"), complete("vcudad", "--"))
        completion_zsh(top, vcuda)


globals()[sys.argv[3]]()

# SPDX-License-Identifier: Apache-2.0
"""Builds NVIDIA's cuda-samples with nvcc alone, from what their CMakeLists.txt say (cmakelists.py), without CMake.

A Toolchain is used by several threads. Each sample is built by one nvcc at a time, in a folder of its own.
"""
import pathlib
import re
import shutil
import subprocess

import cmakelists

# find_package's names: the headers and the libraries that must be there.
PACKAGES = {
    "OpenGL": (["GL/gl.h", "GL/glu.h"], ["GL", "GLU"]),
    "GLUT": (["GL/glut.h"], ["glut"]),
    "FreeImage": (["FreeImage.h"], ["freeimage"]),
}


# Libraries of the toolkit that others need, as CMake's FindCUDAToolkit has them.
NEEDED_BY = {"cusolver": ["cusparse", "cublas"], "cusparse": ["nvJitLink"]}

# The code of each architecture in a program.
FORMS = {"both": "compute_{0},sm_{0}", "ptx": "compute_{0}", "sass": "sm_{0}"}


class Failed(Exception):
    """A sample cannot be built; the text says why."""


class Toolchain:
    """nvcc: its path. architectures: numbers such as "90", "lowest" (the lowest that a sample names) or "native".
    sysroot: None, or a folder with usr/include and usr/lib of OpenGL and GLUT, for machines that have none.
    form: a key of FORMS."""
    def __init__(self, architectures, sysroot=None, form="both"):
        self.nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
        if not self.nvcc:
            raise Failed("no nvcc in PATH, and none in /usr/local/cuda/bin")
        self.root = pathlib.Path(self.nvcc).resolve().parents[1]
        self.architectures = native_architectures() if architectures == "native" else architectures.split(",")
        roots = [pathlib.Path(sysroot).resolve()] if sysroot else []
        self.includes = [path for root in roots for path in [root / "usr/include"] if path.is_dir()]
        self.library_folders = [path for root in roots for path in (root / "usr/lib/x86_64-linux-gnu", root / "usr/lib") if path.is_dir()]
        self.packages = {name: found for name in PACKAGES if (found := self.find_package(name))}
        self.form = FORMS[form]
        self.packages["OpenMP"] = ([], ["OpenMP::OpenMP_CXX"])

    def find_package(self, name):
        headers, libraries = PACKAGES[name]
        includes = self.includes + [pathlib.Path("/usr/include"), pathlib.Path("/usr/include/x86_64-linux-gnu")]
        if all(any((folder / header).is_file() for folder in includes) for header in headers):
            if all(self.find_file(f"lib{library}.so") for library in libraries):
                return [], libraries
        return None

    def find_file(self, name):
        folders = self.library_folders + [self.root / "lib64"]
        folders += [pathlib.Path(folder) for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")]
        return next((str(folder / name) for folder in folders if (folder / name).is_file()), None)

    def has_library(self, name):
        """Whether the toolkit has the library of a CUDA::name."""
        return any((self.root / "lib64" / f"lib{name}.{end}").is_file() for end in ("so", "a"))

    def code(self, cmake):
        """The options for code, in the Toolchain's form. cmake: the text of the sample's CMakeLists.txt."""
        architectures = self.architectures
        if architectures == ["lowest"]:
            named = re.findall(r"set\(CMAKE_CUDA_ARCHITECTURES\s+(\d+)", cmake)
            architectures = [min(named, key=int, default="75")]
        return [f"--generate-code=arch=compute_{a},code=[{self.form.format(a)}]" for a in architectures]

    def build(self, folder, build, runtime):
        """Builds the sample of `folder` as build/NAME, with its data and its kernels beside it. Raises Failed. A program that
        the same command has built is left as it is."""
        build.mkdir(parents=True, exist_ok=True)
        cmake = (folder / "CMakeLists.txt").read_text()
        code = self.code(cmake)
        try:
            recipe = cmakelists.read(folder, build, self.packages, lambda name: self.find_file(f"lib{name}.so"),
                                     {"CUDAToolkit_INCLUDE_DIRS": str(self.root / "include")})
        except cmakelists.Unknown as error:
            raise Failed(f"not understood: {error}") from error
        if recipe.missing:
            raise Failed(recipe.missing)
        program = build / folder.name
        command = self.command(recipe, folder, program, code, runtime)
        stamp, text = build / "nvcc-command.txt", " ".join(command)
        if program.is_file() and stamp.is_file() and stamp.read_text() == text:
            return
        run_compiler(command, build)
        for step in recipe.steps:
            self.step(step, build, code)
        stamp.write_text(text)

    def command(self, recipe, folder, program, code, runtime):
        command = [self.nvcc, "-o", str(program), "-w", "-std=c++17", f"-cudart={runtime}", *code, *recipe.options]
        command += ["-rdc=true"] if recipe.separable else []
        command += [f"-I{path}" for path in self.includes]
        command += [f"-I{(folder / path).resolve()}" for path in dict.fromkeys(recipe.includes)]
        command += [str((folder / source).resolve()) for source in recipe.sources]
        for option in recipe.link_options:
            command += ["-Xcompiler", option]
        command += [f"-L{self.root / 'lib64/stubs'}"] + [f"-L{path}" for path in self.library_folders]
        for path in self.library_folders:  # DT_RPATH, which libraries of libraries are found by too
            command += ["-Xlinker", f"-rpath={path}", "-Xlinker", "--disable-new-dtags"]
        for library in dict.fromkeys(recipe.libraries):
            command += library_options(library)
        return command

    def step(self, step, build, code):
        """A custom command: CMake's copying, or a call of nvcc."""
        if step[:2] == ["cmake", "-E"]:
            copy(step[2], step[3:])
        elif step and step[0] == "nvcc":
            own = [word for word in step[1:] if not word.startswith("-gencode")]
            run_compiler([self.nvcc, *([] if "-ptx" in own else code), *own], build)
        else:
            raise Failed(f"a custom command that is not understood: {' '.join(step)}")


def library_options(library):
    """The options of nvcc for a word of target_link_libraries()."""
    if library == "OpenMP::OpenMP_CXX":
        return ["-Xcompiler", "-fopenmp"]
    if library == "CUDA::cudart":
        return []
    if library == "CUDA::cuda_driver":
        return ["-lcuda"]
    if library.startswith("/"):
        return [library]
    name = library.removeprefix("CUDA::")
    return [f"-l{word}" for word in [name, *(NEEDED_BY.get(name, []) if library.startswith("CUDA::") else [])]]


def native_architectures():
    """The architectures of the GPUs that nvidia-smi lists."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], capture_output=True, text=True)
    except OSError as error:
        raise Failed(f"nvidia-smi does not start ({error.strerror}): name the architecture, for example --arch 90") from error
    found = sorted({line.strip().replace(".", "") for line in done.stdout.splitlines() if re.fullmatch(r"\d+\.\d", line.strip())})
    if not found:
        raise Failed("nvidia-smi names no compute capability: name the architecture, for example --arch 90")
    return found


def run_compiler(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stdout + done.stderr).splitlines()
        (folder / "build-log.txt").write_text("\n".join([" ".join(command), *lines]) + "\n")
        errors = [line for line in lines if re.search(r"error|cannot find|undefined", line, re.I)]
        raise Failed((errors or lines or ["nvcc failed without a word"])[0][:160])


def copy(how, paths):
    """cmake -E copy, copy_if_different and copy_directory. Missing files are left out, as a tarball may lack
    pictures of the documentation."""
    *sources, target = [pathlib.Path(path) for path in paths]
    for source in sources:
        if how == "copy_directory":
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
        elif how in ("copy", "copy_if_different"):
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        else:
            raise Failed(f"cmake -E {how} is not understood")

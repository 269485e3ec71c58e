# SPDX-License-Identifier: Apache-2.0
"""Reads the CMakeLists.txt of one of NVIDIA's cuda-samples, for machines without CMake.

read() gives what a compiler must be called with: sources, options, libraries, and the commands for data and kernels.
Only the commands and conditions that cuda-samples v13.0 uses are known; others raise Unknown.
"""
import pathlib
import re

TOKEN = re.compile(r'#[^\n]*|"((?:[^"\\]|\\.)*)"|([()])|([^\s()"#]+)')
# Commands that change nothing of what is compiled here.
IGNORED = {"cmake_minimum_required", "project", "target_compile_features", "add_dependencies", "add_custom_target", "include",
           "check_include_file"}


class Unknown(Exception):
    """The file uses something that this reader does not know."""


class Recipe:
    """How to build one sample. Paths are absolute or relative to the sample's folder; `missing` says what is not found."""
    def __init__(self):
        self.sources, self.includes, self.libraries, self.options, self.link_options = [], [], [], [], []
        self.steps = []
        self.separable = False
        self.missing = None


class Reader:
    """packages: of find_package's names to (include folders, libraries); find_library: from a name to a path or None."""
    def __init__(self, folder, build, packages, find_library, variables):
        self.packages, self.find_library = packages, find_library
        self.recipe = Recipe()
        self.fixed = variables
        self.variables = {"CMAKE_CURRENT_SOURCE_DIR": str(folder), "CMAKE_CURRENT_BINARY_DIR": str(build), "UNIX": "1",
                          "CMAKE_SYSTEM_NAME": "Linux", "CMAKE_CXX_COMPILER_ID": "GNU", "CMAKE_COMMAND": "cmake",
                          "CMAKE_CUDA_COMPILER": "nvcc", "CMAKE_CUDA_FLAGS_RELEASE": "-O3 -DNDEBUG", **variables}
        self.folder = folder

    def expand(self, text):
        while True:
            found = re.search(r"\$\{([^${}]*)\}", text)
            if not found:
                return text
            text = text[:found.start()] + self.variables.get(found[1], "") + text[found.end():]

    def arguments(self, tokens):
        """Words as CMake hands them on: an unquoted list is several."""
        words = []
        for quoted, word in tokens:
            value = self.expand(word)
            words += [value] if quoted else [part for part in value.split(";") if part]
        return words

    def truth(self, word):
        """A constant, or a variable that holds a true one."""
        for value in (word, self.variables.get(word, "")):
            if value.upper() in ("1", "ON", "YES", "TRUE", "Y"):
                return True
        value = self.variables.get(word, "")
        return value.upper() not in ("", "0", "OFF", "NO", "FALSE", "N", "IGNORE") and not value.endswith("NOTFOUND")

    def condition(self, tokens):
        words = [(quoted, self.expand(word)) for quoted, word in tokens if quoted or self.expand(word)]
        return self.any_of(words) if words else False

    def any_of(self, words):
        value = self.all_of(words)
        while words and words[0][1] == "OR":
            words.pop(0)
            value = self.all_of(words) or value
        return value

    def all_of(self, words):
        value = self.simple(words)
        while words and words[0][1] == "AND":
            words.pop(0)
            value = self.simple(words) and value
        return value

    def simple(self, words):
        quoted, word = words.pop(0)
        if not quoted and word == "NOT":
            return not self.simple(words)
        if not quoted and word == "(":
            value = self.any_of(words)
            words.pop(0)
            return value
        if words and words[0][1] in ("STREQUAL", "EQUAL", "MATCHES"):
            how, right = words.pop(0)[1], words.pop(0)[1]
            left = word if quoted else self.variables.get(word, word)
            return bool(re.search(right, left)) if how == "MATCHES" else left == right
        return self.truth(word)

    def run(self, commands):
        """Runs commands up to the end. False after return()."""
        at = 0
        while at < len(commands):
            name, tokens = commands[at]
            if name in ("if", "foreach"):
                end, parts = block(commands, at, name)
                if not (self.branch(parts) if name == "if" else self.loop(tokens, parts[0][2])):
                    return False
                at = end
            elif name == "return":
                return False
            elif name not in IGNORED:
                method = getattr(self, "do_" + name, None)
                if not method:
                    raise Unknown(f"{self.folder}: {name}()")
                method(self.arguments(tokens))
            at += 1
        return True

    def branch(self, parts):
        for name, tokens, body in parts:
            if name == "else" or self.condition(tokens):
                return self.run(body)
        return True

    def loop(self, tokens, body):
        variable, *values = self.arguments(tokens)
        for value in values:
            self.variables[variable] = value
            if not self.run(body):
                return False
        return True

    def do_set(self, words):
        if words[0] not in self.fixed:
            self.variables[words[0]] = ";".join(words[1:])

    def do_list(self, words):
        how, name = words[:2]
        if how == "APPEND":
            self.variables[name] = ";".join([part for part in self.variables.get(name, "").split(";") if part] + words[2:])
        elif how == "GET":
            self.variables[words[3]] = self.variables.get(name, "").split(";")[int(words[2])]
        else:
            raise Unknown(f"{self.folder}: list({how})")

    def do_string(self, words):
        how = words[0]
        if how == "REPLACE":
            self.variables[words[3]] = " ".join(words[4:]).replace(words[1], words[2])
        elif how == "FIND":
            self.variables[words[3]] = str(words[1].find(words[2]))
        elif how == "JOIN":
            self.variables[words[2]] = words[1].join(words[3:])
        else:
            raise Unknown(f"{self.folder}: string({how})")

    def do_file(self, words):
        if words[0] != "GLOB":
            raise Unknown(f"{self.folder}: file({words[0]})")
        self.variables[words[1]] = ";".join(str(path) for pattern in words[2:] for path in sorted(self.folder.glob(pattern)))

    def do_find_package(self, words):
        name = words[0]
        found = self.packages.get(name)
        if name == "CUDAToolkit":
            return
        for spelling in (name, name.upper(), name + "_CXX"):
            self.variables[spelling + "_FOUND"] = "TRUE" if found else ""
        if found:
            self.variables[name.upper() + "_INCLUDE_DIR"] = self.variables[name.upper() + "_INCLUDE_DIRS"] = ";".join(found[0])
            self.variables[name.upper() + "_LIBRARIES"] = ";".join(found[1])

    def do_find_library(self, words):
        name = words[words.index("NAME") + 1] if "NAME" in words else words[1]
        self.variables[words[0]] = self.find_library(name) or words[0] + "-NOTFOUND"

    def do_find_file(self, words):
        self.variables[words[0]] = words[0] + "-NOTFOUND"

    def do_message(self, words):
        if "not build" in words[-1].lower() and not self.recipe.sources:
            self.recipe.missing = words[-1]

    def do_include_directories(self, words):
        self.recipe.includes += words

    def do_target_include_directories(self, words):
        self.recipe.includes += [word for word in words[1:] if word not in ("PUBLIC", "PRIVATE")]

    def do_add_executable(self, words):
        self.recipe.sources += words[1:]

    def do_target_compile_options(self, words):
        for word in words[1:]:
            found = re.fullmatch(r"\$<\$<COMPILE_LANGUAGE:CUDA>:(.*)>", word)
            if found:
                self.recipe.options.append(found[1])
            elif word not in ("PUBLIC", "PRIVATE"):
                raise Unknown(f"{self.folder}: target_compile_options({word})")

    def do_add_compile_definitions(self, words):
        self.recipe.options += ["-D" + word for word in words]

    def do_set_target_properties(self, words):
        self.recipe.separable |= "CUDA_SEPARABLE_COMPILATION" in words and self.truth(words[words.index("CUDA_SEPARABLE_COMPILATION") + 1])

    def do_target_link_libraries(self, words):
        self.recipe.libraries += [word for word in words[1:] if word not in ("PUBLIC", "PRIVATE")]

    def do_add_custom_command(self, words):
        keys = {"COMMAND", "DEPENDS", "COMMENT", "OUTPUT", "TARGET", "POST_BUILD", "VERBATIM"}
        command = None
        for word in words:
            if word in keys:
                command = [] if word == "COMMAND" else None
                if command is not None:
                    self.recipe.steps.append(command)
            elif command is not None:
                word = re.sub(r"\$<TARGET_FILE_DIR:\w+>", self.variables["CMAKE_CURRENT_BINARY_DIR"], word)
                command.append(word.replace("$<CONFIGURATION>", ""))


def block(commands, at, name):
    """The index of the end of an if() or foreach(), and its parts: (command, arguments, body)."""
    depth, parts = 0, []
    for end in range(at, len(commands)):
        command, tokens = commands[end]
        if command in ("if", "foreach"):
            depth += 1
        if depth == 1 and command in (name, "elseif", "else"):
            parts.append((command, tokens, []))
        elif command in ("endif", "endforeach"):
            depth -= 1
            if not depth:
                return end, parts
            parts[-1][2].append(commands[end])
        else:
            parts[-1][2].append(commands[end])
    raise Unknown(f"{name}() without an end")


def parse(text):
    """The commands of a file: (name in lower case, [(quoted, word)])."""
    commands, depth, previous = [], 0, None
    for found in TOKEN.finditer(text):
        if found[0].startswith("#"):
            continue
        quoted, bracket, word = found[1] is not None, found[2], found[1] if found[1] is not None else found[0]
        if depth == 0:
            if bracket == "(":
                commands.append((previous.lower(), []))
                depth = 1
            previous = word
            continue
        depth += {"(": 1, ")": -1}.get(bracket, 0)
        if depth:
            commands[-1][1].append((quoted, word))
    return commands


def read(folder, build, packages, find_library, variables):
    """The Recipe of the sample in `folder`, whose files are to be in `build`. variables: those that the file cannot set."""
    reader = Reader(pathlib.Path(folder), build, packages, find_library, variables)
    reader.run(parse((reader.folder / "CMakeLists.txt").read_text()))
    for name in ("CMAKE_CUDA_FLAGS", "CMAKE_CUDA_FLAGS_RELEASE"):
        reader.recipe.options += reader.variables.get(name, "").split()
    reader.recipe.link_options = reader.variables.get("CMAKE_EXE_LINKER_FLAGS", "").split()
    if not reader.recipe.sources and not reader.recipe.missing:
        reader.recipe.missing = "its CMakeLists.txt builds nothing here"
    return reader.recipe

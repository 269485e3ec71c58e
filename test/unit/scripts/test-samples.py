#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/programs/samples.py reads a sample's CMakeLists.txt without CMake and names a result: test-samples.py"""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "programs"))
import cmakelists  # noqa: E402
import nvcc_build  # noqa: E402
import samples  # noqa: E402

HEAD = """
cmake_minimum_required(VERSION 3.20)  # a comment (with brackets)
project(one LANGUAGES C CXX CUDA)
set(CMAKE_CUDA_ARCHITECTURES 75 80 90)
set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -Wno-deprecated-gpu-targets")
if(ENABLE_CUDA_DEBUG)
    set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -G")
else()
    set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -lineinfo")
endif()
include_directories(../Common)
"""
PROGRAM = "add_executable(one one.cu \"two words.cpp\")\n"
FATBIN = """
set(GENCODE_FLAGS "")
foreach(arch ${CMAKE_CUDA_ARCHITECTURES})
    list(APPEND GENCODE_FLAGS "-gencode=arch=compute_${arch},code=sm_${arch}")
endforeach()
add_custom_command(OUTPUT ${FATBIN} COMMAND ${CMAKE_CUDA_COMPILER} ${GENCODE_FLAGS} -o k.fatbin -fatbin ${CMAKE_CURRENT_SOURCE_DIR}/k.cu
    DEPENDS k.cu COMMENT "builds it")
"""
GLUT = """
find_package(GLUT)
if(${GLUT_FOUND})
    add_executable(one one.cu)
    target_link_libraries(one ${GLUT_LIBRARIES})
else()
    message(STATUS "GLUT not found - will not build sample 'one'")
endif()
"""
PLATFORM = """
if(WIN32 OR (CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64" AND NOT UNIX))
    add_executable(one windows.cu)
elseif(UNIX AND NOT ${CMAKE_SYSTEM_NAME} STREQUAL "QNX")
    add_executable(one linux.cu)
    return()
endif()
add_executable(one more.cu)
"""
SEPARABLE = PROGRAM + "set_target_properties(one PROPERTIES CUDA_SEPARABLE_COMPILATION ON)\n"
OPTIONS = PROGRAM + "target_compile_options(one PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda>)\n"
LIBRARIES = PROGRAM + "target_link_libraries(one PRIVATE\n    CUDA::cublas\n    CUDA::cuda_driver\n)\n"
NO_NDEBUG = PROGRAM + 'string(REPLACE "-DNDEBUG" "" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")\n'
WITH_GLUT = {"GLUT": ([], ["glut"])}

# (what it shows, the text after HEAD, the packages that are there, a field of the recipe, its value)
RECIPES = [
    ("sources", PROGRAM, {}, "sources", ["one.cu", "two words.cpp"]),
    ("options of the release", PROGRAM, {}, "options", ["-Wno-deprecated-gpu-targets", "-lineinfo", "-O3", "-DNDEBUG"]),
    ("a replaced option", NO_NDEBUG, {}, "options", ["-Wno-deprecated-gpu-targets", "-lineinfo", "-O3"]),
    ("an option of CUDA's sources", OPTIONS, {}, "options", ["--extended-lambda", "-Wno-deprecated-gpu-targets", "-lineinfo", "-O3", "-DNDEBUG"]),
    ("include folders", PROGRAM, {}, "includes", ["../Common"]),
    ("no device linking", PROGRAM, {}, "separable", False),
    ("device linking", SEPARABLE, {}, "separable", True),
    ("libraries", LIBRARIES, {}, "libraries", ["CUDA::cublas", "CUDA::cuda_driver"]),
    ("a package that is there", GLUT, WITH_GLUT, "libraries", ["glut"]),
    ("a package that is missing", GLUT, {}, "missing", "GLUT not found - will not build sample 'one'"),
    ("conditions and return()", PLATFORM, {}, "sources", ["linux.cu"]),
    ("no program", "", {}, "missing", "its CMakeLists.txt builds nothing here"),
    ("a command with a list of architectures", PROGRAM + FATBIN, {}, "steps",
     [["nvcc", *[f"-gencode=arch=compute_{n},code=sm_{n}" for n in (75, 80, 90)], "-o", "k.fatbin", "-fatbin", "FOLDER/k.cu"]]),
]
UNKNOWN = [("a command", "enable_language(Fortran)\n"), ("a way of list()", "list(SORT names)\n"), ("an if() without an end", "if(UNIX)\n")]
COMMANDS = [("CUDA::cublas", ["-lcublas"]), ("CUDA::cusolver", ["-lcusolver", "-lcusparse", "-lcublas"]), ("CUDA::cuda_driver", ["-lcuda"]), ("CUDA::cudart", []), ("GL", ["-lGL"]),
            ("OpenMP::OpenMP_CXX", ["-Xcompiler", "-fopenmp"]), ("/lib/libx.so", ["/lib/libx.so"])]
LIMIT = "vcuda-cpu: cannot compile kernel k: line 3 of the PTX: launching kernels from a kernel is not supported"
# (exit status, output, result)
VERDICTS = [
    (0, "Result = PASS\n", "pass"), (0, "Result = FAIL\n", "fail"), (1, "done\n", "fail"), (0, "0 failures\n", "pass"),
    (2, "no such device\n", "waived"), (1, "CUDA error 801\n" + LIMIT + "\n", "refused"), (0, LIMIT + "\nResult = PASS\n", "refused"),
    (1, "the sample says: this is not supported\n", "fail"), (1, "vcuda: the worker has ended\n", "fail"),
]


def read(folder, text, packages):
    (folder / "CMakeLists.txt").write_text(HEAD + text)
    return cmakelists.read(folder, folder / "build", packages, lambda name: None, {})


def main():
    wrong = 0

    def expect(what, found, expected):
        nonlocal wrong
        if found != expected:
            wrong += 1
            print(f"{what}: {found!r} instead of {expected!r}")

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for what, text, packages, field, expected in RECIPES:
            found = getattr(read(folder, text, packages), field)
            if field == "steps":
                found = [[word.replace(name, "FOLDER") for word in step] for step in found]
            expect(what, found, expected)
        for what, text in UNKNOWN:
            try:
                expect(what, read(folder, text, {}).sources, "an error")
            except cmakelists.Unknown:
                pass
    for library, expected in COMMANDS:
        expect(library, nvcc_build.library_options(library), expected)
    for code, output, expected in VERDICTS:
        expect(f"status {code}, {output!r}", samples.verdict(code, output)[0], expected)
    print(f"{len(RECIPES) + len(UNKNOWN) + len(COMMANDS) + len(VERDICTS)} cases, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks what the compiler does not: floors, vendor headers, opening comments, sizes, listed sources.

    tools/check_tree.py [--root FOLDER]

Prints one line for each violation and exits with 1 if there is any.
"""

import argparse
import os
import re
import sys

# A folder may include only these of ours.
FLOORS = {
    "kernels": {"kernels"},
    "planner": {"planner"},
    "transport": {"transport", "kernels"},
    "actors": {"actors", "transport", "planner", "kernels"},
    "apps": {"apps", "actors", "transport", "planner", "kernels"},
    "tools": {"tools", "apps", "actors", "transport", "planner", "kernels"},
    "tests": {"tests", "tools", "apps", "actors", "transport", "planner", "kernels"},
}
# What transport/ may use of kernels/: it knows no layer and no minibatch.
TRANSPORT_MAY_USE = {"check.hpp", "device.hpp", "stream.hpp", "buffer.hpp", "memory_pool.hpp"}

# Where a vendor's headers may appear: prefixes of the including file's path.
VENDORS = {
    "caf/": ["actors/", "apps/examples/", "tools/bench_ranks.cpp", "tests/actors/", "tests/support/", "tests/plugins/"],
    "dnnl": ["kernels/cpu/"],
    "oneapi/": ["kernels/cpu/", "tools/"],
    "CLI/": ["apps/runner/command_line.cpp"],
    "protozero/": ["actors/trace/", "apps/text/", "tests/text/", "tests/trace/"],
    "sentencepiece": ["apps/text/"],
    "jpeglib.h": ["apps/data/", "tests/data/"],
    "utf8proc.h": ["apps/metrics/", "apps/text/", "tests/"],
    "zlib.h": ["apps/data/", "tests/data/"],
    "openssl/": ["actors/", "transport/", "tests/transport/"],
    "boost/": ["transport/", "tests/transport/", "tools/"],
    "ucp/": ["transport/ucx/", "tools/"],
    "uct/": ["transport/ucx/"],
    "ucs/": ["transport/ucx/"],
    "hwloc": ["transport/launch/"],
    "gloo/": ["tools/"],
    "fmt/": ["apps/", "actors/", "tools/"],
    "gtest/": ["tests/"],
    "gmock/": ["tests/"],
    "benchmark/": ["tools/"],
}
# Nothing here may reach CAF, not even through other headers of ours.
CAF_FREE = ["actors/checkpoint/", "actors/freeze/", "actors/optimizer/optimizer_core", "actors/policy/", "actors/run/coordinator_core",
            "actors/run/metrics_core", "actors/run/watchdog", "actors/source/source_core", "actors/stage/stage_core",
            "actors/stage/worker_core", "actors/trace/", "apps/models/", "apps/data/", "apps/metrics/", "apps/text/", "kernels/", "planner/",
            "tools/trace/", "transport/"]

LINES = {".hpp": 300, ".cpp": 500, ".py": 500}
LAYER_LIST = "kernels/layers/layers.hpp"
LAYER_FOLDERS = ["kernels/layers", "tests/kernels/layers"]
# Projects of their own, built against the installed package.
OUT_OF_TREE = ["apps/examples/", "tests/plugins/"]

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def sources(root):
    """Paths of all files of ours, relative to the root."""
    for top in sorted(FLOORS) + ["cmake"]:
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders[:] = [f for f in sorted(folders) if not f.startswith((".", "build", "__pycache__"))]
            for name in sorted(files):
                yield os.path.relpath(os.path.join(folder, name), root)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read().splitlines()


def includes_of(lines):
    """(number, quoted, name) of each include."""
    for number, line in enumerate(lines, 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found.group(1) == '"', found.group(2)


class Checker:
    def __init__(self, root):
        self.root = root
        self.violations = []
        self.files = list(sources(root))
        self.code = {p: read(root, p) for p in self.files if p.endswith((".hpp", ".cpp"))}

    def complain(self, path, what, line=1):
        self.violations.append(f"{path}:{line}: {what}")

    def check_include(self, path, line, quoted, name):
        top = path.split("/")[0]
        if quoted:
            if path.startswith(tuple(OUT_OF_TREE)) and not os.path.exists(os.path.join(self.root, name)):
                return  # a header of that project's own
            if not os.path.exists(os.path.join(self.root, name)):
                self.complain(path, f'"{name}" is not found from the repository\'s root', line)
            elif name.split("/")[0] not in FLOORS[top]:
                self.complain(path, f'{top}/ must not include "{name}"', line)
            elif top == "transport" and name.startswith("kernels/") and name[8:] not in TRANSPORT_MAY_USE:
                self.complain(path, f'transport/ must not include "{name}"', line)
            return
        for vendor, places in VENDORS.items():
            if name.startswith(vendor) and not path.startswith(tuple(places)):
                self.complain(path, f"<{name}> belongs in {', '.join(places)}", line)

    def check_caf_free(self, path):
        seen, waiting = set(), [path]
        while waiting:
            current = waiting.pop()
            if current in seen or current not in self.code:
                continue
            seen.add(current)
            for line, quoted, name in includes_of(self.code[current]):
                if quoted:
                    waiting.append(name)
                elif name.startswith("caf/"):
                    self.complain(path, f"reaches CAF through {current}:{line}")
                    return

    def check_code(self):
        for path, lines in self.code.items():
            if not lines or not lines[0].startswith("// "):
                self.complain(path, "the first line must say why the file exists")
            if path.endswith(".hpp") and "#pragma once" not in lines:
                self.complain(path, "no #pragma once")
            for line, quoted, name in includes_of(lines):
                self.check_include(path, line, quoted, name)
            if path.startswith(tuple(CAF_FREE)):
                self.check_caf_free(path)

    def check_sizes(self):
        for path in self.files:
            most = LINES.get(os.path.splitext(path)[1])
            if most is None:
                continue
            count = len(read(self.root, path))
            if count > most:
                self.complain(path, f"{count} lines, wanted at most {most}")

    def cmake_text(self, folder):
        """All CMake text that may list sources of this folder: its own and that of the folders above."""
        text = ""
        if folder in LAYER_FOLDERS:  # CMake takes the layers from the header that lists them
            names = re.findall(r'"kernels/layers/(\w+)[.]hpp"', "\n".join(read(self.root, LAYER_LIST)))
            text = " ".join(names + [name + "_test" for name in names]) + "\n"
        while True:
            full = os.path.join(self.root, folder)
            for name in sorted(os.listdir(full)):
                if name == "CMakeLists.txt" or name.endswith(".cmake"):
                    text += "\n".join(read(self.root, os.path.join(folder, name))) + "\n"
            if not folder:
                return text
            folder = os.path.dirname(folder)

    def check_lists(self):
        for path in self.files:
            folder, name = os.path.split(path)
            if name == "CMakeLists.txt":
                for number, line in enumerate(read(self.root, path), 1):
                    for word in re.findall(r"(?<![\w/}.>-])[\w/]+\.cpp\b", line.split("#")[0]):
                        if not os.path.exists(os.path.join(self.root, folder, word)):
                            self.complain(path, f"lists {word}, which does not exist", number)
            elif name.endswith(".cpp") and not path.startswith(tuple(OUT_OF_TREE)):
                stem = re.escape(name[:-4])
                if not re.search(rf"(?<!\w){stem}(?!\w)", self.cmake_text(folder)):
                    self.complain(path, "no CMake file lists it")

    def run(self):
        self.check_code()
        self.check_sizes()
        self.check_lists()
        return self.violations


def main():
    parser = argparse.ArgumentParser(description="Checks floors, vendor headers, comments, sizes and source lists.")
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    checker = Checker(os.path.abspath(parser.parse_args().root))
    violations = checker.run()
    for line in violations:
        print(line)
    print(f"{len(checker.files)} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())

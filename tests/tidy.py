#!/usr/bin/env python3
"""Runs clang-tidy over the sources of the rooms, as many at a time as there are processors.

usage: tidy.py [--thorough] BUILD [FILE...]     (BUILD: a Ninja build folder that is built)

Without --thorough only the checks that find most for their time: some five seconds of a processor a
source instead of twelve. With it, all that .clang-tidy names. FILE: only these.

What was clean stays clean until it changes: a source is looked at again only when it, a header of
this repository that it includes, a .clang-tidy or clang-tidy itself is another than when it passed.
Exit status: 0 clean, 1 with complaints (printed), 2 for usage.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("kernels", "engine", "policies", "ipc", "daemon")
QUICK = ",".join((
    "-*", "bugprone-assert-side-effect", "bugprone-branch-clone", "bugprone-dangling-handle",
    "bugprone-infinite-loop", "bugprone-sizeof-expression", "bugprone-unused-raii",
    "bugprone-unused-return-value", "bugprone-use-after-move", "misc-unused-using-decls",
    "modernize-use-override", "performance-*", "-performance-enum-size",
    "-performance-inefficient-*", "-performance-no-int-to-ptr",
    "readability-braces-around-statements", "readability-container-size-empty",
    "readability-identifier-naming", "readability-redundant-control-flow",
    "readability-redundant-smartptr-get", "readability-redundant-string-cstr"))


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def includes_by_object(build):
    """The files that each object was made from, as the compiler told Ninja."""
    made_from, current = {}, None
    for line in output_of("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line.startswith("    "):
            current.append(line.strip())
        elif ": #deps" in line:
            current = made_from.setdefault(line.split(": #deps")[0], [])
    return made_from


def sources_of_rooms(build):
    """Each source of a room, with the object that the build makes of it."""
    with open(build / "compile_commands.json") as commands:
        for entry in json.load(commands):
            path = pathlib.Path(entry["file"])
            if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in ROOMS:
                yield path, entry.get("output") or entry["command"].split(" -o ")[1].split()[0]


class passed_before:
    """Fingerprints of what passed, as empty files."""

    def __init__(self, build, checks):
        self.folder = build / "tidy"
        self.folder.mkdir(exist_ok=True)
        self.build = build
        self.made_from = includes_by_object(build)
        self.contents = {}
        self.common = output_of("clang-tidy", "--version") + " ".join(checks)
        for config in sorted(ROOT.glob("**/.clang-tidy")):
            self.common += config.read_text()

    def hash_of(self, path):
        if path not in self.contents:
            self.contents[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        return self.contents[path]

    def stamp(self, source, made):
        files = {(self.build / name).resolve() for name in self.made_from.get(made, [])}
        own = sorted(f for f in files | {source} if f.is_relative_to(ROOT))
        text = self.common + "".join(f"{f.relative_to(ROOT)} {self.hash_of(f)}\n" for f in own)
        return self.folder / hashlib.sha256(text.encode()).hexdigest()


def without_precompiled_headers(build):
    """A folder with the commands of the build, less what is GCC's precompiled headers: Clang cannot
    read them, and every source includes what it needs."""
    with open(build / "compile_commands.json") as commands:
        entries = json.load(commands)
    for entry in entries:
        entry["command"] = re.sub(r" -(include \S*cmake_pch\.hxx|fpch-preprocess|Winvalid-pch)", "",
                                  entry["command"])
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return folder


def complaints(commands, checks, source):
    # GCC's warning options are not all Clang's.
    run = subprocess.run(["clang-tidy", "-p", str(commands), "--quiet", "--extra-arg=-Wno-error",
                          "--extra-arg=-Wno-unknown-warning-option", *checks, str(source)],
                         capture_output=True, text=True)
    return "" if run.returncode == 0 else run.stdout + run.stderr


def main():
    names = [name for name in sys.argv[1:] if name != "--thorough"]
    checks = [] if "--thorough" in sys.argv else ["--checks=" + QUICK]
    if not names or not (pathlib.Path(names[0]) / "compile_commands.json").exists():
        print(__doc__, file=sys.stderr)
        return 2
    build = pathlib.Path(names[0]).resolve()
    only = {pathlib.Path(name).resolve() for name in names[1:]}
    before = passed_before(build, checks)
    wanted = [(source, before.stamp(source, made)) for source, made in sources_of_rooms(build)
              if not only or source in only]
    changed = [(source, stamp) for source, stamp in wanted if not stamp.exists()]
    print(f"clang-tidy: {len(changed)} of {len(wanted)} sources to look at", flush=True)
    faulty = 0
    commands = without_precompiled_headers(build)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        looked = {pool.submit(complaints, commands, checks, source): (source, stamp) for source, stamp in changed}
        for done, future in enumerate(concurrent.futures.as_completed(looked), 1):
            source, stamp = looked[future]
            if future.result():
                faulty += 1
                print(future.result(), flush=True)
            else:
                stamp.touch()
            if done % 20 == 0:
                print(f"clang-tidy: {done} of {len(changed)}", flush=True)
    if faulty:
        print(f"clang-tidy complains about {faulty} sources", file=sys.stderr)
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())

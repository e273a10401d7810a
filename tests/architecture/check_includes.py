#!/usr/bin/env python3
"""Fails when a room includes another that the order of rooms forbids.

usage: check_includes.py REPOSITORY [ROOM...]

The order: kernels < engine < daemon, policies < daemon, ipc < daemon. Nothing else. Third-party
libraries that belong to one room are checked as well.
"""
import pathlib
import re
import sys

ALLOWED = {
    "kernels": {"kernels"},
    "engine": {"engine", "kernels"},
    "policies": {"policies"},
    "ipc": {"ipc"},
    "daemon": {"daemon", "engine", "kernels", "policies", "ipc"},
}
# A third-party include and the only rooms that may use it.
OWNERS = [
    (re.compile(r"^llvm[-/]"), {"kernels"}),
    (re.compile(r"^spirv/"), {"kernels"}),
    (re.compile(r"^yaml-cpp/"), {"policies", "daemon"}),
    (re.compile(r"^(lua|lauxlib|lualib)"), {"policies"}),
    (re.compile(r"^boost/asio"), {"ipc", "daemon"}),
    (re.compile(r"^vulkan/"), {"engine"}),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def faults(root: pathlib.Path, room: str):
    for path in sorted((root / room).rglob("*.[ch]pp")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, target = match.groups()
            where = f"{path.relative_to(root)}:{number}"
            first = target.split("/")[0]
            if quote == '"' and first in ALLOWED and first not in ALLOWED[room]:
                yield f"{where}: {room}/ may not include {first}/ ({target})"
            if quote == '"' and not (root / target).exists():
                yield f"{where}: {target} is not a path from the repository's root"
            for pattern, rooms in OWNERS:
                if pattern.match(target) and room not in rooms:
                    yield f"{where}: only {', '.join(sorted(rooms))} may include <{target}>"


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    rooms = sys.argv[2:] or list(ALLOWED)
    found = [fault for room in rooms for fault in faults(root, room)]
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

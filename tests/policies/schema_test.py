#!/usr/bin/env python3
"""The JSON Schema of policies agrees with the loader: what one of them takes or refuses, so does the other.

    schema_test.py TERRANECTL SOURCES

Skipped (77) where the packages jsonschema and yaml of Python are not installed.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: Python has no package {missing.name} (Debian: python3-jsonschema, python3-yaml)")
    sys.exit(77)

GOOD = """\
apiVersion: terrane/v1
policies:
  - name: spill
    mode: enforce
    for_each: gpu
    only: ["cuda:*", "vulkan:*"]
    priority: 70
    enter: {metric: vram.used_ratio, above: 92%, held: 5s}
    leave: {metric: vram.used_ratio, below: 84%}
    emergency: {metric: vram.used_ratio, above: 0.98}
    cooldown: 2m
    min_stay: 0
    limit: {bytes: 4GiB, per: 10s}
    flapping: {times: 3, per: 10m}
    do: {move: layers, order: largest_first, until: leave, to: [vulkan:x, cpu]}
    undo: restore
"""

ENTER = "{metric: vram.used_ratio, above: 92%, held: 5s}"
LEAVE = "{metric: vram.used_ratio, below: 84%}"
EMERGENCY = "    emergency: {metric: vram.used_ratio, above: 0.98}\n"
DO = "{move: layers, order: largest_first, until: leave, to: [vulkan:x, cpu]}"

# A piece of the good file, and what stands there instead.
TAKEN = [
    [("name: spill", "name: a.b-c_1")],
    [("for_each: gpu", "for_each: cpu")],
    [("for_each: gpu", "for_each: device")],
    [("only: [\"cuda:*\", \"vulkan:*\"]", "only: cuda:a")],
    [("mode: enforce", "mode: shadow")],
    [("priority: 70", "priority: 0")],
    [("above: 92%", "above: 0.92")],
    [("above: 92%", "above: '92 %'")],
    [("held: 5s", "held: 0")],
    [("held: 5s", "held: 1.5 min")],
    [("held: 5s", "held: 500ms")],
    [(", held: 5s", "")],
    [(ENTER, "{any_of: [" + ENTER + ", {metric: temp_c, above: 80C}], held: 1s}")],
    [(ENTER, "{all_of: [{metric: host.weekday, within: Sat-Sun}, " + ENTER + "]}")],
    [(ENTER, "{metric: host.time, within: '22:00-07:00'}"), (LEAVE, "{metric: host.time, outside: 22:00-07:00}"),
     (EMERGENCY, ""), ("until: leave", "until: all")],
    [(ENTER, "{metric: throttle.heat, is: true}"), (LEAVE, "{metric: throttle.heat, is: false}"), (EMERGENCY, ""),
     ("until: leave", "until: 2GiB")],
    [(ENTER, "{metric: temp_c, above: 85}"), (LEAVE, "{metric: temp_c, below: 70C}"), (EMERGENCY, ""),
     (DO, "{move: 'layer.*.ffn', to: coolest}")],
    [(ENTER, "{metric: power_w, above: 0.3kW}"), (LEAVE, "{metric: power_w, below: 250W}"), (EMERGENCY, ""),
     (DO, "{yield: device}")],
    [(ENTER, "{metric: yield.asked, is: true}"), (LEAVE, "{metric: yield.asked, is: false}"), (EMERGENCY, ""),
     (DO, "{yield: device, to: most_free}")],
    [("for_each: gpu", "for_each: session"), ("only: [\"cuda:*\", \"vulkan:*\"]", "only: [12, 13]"),
     (ENTER, "{metric: idle_s, above: 45s}"), (LEAVE, "{metric: idle_s, below: 1s}"), (EMERGENCY, ""),
     (DO, "{spill: kv, keep_tokens: 1024, to: host}")],
    [("for_each: gpu", "for_each: session"), (ENTER, "{metric: context.tokens, above: 8192}"),
     (LEAVE, "{metric: context.tokens, below: 4096 tokens}"), (EMERGENCY, ""), (DO, "{fetch: kv}")],
    [("for_each: gpu", "for_each: tenant"), (ENTER, "{metric: tenant.sessions, above: 8}"),
     (LEAVE, "{metric: tenant.sessions, below: 4}"), (EMERGENCY, ""), (DO, "{spill: kv, to: cpu, order: longest_idle}")],
    [("move: layers", "move: experts, from: [cpu, 'vulkan:*']"), ("to: [vulkan:x, cpu]", "to: itself")],
    [("    undo: restore\n", "")],
    [("    limit: {bytes: 4GiB, per: 10s}\n", "")],
]

REFUSED = [
    [("terrane/v1", "terrane/v2")],
    [("apiVersion: terrane/v1\n", "")],
    [("policies:", "policy:")],
    [("  - name: spill\n    mode", "  - mode")],
    [("name: spill", "name: a b")],
    [("name: spill", "name: " + "a" * 65)],
    [("mode: enforce", "mode: dry")],
    [("for_each: gpu", "for_each: gpus")],
    [("    for_each: gpu\n", "")],
    [("for_each: gpu", "on: gpu")],
    [("priority: 70", "priority: 101")],
    [("priority: 70", "priority: high")],
    [("priority: 70", "prioriti: 70")],
    [("only: [\"cuda:*\", \"vulkan:*\"]", "only: {a: b}")],
    [("vram.used_ratio, above", "vram.use_ratio, above")],
    [("above: 92%", "above: 92")],
    [("above: 92%", "above: 101%")],
    [("above: 92%", "above: 92C")],
    [("above: 92%", "above: -1%")],
    [("above: 92%", "above: nan")],
    [("above: 92%, ", "")],
    [("above: 92%", "above: 92%, below: 10%")],
    [("above: 92%", "is: true")],
    [("above: 92%", "within: 22:00-07:00")],
    [("held: 5s", "held: 5")],
    [("held: 5s", "held: soon")],
    [("held: 5s", "hold: 5s")],
    [(ENTER, "{all_of: []}")],
    [(ENTER, "{all_of: [" + ", ".join([ENTER] * 9) + "]}")],
    [(ENTER, "{all_of: [" + ENTER + "], any_of: [" + ENTER + "]}")],
    [(ENTER, "{all_of: [{all_of: [" + ENTER + "]}]}")],
    [(ENTER, "5s")],
    [(ENTER, "{metric: host.time, above: 22:00}")],
    [(ENTER, "{metric: host.time, within: 22:00}")],
    [(ENTER, "{metric: host.time, within: 25:00-07:00}")],
    [(ENTER, "{metric: host.weekday, within: Sat-Son}")],
    [(ENTER, "{metric: idle_s, above: 45s}")],
    [(ENTER, "{any_of: [{metric: idle_s, above: 45s}, " + ENTER + "]}")],
    [("    leave: " + LEAVE + "\n", "")],
    [("cooldown: 2m", "cooldown: 2 weeks")],
    [("bytes: 4GiB", "bytes: 4Gib")],
    [(", per: 10s", "")],
    [("times: 3", "times: 0")],
    [("times: 3", "times: 21")],
    [("{times: 3, per: 10m}", "often")],
    [("    do: " + DO + "\n", "")],
    [("move: layers, ", "")],
    [("move: layers", "move: layers, spill: kv")],
    [("move: layers", "move: leyers")],
    [("move: layers", "move: [layers]")],
    [(DO, "{spill: weights, to: cpu}")],
    [(DO, "{spill: kv}")],
    [(DO, "{yield: everything}")],
    [(DO, "{move: layers}")],
    [("order: largest_first", "order: biggest_first")],
    [("until: leave", "until: half")],
    [("to: [vulkan:x, cpu]", "to: []")],
    [("to: [vulkan:x, cpu]", "to: fastest")],
    [("to: [vulkan:x, cpu]", "to: cpu, keep_tokens: 5")],
    [("move: layers", "move: layers, from: most_free")],
    [("undo: restore", "undo: back")],
    [("undo: restore", "undo: restore\n    sudo: true")],
]


def changed(pieces):
    text = GOOD
    for old, new in pieces:
        assert old in text, f"{old!r} is not in the good file"
        text = text.replace(old, new, 1)
    return text


def main():
    terranectl, sources = sys.argv[1], pathlib.Path(sys.argv[2])
    schema = json.loads(subprocess.run([terranectl, "policy", "schema"], check=True, capture_output=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    wrong = []

    def is_taken_by_schema(text):
        return next(iter(validator.iter_errors(yaml.safe_load(text))), None)

    def expect_taken(name, text):
        why = is_taken_by_schema(text)
        if why is not None:
            wrong.append(f"{name}: the schema refuses it: {list(why.absolute_path)}: {why.message}")

    count = 0
    for folder in ("policies/shipped", "examples/policies", "tests/scenarios"):
        for path in sorted((sources / folder).glob("*.yaml")):
            text = path.read_text()
            document = yaml.safe_load(text)
            if "apiVersion" in document:
                expect_taken(path, text)
            elif "yaml" in document:
                expect_taken(path, document["yaml"])
            else:
                continue
            count += 1
    if count < 30:
        wrong.append(f"only {count} policy files were found")

    with tempfile.TemporaryDirectory() as folder:
        new = subprocess.run([terranectl, "policy", "new", "fresh", "--dir", folder], capture_output=True, text=True)
        if new.returncode == 0:
            expect_taken("policy new", (pathlib.Path(folder) / "fresh.yaml").read_text())
        else:
            wrong.append("policy new: " + new.stderr)
        one = pathlib.Path(folder) / "case.yaml"

        def lint(text):
            one.write_text(text)
            return subprocess.run([terranectl, "policy", "lint", one], capture_output=True, text=True)

        for pieces in [[]] + TAKEN:
            text = changed(pieces)
            said = lint(text)
            if said.returncode != 0:
                wrong.append(f"{pieces}: the loader refuses it: {said.stdout}")
            expect_taken(pieces, text)
        for pieces in REFUSED:
            text = changed(pieces)
            if lint(text).returncode == 0:
                wrong.append(f"{pieces}: the loader takes it")
            if is_taken_by_schema(text) is None:
                wrong.append(f"{pieces}: the schema takes it")

    print("\n".join(wrong) or f"{count} files, {len(TAKEN)} taken, {len(REFUSED)} refused: schema and loader agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The JSON Schemas of policies and of their tests agree with the readers: what one takes or refuses, so does the other.

    schema_test.py TERRANECTL SOURCES

Skipped (77) where the packages jsonschema and yaml of Python are not installed.
"""
import json
import pathlib
import re
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
    [("for_each: gpu", "for_each: tenant\n    quota: {bytes: 4GiB, on: gpu}"), (ENTER, "{metric: tenant.sessions, above: 8}"),
     (LEAVE, "{metric: tenant.sessions, below: 4}"), (EMERGENCY, ""), (DO, "{spill: kv, to: cpu, order: longest_idle}")],
    [("for_each: gpu", "for_each: tenant\n    quota: {bytes: 1e9, on: 'cuda:*'}"), (ENTER, "{metric: tenant.sessions, above: 8}"),
     (LEAVE, "{metric: tenant.sessions, below: 4}"), (EMERGENCY, ""), (DO, "{spill: kv, to: cpu, order: longest_idle}")],
    [("for_each: gpu", "for_each: tenant"), (ENTER, "{metric: tenant.sessions, above: 8}"),
     (LEAVE, "{metric: tenant.sessions, below: 4}"), (EMERGENCY, ""), (DO, "{spill: kv, to: cpu, order: longest_idle}")],
    [("move: layers", "spill: cheaper")],
    [(ENTER, "{metric: vram.used_ratio, below: 50%, held: 5s}"), (LEAVE, "{metric: vram.used_ratio, above: 70%}"),
     (EMERGENCY, ""), ("move: layers", "move: experts, from: [cpu, 'vulkan:*']"), ("to: [vulkan:x, cpu]", "to: itself")],
    [("to: [vulkan:x, cpu]", "to: vulkan")],
    [("to: [vulkan:x, cpu]", "to: [cuda, cpu]")],
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
    [(DO, "{spill: cheapest, to: cpu}")],
    [(DO, "{yield: everything}")],
    [(DO, "{move: layers}")],
    [("order: largest_first", "order: biggest_first")],
    [("until: leave", "until: half")],
    [("to: [vulkan:x, cpu]", "to: []")],
    [("to: [vulkan:x, cpu]", "to: fastest")],
    [("to: [vulkan:x, cpu]", "to: cpu, keep_tokens: 5")],
    [("move: layers", "move: layers, from: most_free")],
    [("undo: restore", "undo: restore\n    quota: {bytes: 4GiB}")],
    [("for_each: gpu", "for_each: tenant\n    quota: {on: gpu}"), (ENTER, "{metric: tenant.sessions, above: 8}"),
     (LEAVE, "{metric: tenant.sessions, below: 4}"), (EMERGENCY, ""), (DO, "{spill: kv, to: cpu, order: longest_idle}")],
    [("for_each: gpu", "for_each: tenant\n    quota: {bytes: 4GiB, on: everywhere}"), (ENTER, "{metric: tenant.sessions, above: 8}"),
     (LEAVE, "{metric: tenant.sessions, below: 4}"), (EMERGENCY, ""), (DO, "{spill: kv, to: cpu, order: longest_idle}")],
    [("undo: restore", "undo: back")],
    [("undo: restore", "undo: restore\n    sudo: true")],
]


GOOD_TEST = """\
scenario: Layers leave a full card and come back
yaml: |
  apiVersion: terrane/v1
  policies:
    - name: spill
      for_each: gpu
      enter: {metric: vram.used_ratio, above: 92%, held: 5s}
      leave: {metric: vram.used_ratio, below: 84%}
      do: {move: layers, to: cpu}
machine:
  devices:
    - {name: cpu, total: 32GiB}
    - {name: gpu, total: 8GiB, temp_c: 60C, reserved: 64MiB}
  layers: {count: 6, attn: 512MiB, ffn: 512MiB, on: gpu}
  parts: {name: head, bytes: 10MiB, on: cpu}
  sessions: [{id: a, kv: 1MiB, on: cpu, tokens: 100, idle: 5s, tenant: alice}]
  pinned: head
  context_tokens: 8192
  moves_take: 100ms
  host: {time: 22:00, weekday: Mon, on_battery: false, memory_total: 32GiB}
trace:
  - {at: 10s, set: {gpu: {others: 1.5GiB}, host: {pressure: 5%}}, open: {id: b, kv: 1MiB, on: cpu}}
  - at: 14s
  - at: 15s
    expect: [move layer.5.ffn from gpu to cpu, move layer.5.attn from gpu to cpu]
    placed: {layer.4.*: gpu}
    why: {layer.5.attn: spill}
    says: vram.used_ratio
  - {at: 16s, swing: {every: 1s, gpu: {temp_c: [60C, 61C]}}, close: b, stop: gpu.temp}
"""

TEST_TAKEN = [
    [("devices:\n    - {name: cpu", "devices:\n    - {others: 1GiB, name: cpu")],
    [("expect: [move layer.5.ffn from gpu to cpu, move layer.5.attn from gpu to cpu]", "expect: {at_least: 1}")],
    [("stop: gpu.temp", "stop: [gpu.temp, gpu.power]")],
    [("pinned: head", "pinned: [head, layer.0.*]")],
    [("swing: {every: 1s, gpu: {temp_c: [60C, 61C]}}", "swing: {every: 1s, host: {on_battery: [true, false]}}")],
    [("says: vram.used_ratio", "lose: []")],
    [("says: vram.used_ratio", "admitted: ann\n    request: {kv: 1GiB, on: gpu}")],
]

TEST_REFUSED = [
    [("scenario: Layers leave a full card and come back\n", "")],
    [("machine:", "machines:")],
    [("trace:", "traces:")],
    [("total: 32GiB", "total: 32C")],
    [("temp_c: 60C", "temperature: 60C")],
    [("count: 6", "count: 0")],
    [(", on: gpu}", "}")],
    [("parts: {name: head, ", "parts: {")],
    [("tokens: 100", "tokens: many")],
    [("idle: 5s", "idle: 5C")],
    [("moves_take: 100ms", "moves_take: 100")],
    [("time: 22:00", "time: 25:00")],
    [("weekday: Mon", "weekday: Moon")],
    [("on_battery: false", "on_battery: no")],
    [("at: 14s", "at: 14")],
    [("at: 14s", "after: 14s")],
    [("set: {gpu: {others: 1.5GiB}", "set: {gpu: {other: 1.5GiB}")],
    [("set: {gpu: {others: 1.5GiB}", "set: {gpu: {others: [1GiB, 2GiB]}")],
    [("pressure: 5%", "pressure: 5GiB")],
    [("expect: [move layer.5.ffn from gpu to cpu, move layer.5.attn from gpu to cpu]", "expect: {about: 2}")],
    [("expect: [move layer.5.ffn from gpu to cpu, move layer.5.attn from gpu to cpu]", "expect: {}")],
    [("placed: {layer.4.*: gpu}", "placed: gpu")],
    [("temp_c: [60C, 61C]", "temp_c: [60C]")],
    [("every: 1s, ", "")],
    [("stop: gpu.temp", "stop: {gpu: temp}")],
    [("says: vram.used_ratio", "admitted: ann\n    request: {on: gpu}")],
    [("says: vram.used_ratio", "admitted: ann\n    request: {kv: 1C, on: gpu}")],
]


class plain_loader(yaml.SafeLoader):
    """22:00 is a text and so are on, off, yes and no, as in YAML 1.2 and for the reader."""


plain_loader.yaml_implicit_resolvers = {
    first: [(tag, what) for tag, what in known if tag not in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:bool")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
plain_loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?[0-9]+$"), list("-+0123456789"))
plain_loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(true|false)$"), list("tf"))


def changed(good, pieces):
    text = good
    for old, new in pieces:
        assert old in text, f"{old!r} is not in the good file"
        text = text.replace(old, new, 1)
    return text


class comparison:
    """Holds one schema, and collects where it and what reads the files disagree."""

    def __init__(self, schema, wrong):
        jsonschema.Draft202012Validator.check_schema(schema)
        self.validator = jsonschema.Draft202012Validator(schema)
        self.wrong = wrong
        self.files = 0

    def fault(self, text):
        return next(iter(self.validator.iter_errors(yaml.load(text, plain_loader))), None)

    def expect_taken(self, name, text):
        why = self.fault(text)
        if why is not None:
            self.wrong.append(f"{name}: the schema refuses it: {list(why.absolute_path)}: {why.message}")

    def expect_file(self, name, text):
        self.files += 1
        self.expect_taken(name, text)

    def cases(self, good, taken, refused, read):
        for pieces in [[]] + taken:
            text = changed(good, pieces)
            said = read(text)
            if said.returncode != 0:
                self.wrong.append(f"{pieces}: it is refused when it is read: {said.stdout}")
            self.expect_taken(pieces, text)
        for pieces in refused:
            text = changed(good, pieces)
            if read(text).returncode == 0:
                self.wrong.append(f"{pieces}: it is taken when it is read")
            if self.fault(text) is None:
                self.wrong.append(f"{pieces}: the schema takes it")


def main():
    terranectl, sources = sys.argv[1], pathlib.Path(sys.argv[2])
    wrong = []

    def ask(*arguments):
        return subprocess.run([terranectl, "policy", *arguments], capture_output=True, text=True)

    policies = comparison(json.loads(ask("schema").stdout), wrong)
    tests = comparison(json.loads(ask("schema", "--tests").stdout), wrong)
    for folder in ("policies/shipped", "examples/policies", "tests/scenarios"):
        for path in sorted((sources / folder).glob("*.yaml")):
            text = path.read_text()
            document = yaml.load(text, plain_loader)
            if "apiVersion" in document:
                policies.expect_file(path, text)
                continue
            tests.expect_file(path, text)
            if "yaml" in document:
                policies.expect_file(path, document["yaml"])
    for one in (policies, tests):
        if one.files < 30:
            wrong.append(f"only {one.files} files were found")

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ask("new", "fresh", "--dir", name)
        policies.expect_file("policy new", (folder / "fresh.yaml").read_text())
        tests.expect_file("policy new", (folder / "fresh.test.yaml").read_text())

        def read(command, path, text):
            path.write_text(text)
            return ask(command, path)

        policies.cases(GOOD, TAKEN, REFUSED, lambda text: read("lint", folder / "case.yaml", text))
        tests.cases(GOOD_TEST, TEST_TAKEN, TEST_REFUSED, lambda text: read("test", folder / "case.test.yaml", text))

    print("\n".join(wrong) or
          f"{policies.files} policy files, {tests.files} tests, {len(TAKEN) + len(TEST_TAKEN)} cases that are taken and "
          f"{len(REFUSED) + len(TEST_REFUSED)} that are refused: schemas and readers agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Reads what gpu_table.sh wrote.

  gpu_table.py names DEVICES.json KIND   full names of the usable devices of a kind, one a line
  gpu_table.py table DIR                 all results of a folder as one table
"""
import json
import math
import pathlib
import sys


def usable(devices, kind):
    return [d["name"] for d in devices.get("devices", [])
            if d.get("self_test") == "passed" and d["name"].split(":")[0] == kind
            and "llvmpipe" not in d["description"]]


def gib(n):
    return f"{n / 2**30:.1f} GiB"


def rows_of(name, r):
    """What a result shows: pairs of what and value."""
    if "failed" in r:
        yield name, "FAILED: " + r["failed"]
        return
    command = r["command"]
    if command == "devices":
        for d in r["devices"]:
            state = "refused: " + d["refused"] if "refused" in d else \
                f"self-test {d['self_test']}, opened in {d['open_ms']:.0f} ms, {gib(d['memory_bytes'])}"
            yield f"{name}: {d['name']} {d['description']}", state
    elif command == "exact":
        launches = ", ".join(f"{d['name'].split('-')[0]} {d['launches']}" for d in r["devices"])
        yield name, f"equal {r['equal']}, {r['moves']} moves, all devices used {r['all_devices_used']} " \
                    f"(launches: {launches})"
    elif command == "speed":
        limit = r["decode_tok_s"] * r["bytes_per_token"] / 4.3e12
        yield name, f"decode {r['decode_tok_s']:.1f} tok/s = {100 * limit:.1f} % of 4.3 TB/s " \
                    f"({100 * r['share_of_bandwidth']:.1f} % of a plain read's " \
                    f"{r['read_bandwidth_bytes_s'] / 1e12:.2f} TB/s), prefill {r['prefill_tok_s']:.0f} tok/s, " \
                    f"start: devices {r['devices_ms']:.0f} ms, engine {r['engine_ms']:.0f} ms"
    elif command == "move":
        for way in ("to_second", "back"):
            m = r[way]
            p, c = m["pause_ms"], m["commit_ms"]
            yield f"{name} {way}", \
                f"pause p50 {p['p50']:.3f} p99 {p['p99']:.3f} max {p['max']:.3f} ms, " \
                f"commit p50 {c['p50']:.3f} p99 {c['p99']:.3f} ms, {p['count']} moves, " \
                f"prepare {m['prepare_ms']:.0f} ms, token {m['token_ms']:.2f} ms (others: p99 " \
                f"{m['jitter_ms']['p99']:.3f} ms longer), rate while preparing " \
                f"{100 * m['token_rate_while_preparing']:.1f} %, in the pause {m['bytes_in_pause']} bytes"
        pauses = sorted(m["pause_ms"] for m in r["each"])
        p99 = pauses[math.ceil(0.99 * len(pauses)) - 1] if pauses else 0
        yield name, f"pause of all {len(pauses)} moves: p99 {p99:.3f} ms, " \
                    f"context {r['context']} to {r['context_at_end']}, " \
                    f"page {r['page_bytes']} bytes x {r['layers']} layers"


def table(folder):
    rows = []
    log = folder / "tests.log"
    if log.exists():
        lines = [x.strip() for x in log.read_text(errors="replace").splitlines()]
        passed = [x for x in lines if x.startswith("[  PASSED  ]")]
        failed = [x for x in lines if x.startswith("[  FAILED  ]") and "listed below" not in x]
        rows.append(("tests", "; ".join(passed + failed[:10] + lines[-1:])))
    for path in sorted(folder.glob("*.json")):
        try:
            rows += list(rows_of(path.stem, json.loads(path.read_text().splitlines()[-1])))
        except (ValueError, KeyError, IndexError) as e:
            rows.append((path.stem, f"unreadable: {e!r}"))
    width = max([len(a) for a, _ in rows] + [4])
    width = min(width, 60)
    print("-" * 100)
    for a, b in rows:
        print(f"{a:<{width}}  {b}")
    print("-" * 100)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "names":
        try:
            devices = json.loads(pathlib.Path(sys.argv[2]).read_text())
        except (OSError, ValueError):
            devices = {}
        for name in usable(devices, sys.argv[3]):
            print(name)
    elif len(sys.argv) == 3 and sys.argv[1] == "table":
        table(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(__doc__)


main()

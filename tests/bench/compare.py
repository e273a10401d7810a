#!/usr/bin/env python3
"""Compares the speed of terrane-bench with llama.cpp's llama-bench on the same files.

Runs alternate, a run of one program after a run of the other, since other work on a machine comes
and goes; the table gives medians and their ratio. A run of Terrane's is the median of three replies,
of which the first compiles; llama-bench warms up by itself. Decode is measured at the same depth of context:
after the prompt, for both.

    compare.py --terrane BUILD/bin/terrane-bench --llama PATH/llama-bench [--threads N]
               [--prompt 512] [--gen 64] [--repeat 5] MODEL.gguf...

Exit status 1 when Terrane is slower anywhere.
"""
import argparse
import json
import statistics
import subprocess
import sys


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def terrane(options, model):
    r = run([options.terrane, "speed", "--model", model, "--device", "cpu", "--threads", str(options.threads),
             "--prompt", str(options.prompt), "--gen", str(options.gen), "--rows", "512", "--repeat", "3",
             "--context-limit", str(options.prompt + options.gen + 64)])
    return r["prefill_tok_s"], r["decode_tok_s"], r["share_of_bandwidth"]


def llama(options, model):
    base = [options.llama, "-m", model, "-t", str(options.threads), "-r", "1", "-o", "json"]
    prefill = run(base + ["-p", str(options.prompt), "-n", "0"])[0]["avg_ts"]
    decode = run(base + ["-p", "0", "-n", str(options.gen), "-d", str(options.prompt)])[0]["avg_ts"]
    return prefill, decode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--terrane", required=True)
    parser.add_argument("--llama", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--gen", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    slower = False
    print(f"prompt {options.prompt}, {options.gen} tokens after it, {options.threads} threads, "
          f"medians of {options.repeat} alternating runs, tokens a second")
    print(f"{'model':44} {'prefill':>8} {'llama':>8} {'ratio':>6}   {'decode':>8} {'llama':>8} {'ratio':>6}  of a read")
    for model in options.models:
        ours, theirs = [], []
        for _ in range(options.repeat):
            ours.append(terrane(options, model))
            theirs.append(llama(options, model))
        mine = [statistics.median(column) for column in zip(*ours)]
        other = [statistics.median(column) for column in zip(*theirs)]
        slower = slower or mine[0] < other[0] or mine[1] < other[1]
        name = model.rsplit("/", 1)[-1][-44:]
        print(f"{name:44} {mine[0]:8.1f} {other[0]:8.1f} {mine[0] / other[0]:6.2f}   "
              f"{mine[1]:8.1f} {other[1]:8.1f} {mine[1] / other[1]:6.2f}  {mine[2]:8.0%}", flush=True)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())

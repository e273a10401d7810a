#!/usr/bin/env python3
"""Prints how many tokens this machine makes in some seconds, at least 120 and at most 1,000.

usage: length.py SECONDS     (reads the JSON lines of a short `terranectl generate --json`)
"""
import json
import sys

pieces = [json.loads(line) for line in sys.stdin]
reply = next(p["summary"] for p in pieces if p.get("summary"))
rate = (reply["generated_tokens"] - 1) / max(reply["decode_ms"], 0.001) * 1000
print(round(min(1000, max(120, rate * float(sys.argv[1])))))

#!/usr/bin/env python3
"""Prints the pieces of a reply (terranectl generate --json) as they come."""
import json
import sys

for line in sys.stdin:
    piece = json.loads(line)
    print(piece.get("text", ""), end="", flush=True)
print()

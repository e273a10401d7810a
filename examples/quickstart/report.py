#!/usr/bin/env python3
"""Prints what moved during the second reply, who decided, each pause, and whether the bits are equal.

usage: report.py UNDISTURBED MOVED EVENTS     (JSON lines of terranectl; exit status 1 if not equal)
"""
import json
import sys


def replies(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.strip()]


def summary(path):
    pieces = replies(path)
    text = "".join(p.get("text", "") for p in pieces)
    return text, next(p["summary"] for p in pieces if p.get("summary"))


def main():
    plain_text, plain = summary(sys.argv[1])
    moved_text, moved = summary(sys.argv[2])
    print(f"{'moved':<42} {'bytes':>12} {'pause':>10}  decided by")
    for event in (r["event"] for r in replies(sys.argv[3]) if r.get("event")):
        if event["kind"] != "move_committed":
            continue
        way = f"{event['message'].split(' committed')[0]}: {short(event['from'])} -> {short(event['to'])}"
        by = f"policy {event.get('policy', '?')}, decision {event.get('decision', '?')}"
        print(f"{way:<42} {event['bytes']:>12,} {event['pause_ms']:>7.2f} ms  {by}")
    tokens = moved["generated_tokens"]
    print(f"\ntokens               {tokens}")
    print(f"moves in the reply   {moved['moves']}")
    print(f"longest pause        {moved['longest_pause_ms']:.2f} ms"
          f" (a token takes {moved['decode_ms'] / max(1, tokens - 1):.1f} ms)")
    print(f"logits, undisturbed  {plain['logits_hash']}")
    print(f"logits, moved        {moved['logits_hash']}")
    equal = plain["logits_hash"] == moved["logits_hash"] and plain_text == moved_text
    if equal and moved["moves"] > 0:
        print(f"\nEqual: every bit of the logits of all {tokens} tokens is the same.")
        return 0
    print("\nNOT EQUAL" if not equal else "\nNothing moved during the reply: ask for more tokens (TERRANE_QUICKSTART_TOKENS)")
    return 1


def short(device):
    return device.split("-")[0]


if __name__ == "__main__":
    sys.exit(main())

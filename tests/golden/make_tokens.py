#!/usr/bin/env python3
"""Writes llama.cpp's token ids of every string of strings.txt, with special tokens as text and as tokens.

usage: make_tokens.py MODEL.gguf STRINGS OUT          (committed as smollm2_tokens.txt)

Two lines for each string: "plain" and "special", each followed by the ids. No bos token is added.
"""
import sys

from llama_cpp import Llama

from escapes import unescape


def main() -> None:
    model, strings, out = sys.argv[1:]
    llama = Llama(model_path=model, vocab_only=True, verbose=False)
    with open(strings, encoding="utf-8", newline="\n") as lines, open(out, "w") as golden:
        for line in lines:
            text = unescape(line.rstrip("\n"))
            for name, special in (("plain", False), ("special", True)):
                ids = llama.tokenize(text, add_bos=False, special=special) if text else []
                golden.write(" ".join([name, *map(str, ids)]) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes Tekken's ids of every string of strings.txt in the form of make_tokens.py.

usage: make_tekken_tokens.py tekken.json VOCABULARY.gguf STRINGS OUT

Tekken is published as a list for the program tiktoken, which makes the ids here: llama.cpp's pattern
for it leaves out that combining marks belong to words, and so differs in Hindi or Thai. Strings that
are not UTF-8 cannot be given to tiktoken; for them the ids are llama.cpp's.
"""
import base64
import json
import sys

import tiktoken
from llama_cpp import Llama

from escapes import unescape
from make_vocabulary import TEKKEN_SPECIAL


def main() -> None:
    source, vocabulary, strings, out = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        published = json.load(file)
    special = published["config"]["default_num_special_tokens"]
    count = published["config"]["default_vocab_size"] - special
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in published["vocab"][:count]}
    # tiktoken has its own ids first; the special tokens go after them here and before them in the model.
    names = {name: count + i for i, name in enumerate(TEKKEN_SPECIAL)}
    tekken = tiktoken.Encoding("tekken", pat_str=published["config"]["pattern"], mergeable_ranks=ranks,
                               special_tokens=names)
    llama = Llama(model_path=vocabulary, vocab_only=True, verbose=False)

    def ids_of(text: bytes, with_special: bool) -> list[int]:
        try:
            characters = text.decode("utf-8")
        except UnicodeDecodeError:
            return llama.tokenize(text, add_bos=False, special=with_special)
        ids = tekken.encode(characters, allowed_special="all" if with_special else set(), disallowed_special=())
        return [i + special if i < count else i - count for i in ids]

    with open(strings, encoding="utf-8", newline="\n") as lines, open(out, "w") as golden:
        for line in lines:
            text = unescape(line.rstrip("\n"))
            for name, with_special in (("plain", False), ("special", True)):
                golden.write(" ".join([name, *map(str, ids_of(text, with_special) if text else [])]) + "\n")


if __name__ == "__main__":
    main()

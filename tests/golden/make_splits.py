#!/usr/bin/env python3
"""Writes where llama.cpp cuts every string of strings.txt, for each way of cutting. (committed as splits.txt)

usage: make_splits.py LLAMA_CPP_SOURCES TEKKEN.json STRINGS OUT

LLAMA_CPP_SOURCES is the folder src of llama.cpp. Its splitter is compiled into a program of its own,
with the patterns that llama-vocab.cpp lists. Tekken is cut by its published pattern instead (README.md
says why), by the Python package regex. For each pre-tokenizer there is a line "rule NAME" and then a
line for each string: the lengths of the pieces in bytes, after what is not UTF-8 has been replaced as
llama.cpp does. Tekken has "-" for a string that is not UTF-8.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import regex

from escapes import unescape

RULES = {"gpt-2": "GPT2", "smollm": "SMOLLM", "llama-bpe": "LLAMA3", "qwen2": "QWEN2", "qwen35": "QWEN35",
         "falcon": "FALCON", "deepseek-llm": "DEEPSEEK_LLM", "deepseek-coder": "DEEPSEEK_CODER",
         "deepseek-v3": "DEEPSEEK3_LLM"}

# Reads a count, that many patterns, and texts, each with its length before it; writes the lengths.
PROGRAM = r"""
#include <cstdio>
#include <iostream>
#include "unicode.h"
static std::string next() {
  std::size_t size = 0;
  std::cin >> size;
  std::cin.get();
  std::string text(size, 0);
  std::cin.read(text.data(), static_cast<std::streamsize>(size));
  return text;
}
int main() {
  std::size_t count = 0;
  std::cin >> count;
  std::vector<std::string> patterns;
  while (patterns.size() < count) patterns.push_back(next());
  std::size_t texts = 0;
  std::cin >> texts;
  while (texts-- > 0) {
    const auto words = unicode_regex_split(next(), patterns, false);
    for (std::size_t i = 0; i < words.size(); ++i) std::printf(i ? " %zu" : "%zu", words[i].size());
    std::printf("\n");
  }
}
"""


def compiled(sources: pathlib.Path, folder: str) -> str:
    main = pathlib.Path(folder) / "splits.cpp"
    main.write_text(PROGRAM)
    program = str(main.with_suffix(""))
    subprocess.run(["g++", "-O1", "-std=c++17", f"-I{sources}", str(main), str(sources / "unicode.cpp"),
                    str(sources / "unicode-data.cpp"), "-o", program], check=True)
    return program


def patterns_of(vocab: str, label: str) -> list[bytes]:
    at = vocab.index(f"case LLAMA_VOCAB_PRE_TYPE_{label}:")
    listed = vocab[vocab.index("regex_exprs = {", at):vocab.index("};", at)]
    listed = re.sub(r"^\s*//.*$", "", listed, flags=re.M)
    escapes = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
    return [re.sub(r"\\(.)", lambda m: escapes[m[1]], literal).encode()
            for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', listed)]


def tekken_line(pattern: "regex.Pattern", text: bytes) -> str:
    try:
        characters = text.decode()
    except UnicodeDecodeError:
        return "-"
    return " ".join(str(len(piece.encode())) for piece in pattern.findall(characters))


def main() -> None:
    sources, tekken, strings, out = sys.argv[1:]
    vocab = (pathlib.Path(sources) / "llama-vocab.cpp").read_text(encoding="utf-8")
    with open(strings, encoding="utf-8", newline="\n") as lines:
        texts = [unescape(line.rstrip("\n")) for line in lines]

    def counted(items: list[bytes]) -> bytes:
        return b"%d\n" % len(items) + b"".join(b"%d\n%s" % (len(item), item) for item in items)

    with open(out, "w", encoding="utf-8", newline="\n") as golden, tempfile.TemporaryDirectory() as folder:
        program = compiled(pathlib.Path(sources), folder)
        for name, label in RULES.items():
            golden.write(f"rule {name}\n")
            golden.write(subprocess.run([program], input=counted(patterns_of(vocab, label)) + counted(texts),
                                        capture_output=True, check=True).stdout.decode())
        with open(tekken, encoding="utf-8") as file:
            pattern = regex.compile(json.load(file)["config"]["pattern"])
        golden.write("rule tekken\n")
        golden.writelines(tekken_line(pattern, text) + "\n" for text in texts)


if __name__ == "__main__":
    main()

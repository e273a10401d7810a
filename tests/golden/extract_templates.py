#!/usr/bin/env python3
"""Writes the chat templates that llama.cpp's own test spells out, one file each.

usage: extract_templates.py test-chat-template.cpp FOLDER

The test lists models with their templates as C++ string literals. A template becomes
FOLDER/test-NAME.jinja, NAME being the model's name with dashes for all but letters and digits.
"""
import pathlib
import re
import sys

LITERAL = r'"((?:[^"\\\n]|\\.)*)"'
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "'": "'"}


def unescape(literal: str) -> str:
    return re.sub(r"\\(.)", lambda m: ESCAPES[m[1]], literal)


def main() -> None:
    source = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    case = re.compile(r"/\* \.name= \*/\s*" + LITERAL + r"(?:(?!/\* \.name= \*/).)*?"
                      r"/\* \.template_str= \*/\s*(?:U8C\()?\s*((?:" + LITERAL + r"\s*)+)", re.S)
    for found in case.finditer(source):
        name = re.sub(r"[^A-Za-z0-9]+", "-", found[1]).strip("-")
        text = "".join(unescape(part) for part in re.findall(LITERAL, found[2]))
        (pathlib.Path(sys.argv[2]) / f"test-{name}.jinja").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes what chat templates make of the ten conversations, as text. (committed as chat_renderings.txt)

usage: make_renderings.py OUT NAME=TEMPLATE.jinja...

For each template a line "template NAME", then for each conversation of make_chat.py, in order, a line
"text" with what Jinja gives, escaped as in escapes.py, or "raises". The bos and eos tokens are written
<bos> and <eos>.
"""
import sys

from escapes import escape
from make_chat import CONVERSATIONS, render_text


def main() -> None:
    with open(sys.argv[1], "w", encoding="utf-8", newline="\n") as out:
        for pair in sys.argv[2:]:
            name, path = pair.split("=", 1)
            template = open(path, encoding="utf-8").read()
            out.write(f"template {name}\n")
            for conversation in CONVERSATIONS:
                try:
                    text = render_text(template, conversation, "<bos>", "<eos>")
                    out.write(f"text {escape(text.encode())}\n")
                except Exception:
                    out.write("raises\n")


if __name__ == "__main__":
    main()

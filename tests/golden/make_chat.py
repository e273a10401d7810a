#!/usr/bin/env python3
"""Writes the tokens that a model's own chat template gives for ten conversations.

usage: make_chat.py MODEL.gguf OUT [TEMPLATE.jinja]     (committed as smollm2_chat.txt)

The template of the file, or the one given, is run by Jinja with the settings of Hugging Face's
apply_chat_template, and its output is tokenised by llama.cpp with special tokens as tokens and
without a bos token. The conversations spell no control tokens, because there the two must differ.
Each conversation is a line "conversation", a line for each message (its role and its content,
escaped as in escapes.py) and a line "ids" with the ids, or "raises" if the template refuses it.
"""
import sys

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from llama_cpp import Llama

from escapes import escape

LONG = "Tell me about the tides.\n\n1. What causes them?\n2. How high can they be?\n\n```c\nint x = 42;\n```"
CONVERSATIONS = [
    [("user", "Hello")],
    [("system", "You are a pirate."), ("user", "Hello, who are you?")],
    [("user", "What is 2 + 2?"), ("assistant", "4."), ("user", "And 17 * 23?")],
    [("system", ""), ("user", "")],
    [("user", "  leading and trailing white space \n\n")],
    [("user", "\n\n\nnew lines first")],
    [("system", "Answer in German.\n"), ("user", LONG), ("assistant", "Gern!\n\n- Mond\n- Sonne\n"),
     ("user", "Danke 😀👩‍🚀, weiter…")],
    [("user", "こんにちは。元気ですか？\u3000")],
    [("user", "a"), ("user", "b"), ("assistant", "c"), ("assistant", "d")],
    [("user", "First"), ("system", "A system message in the middle"), ("user", "Last 123 4567")],
]


def render_text(template: str, conversation, bos: str, eos: str) -> str:
    def raise_exception(message):
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = raise_exception
    return environment.from_string(template).render(
        messages=[{"role": role, "content": content} for role, content in conversation],
        bos_token=bos, eos_token=eos, add_generation_prompt=True)


def render(template: str, conversation, llama: Llama) -> str:
    def text_of(name: str) -> str:
        token = llama.metadata.get(f"tokenizer.ggml.{name}_token_id")
        return llama._model.token_get_text(int(token)) if token else ""

    return render_text(template, conversation, text_of("bos"), text_of("eos"))


def main() -> None:
    model, out = sys.argv[1:3]
    llama = Llama(model_path=model, vocab_only=True, verbose=False)
    template = llama.metadata.get("tokenizer.chat_template", "")
    if len(sys.argv) > 3:
        template = open(sys.argv[3], encoding="utf-8").read()
    with open(out, "w", encoding="utf-8", newline="\n") as golden:
        for conversation in CONVERSATIONS:
            golden.write("conversation\n")
            for role, content in conversation:
                golden.write(f"{role} {escape(content.encode())}\n")
            try:
                text = render(template, conversation, llama)
                ids = llama.tokenize(text.encode(), add_bos=False, special=True)
                golden.write(" ".join(["ids", *map(str, ids)]) + "\n")
            except Exception:
                golden.write("raises\n")


if __name__ == "__main__":
    main()

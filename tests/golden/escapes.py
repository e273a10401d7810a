"""One string of any bytes as one line of text: backslash, control characters and bytes that are not
UTF-8 become \\xHH (a space does at the end of the line), all else stays readable. The C++ reader is tests/engine/tokenizer/golden_file.hpp."""
import re
import unicodedata


def _shown(character: str) -> bool:
    return character != "\\" and (character == " " or unicodedata.category(character)[0] not in "CZ")


def escape(data: bytes) -> str:
    out = []
    for character in data.decode("utf-8", "surrogateescape"):
        if _shown(character):
            out.append(character)
        else:
            raw = character.encode("utf-8", "surrogateescape")
            out.append("".join(f"\\x{byte:02X}" for byte in raw))
    if out and out[-1] == " ":
        out[-1] = "\\x20"
    return "".join(out)


def unescape(line: str) -> bytes:
    return re.sub(rb"\\x([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), line.encode())

#!/usr/bin/env python3
"""Writes the seeds of gguf_fuzz, which are the same on every run.

usage: make_gguf_seeds.py FOLDER

Whole little models without their tensors' bytes (the fuzzer puts zeros behind each input), one for
each architecture and kind of vocabulary, and files that lie in one field.
"""
import pathlib
import struct
import sys

U8, U32, I32, F32, BOOL, STRING, ARRAY, U64 = 0, 4, 5, 6, 7, 8, 9, 10
PACKED = {U8: "<B", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}
TYPE_F32, TYPE_Q4_0, TYPE_Q8_0 = 0, 2, 8
BLOCK_BYTES = {TYPE_F32: 128, TYPE_Q4_0: 18, TYPE_Q8_0: 34}  # of 32 elements
HUGE = 2**64 - 1


def text(value):
    value = value.encode()
    return struct.pack("<Q", len(value)) + value


def value(kind, what):
    return text(what) if kind == STRING else struct.pack(PACKED[kind], what)


def entry(key, kind, what):
    if not isinstance(what, list):
        return text(key) + struct.pack("<I", kind) + value(kind, what)
    elements = b"".join(value(kind, one) for one in what)
    return text(key) + struct.pack("<IIQ", ARRAY, kind, len(what)) + elements


def tensors(described):
    out, offset = b"", 0
    for name, shape, kind in described:
        out += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        out += struct.pack("<IQ", kind, offset & HUGE)
        count = shape[0] // 32 * BLOCK_BYTES[kind]
        for more in shape[1:]:
            count *= more
        offset += (count + 31) // 32 * 32
    return out


def file_of(entries, described, version=3, entry_count=None):
    front = b"GGUF" + struct.pack("<IQQ", version, len(described),
                                  len(entries) if entry_count is None else entry_count)
    out = front + b"".join(entries) + tensors(described)
    return out + bytes(-len(out) % 32)


def byte_pairs():
    tokens = ["<|im_start|>", "<|im_end|>", "a", "b", "ab", "\u0120"]
    template = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content']"
                " + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
                "{{ '<|im_start|>assistant\n' }}{% endif %}")
    return [entry("tokenizer.ggml.model", STRING, "gpt2"), entry("tokenizer.ggml.pre", STRING, "smollm"),
            entry("tokenizer.ggml.tokens", STRING, tokens), entry("tokenizer.ggml.merges", STRING, ["a b"]),
            entry("tokenizer.ggml.token_type", I32, [3, 3, 1, 1, 1, 1]),
            entry("tokenizer.ggml.bos_token_id", U32, 0), entry("tokenizer.ggml.eos_token_id", U32, 1),
            entry("tokenizer.chat_template", STRING, template)]


def sentence_pieces():
    tokens = ["<unk>", "<s>", "</s>", "<0x41>", "\u2581", "T", "h", "Th"]
    return [entry("tokenizer.ggml.model", STRING, "llama"), entry("tokenizer.ggml.tokens", STRING, tokens),
            entry("tokenizer.ggml.scores", F32, [0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -1.5]),
            entry("tokenizer.ggml.token_type", I32, [2, 3, 3, 6, 1, 1, 1, 1]),
            entry("tokenizer.ggml.add_bos_token", BOOL, True),
            entry("tokenizer.ggml.add_space_prefix", BOOL, True)]


def settings(family, more):
    numbers = {"block_count": 1, "embedding_length": 32, "feed_forward_length": 32, "context_length": 64,
               "attention.head_count": 1, "attention.head_count_kv": 1, "rope.dimension_count": 32}
    return ([entry("general.architecture", STRING, family), entry("general.name", STRING, "seed")] +
            [entry(f"{family}.{key}", U32, number) for key, number in numbers.items()] +
            [entry(f"{family}.{key}", kind, what) for key, kind, what in more])


def model_tensors(vocabulary, kind, vectors=()):
    layer = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    return ([("token_embd.weight", [32, vocabulary], kind), ("output_norm.weight", [32], TYPE_F32)] +
            [(f"blk.0.{name}.weight", [32, 32], kind) for name in layer] +
            [(f"blk.0.{name}.weight", [32], TYPE_F32) for name in ["attn_norm", "ffn_norm", *vectors]])


def seeds():
    llama = settings("llama", [("rope.freq_base", F32, 10000.0), ("attention.layer_norm_rms_epsilon", F32, 1e-5)])
    factors = [("rope_freqs.weight", [16], TYPE_F32)]
    yield "llama_byte_pairs", file_of(llama + byte_pairs(), model_tensors(6, TYPE_Q8_0))
    yield "llama_sentence_pieces", file_of(llama + sentence_pieces(), model_tensors(8, TYPE_Q4_0), version=2)
    yield "llama_factors", file_of(llama + byte_pairs(), model_tensors(6, TYPE_F32) + factors)
    gemma = settings("gemma3", [("attention.sliding_window", U32, 8),
                                ("attention.sliding_window_pattern", BOOL, [True]),
                                ("rope.scaling.type", STRING, "linear"), ("rope.scaling.factor", F32, 8.0)])
    vectors = ["attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"]
    yield "gemma3", file_of(gemma + sentence_pieces(), model_tensors(8, TYPE_Q8_0, vectors))
    one = [("w", [32], TYPE_F32)]
    yield "aligned", file_of([entry("general.alignment", U32, 32)], one)
    yield "part_of_three", file_of([entry("split.count", U32, 3), entry("split.no", U32, 0)], one)
    yield "values", file_of([entry("a", U8, 255), entry("b", U64, HUGE), entry("c", F32, float("nan")),
                             entry("d", BOOL, [True, False]), entry("e", STRING, ["", "x"])], one)
    # Lies.
    yield "too_many_entries", file_of([], one, entry_count=HUGE)
    yield "long_key", b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, HUGE)
    yield "long_text", file_of([text("k") + struct.pack("<IQ", STRING, HUGE)], one)
    yield "long_array", file_of([text("k") + struct.pack("<IIQ", ARRAY, STRING, 2**61)], one)
    yield "array_of_arrays", file_of([text("k") + struct.pack("<IIQ", ARRAY, ARRAY, 1)], one)
    yield "overflow", file_of([], [("w", [2**63, 2, 4], TYPE_F32)])


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, contents in seeds():
        (folder / name).write_bytes(contents)
    return 0


if __name__ == "__main__":
    sys.exit(main())

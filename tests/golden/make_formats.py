#!/usr/bin/env python3
"""Writes what llama.cpp makes of tiny random Llamas in every weight format.

usage: make_formats.py OUT.gguf      (needs llama-cpp-python and gguf; committed as formats.gguf)

Two models, with rows of 256 and of 576 weights. To keep the committed file small, the rows of all
matrices are drawn from a bank of BANK random rows: llama.cpp quantises row by row, so a quantised
model is made of the bank's quantised rows, and only those are kept. Everything else (the bank's F32
rows, which row of a matrix is which row of the bank, norms, the prompt) comes from a generator of
integers that tests/engine/live/format_models.cpp has too.

For each model and format F, with K the length of a row, OUT has:
  F.K.rows    the bank quantised by llama.cpp (not for F32, F16 and BF16, which need no quantiser)
  F.K.logits  llama.cpp's logits on that model, KEPT rows for the last tokens of the prompt
  F.K.exact   the same on its weights in F32: llama.cpp then rounds no activation
and for F = mixed a model whose matrices take the formats in turn.
"""
import ctypes
import os
import sys
import tempfile

import llama_cpp
import numpy
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, dequantize

BANK, TOKENS, KEPT, VOCABULARY, LAYERS, HEAD = 96, 24, 4, 260, 2, 64

# rows of K weights, query heads, KV heads, the power of two that the weights are about
MODELS = {256: (4, 2, -4), 576: (9, 3, -5)}

FORMATS = {  # name: llama.cpp's file type whose main format it is
    "F32": "ALL_F32", "F16": "MOSTLY_F16", "BF16": "MOSTLY_BF16",
    "Q4_0": "MOSTLY_Q4_0", "Q4_1": "MOSTLY_Q4_1", "Q5_0": "MOSTLY_Q5_0", "Q5_1": "MOSTLY_Q5_1",
    "Q8_0": "MOSTLY_Q8_0", "IQ4_NL": "MOSTLY_IQ4_NL", "MXFP4": "MOSTLY_MXFP4_MOE",
    "Q2_K": "MOSTLY_Q2_K", "Q3_K": "MOSTLY_Q3_K_M", "Q4_K": "MOSTLY_Q4_K_M",
    "Q5_K": "MOSTLY_Q5_K_M", "Q6_K": "MOSTLY_Q6_K", "IQ4_XS": "MOSTLY_IQ4_XS",
}
SUPER_BLOCKS = {"Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"}
PLAIN = {"F32", "F16", "BF16"}


def random_words(key: int, count: int) -> numpy.ndarray:
    """64 random bits for each index 0..count-1 of a stream (splitmix64)."""
    with numpy.errstate(over="ignore"):
        z = numpy.uint64(key) + (numpy.arange(count, dtype=numpy.uint64) + numpy.uint64(1)) * numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return z ^ (z >> numpy.uint64(31))


def bell(key: int, count: int) -> numpy.ndarray:
    """Integers about normal, of mean 0 and deviation 37837: sums of four of 16 bits."""
    words = random_words(key, count)
    return sum(((words >> numpy.uint64(16 * i)) & numpy.uint64(0xFFFF)).astype(numpy.int64) for i in range(4)) - 131070


def bank(k: int) -> numpy.ndarray:
    """BANK rows of k numbers of at most 18 significant bits."""
    return (bell(k, BANK * k) * 2.0 ** (MODELS[k][2] - 15)).astype(numpy.float32).reshape(BANK, k)


def tensors(k: int) -> list[tuple[str, int]]:
    """Names and rows in the order of the file; 0 rows: a norm."""
    heads, kv_heads, _ = MODELS[k]
    out = [("token_embd", VOCABULARY)]
    for i in range(LAYERS):
        out += [(f"blk.{i}.{name}", rows) for name, rows in (
            ("attn_norm", 0), ("attn_q", heads * HEAD), ("attn_k", kv_heads * HEAD), ("attn_v", kv_heads * HEAD),
            ("attn_output", k), ("ffn_norm", 0), ("ffn_gate", k), ("ffn_up", k), ("ffn_down", k))]
    return out + [("output_norm", 0)]


def chosen(position: int, rows: int) -> numpy.ndarray:
    """Which row of the bank each row of the tensor at `position` of the list is."""
    return (random_words(2000 + position, rows) % numpy.uint64(BANK)).astype(numpy.int64)


def norm(position: int, name: str, k: int) -> numpy.ndarray:
    """About 1 before the head. Less before the layers' matrices, so that what a layer adds is of the size
    of an embedding: logits then depend on every part, and rounding of activations does not pile up."""
    size = 2.0 ** (-3 if "attn" in name else -2 if "ffn" in name else 0)
    return ((1 + bell(3000 + position, k) * 2.0 ** -19) * size).astype(numpy.float32)


def write_model(path: str, k: int, matrix) -> None:
    """A model whose matrices are `matrix(position, name, rows)`: numbers, or bytes and their format."""
    heads, kv_heads, _ = MODELS[k]
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(4096)
    writer.add_embedding_length(k)
    writer.add_feed_forward_length(k)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HEAD)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("no_vocab")
    for position, (name, rows) in enumerate(tensors(k)):
        data = matrix(position, name, rows) if rows else norm(position, name, k)
        data, kind = data if isinstance(data, tuple) else (data, None)
        writer.add_tensor(name + ".weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantise(source: str, target: str, file_type: str) -> None:
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = getattr(llama_cpp, "LLAMA_FTYPE_" + file_type)
    parameters.pure = True  # one format for all matrices, no mixture
    parameters.nthread = 1
    failed = llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(parameters))
    assert failed == 0, f"llama.cpp does not quantise to {file_type}"


def quantised_bank(path: str, k: int, name: str) -> numpy.ndarray:
    """The bank's rows out of a quantised model, each of whose rows must be one of them."""
    read = {t.name: t for t in GGUFReader(path).tensors}
    rows: dict[int, bytes] = {}
    for position, (tensor, count) in enumerate(tensors(k)):
        if count == 0:
            continue
        stored = read[tensor + ".weight"]
        assert stored.tensor_type.name == name, f"{tensor} is {stored.tensor_type.name}, not {name}"
        data = stored.data.view(numpy.uint8).reshape(count, -1)
        for r, from_bank in enumerate(chosen(position, count)):
            assert rows.setdefault(int(from_bank), data[r].tobytes()) == data[r].tobytes()
    assert len(rows) == BANK, "the model does not use every row of the bank"
    return numpy.frombuffer(b"".join(rows[i] for i in range(BANK)), dtype=numpy.uint8).reshape(BANK, -1)


def dequantised(source: str, target: str, k: int) -> None:
    read = {t.name: t for t in GGUFReader(source).tensors}
    values = lambda t: dequantize(t.data, t.tensor_type).astype(numpy.float32)
    write_model(target, k, lambda position, name, rows: values(read[name + ".weight"]).reshape(rows, k))


def logits(path: str) -> numpy.ndarray:
    parameters = llama_cpp.llama_model_default_params()
    parameters.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(path.encode(), parameters)
    assert model, f"llama.cpp does not load {path}"
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = 64
    settings.n_threads = settings.n_threads_batch = 1
    context = llama_cpp.llama_init_from_model(model, settings)
    prompt = random_words(1000, TOKENS) % numpy.uint64(256)
    batch = llama_cpp.llama_batch_init(TOKENS, 0, 1)
    batch.n_tokens = TOKENS
    for i, token in enumerate(prompt):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = int(token), i, 1, True
        batch.seq_id[i][0] = 0
    assert llama_cpp.llama_decode(context, batch) == 0
    rows = [numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, i), shape=(VOCABULARY,)).copy()
            for i in range(TOKENS - KEPT, TOKENS)]
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    out = numpy.stack(rows)
    assert numpy.isfinite(out).all()
    return out


def mixture(k: int, banks: dict[str, numpy.ndarray]):
    """Matrices of the formats of `banks` in turn, the last format first."""
    names, matrices = list(banks), [name for name, rows in tensors(k) if rows]

    def matrix(position: int, name: str, rows: int):
        kind = names[(matrices.index(name) - 1) % len(names)]
        return banks[kind][chosen(position, rows)], GGMLQuantizationType[kind]

    return matrix


def compare(out: GGUFWriter, name: str, on_file: numpy.ndarray, exact: numpy.ndarray) -> None:
    out.add_tensor(f"{name}.logits", on_file)
    out.add_tensor(f"{name}.exact", exact)
    size = numpy.sqrt((exact ** 2).mean())
    print(f"{name}: logits of size {size:.3f}, llama.cpp off the exact ones by at most "
          f"{abs(on_file - exact).max() / size:.4f} of it", flush=True)


@llama_cpp.llama_log_callback
def keep_silent(level, text, data):
    pass


def main() -> None:
    llama_cpp.llama_log_set(keep_silent, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    out = GGUFWriter(sys.argv[1], "terrane-golden")
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        for k in MODELS:
            numbers, banks = bank(k), {}
            write_model(at("f32"), k, lambda position, name, rows: numbers[chosen(position, rows)])
            for name, file_type in FORMATS.items():
                if name in SUPER_BLOCKS and k % 256 != 0:
                    continue
                quantise(at("f32"), at("quantised"), file_type)
                banks[name] = quantised_bank(at("quantised"), k, name)
                dequantised(at("quantised"), at("exact"), k)
                if name not in PLAIN:
                    out.add_tensor(f"{name}.{k}.rows", banks[name], raw_dtype=GGMLQuantizationType[name])
                compare(out, f"{name}.{k}", logits(at("quantised")), logits(at("exact")))
            write_model(at("quantised"), k, mixture(k, banks))
            dequantised(at("quantised"), at("exact"), k)
            compare(out, f"mixed.{k}", logits(at("quantised")), logits(at("exact")))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main()

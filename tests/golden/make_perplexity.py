#!/usr/bin/env python3
"""Writes what llama.cpp says about the first 2,000 tokens of a text, fed in one context.

usage: make_perplexity.py MODEL.gguf TEXT OUT [COUNT]   (committed as *_perplexity.txt)

The first lines are "name value": tokens, mean_nll (natural logarithm, over the tokens after the
first) and perplexity (its exponential). Then a line for each token: its id, the negative
log-likelihood of the next token after all tokens up to this one, and the most likely next token. The
last line has no next token, so it has "-" for the second. KV cache in f16. The first token is bos if
the file says that its model expects one (tokenizer.ggml.add_bos_token).
"""
import math
import sys

import numpy
from llama_cpp import Llama


def main() -> None:
    model, text, out = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 2000
    llama = Llama(model_path=model, n_ctx=2048, n_batch=512, logits_all=True, verbose=False)
    begins = llama.metadata.get("tokenizer.ggml.add_bos_token") == "true"
    ids = llama.tokenize(open(text, "rb").read(), add_bos=begins, special=False)
    assert len(ids) >= count, f"the text has only {len(ids)} tokens"
    ids = ids[:count]
    llama.eval(ids)
    nll, best = [], []
    for position in range(count):  # one at a time: a large vocabulary has gigabytes of logits
        logits = numpy.array(llama.scores[position], dtype=numpy.float64)
        assert numpy.isfinite(logits).all()
        top = logits.max()
        best.append(logits.argmax())
        if position + 1 < count:
            nll.append(top + math.log(numpy.exp(logits - top).sum()) - logits[ids[position + 1]])
    mean = math.fsum(nll) / len(nll)
    with open(out, "w") as golden:
        golden.write(f"tokens {count}\nmean_nll {mean:.6f}\nperplexity {math.exp(mean):.6f}\n")
        for i, token in enumerate(ids):
            golden.write(f"{token} {f'{nll[i]:.6f}' if i < count - 1 else '-'} {best[i]}\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env bash
# Compares what SmolLM2 does not use with llama.cpp and Jinja: the other pre-tokenizers, on the
# vocabularies that llama.cpp publishes for its own tests, and the chat formats, on the templates that
# it publishes. Run by hand: it fetches llama-cpp-python's sources (77 MB).
#   check_vocabularies.sh PYTHON ENGINE_TESTS WORK_FOLDER
# PYTHON: an interpreter with llama-cpp-python (README.md). ENGINE_TESTS: the built test program.
set -euo pipefail
if [ $# -ne 3 ]; then sed -n '2,7p' "$0" >&2; exit 2; fi
here=$(cd "$(dirname "$0")" && pwd)
python=$1 tests=$(realpath "$2") work=$3
version=0.3.36
names=(gpt-2 llama-bpe qwen2)

mkdir -p "$work"
cd "$work"
sources=llama_cpp_python-$version
if [ ! -f "$sources.tar.gz" ]; then
  "$python" -m pip download -q --no-deps --no-binary llama-cpp-python "llama-cpp-python==$version"
fi
for name in "${names[@]}"; do
  file=ggml-vocab-$name.gguf
  if [ ! -f "$file" ]; then
    tar -xzf "$sources.tar.gz" --strip-components=4 \
      "$sources/vendor/llama.cpp/models/$file"{,.inp,.out}
  fi
  "$python" "$here/make_tokens.py" "$file" "$here/strings.txt" "$file.tokens" 2>/dev/null
done
tar -xzf "$sources.tar.gz" --strip-components=5 --wildcards \
  "$sources/vendor/llama.cpp/models/templates/*.jinja"
# Jinja's answers where there can be a question: the two families' templates.
for template in $(grep -lE '<\|im_start\|>|<\|start_header_id\|>' ./*.jinja); do
  vocabulary=llama-bpe
  if grep -q '<|im_start|>' "$template"; then vocabulary=qwen2; fi
  "$python" "$here/make_chat.py" "ggml-vocab-$vocabulary.gguf" "$template.chat" "$template" 2>/dev/null
done
TERRANE_VOCABULARIES=$PWD "$tests" --gtest_filter='*/vocabularies.*:golden_chat.*'

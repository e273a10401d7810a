#!/usr/bin/env bash
# Builds and runs the tests under sanitizers: addresses, leaks and undefined behaviour, or races.
#
#   tests/sanitize.sh asan|tsan [ctest options...]     all tests, or those of the options (-R engine_live)
#   TERRANE_BUILD=DIR tests/sanitize.sh ...            another build folder (default: build/asan, build/tsan)
#
# Real models and other programs come by the variables of the tests (README.md beside this); without
# them the tests that need one are skipped by name. Exit status: ctest's; a report fails its test.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
kind=${1:-}
case $kind in
  asan | tsan) shift ;;
  *)
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
build=${TERRANE_BUILD:-$root/build/$kind}

mkdir -p "$build"
cmake --preset "$kind" -B "$build" >"$build/configure.log" 2>&1 || { cat "$build/configure.log"; exit 1; }

if [ "$kind" = asan ]; then
  cmake --build "$build"
  export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1
  export UBSAN_OPTIONS=print_stacktrace=1
  which=(-R .)
else
  # kernels/ and policies/ start no threads, so their tests and the interpreter's have nothing to show.
  cmake --build "$build" --target engine_tests engine_live_tests ipc_tests ipc_test_server daemon_tests \
    terraned terranectl terrane-bench
  which=(-R '^(engine|engine_live|ipc|daemon)\.' -E 'interpreter_agrees')
  # Without a Vulkan driver: its threads are not instrumented, so all that they hand over would be
  # reported. Moves go between two CPU devices then.
  export VK_DRIVER_FILES=/nonexistent
  export TSAN_OPTIONS=ignore_noninstrumented_modules=1:second_deadlock_stack=1
fi
exec ctest --test-dir "$build" --output-on-failure -j"$(nproc)" "${which[@]}" "$@"

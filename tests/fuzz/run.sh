#!/usr/bin/env bash
# Builds the fuzzers with clang and runs each for a while, two at a time.
#
#   tests/fuzz/run.sh [SECONDS [NAME...]]   default: 60 seconds, every fuzzer (gguf lua tokenizer varlink yaml)
#   TERRANE_BUILD=DIR                       builds in DIR/fuzz (default: build/fuzz)
#
# Each begins with the seeds in tests/fuzz/corpus/NAME and what earlier runs found, which is kept in
# ~/.cache/terrane/fuzz/NAME and grows. The first fault ends its fuzzer; its input is kept there too,
# and the command that repeats it is printed. Exit status: 0 no fault, 1 a fault, 2 nothing to run.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
seconds=${1:-60}
names=("${@:2}")
if [ ${#names[@]} -eq 0 ]; then names=(gguf lua tokenizer varlink yaml); fi
build=${TERRANE_BUILD:+$TERRANE_BUILD/fuzz}
build=${build:-$root/build/fuzz}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/terrane/fuzz

if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "run.sh: '$seconds' is no number of seconds" >&2
  exit 2
fi
for name in "${names[@]}"; do
  if [ ! -f "tests/fuzz/${name}_fuzz.cpp" ]; then
    echo "run.sh: there is no fuzzer '$name'" >&2
    exit 2
  fi
done
if ! command -v clang++ >/dev/null; then
  echo "run.sh: clang++ is not installed, and the fuzzers need it: .ci/dependencies.sh test" >&2
  exit 2
fi
if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
  clang++ -x c++ - -fsanitize=fuzzer,address,undefined -o /dev/null 2>/dev/null; then
  echo "run.sh: clang++ cannot link a fuzzer; its runtime is missing: .ci/dependencies.sh test" >&2
  exit 2
fi

mkdir -p "$build"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DTERRANE_FUZZERS=ON >"$build/configure.log" 2>&1 || { cat "$build/configure.log"; exit 1; }
cmake --build "$build" --target "${names[@]/%/_fuzz}"

# Seeds that lie elsewhere in the repository, and limits of a target's own.
declare -A more_seeds=([yaml]="policies/shipped examples/policies")
declare -A longest=([gguf]=8192 [lua]=2000 [tokenizer]=4000 [varlink]=8192 [yaml]=4096)

fuzz() {
  local name=$1 kept=$cache/$1 log=$build/$1.log dictionary=tests/fuzz/dictionaries/$1.dict
  mkdir -p "$kept" "$cache/faults"
  local options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=256
    -max_len="${longest[$name]:-4096}" -print_final_stats=1 -artifact_prefix="$cache/faults/$name-")
  if [ -f "$dictionary" ]; then options+=(-dict="$dictionary"); fi
  local status=0
  # shellcheck disable=SC2086
  "$build/bin/${name}_fuzz" "${options[@]}" "$kept" "tests/fuzz/corpus/$name" ${more_seeds[$name]:-} \
    >"$log" 2>&1 || status=$?
  report "$name" "$status" "$log"
  return "$status"
}

# A line of what was done, or what went wrong and how to see it again.
report() {
  local name=$1 status=$2 log=$3
  if [ "$status" -eq 0 ]; then
    awk -v name="$name" '
      /^#.* cov: / { coverage = $4; for (i = 1; i < NF; i++) if ($i == "corp:") inputs = $(i + 1) }
      /^stat::number_of_executed_units:/ { runs = $2 }
      /^stat::average_exec_per_sec:/ { rate = $2 }
      /^stat::peak_rss_mb:/ { memory = $2 }
      END { sub("/.*", "", inputs)
            printf "%-10s %9d executions, %6d a second, coverage %5d, corpus %5d, peak %4d MB, no fault\n",
                   name, runs, rate, coverage, inputs, memory }' "$log"
    return
  fi
  if [ "$status" -eq 72 ]; then  # libFuzzer's, for a signal
    echo "$name: ended from outside before its time; no fault so far" >&2
    return
  fi
  local input
  input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
  {
    grep -v '^#' "$log" | tail -60
    echo "$name: a fault (exit status $status). All it said is in $log"
    if [ -n "$input" ]; then
      echo "The input is $input; to see it again:"
      echo "  $build/bin/${name}_fuzz $input"
    fi
  } >&2
}

# Two at a time.
faulty=0
running=0
for name in "${names[@]}"; do
  if [ "$running" -eq 2 ]; then
    wait -n || faulty=1
    running=1
  fi
  fuzz "$name" &
  running=$((running + 1))
done
for ((; running > 0; running--)); do wait -n || faulty=1; done
exit "$faulty"

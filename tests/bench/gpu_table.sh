#!/usr/bin/env bash
# Runs what is to be reached on GPUs and prints it as one table last. Needs the programs of carry.sh
# beside it (or TERRANE_BIN: the folder of a build), bash, timeout and python3; nothing is installed.
#
#   gpu_table.sh [STEP...]     steps: devices tests exact speed move; default: all, in this order
#
#   TERRANE_OUT=DIR      where results go (default: ./gpu_table); a step whose result is there
#                        is not run again unless it is named
#   TERRANE_MODELS=DIR   where the synthetic models are made (default: /dev/shm or $TERRANE_OUT)
#   TERRANE_SECONDS=N    for all of it (default 570); what does not fit is said to be left out
#   TERRANE_SMOLLM2=FILE a real model for the exact step (default: a synthetic one)
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${TERRANE_BIN:-$here}
out=${TERRANE_OUT:-$PWD/gpu_table}
seconds=${TERRANE_SECONDS:-570}
if [ -z "${TERRANE_MODELS:-}" ]; then
  if [ -w /dev/shm ]; then TERRANE_MODELS=/dev/shm/terrane-models; else TERRANE_MODELS=$out/models; fi
fi
mkdir -p "$out" "$TERRANE_MODELS"
export TERRANE_MODELS
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(devices tests exact speed move)
bench=$bin/terrane-bench
cache=$out/cache
SECONDS=0

left() { echo $((seconds - SECONDS)); }
say() { printf '== %4d s  %s\n' "$SECONDS" "$*"; }

# record NAME LIMIT COMMAND...: its JSON goes to $out/NAME.json, its messages to $out/NAME.log.
record() {
  local name=$1 limit=$2
  shift 2
  local have
  have=$(left)
  if [ "$have" -lt 15 ]; then
    say "$name: left out, no time"
    echo '{"failed": "left out: no time"}' >"$out/$name.json"
    return
  fi
  if [ "$limit" -gt "$have" ]; then limit=$have; fi
  local begin=$SECONDS status=0
  timeout -k 5 "$limit" "$@" >"$out/$name.json.part" 2>"$out/$name.log" || status=$?
  if [ -s "$out/$name.json.part" ]; then
    mv "$out/$name.json.part" "$out/$name.json"
  else
    rm -f "$out/$name.json.part"
    local why
    why=$(tail -n 1 "$out/$name.log" | tr -d '"\\' | tail -c 300)
    [ $status -ne 124 ] || why="took longer than $limit s"
    printf '{"failed": "%s"}\n' "${why:-exit status $status}" >"$out/$name.json"
  fi
  say "$name: $((SECONDS - begin)) s, status $status"
}

# model SHAPE QUANT: makes it if it is not there, and sets $made.
model() {
  made=$TERRANE_MODELS/$1-$2.gguf
  [ -f "$made" ] && return
  local begin=$SECONDS
  "$bench" synth --shape "$1" --quant "$2" --out "$made.part" >/dev/null 2>"$out/synth.log" &&
    mv "$made.part" "$made"
  say "model $1 $2: $((SECONDS - begin)) s"
}

# Full names of usable devices of a kind, as `devices` found them.
named() { python3 "$here/gpu_table.py" names "$out/devices.json" "$1"; }

[ -f "$out/devices.json" ] || [ "${steps[0]}" = devices ] || steps=(devices "${steps[@]}")

for step in "${steps[@]}"; do
  case "$step" in
  devices)
    record devices 60 "$bench" devices --cache "$cache"
    record devices_again 30 "$bench" devices --cache "$cache"
    ;;
  tests)
    if [ "$(left)" -gt 20 ]; then
      timeout 120 "$bin/engine_tests" --gtest_filter='*gpu_*:*every_program*:cuda*' --gtest_color=no \
        >"$out/tests.log" 2>&1
      echo "status $?" >>"$out/tests.log"
      grep -E '^\[  (PASSED|FAILED)  |^status' "$out/tests.log" | head -20
    fi
    ;;
  exact)
    mapfile -t cards < <(named cuda)
    mapfile -t vulkan < <(named vulkan)
    all=cpu
    for d in "${vulkan[@]:0:1}" "${cards[@]:0:2}"; do all+=,$d; done
    if [ -n "${TERRANE_SMOLLM2:-}" ]; then small=$TERRANE_SMOLLM2; else model smollm2-135m Q4_1 && small=$made; fi
    for d in "${vulkan[@]:0:1}" "${cards[@]:0:1}"; do  # if something is wrong: with which
      record "exact_small_cpu_${d%%:*}" 60 "$bench" exact --model "$small" --devices "cpu,$d" --moves 10 --tokens 64 \
        --context-limit 2048 --cache "$cache"
    done
    record exact_small 90 "$bench" exact --model "$small" --devices "$all" --moves 52 --tokens 256 \
      --context-limit 2048 --cache "$cache"
    model llama-3.1-8b Q4_K_M
    record exact_8b 150 "$bench" exact --model "$made" --devices "$all" --moves 52 --tokens 330 \
      --context-limit 2048 --cache "$cache"
    ;;
  speed)
    mapfile -t cards < <(named cuda)
    mapfile -t vulkan < <(named vulkan)
    for quant in Q4_K_M Q8_0; do
      model llama-3.1-8b $quant
      for d in "${cards[@]:0:1}" "${vulkan[@]:0:1}"; do
        kind=${d%%:*}
        record "speed_8b_${quant}_${kind}_512" 60 "$bench" speed --model "$made" --device "$d" --prompt 512 \
          --gen 128 --context-limit 8192 --rows 512 --cache "$cache"
      done
    done
    model llama-3.1-8b Q4_K_M
    for d in "${cards[@]:0:1}"; do
      record speed_8b_Q4_K_M_cuda_4096 60 "$bench" speed --model "$made" --device "$d" --prompt 4096 --gen 32 \
        --context-limit 8192 --rows 512 --cache "$cache"
    done
    model llama-3.2-3b Q4_K_M
    for d in "${cards[@]:0:1}"; do
      record speed_3b_Q4_K_M_cuda_512 60 "$bench" speed --model "$made" --device "$d" --prompt 512 --gen 128 \
        --context-limit 8192 --rows 512 --cache "$cache"
    done
    ;;
  move)
    mapfile -t cards < <(named cuda)
    mapfile -t vulkan < <(named vulkan)
    model llama-3.2-3b Q4_K_M
    for context in 1800 32000; do
      limit=$((context + 8000))
      if [ ${#cards[@]} -gt 1 ]; then
        record "move_cuda_cuda_$context" 120 "$bench" move --model "$made" --from "${cards[0]}" --to "${cards[1]}" \
          --context $context --repeat 200 --context-limit $limit --rows 512 --cache "$cache"
      fi
      if [ ${#cards[@]} -gt 0 ] && [ ${#vulkan[@]} -gt 0 ]; then
        record "move_cuda_vulkan_$context" 120 "$bench" move --model "$made" --from "${cards[0]}" \
          --to "${vulkan[0]}" --context $context --repeat 100 --context-limit $limit --rows 512 --cache "$cache"
      fi
      if [ ${#cards[@]} -gt 0 ]; then
        record "move_cuda_cpu_$context" 120 "$bench" move --model "$made" --from "${cards[0]}" --to cpu \
          --context $context --repeat 40 --context-limit $limit --rows 512 --cache "$cache"
      fi
    done
    ;;
  *)
    echo "gpu_table.sh: unknown step $step" >&2
    exit 2
    ;;
  esac
done
say "done"
python3 "$here/gpu_table.py" table "$out"

#!/usr/bin/env bash
# A model keeps talking while its layers cross from device to device, and the proof that not one bit of
# the reply changed. On a fresh Debian 12 (or Ubuntu 24.04) this installs what is needed, builds, gets a
# 135M model, starts the daemon on the CPU and a Vulkan device, and asks the same question twice: once
# undisturbed, once while memory pressure on the Vulkan device comes and goes, so that a policy moves layers
# away and back in the middle of the reply. A second run takes seconds.
#
#   TERRANE_BUILD=DIR             use another build folder (default: build/release)
#   TERRANE_QUICKSTART_TOKENS=N   the length of the replies (default: what this machine says in eight seconds)
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=${TERRANE_BUILD:-$root/build/release}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }

say "1. Packages"
.ci/dependencies.sh build
vulkan_works() { [ -x "$build/bin/terraned" ] && "$build/bin/terraned" --list-devices 2>/dev/null | grep '^vulkan:' | grep -qv refused; }

say "2. Build (some minutes the first time)"
mkdir -p "$build"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >"$build/configure.log" 2>&1 ||
  { cat "$build/configure.log"; exit 1; }
cmake --build "$build" --target terraned terranectl
vulkan_works || { echo "No Vulkan device: installing Mesa's software device"; .ci/dependencies.sh vulkan; }
vulkan_works || { echo "quickstart.sh: still no usable Vulkan device; see: $build/bin/terraned --list-devices" >&2; exit 1; }

say "3. The model"
model=$(examples/fetch_model.sh)
echo "$model"

work=$(mktemp -d)
export TERRANE_SOCKET=$work/control.sock
cleanup() {
  [ -z "${daemon:-}" ] || { kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null || true; }
  rm -rf "$work"
}
trap cleanup EXIT

cat >"$work/terraned.yaml" <<YAML
apiVersion: terrane/v1
model: {file: $model, context: 2048}
devices:
  - {name: cpu}
  - {name: vulkan, budget: 600MiB}
start_on: vulkan
policies: [$root/examples/quickstart/give-way.yaml]
telemetry: {period: 50ms, readings_file: $work/readings.yaml}
control: {socket: $work/control.sock}
replies: {temperature: 0, hash_logits: true}
YAML

say "4. The daemon"
"$build/bin/terraned" --config "$work/terraned.yaml" 2>"$work/daemon.log" &
daemon=$!
ctl=$build/bin/terranectl
for _ in $(seq 600); do
  "$ctl" status --json 2>/dev/null | grep -q '"state":"ready"' && break
  { kill -0 "$daemon" 2>/dev/null && ! grep -q 'error:' "$work/daemon.log"; } || { cat "$work/daemon.log" >&2; exit 1; }
  sleep 0.1
done
"$ctl" devices

# How much of a reply is about eight seconds here: long enough to move layers away and back, twice.
tokens=${TERRANE_QUICKSTART_TOKENS:-$("$ctl" generate --max-tokens 24 --json "A mountain" |
  "$root/examples/quickstart/length.py" 8)}
question="Tell me a long story about a mountain that wanted to travel, and about all whom it met on its way."
ask() { "$ctl" generate --chat --max-tokens "$tokens" --json "$question" | tee "$1" | "$root/examples/quickstart/show.py"; }

say "5. The question, undisturbed: all layers stay on the Vulkan device"
echo "> $question"
ask "$work/undisturbed.json"

say "6. The same question, while another program takes the Vulkan device's memory and gives it back"
echo "The policy in force (examples/quickstart/give-way.yaml):"
sed -n '/^  - name/,$p' examples/quickstart/give-way.yaml
echo
echo "> $question"
"$ctl" monitor --json >"$work/events.json" &
monitor=$!
(
  # Pressure comes when the reply has begun, and goes a few words after the layers have left; twice.
  reached() { until [ "$(grep -c "$1" "$2" 2>/dev/null)" -ge "$3" ]; do sleep 0.02; done; }
  words() { reached text "$work/moved.json" $(($(grep -c text "$work/moved.json" 2>/dev/null || true) + $1)); }
  for moves in 1 3; do
    words 8
    echo 'vulkan: {vram.used_ratio: 97%}' >"$work/readings.yaml"
    reached move_committed "$work/events.json" $moves
    words 8
    echo 'vulkan: {vram.used_ratio: 30%}' >"$work/readings.yaml"
    reached move_committed "$work/events.json" $((moves + 1))
  done
) &
pressure=$!
ask "$work/moved.json"
kill "$pressure" 2>/dev/null || true
wait "$pressure" 2>/dev/null || true
kill "$monitor" 2>/dev/null || true
wait "$monitor" 2>/dev/null || true

say "7. What happened"
"$root/examples/quickstart/report.py" "$work/undisturbed.json" "$work/moved.json" "$work/events.json"
decision=$(grep -o '"decision":[0-9]*' "$work/events.json" | head -1 | cut -d: -f2)
if [ -n "$decision" ]; then
  say "Why (terranectl explain $decision)"
  "$ctl" explain "$decision"
fi

#!/usr/bin/env bash
# Installs what Terrane needs from the distribution's packages (Debian 12, Ubuntu 24.04).
#   dependencies.sh [build] [test] [vulkan]     default: build
# build   compiler, CMake and the libraries Terrane links
# test    what tests/run.sh uses besides
# vulkan  Mesa's software Vulkan device, for a machine without a GPU driver
# Installs nothing, and needs no root, when everything is there already.
set -euo pipefail

build=(cmake ninja-build g++ ccache pkg-config libboost1.81-dev libboost-json1.81-dev libyaml-cpp-dev liblua5.4-dev
  llvm-19-dev libpcre2-dev libcli11-dev libexpected-dev libsystemd-dev libvulkan-dev
  spirv-headers libzstd-dev zlib1g-dev python3 python3-venv)
test=(libgtest-dev libgmock-dev libbenchmark-dev spirv-tools clang libclang-rt-dev clang-format clang-tidy systemd
  libvulkan1 mesa-vulkan-drivers git python3-jsonschema python3-yaml)
vulkan=(libvulkan1 mesa-vulkan-drivers)

# Ubuntu 24.04 carries a newer Boost than the 1.81 that Debian 12 has beside its default.
if [ -r /etc/os-release ] && . /etc/os-release && [ "${ID:-}" = ubuntu ]; then
  build=("${build[@]/1.81-dev/-dev}")
fi

wanted=()
for group in "${@:-build}"; do
  case "$group" in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${build[@]}" "${test[@]}") ;;
    vulkan) wanted+=("${vulkan[@]}") ;;
    *) echo "dependencies.sh: unknown group '$group' (build, test or vulkan)" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "dependencies.sh: needs root (or sudo) to install: ${missing[*]}" >&2
    exit 1
  fi
  root=(sudo)
fi
echo "Installing ${#missing[@]} packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${root[@]}" apt-get update -qq
"${root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" |
  awk '/^(Get:|Setting up )/ { print; fflush() }'

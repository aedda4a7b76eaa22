#!/usr/bin/env bash
# Sets up this machine and builds one preset with all cores.
#   scripts/build.sh release|debug|asan|tsan|gpu-node [target …]
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?"usage: scripts/build.sh PRESET [target …] (see CMakePresets.json)"}
shift
scripts/setup.sh
cmake --preset "$preset"
cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"}

#!/usr/bin/env bash
# Sets up this machine and builds one preset with all cores. Two builds of one checkout wait for each
# other: they share its folders.
#   scripts/build.sh release|debug|asan|tsan|gpu-node [target …]
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?"usage: scripts/build.sh PRESET [target …] (see CMakePresets.json)"}
shift
mkdir -p .cache
exec 9>.cache/build.lock
if ! flock --nonblock 9; then
  echo "build: waiting for another build in this folder to end"
  flock --timeout 7200 9 || { echo "build: it has not ended in two hours; giving up" >&2; exit 1; }
fi
# What these start must not keep the lock: a program that outlives the build (ccache has none, sccache does).
scripts/setup.sh 9>&-
cmake --preset "$preset" 9>&-
cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"} 9>&-

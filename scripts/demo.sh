#!/usr/bin/env bash
# Sets up, builds, and lets a cluster of three unlike workers on this machine train a network in stages; one
# worker is killed on the way. Everything that it makes lies in build-Release/demo/, index.html first.
#   scripts/demo.sh [--targets]   (only say what it builds)
set -euo pipefail
cd "$(dirname "$0")/.."

# Also sched-pipeline, with which README begins.
targets=(harmonics harmonics-torch harmonics-cluster sched-pipeline)
[ "${1:-}" != --targets ] || { echo "${targets[@]}"; exit 0; }
scripts/build.sh release "${targets[@]}"
exec python3 tools/demo.py build-Release

#!/usr/bin/env bash
# Sets up, builds, and lets a cluster of three unlike workers on this machine train a network in stages; one
# worker is killed on the way. Everything that it makes lies in build-Release/demo/, index.html first.
set -euo pipefail
cd "$(dirname "$0")/.."

# Also sched-pipeline, with which README begins.
scripts/build.sh release harmonics harmonics-torch harmonics-cluster sched-pipeline
exec python3 tools/demo.py build-Release

#!/usr/bin/env bash
# Sets up this machine, builds everything and runs all tests.
#   scripts/run-tests.sh [Release|Debug] [ctest argument …]
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
case "${1:-Release}" in
  Release) ;;
  Debug) preset=debug ;;
  *) echo "usage: scripts/run-tests.sh [Release|Debug] [ctest argument …]" >&2; exit 2 ;;
esac
[ $# -eq 0 ] || shift

scripts/build.sh "$preset"
exec ctest --preset "$preset" --parallel "$(nproc)" "$@"

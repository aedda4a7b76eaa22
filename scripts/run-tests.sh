#!/usr/bin/env bash
# Sets up this machine, builds everything and runs all tests; those of Spark last, in a Release build
# that was given no ctest arguments.
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
ctest --preset "$preset" --parallel "$(nproc)" "$@"
if [ "$preset" = release ] && [ $# -eq 0 ]; then
  scripts/test-spark.sh
fi

#!/usr/bin/env bash
# Sets up, builds what an installation holds (no tests), and installs it: programs in PREFIX/bin, the
# library for find_package(harmonics) beside them.
#   scripts/install.sh [PREFIX]      (make install PREFIX=…; without one, where CMake installs by default)
set -euo pipefail
prefix=${1:-}
if [ -n "$prefix" ]; then
  mkdir -p "$prefix" || { echo "install: choose another PREFIX, or become root" >&2; exit 1; }
  prefix=$(cd "$prefix" && pwd)
fi
cd "$(dirname "$0")/.."

scripts/build.sh release installed
prefix=${prefix:-$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' build-Release/CMakeCache.txt)}
cmake --install build-Release --prefix "$prefix" >build-Release/install.log ||
  { echo "install: choose a PREFIX that you may write to, or become root" >&2; exit 1; }
echo "install: $(wc -l <build-Release/install_manifest.txt) files in $prefix; put $prefix/bin into PATH"

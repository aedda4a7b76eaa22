#!/usr/bin/env bash
# Runs tools/tidy.py, the format check, the header check, -Wodr and clang-tidy (.clang-tidy) over the whole tree.
#   scripts/lint.sh [path pattern …]   (regular expressions that limit clang-tidy; default: everything)
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh --dev
python3 tools/tidy.py
scripts/format.sh --check
# clang cannot read the precompiled headers of g++, so this preset configures without them; and file by file,
# so that each is seen with its own includes alone.
cmake --preset lint >/dev/null
cmake --build build-Lint --target lonely_headers --parallel "$(nproc)"
# Two types of one name in one program are seen only by who links it as a whole.
cmake --preset odr >/dev/null
cmake --build build-Odr --target harmonics harmonics-torch harmonics-cluster --parallel "$(nproc)"
tools/lint_files.py "$@" | xargs -P "$(nproc)" -n 4 clang-tidy-19 --quiet -p build-Lint

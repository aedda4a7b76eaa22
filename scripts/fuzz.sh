#!/usr/bin/env bash
# Builds the fuzzers with clang and runs each for FUZZ_SECONDS (default 60). What a fuzzer finds
# stays in build-Fuzz/corpus/<fuzzer>/ and is where the next run goes on; a crash stops the script and
# leaves its input in build-Fuzz/.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh --dev
cmake --preset fuzz
cmake --build --preset fuzz --parallel "$(nproc)"
for fuzzer in build-Fuzz/fuzz/*_fuzz; do
  [ -x "$fuzzer" ] || { echo "fuzz: there are no fuzzers"; exit 1; }
  name=$(basename "$fuzzer")
  mkdir -p "build-Fuzz/corpus/$name"
  echo "fuzz: $name for ${FUZZ_SECONDS:-60} s"
  "$fuzzer" -max_total_time="${FUZZ_SECONDS:-60}" -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="build-Fuzz/$name-" "build-Fuzz/corpus/$name"
done

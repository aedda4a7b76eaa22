#!/usr/bin/env bash
# Runs the tests under AddressSanitizer + UndefinedBehaviorSanitizer, then those without libtorch
# under ThreadSanitizer. Benchmarks and installations are left out: they would measure the sanitizer.
#   scripts/sanitize.sh [ctest argument …]
set -euo pipefail
cd "$(dirname "$0")/.."

for preset in asan tsan; do
  scripts/build.sh "$preset"
  # Memory that nobody can reach any more when a program ends is a leak, whoever's it is. What a foreign library
  # leaks is named in tools/lsan.supp, with the reason.
  # Tests that kill a peer fork before they start a thread; the sanitizer has one of its own.
  # What foreign libraries do among themselves is not looked at: weighing a suppressed report inside
  # a lock of theirs can take minutes, and everyone waits for that lock.
  ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    LSAN_OPTIONS="suppressions=$PWD/tools/lsan.supp print_suppressions=0" \
    TSAN_OPTIONS="halt_on_error=1 die_after_fork=0 ignore_noninstrumented_modules=1 suppressions=$PWD/tools/tsan_grpc.supp" \
    ctest --preset "$preset" --parallel "$(nproc)" --label-exclude 'bench' \
      --exclude-regex '^(house|install)\.' "$@"
done

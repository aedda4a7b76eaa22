#!/usr/bin/env bash
# Builds the Java bindings and the Spark module with Maven and runs their tests: Spark sessions with
# real executor processes on this machine. Where Java, Maven or the packages that Maven needs are not
# to be had, one line says that Spark was left out. Ends with an error after HARMONICS_SPARK_SECONDS
# (default 1200).
#   scripts/test-spark.sh [maven argument …]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${HARMONICS_SPARK_SECONDS:-1200}

left_out() {
  echo "spark: left out: $1"
  exit 0
}

command -v java >/dev/null && command -v mvn >/dev/null || left_out "there is no Java 17 or no Maven"
[ -f build-Release/libharmonics_jni.so ] || left_out "build-Release/libharmonics_jni.so was not built"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Fetches what is needed; fails without a network unless an earlier run has fetched it.
if ! timeout "$seconds" mvn -B -q -DskipTests package >"$log" 2>&1; then
  if grep -qE 'Could not transfer|Could not resolve|Unknown host|resolution.*failed' "$log"; then
    left_out "Maven cannot reach its packages"
  fi
  cat "$log"
  exit 1
fi
echo "spark: running the tests (a few minutes)"
status=0
timeout "$seconds" mvn -B -o -q verify "$@" >"$log" 2>&1 || status=$?
if [ "$status" -ne 0 ]; then
  grep -vE ' (INFO|WARN) ' "$log" | tail -100
  [ "$status" -ne 124 ] || echo "spark: the tests took longer than $seconds s"
  exit 1
fi
grep -hE '^Tests run' bindings/jvm/target/surefire-reports/*.txt spark/target/*-reports/*.txt

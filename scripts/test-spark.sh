#!/usr/bin/env bash
# Builds the Java bindings and the Spark module with Maven and runs their tests: Spark sessions with
# real executor processes on this machine. Where Java, Maven or the packages that Maven needs are not
# to be had, one line says that Spark was left out.
#   scripts/test-spark.sh [maven argument …]
set -euo pipefail
cd "$(dirname "$0")/.."

left_out() {
  echo "spark: left out: $1"
  exit 0
}

command -v java >/dev/null && command -v mvn >/dev/null || left_out "there is no Java 17 or no Maven"
[ -f build-Release/libharmonics_jni.so ] || left_out "build-Release/libharmonics_jni.so was not built"
# Fetches what is needed; fails without a network unless an earlier run has fetched it.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! mvn -B -q -DskipTests package >"$log" 2>&1; then
  if grep -qE 'Could not transfer|Could not resolve|Unknown host|resolution.*failed' "$log"; then
    left_out "Maven cannot reach its packages"
  fi
  cat "$log"
  exit 1
fi
echo "spark: running the tests (a few minutes)"
mvn -B -q verify "$@" >"$log" 2>&1 || {
  grep -vE ' (INFO|WARN) ' "$log" | tail -100
  exit 1
}
grep -hE '^Tests run' bindings/jvm/target/surefire-reports/*.txt spark/target/*-reports/*.txt

#!/usr/bin/env bash
# Packages the Java bindings and the Spark module. Where Java, Maven, the native library or the packages
# that Maven fetches once are not to be had, one line says that Spark is left out, and the exit status is 3.
set -euo pipefail
cd "$(dirname "$0")/.."

left_out() {
  echo "spark: left out: $1"
  exit 3
}

command -v java >/dev/null && command -v mvn >/dev/null || left_out "there is no Java 17 or no Maven"
[ -f build-Release/libharmonics_jni.so ] || left_out "build-Release/libharmonics_jni.so was not built"
echo "spark: packaging with Maven; the first time it downloads Spark and its plugins (about 500 MB, some minutes)"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! timeout "${HARMONICS_SPARK_SECONDS:-1200}" mvn -B -q -DskipTests package >"$log" 2>&1; then
  if grep -qE 'Could not transfer|Could not resolve|Unknown host|resolution.*failed' "$log"; then
    left_out "Maven cannot reach its packages"
  fi
  cat "$log"
  exit 1
fi

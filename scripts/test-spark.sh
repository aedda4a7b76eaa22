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

scripts/spark-package.sh || exit $(($? == 3 ? 0 : 1)) # 3: Spark is left out, which is no failure
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "spark: running the tests (a few minutes)"
status=0
timeout "$seconds" mvn -B -q verify "$@" >"$log" 2>&1 || status=$?
if [ "$status" -ne 0 ]; then
  # What runs the tests is fetched only now.
  if [ -z "$(ls bindings/jvm/target/surefire-reports/*.txt 2>/dev/null)" ] &&
    grep -qE 'Could not transfer|Could not resolve|Unknown host|resolution.*failed' "$log"; then
    left_out "Maven cannot reach what runs the tests"
  fi
  grep -vE ' (INFO|WARN) ' "$log" | tail -100
  [ "$status" -ne 124 ] || echo "spark: the tests took longer than $seconds s"
  exit 1
fi
grep -hE '^Tests run' bindings/jvm/target/surefire-reports/*.txt spark/target/*-reports/*.txt

# harmonics.spark, with a PySpark of the same version in a virtual environment of its own, over the package of the build
# folder, which is for the system's Python.
package=$PWD/build-Release/python
if ! /usr/bin/python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import harmonics; harmonics.Graph' "$package" \
  2>"$log"; then
  left_out "harmonics.spark: there is no Python package in build-Release ($(tail -1 "$log"))"
fi
python=.cache/pyspark/bin/python
pyspark=$(sed -n 's:.*<spark.version>\(.*\)</spark.version>.*:\1:p' pom.xml)
if ! "$python" -c "import numpy, pyspark; assert pyspark.__version__ == '$pyspark'" 2>/dev/null; then
  echo "spark: fetching PySpark $pyspark (400 MB, once)"
  rm -rf .cache/pyspark
  if ! { /usr/bin/python3 -m venv .cache/pyspark && timeout "$seconds" "$python" -m pip -q \
    --disable-pip-version-check install "pyspark==$pyspark" numpy; } >"$log" 2>&1; then
    rm -rf .cache/pyspark
    left_out "harmonics.spark: PySpark cannot be had ($(tail -1 "$log"))"
  fi
fi
jars=$(ls bindings/jvm/target/harmonics-jvm-*.jar),$(ls spark/target/harmonics-spark-*.jar | grep -v tests)
if ! SPARK_LOCAL_IP=127.0.0.1 PYTHONPATH=$package timeout "$seconds" "$python" -W ignore \
  spark/spark_test.py "$jars" >"$log" 2>&1; then
  tail -60 "$log"
  exit 1
fi
grep -E '^Ran ' "$log" | sed 's/$/ -- in spark_test.py/'

#!/usr/bin/env bash
# What running inside Spark costs: rows `name | ours | reference | ratio | bar`. Needs the built command
# line, and what scripts/spark-package.sh needs: without it one line says so.
#   scripts/bench-spark.sh [--short]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/spark-package.sh || exit $(($? == 3 ? 0 : 1)) # 3: Spark is left out, which is no failure
version=$(sed -n 's:^  <version>\(.*\)</version>$:\1:p' pom.xml)
jars=$PWD/bindings/jvm/target/harmonics-jvm-$version.jar
jars+=,$PWD/spark/target/harmonics-spark-$version.jar,$PWD/spark/target/harmonics-spark-$version-tests.jar
export SPARK_HOME=$PWD/spark/target/spark-home SPARK_SCALA_VERSION=2.13 SPARK_LOCAL_IP=127.0.0.1
exec java @spark/java17.options -Xmx3g -Dharmonics.jars="$jars" -Dharmonics.source="$PWD" \
  -Dspark.log.level=ERROR -cp "$SPARK_HOME/jars/*:${jars//,/:}" io.harmonics.spark.SparkBench "$@"

#!/usr/bin/env bash
# What running inside Spark costs: rows `name | ours | reference | ratio | bar`. Needs Java 17, Maven and
# Spark's packages, which Maven fetches once, and the built command line.
#   scripts/bench-spark.sh [--short]
set -euo pipefail
cd "$(dirname "$0")/.."

mvn -B -q -DskipTests package
version=0.1.0
jars=$PWD/bindings/jvm/target/harmonics-jvm-$version.jar
jars+=,$PWD/spark/target/harmonics-spark-$version.jar,$PWD/spark/target/harmonics-spark-$version-tests.jar
export SPARK_HOME=$PWD/spark/target/spark-home SPARK_SCALA_VERSION=2.13 SPARK_LOCAL_IP=127.0.0.1
exec java @spark/java17.options -Xmx3g -Dharmonics.jars="$jars" -Dharmonics.source="$PWD" \
  -Dspark.log.level=ERROR -cp "$SPARK_HOME/jars/*:${jars//,/:}" io.harmonics.spark.SparkBench "$@"

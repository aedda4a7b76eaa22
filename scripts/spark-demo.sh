#!/usr/bin/env bash
# Trains a network that reads digits inside Spark tasks: its layers over two executors, two copies of it,
# and two copies of a cut one, on executor processes of this machine. Needs Java 17, Maven and Spark's
# packages, which Maven fetches once.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh release harmonics_jni
scripts/spark-package.sh
echo "spark: starting two executor processes on this machine (some seconds)"

version=$(sed -n 's:^  <version>\(.*\)</version>$:\1:p' pom.xml)
jars=$PWD/bindings/jvm/target/harmonics-jvm-$version.jar
jars+=,$PWD/spark/target/harmonics-spark-$version.jar
jars+=,$PWD/spark/examples/target/harmonics-spark-examples-$version.jar
# Two executors with two task slots each: two copies of two parts are four tasks at the same time.
export SPARK_HOME=$PWD/spark/target/spark-home SPARK_SCALA_VERSION=2.13 SPARK_LOCAL_IP=127.0.0.1
exec java @spark/java17.options -Dspark.master='local-cluster[2,2,1024]' -Dspark.jars="$jars" \
  -Dspark.executor.memory=512m -Dspark.ui.enabled=false -Dspark.driver.host=127.0.0.1 \
  -Dspark.driver.bindAddress=127.0.0.1 -Dspark.scheduler.minRegisteredResourcesRatio=1.0 \
  -Dspark.log.level=ERROR -cp "$SPARK_HOME/jars/*:${jars//,/:}" \
  io.harmonics.spark.examples.TrainDigits "$PWD/examples/data/digits.csv"

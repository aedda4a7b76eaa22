# Everything that a person types. `make` alone lists it; the scripts do the work.
.DEFAULT_GOAL := help
.PHONY: help all test demo tour bench reference lint format sanitize soak fuzz test-spark spark-demo bench-spark clean server worker submit monitor install deb test-deb

help: ## list these targets
	@sed -n 's/^\([a-z-]*\): ## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

all: ## set up and build everything into build-Release/
	scripts/build.sh release

install: ## set up, build, and install programs and library under PREFIX=…
	scripts/install.sh $(PREFIX)

deb: ## set up, build, and make Debian packages in build-Release/deb/
	scripts/deb.sh

test-deb: ## install, upgrade, remove and purge those packages in a bare Debian 12 root
	scripts/test-deb.sh

test: ## set up, build and run all tests
	scripts/run-tests.sh Release

demo: ## set up, build, and watch a cluster train a network, lose a machine and go on
	scripts/demo.sh

tour: ## describe, draw, train and use a network with one program
	scripts/tour.sh

bench: ## run the benchmarks and write bench/RESULTS.md
	scripts/build.sh release
	python3 tools/bench.py build-Release --also bench/plan_truth.py bench/generation_truth.py bench/python_bench.py bench/zk_ezkl.py \
	  bench/cluster_client.py bench/cluster_mixes.py scripts/bench-spark.sh

reference: ## write the reference of the public headers and of the Python package to build-reference/html
	scripts/build.sh release python_flags
	doxygen docs/Doxyfile
	tools/python_reference.py build-reference/html
	@echo "reference: open build-reference/html/index.html"

lint: ## run tools/tidy.py, clang-format and clang-tidy over the tree
	scripts/lint.sh

format: ## bring all C++ files into the one format
	scripts/format.sh

sanitize: ## run the tests under ASan + UBSan, and those with threads under TSan
	scripts/sanitize.sh

test-spark: ## build the Java side and run its tests, Spark on this machine included
	scripts/build.sh release
	scripts/test-spark.sh

spark-demo: ## watch a network learn inside Spark tasks on this machine
	scripts/spark-demo.sh

bench-spark: ## run the benchmarks of Spark tasks alone
	scripts/build.sh release
	scripts/bench-spark.sh

soak: ## run the campaigns at full length: every combination, every seed that the tests know
	scripts/build.sh release
	HARMONICS_SOAK=1 ctest --preset release -L soak --parallel "$$(nproc)"

fuzz: ## run every fuzzer for FUZZ_SECONDS (default 60) each
	scripts/fuzz.sh

server: ## run the scheduler of a cluster on port 50051
	scripts/build.sh release harmonics harmonics-cluster
	build-Release/harmonics server --port=50051 --policy=balanced

worker: ## run a worker that poses as two GPUs, for the server above
	scripts/build.sh release harmonics harmonics-cluster harmonics-torch
	build-Release/harmonics worker --scheduler=localhost:50051 --gpus=0,1 --models=RTX3090,RTX3090 \
	  --memories=24576,24576

submit: ## hand that cluster a task that trains the shipped digits
	scripts/build.sh release harmonics harmonics-cluster
	build-Release/harmonics submit --scheduler=localhost:50051 --name="Digits Training" --gpus=1

monitor: ## watch that cluster
	scripts/build.sh release harmonics harmonics-cluster
	build-Release/harmonics monitor --scheduler=localhost:50051 --refresh=1

clean: ## remove all build folders
	rm -rf build-*/

# Everything that a person types. `make` alone lists it; the scripts do the work.
.DEFAULT_GOAL := help
.PHONY: help all test demo bench lint format sanitize soak fuzz clean

help: ## list these targets
	@sed -n 's/^\([a-z]*\): ## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

all: ## set up and build everything into build-Release/
	scripts/build.sh release

test: ## set up, build and run all tests
	scripts/run-tests.sh Release

demo: ## set up, build, and watch a network learn to read digits
	scripts/demo.sh

bench: ## run the benchmarks and write bench/RESULTS.md
	scripts/build.sh release
	python3 tools/bench.py build-Release

lint: ## run tools/tidy.py, clang-format and clang-tidy over the tree
	scripts/lint.sh

format: ## bring all C++ files into the one format
	scripts/format.sh

sanitize: ## run the tests under ASan + UBSan, and those with threads under TSan
	scripts/sanitize.sh

soak: ## run the campaigns at full length: every combination, every seed that the tests know
	scripts/build.sh release
	HARMONICS_SOAK=1 ctest --preset release -L soak --parallel "$$(nproc)"

fuzz: ## run every fuzzer for FUZZ_SECONDS (default 60) each
	scripts/fuzz.sh

clean: ## remove all build folders
	rm -rf build-*/

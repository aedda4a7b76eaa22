#!/usr/bin/env bash
# Shows what Harmonics does, on this machine, in about a minute once it is built: describes a network,
# draws it, trains it on real handwritten digits, saves it, and reads the digits with the saved weights.
# Everything that it makes lies in build-Release/tour/.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh release harmonics harmonics-torch

harmonics=build-Release/harmonics
out=build-Release/tour
rm -rf "$out"
mkdir -p "$out"

step() { printf '\n== %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

step "The network, as examples/digits.harp describes it"
run "$harmonics" graph show examples/digits.harp

step "A picture of it"
run "$harmonics" graph svg examples/digits.harp --out "$out/digits.svg"

step "Learning to read 1,438 handwritten digits; the other 359 are the test"
run "$harmonics" train examples/digits.harp --checkpoint "$out/digits.safetensors"

step "The saved weights, loaded again, read the digits"
run "$harmonics" run examples/digits.harp --weights "$out/digits.safetensors" \
  --out "prediction=csv:$out/predictions.csv"

step "What the tour left behind"
ls -l "$out"

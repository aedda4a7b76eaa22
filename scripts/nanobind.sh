#!/usr/bin/env bash
# Puts nanobind, which the Python package is built with, into .cache/nanobind of this checkout, from a pinned wheel.
# Where the package index cannot be reached it says so in one line and ends well: the Python package is left out then
# and everything else works.
set -euo pipefail
cd "$(dirname "$0")/.."

version=3.1.0
folder=.cache/nanobind
if [ -d "$folder/nanobind-$version.dist-info" ]; then
  echo "nanobind: nanobind $version is present"
  exit 0
fi
fresh=$folder.$$
trap 'rm -rf "$fresh"' EXIT
if python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
    --target "$fresh" "nanobind==$version" >/dev/null 2>&1; then
  rm -rf "$folder"
  mv "$fresh" "$folder"
  echo "nanobind: nanobind $version is in $folder"
else
  echo "nanobind: nanobind $version cannot be had from the package index: no Python package (all else works)"
fi

#!/usr/bin/env bash
# Puts Arrow for C++ (Flight and Parquet) into .cache/pyarrow of this checkout, from a pinned pyarrow wheel. Where the
# package index cannot be reached it says so in one line and ends well: the Flight transport and
# the sources parquet: and arrow: are left out then and everything else works.
set -euo pipefail
cd "$(dirname "$0")/.."

version=17.0.0
folder=.cache/pyarrow
if [ -d "$folder/pyarrow-$version.dist-info" ]; then
  echo "arrow: pyarrow $version is present"
  exit 0
fi
fresh=$folder.$$
trap 'rm -rf "$fresh"' EXIT
if python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
    --target "$fresh" "pyarrow==$version" numpy >/dev/null 2>&1; then
  rm -rf "$folder"
  mv "$fresh" "$folder"
  echo "arrow: pyarrow $version is in $folder"
else
  echo "arrow: pyarrow $version cannot be had from the package index: no Flight transport, no Parquet (all else works)"
fi

#!/usr/bin/env bash
# Installs the Debian packages that Harmonics needs and that this machine lacks, and says which.
# Needs root or sudo only when something is missing; a second run does nothing.
#   scripts/setup.sh           install what is missing
#   scripts/setup.sh --check   only list what is missing (exit 1 if anything is)
#   scripts/setup.sh --dev     also what `make lint`, `make fuzz`, `make deb` and tests with a browser, Slurm, SSH and arm64 need
set -euo pipefail

# What the build and the tests need. libopenblas0-openmp matters for speed: without it libtorch falls
# back to a reference BLAS that is about five times slower.
required=(
  g++ cmake ninja-build make git python3 python3-dev python3-pip python3-venv ccache
  libtorch-dev libopenblas0-openmp python3-torch
  libfmt-dev libspdlog-dev libcli11-dev libssl-dev libyaml-cpp-dev libzstd-dev
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc pkg-config
  libsodium-dev libicu-dev libpng-dev libjpeg62-turbo-dev libsqlite3-dev libpq-dev postgresql
  libopenmpi-dev openmpi-bin ocl-icd-opencl-dev opencl-headers libclblast-dev pocl-opencl-icd
  openjdk-17-jdk-headless maven
  libgtest-dev libgmock-dev libbenchmark-dev libgloo-dev iproute2
  clang-format doxygen
)
# What only `make lint`, `make fuzz`, `make deb` and the tests of the page in a browser, of Slurm, of SSH and of arm64 need;
# installed when asked for with --dev.
developer=(clang-19 libclang-rt-19-dev clang-tidy-19 chromium lintian debootstrap openssh-server slurmctld slurmd slurm-client munge
  g++-aarch64-linux-gnu qemu-user-static)

check_only=0
for argument in "$@"; do
  case "$argument" in
    --check) check_only=1 ;;
    --dev) required+=("${developer[@]}") ;;
    -h|--help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "setup: unknown argument '$argument' (try --help)" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not a Debian system; install the equivalents of: ${required[*]}" >&2
  exit 1
fi

missing=()
for package in "${required[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done

if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all ${#required[@]} packages are present"
  [ $check_only -eq 1 ] || { "$(dirname "$0")/arrow.sh"; "$(dirname "$0")/nanobind.sh"; }
  exit 0
fi
echo "setup: missing: ${missing[*]}"
[ $check_only -eq 0 ] || exit 1

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: run this as root, or install sudo" >&2; exit 1; }
  as_root=(sudo)
fi
echo "setup: installing them with apt-get (this can take a few minutes)"
"${as_root[@]}" apt-get update -qq || {
  echo "setup: apt-get cannot reach its mirror; check the network and /etc/apt" >&2
  exit 1
}
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
"$(dirname "$0")/arrow.sh"
"$(dirname "$0")/nanobind.sh"
echo "setup: done"

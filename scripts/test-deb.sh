#!/usr/bin/env bash
# Installs the Debian packages in a bare Debian 12 root (debootstrap), runs server and worker as their units do, as the
# users that the package makes, upgrades, removes and purges. Needs root and a mirror; some minutes.
#   scripts/test-deb.sh [--no-build] [--keep]      (make test-deb)
#     --no-build   take the build folder as it is
#     --keep       leave the root in build-Deb/ for a look
set -euo pipefail
cd "$(dirname "$0")/.."

keep=0 how=()
for argument in "$@"; do
  case "$argument" in
    --no-build) how=(--no-build) ;;
    --keep) keep=1 ;;
    -h|--help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test-deb: unknown argument '$argument' (try --help)" >&2; exit 2 ;;
  esac
done
[ "$(id -u)" -eq 0 ] || { echo "test-deb: run this as root: it makes and enters a root of its own" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "test-deb: apt-get install debootstrap first" >&2; exit 1; }

scripts/deb.sh "${how[@]}" --revision 1
# The same once more under a higher number: an upgrade.
for package in build-Release/deb/*-1_*.deb; do
  folder=$(mktemp -d)
  dpkg-deb -R "$package" "$folder"
  sed -i -e '/^Version: /s/-1$/-2/' -e 's/\(harmonics (= [^)]*\)-1)/\1-2)/' "$folder/DEBIAN/control"
  dpkg-deb --root-owner-group -Znone --build "$folder" "${package/-1_/-2_}" >/dev/null
  rm -rf "$folder"
done

root=$PWD/build-Deb/root
mirror=$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' 2>/dev/null | grep debian | head -n 1)
leave() {
  umount -l "$root/proc" 2>/dev/null || true
  [ $keep -eq 1 ] || rm -rf --one-file-system build-Deb
}
trap leave EXIT
rm -rf --one-file-system build-Deb
mkdir -p "$root"
echo "test-deb: making a root from $mirror"
debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror" >build-Deb/debootstrap.log ||
  { tail -n 5 build-Deb/debootstrap.log >&2; exit 1; }
cp /etc/resolv.conf "$root/etc/"
echo '127.0.0.1 localhost' >"$root/etc/hosts"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" # what this machine trusts on its way out
cp build-Release/deb/*.deb packaging/debian/check_installed.sh "$root/"
mount -t proc proc "$root/proc"
echo "test-deb: installing the packages with what they depend on"
# systemd, not part of a minimal root, judges the units; nothing is started.
chroot "$root" sh -e >build-Deb/install.log 2>&1 <<'INSIDE' || { tail -n 20 build-Deb/install.log >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
apt-get update -qq
apt-get install -y -qq --no-install-recommends systemd /harmonics_*-1_*.deb /python3-harmonics_*-1_*.deb
INSIDE
umount "$root/proc"
# A network, processes and mounts of its own: nothing that runs there reaches out or is left behind.
unshare --net --pid --fork --mount --kill-child sh -ec "
  mount -t proc proc '$root/proc'
  ip link set lo up
  exec chroot '$root' sh -eu /check_installed.sh"
echo "test-deb: libharmonics-dev depends on packages that this Debian has"
chroot "$root" sh -c 'apt-get install -s -qq --no-install-recommends /harmonics_*-2_*.deb /libharmonics-dev_*-2_*.deb' >/dev/null
echo "test-deb: all well"

#!/usr/bin/env bash
# Makes a bare Debian 12 root (debootstrap; git and make only), clones this checkout's HEAD into it and pastes README
# block by block into shells of a fresh account there. Needs root and a mirror; an hour on two idle cores.
#   scripts/bare-root.sh [--keep] [--no-tests] [--ccache FOLDER]
#     --keep            leave the root in build-Bare/ for a look
#     --no-tests        leave `make test` out, which takes most of the hour and which CI runs on a bare machine too
#     --ccache FOLDER   lend it a compiler cache: what is missing still shows, in a fraction of the time
set -euo pipefail
cd "$(dirname "$0")/.."

keep=0 cache= leave_out=()
while [ $# -gt 0 ]; do
  case "$1" in
    --keep) keep=1 ;;
    --no-tests) leave_out=(--no-tests) ;;
    --ccache) cache=${2:?"bare-root: --ccache needs a folder"}; shift ;;
    -h|--help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "bare-root: unknown argument '$1' (try --help)" >&2; exit 2 ;;
  esac
  shift
done
[ "$(id -u)" -eq 0 ] || { echo "bare-root: run this as root: it makes and enters a root of its own" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "bare-root: apt-get install debootstrap first" >&2; exit 1; }

root=$PWD/build-Bare/root
mirror=$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' 2>/dev/null | grep debian | head -n 1)
leave() {
  umount -l "$root/proc" "$root/dev" "$root/sys" "$root/cache" 2>/dev/null || true
  [ $keep -eq 1 ] || rm -rf --one-file-system build-Bare
}
trap leave EXIT
rm -rf --one-file-system build-Bare
mkdir -p "$root"
echo "bare-root: making a root from $mirror"
debootstrap --variant=minbase --include=git,make,ca-certificates,python3 bookworm "$root" "$mirror" \
  >build-Bare/debootstrap.log || { tail -n 5 build-Bare/debootstrap.log >&2; exit 1; }
cp /etc/resolv.conf "$root/etc/"
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" # what this machine trusts on its way out
mount -t proc proc "$root/proc"
# Slaves: what is unmounted there stays mounted here.
for folder in dev sys; do
  mount --rbind "/$folder" "$root/$folder"
  mount --make-rslave "$root/$folder"
done
git clone -q . "$root/harmonics"
if [ -n "$cache" ]; then
  mkdir -p "$root/cache"
  mount --bind "$cache" "$root/cache"
  printf '#!/bin/sh\nCCACHE_DIR=/cache exec "$@"\n' >"$root/with-cache"
else
  printf '#!/bin/sh\nexec "$@"\n' >"$root/with-cache"
fi
chmod +x "$root/with-cache"
chroot "$root" /with-cache python3 /harmonics/tools/paste_readme.py /harmonics "${leave_out[@]}"

#!/usr/bin/env bash
# Makes harmonics, libharmonics-dev and python3-harmonics as .deb for the Debian that this runs on, in build-Release/deb/,
# from the finished build folder, and looks at them with lintian where it is installed.
#   scripts/deb.sh [--no-build] [--revision N]      (make deb)
#     --no-build     take the build folder as it is
#     --revision N   of the packages (1): a higher one is an upgrade
set -euo pipefail
cd "$(dirname "$0")/.."

build=1 revision=1
while [ $# -gt 0 ]; do
  case "$1" in
    --no-build) build=0 ;;
    --revision) revision=${2:?"deb: --revision needs a number"}; shift ;;
    -h|--help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "deb: unknown argument '$1' (try --help)" >&2; exit 2 ;;
  esac
  shift
done
for tool in dpkg-deb dpkg-shlibdeps strip; do
  command -v $tool >/dev/null || { echo "deb: '$tool' is missing: apt-get install dpkg-dev binutils" >&2; exit 1; }
done
[ $build -eq 0 ] || scripts/build.sh release installed
[ -f build-Release/CMakeCache.txt ] || { echo "deb: there is no build-Release/: run 'make all' first" >&2; exit 1; }

out=$PWD/build-Release/deb
work=$out/work
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' build-Release/CMakeCache.txt)-$revision
architecture=$(dpkg --print-architecture)
rm -rf "$work"
mkdir -p "$work"
all=$work/all
echo "deb: installing into a folder"
DESTDIR=$all cmake --install build-Release --prefix /usr --strip >"$work/install.log"

# Three folders out of one: what users run, what those who build against the library need, and what Python imports.
programs=$work/harmonics library=$work/libharmonics-dev python=$work/python3-harmonics
mkdir -p "$library/usr/lib/harmonics/arrow" "$python/usr/lib"
mv "$all" "$programs"
mv "$programs/usr/include" "$library/usr/"
mv "$programs/usr/lib/cmake" "$library/usr/lib/"
packages=(harmonics libharmonics-dev)
if [ -d "$programs/usr/lib/python3" ]; then
  mv "$programs/usr/lib/python3" "$python/usr/lib/"
  find "$python" -name __pycache__ -prune -exec rm -rf {} +
  packages+=(python3-harmonics)
fi
[ ! -d "$programs/usr/lib/harmonics/arrow/include" ] ||
  mv "$programs/usr/lib/harmonics/arrow/include" "$library/usr/lib/harmonics/arrow/"
find "$programs/usr/lib" -maxdepth 1 -name '*.a' -exec mv -t "$library/usr/lib" {} +
find "$library/usr/lib" -maxdepth 1 -name '*.a' -exec strip --strip-debug --enable-deterministic-archives {} +
find "$programs/usr/lib/harmonics/arrow" -name '*.so*' -exec strip --strip-unneeded {} + 2>/dev/null || true
rmdir --ignore-fail-on-non-empty "$library/usr/lib/harmonics/arrow" "$library/usr/lib/harmonics"

# Where Debian looks for units, users and folders.
share=$programs/usr/share/harmonics
mkdir -p "$programs/lib/systemd/system" "$programs/usr/lib/sysusers.d" "$programs/usr/lib/tmpfiles.d"
mv "$share"/systemd/*.service "$programs/lib/systemd/system/"
mv "$share/sysusers.d/harmonics.conf" "$programs/usr/lib/sysusers.d/"
mv "$share/tmpfiles.d/harmonics.conf" "$programs/usr/lib/tmpfiles.d/"
rmdir "$share/sysusers.d" "$share/tmpfiles.d"

# A program looks for libraries beside itself only: never in the tree that it was built in.
for program in "$programs"/usr/bin/* "$programs"/usr/lib/*.so "$programs"/usr/lib/harmonics/arrow/* \
    "$python"/usr/lib/python3/dist-packages/harmonics/*.so; do
  [ ! -L "$program" ] && readelf -d "$program" 2>/dev/null | grep -q 'R.*PATH' || continue
  path=$(readelf -d "$program" | sed -n 's/.*R.*PATH.*\[\(.*\)\]/\1/p' | tr ':' '\n' | grep '^\$ORIGIN' | paste -sd: || true)
  printf 'file(RPATH_SET FILE "%s" NEW_RPATH [[%s]])\n' "$program" "$path" >"$work/rpath.cmake"
  cmake -P "$work/rpath.cmake"
done

document() { # of a package: its folder gets copyright, changelog and what lintian may pass over
  local name=$1 docs=$work/$1/usr/share/doc/$1
  mkdir -p "$docs" "$work/$name/usr/share/lintian/overrides" "$work/$name/DEBIAN"
  cp packaging/debian/copyright "$docs/copyright"
  printf 'harmonics (%s) bookworm; urgency=medium\n\n  * Made from the sources; what changed is in CHANGELOG.md.\n\n -- %s  %s\n' \
    "$version" "The Harmonics project <maintainers@harmonics.example>" "$(date -R -d "@$(git log -1 --format=%ct)")" |
    gzip -9n >"$docs/changelog.Debian.gz"
  cp "packaging/debian/$name.lintian-overrides" "$work/$name/usr/share/lintian/overrides/$name"
}
for package in "${packages[@]}"; do document "$package"; done
for text in LICENSE NOTICE; do
  found=$(find .cache/pyarrow/pyarrow-*.dist-info -name "$text.txt" 2>/dev/null | head -n 1)
  [ -z "$found" ] || cp "$found" "$programs/usr/share/doc/harmonics/arrow-$text.txt"
done
rm -f "$programs/usr/share/doc/harmonics/LICENSE"
echo 'activate-noawait ldconfig' >"$programs/DEBIAN/triggers" # the library that Java loads
for script in postinst prerm postrm; do
  install -m 0755 "packaging/debian/harmonics.$script" "$programs/DEBIAN/$script"
done

# What the programs link, by Debian's own records; the private libraries are in no record.
mkdir -p "$work/shlibs/debian"
printf 'Source: harmonics\n\nPackage: harmonics\nArchitecture: %s\n' "$architecture" >"$work/shlibs/debian/control"
links_of() { # FOLDER…: what the programs and libraries in them need
  local linked
  mapfile -t linked < <(find "$@" -type f -exec sh -c 'head -c 4 "$1" | grep -q ELF && echo "$1"' _ {} \;)
  (cd "$work/shlibs" && dpkg-shlibdeps -O --ignore-missing-info -l"$programs/usr/lib/harmonics/arrow" -l"$programs/usr/lib" \
    -xharmonics "${linked[@]}" 2>>"$work/shlibs.log") | sed -n 's/^shlibs:Depends=//p'
}
depends=$(links_of "$programs/usr/bin" "$programs/usr/lib")
[ -n "$depends" ] || { echo "deb: dpkg-shlibdeps found nothing:" >&2; tail -n 5 "$work/shlibs.log" >&2; exit 1; }
# Whoever builds against the library needs the headers that it was built with: those that setup.sh names.
headers=$(sed -n '/^required=(/,/^)/p' scripts/setup.sh | grep -o 'lib[a-z0-9+.-]*-dev\|o[a-z-]*-\(dev\|headers\)' | sort -u |
  grep -v 'gtest\|gmock\|benchmark\|gloo\|cli11' | paste -sd, | sed 's/,/, /g')

# Its modules are of one version of Python: the one that they were built with.
python_version=$(find "$python" -name '_core.*' -printf '%f\n' 2>/dev/null | sed -n 's/_core.cpython-\([0-9]\)\([0-9]*\)-.*/\1.\2/p')

pack() { # NAME DEPENDS
  local name=$1 folder=$work/$1
  find "$folder" -type d -exec chmod 0755 {} +
  find "$folder" -type f ! -path '*/DEBIAN/*' -exec chmod u=rwX,go=rX {} +
  sed -e "s/@version@/$version/" -e "s/@architecture@/$architecture/" -e "s/@depends@/$2/" \
    -e "s/@size@/$(du -ks --exclude=DEBIAN "$folder" | cut -f1)/" "packaging/debian/$name.control.in" >"$folder/DEBIAN/control"
  (cd "$folder" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
  dpkg-deb --root-owner-group -Zxz -z2 --build "$folder" "$out/${name}_${version}_$architecture.deb" >/dev/null
  echo "deb: $out/${name}_${version}_$architecture.deb, $(du -h "$out/${name}_${version}_$architecture.deb" | cut -f1)"
}
pack harmonics "$depends"
pack libharmonics-dev "$headers"
if [ "${#packages[@]}" -eq 3 ]; then
  pack python3-harmonics \
    "python3 (>= $python_version), python3 (<< ${python_version%.*}.$((${python_version#*.} + 1))), $(links_of "$python/usr/lib")"
fi
rm -rf "$work"

if command -v lintian >/dev/null; then
  lintian --fail-on error --suppress-tags bad-distribution-in-changes-file --tag-display-limit 0 \
    --display-level '>=error' "$out"/*"_${version}_$architecture.deb" || { echo "deb: lintian finds errors" >&2; exit 1; }
  echo "deb: lintian finds no error"
else
  echo "deb: lintian is not installed, so nobody looked at them (apt-get install lintian)"
fi

#!/usr/bin/env bash
# Builds ddprun_VERSION_amd64.deb into build/deb: the launcher of scripts/make_wheel.sh, which needs the C library alone, with
# man pages, completions for bash, zsh and fish, scripts/launch, and a systemd unit for `ddprun coordinator`, with an example of what it
# reads. Two packings have to give equal bytes, and lintian, where it is installed, has to be content.
#
#   scripts/make_deb.sh            prints the package's path at the end
#
# DEBFULLNAME and DEBEMAIL name the maintainer; without them it is the author of the last commit.
set -euo pipefail
source "$(dirname "$0")/common.sh"
case "${1:-}" in
  '') ;;
  -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) fail "unknown argument $1; there is none" ;;
esac
command -v dpkg-deb >/dev/null || fail "dpkg-deb is not here; the wheel of scripts/make_wheel.sh works on every Linux"

readonly PROGRAM=build/wheel/bin/ddprun OUT=build/deb
readonly ROOT=$OUT/root
version=$(project_version)
maintainer="${DEBFULLNAME:-$(git log -1 --format=%an)} <${DEBEMAIL:-$(git log -1 --format=%ae)}>"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"

put() { install -D -m "${3:-644}" "$1" "$ROOT/$2"; }
put_text() { mkdir -p "$(dirname "$ROOT/$1")"; cat >"$ROOT/$1"; chmod 644 "$ROOT/$1"; }

copyright() {
  cat <<TEXT
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ddprun
Comment: Parts of other packages and of a C++ library are in the program, as
 headers and archives that it was built from. The folder inside beside this file
 has what each of them says of its copyright.

Files: *
Copyright: $(sed -n 's/^Copyright (c) //p' LICENSE)
License: Expat
$(sed '1,/^Permission/{/^Permission/!d}; s/^$/./; s/^/ /' LICENSE)
TEXT
}

write_documents() {
  local doc=usr/share/doc/ddprun page
  copyright | put_text $doc/copyright
  for page in build/wheel/licences/*; do
    case "$page" in */common-licence-*) continue ;; esac  # Debian has them
    gzip -9nc "$page" | put_text "$doc/inside/$(basename "$page").gz"
  done
  printf 'ddprun (%s) unstable; urgency=medium\n\n  * CHANGELOG.md of the repository says what is new.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(LC_ALL=C date -Ru -d "@$SOURCE_DATE_EPOCH")" | gzip -9n | put_text $doc/changelog.gz
  python3 scripts/make_man.py $PROGRAM $OUT/man
  for page in "$OUT"/man/*; do
    gzip -9nc "$page" | put_text "usr/share/man/man${page##*.}/$(basename "$page").gz"
  done
}

write_control() {
  mkdir -p $ROOT/DEBIAN
  echo /etc/ddprun/example.conf >$ROOT/DEBIAN/conffiles
  (cd $ROOT && find . -type f ! -path './DEBIAN/*' ! -path './etc/*' -printf '%P\n' | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
  cat >$ROOT/DEBIAN/control <<TEXT
Package: ddprun
Version: $version
Architecture: amd64
Maintainer: $maintainer
Installed-Size: $(du -k --apparent-size -s $ROOT/usr | cut -f1)
Depends: libc6 (>= 2.28)
Suggests: python3
Section: science
Priority: optional
Description: launcher for multi-GPU training jobs
 Starts the workers of a PyTorch job with torchrun's flags, in milliseconds,
 says which rank broke first and why, and leaves no process behind. Nodes meet
 through one port; a coordinator may run alone, as a service.
TEXT
  chmod 644 $ROOT/DEBIAN/*
}

# Same names, times and owners whoever builds it.
pack() { find $ROOT -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; dpkg-deb --root-owner-group -Zxz --build $ROOT "$1" >/dev/null; }

umask 022
scripts/make_wheel.sh
rm -rf $OUT
put $PROGRAM usr/bin/ddprun 755
put scripts/deb/ddprun-coordinator@.service lib/systemd/system/ddprun-coordinator@.service
put scripts/deb/example.conf etc/ddprun/example.conf
for file in scripts/launch/*; do put "$file" "usr/share/ddprun/launch/$(basename "$file")" "$([ -x "$file" ] && echo 755 || echo 644)"; done
$PROGRAM completions bash | put_text usr/share/bash-completion/completions/ddprun
$PROGRAM completions zsh | put_text usr/share/zsh/vendor-completions/_ddprun
$PROGRAM completions fish | put_text usr/share/fish/vendor_completions.d/ddprun.fish
write_documents
write_control
package=$OUT/ddprun_${version}_amd64.deb
pack "$package"
pack "$OUT/again.deb"
cmp "$package" "$OUT/again.deb" || fail "two packings of the same files differ"
rm "$OUT/again.deb"
if command -v lintian >/dev/null; then
  lintian --fail-on error,warning "$package" || fail "lintian is not content with $package"
else
  say "SKIPPED: lintian is not installed"
fi
say "$(stat -c %s "$package") bytes"
echo "$package"

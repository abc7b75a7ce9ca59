#!/usr/bin/env bash
# Builds wheel and Debian package of HEAD from nothing in two folders with different names: each has to have equal bytes.
#
#   reproducible.sh ROOT
set -euo pipefail
root=$1
command -v dpkg-deb >/dev/null || { echo "SKIPPED: dpkg-deb is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git clone --quiet "$root" "$folder/a"
git clone --quiet "$folder/a" "$folder/another_name"
for name in a another_name; do
  mkdir -p "$folder/$name/build/wheel"
  # The same compiler, whose pages in memory are shared; without that one, each gets it from PyPI.
  if cmp -s "$root/build/wheel/tools/requirements.txt" "$folder/$name/scripts/wheel/requirements.txt"; then ln -s "$root/build/wheel/tools" "$folder/$name/build/wheel/tools"; fi
  (cd "$folder/$name" && scripts/make_deb.sh)
done
cd "$folder/a"
sha256sum build/wheel/bin/ddprun build/wheel/ddprun-*.whl build/deb/ddprun_*.deb | tee "$folder/sums"
cd "$folder/another_name"
sha256sum --check "$folder/sums"

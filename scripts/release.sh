#!/usr/bin/env bash
# Makes a release of the version in CMakeLists.txt: build/release-files gets both wheels, with a bill of materials for
# each (CycloneDX), the Debian package, the notes (the version's part of CHANGELOG.md) and SHA256SUMS; the tag vVERSION is made last,
# unless HEAD has it, as in CI. Nothing is pushed.
#
#   scripts/release.sh              CHANGELOG.md has to begin with "## VERSION - YYYY-MM-DD"; all is committed
#   scripts/release.sh --dry-run    says what would be made and what stands in the way; builds and changes nothing
#
# Of one commit two launchers, their wheels and packages have equal bytes: `ctest -L long -R reproducible` builds in two places and
# compares. Both wheels are installed together beside the torch that they were built with, and train, before the tag is made.
set -euo pipefail
source "$(dirname "$0")/common.sh"
dry_run=no
case "${1:-}" in
  '') ;;
  --dry-run) dry_run=yes ;;
  -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) fail "unknown argument $1; there is only --dry-run" ;;
esac

readonly OUT=build/release-files
version=$(project_version)
tag=v$version

# The version's part of CHANGELOG.md, without its heading.
notes() { sed -n "/^## $version - /,/^## /{/^## /!p}" CHANGELOG.md; }

obstacles() {
  local heading tagged
  heading=$(grep -m 1 '^## ' CHANGELOG.md || true)
  [[ $heading =~ ^"## $version - "[0-9]{4}-[0-9]{2}-[0-9]{2}$ ]] ||
    echo "CHANGELOG.md begins with \"$heading\", not with \"## $version - YYYY-MM-DD\": give what is unreleased its version and day"
  if [ -z "$(notes | tr -d '[:space:]')" ]; then echo "CHANGELOG.md says nothing about $version"; fi
  if [ -n "$(git status --porcelain)" ]; then echo "not all is committed: git status"; fi
  tagged=$(git rev-parse --verify --quiet "refs/tags/$tag^{commit}" || true)
  if [ -n "$tagged" ] && [ "$tagged" != "$(git rev-parse HEAD)" ]; then
    echo "$tag is another commit, ${tagged:0:12}: raise the version in CMakeLists.txt"
  fi
  # What a host's CI was started for.
  if [ "${GITHUB_REF_TYPE:-}" = tag ] && [ "${GITHUB_REF_NAME:-}" != "$tag" ]; then
    echo "the tag ${GITHUB_REF_NAME:-} was pushed, and CMakeLists.txt says $version: they have to be one"
  fi
}

found=$(obstacles)
if [ $dry_run = yes ]; then
  say "$tag would be made of $(git rev-parse --short=12 HEAD): wheels, Debian package, bills of materials, NOTES.md, SHA256SUMS in $OUT"
fi
if [ -n "$found" ]; then fail "$found"; fi
if [ $dry_run = yes ]; then exit 0; fi

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
rm -rf $OUT
mkdir -p $OUT
# ccache hands paths to the compiler in its own way, and a release comes from no cache.
export CCACHE_DISABLE=1
# Not to /dev/stderr by name: that would write into a file from its beginning.
package=$(scripts/make_deb.sh | tee >(cat >&2) | tail -n 1)  # makes the wheel as well
worker=$(scripts/make_worker_wheel.sh | tee >(cat >&2) | tail -n 1)
wheel=$(echo build/wheel/ddprun-"$version"-*.whl)
cp "$package" "$worker" "$wheel" $OUT
say "installing both wheels together"
DDPRUN_WHEEL=$PWD/$wheel DDPRUN_WORKER_WHEEL=$PWD/$worker \
  python3 tests/integration/wheel/worker_test.py build/worker "$(torch_folder)/../../../../bin/python" >&2
python3 scripts/make_sbom.py build/wheel "$version" >"$OUT/ddprun-$version.cdx.json"
python3 scripts/make_sbom.py build/worker "$version" ddprun-worker >"$OUT/ddprun_worker-$version.cdx.json"
notes >$OUT/NOTES.md
(cd $OUT && LC_ALL=C sha256sum -- ddprun* >SHA256SUMS)
if ! git rev-parse --verify --quiet "refs/tags/$tag" >/dev/null; then
  git tag --annotate "$tag" --message "ddprun $version"
  say "tagged $tag; git push origin $tag hands it on"
fi
say "$OUT"

#!/usr/bin/env bash
# Makes a site of README.md, docs/ and the other pages in build/site/html, with mkdocs-material from PyPI (the versions of
# docs/requirements.txt, into build/site/tools). A link or an anchor that leads nowhere is an error.
set -euo pipefail
source "$(dirname "$0")/common.sh"
case "${1:-}" in
  '') ;;
  -h | --help) sed -n '2,3s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) fail "unknown argument $1; there is none" ;;
esac

readonly SITE=build/site
if ! cmp -s docs/requirements.txt "$SITE/tools/requirements.txt"; then
  say "installing mkdocs-material into $SITE/tools"
  python3 -m venv --clear "$SITE/tools"
  PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 "$SITE/tools/bin/python" -m pip install --quiet --progress-bar off --requirement docs/requirements.txt ||
    fail "pip could not install mkdocs-material; is a package index reachable?"
  cp docs/requirements.txt "$SITE/tools"
fi
rm -rf $SITE/src $SITE/html
mkdir -p $SITE/src
# One folder in place of the tree's.
cp docs/*.md docs/*.svg ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md $SITE/src
cp README.md $SITE/src/index.md
cp configs/README.md $SITE/src/configs.md
cp worker/examples/README.md $SITE/src/examples.md
sed -i -e 's|](\.\./configs/README\.md|](configs.md|g; s|](configs/README\.md|](configs.md|g' \
  -e 's|](\.\./worker/examples/README\.md|](examples.md|g' \
  -e 's|](\.\./README\.md|](index.md|g; s|](README\.md|](index.md|g; s|](\.\./|](|g; s|](docs/|](|g' $SITE/src/*.md
# Files of the tree are not in the site.
sed -i -E 's#\[([^]]*)\]\((launcher|rendezvous|scripts|tests|worker)/[^)]*\)#\1#g' $SITE/src/*.md
cp docs/mkdocs.yml $SITE/mkdocs.yml
# Not --quiet, which hides the warnings from --strict as well.
NO_MKDOCS_2_WARNING=1 "$SITE/tools/bin/mkdocs" build --strict --config-file $SITE/mkdocs.yml >$SITE/said 2>&1 ||
  fail "$(grep -E '^(WARNING|ERROR)|^Aborted' $SITE/said || cat $SITE/said)"
say "$SITE/html/index.html"

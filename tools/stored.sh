#!/usr/bin/env bash
# Fails if the CRDs have changed since the last release (the last git tag) in a way that breaks
# stored objects, and prints each break.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! tag=$(git describe --tags --abbrev=0 2>/dev/null); then
	if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
		echo "stored objects: NOT DONE: a shallow clone has no tags (git fetch --unshallow --tags)"
	else
		echo "stored objects: no release yet, nothing to compare with"
	fi
	exit 0
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch"/{tree,released,current}
git archive "$tag" deploy/charts | tar -x -C "$scratch/tree"
cp "$scratch"/tree/deploy/charts/*/files/crds/*.yaml "$scratch/released"
cp deploy/charts/*/files/crds/*.yaml "$scratch/current"
bin/crdcompat "$scratch/released" "$scratch/current" tools/crdcompat/acknowledged.yaml
echo "stored objects: compared with $tag"

#!/usr/bin/env bash
# Runs golangci-lint in the modules with code of ours, by the one .golangci.yaml. Not
# among them: those whose one file puts somebody else's commands together, as of
# which all of Kubernetes would be compiled once more.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
failed=0
for module in . deploy/desktop test/browser test/e2e tools/crdcompat tools/image; do
	(cd "$module" && "$root/bin/golangci-lint" run --allow-parallel-runners --config "$root/.golangci.yaml" ./...) ||
		{ echo "lint: in module $module" >&2 && failed=1; }
done
exit $failed

#!/usr/bin/env bash
# Runs golangci-lint in each module with Go code of ours, by the one .golangci.yaml.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
failed=0
for module in . deploy/desktop test/browser test/controlplane test/e2e test/e2e/nodeimage/coredns test/e2e/nodeimage/kubernetes tools/crdcompat tools/image; do
	(cd "$module" && "$root/bin/golangci-lint" run --allow-parallel-runners --config "$root/.golangci.yaml" ./...) ||
		{ echo "lint: in module $module" >&2 && failed=1; }
done
exit $failed

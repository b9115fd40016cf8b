#!/usr/bin/env bash
# Runs golangci-lint in the project's modules, with the same .golangci.yaml. Modules with a
# single file that links external commands are left out: linting them would compile all of
# Kubernetes again.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
failed=0
for module in . deploy/desktop test/browser test/console test/e2e test/karpenter tools/crdcompat tools/image; do
	(cd "$module" && "$root/bin/golangci-lint" run --allow-parallel-runners --config "$root/.golangci.yaml" ./...) ||
		{ echo "lint: in module $module" >&2 && failed=1; }
done
exit $failed

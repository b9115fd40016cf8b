#!/usr/bin/env bash
# Fails if generated files are stale, or formatting, modules or lint are not clean, and prints
# each finding. It changes no files.
set -uo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=()

# check NAME REMEDY COMMAND...
check() {
	local name=$1 remedy=$2
	shift 2
	local start=$SECONDS
	if "$@"; then
		echo "verify: $name ok ($((SECONDS - start))s)"
	else
		echo "verify: $name FAILED: $remedy" >&2
		failures+=("$name")
	fi
}

generated() {
	tools/generate.sh all "$scratch" || return 1
	local stale=0 path
	for path in deploy/charts/vdi-{hub,agent}/files/{crds,rbac.yaml} \
		proto/fleet api/v1alpha1/zz_generated.deepcopy.go; do
		diff -r -u "$path" "$scratch/$path" || stale=1
	done
	return $stale
}

formatted() {
	local files
	files=$(git ls-files -z --cached --others --exclude-standard -- '*.go' |
		xargs -0 -r sh -c 'for f; do [ ! -f "$f" ] || echo "$f"; done' sh | xargs -r gofmt -l)
	[ -z "$files" ] || { echo "$files" && return 1; }
}

tidy() {
	local module
	for module in . deploy/desktop test/browser test/console test/controlplane test/karpenter test/e2e test/e2e/nodeimage/kubernetes test/e2e/nodeimage/coredns \
		test/e2e/nodeimage/crictl tools tools/buf tools/golangci-lint tools/govulncheck tools/crdcompat tools/helm tools/image tools/kube-score; do
		(cd "$module" && go mod tidy -diff) || { echo "in $module" && return 1; }
	done
}

check "generated files" "run make generate manifests" generated
check "stored objects" "restore what was released, or acknowledge the break in tools/crdcompat/acknowledged.yaml (tools/README.md)" \
	tools/stored.sh
check "formatting" "run make fmt" formatted
check "modules" "run go mod tidy there" tidy
check "buf lint" "fix the .proto files" bin/buf lint
check "golangci-lint" "fix the findings" tools/lint.sh
check "vulnerabilities" "upgrade the named modules (go get, go mod tidy), or Go" tools/vulncheck.sh

if [ ${#failures[@]} -gt 0 ]; then
	echo "verify: FAILED: $(
		IFS=,
		echo "${failures[*]}"
	)" >&2
	exit 1
fi
echo "verify: all clean"

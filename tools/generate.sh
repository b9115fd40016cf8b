#!/usr/bin/env bash
# Generates code and manifests from their sources.
#
#   tools/generate.sh manifests|code|all DIR     DIR is the repository to write to
set -euo pipefail

what=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."

# role NAME CHART FILE PATHS... writes the role of a process into its chart.
role() {
	bin/controller-gen "rbac:roleName=vdi-$1,fileName=$3" "${@:4}" output:rbac:dir="$out/deploy/charts/vdi-$2/files"
}

# attached fails if controller-gen ignores markers: those in the doc comment of a declaration.
attached() {
	local attached
	attached=$(grep -rn --include='*.go' -A1 '+kubebuilder:rbac' hub agent | grep -E '^[^:]+-[0-9]+-(type|func|var|const)' || true)
	if [ -n "$attached" ]; then
		echo "generate: markers +kubebuilder:rbac in a doc comment are ignored: insert an empty line between the markers and these declarations:" >&2
		echo "$attached" >&2
		return 1
	fi
}

manifests() {
	local charts=$out/deploy/charts
	mkdir -p "$charts/vdi-agent/files/crds"
	bin/controller-gen crd paths=./api/... output:crd:dir="$charts/vdi-hub/files/crds"
	# The hub has no assignments. If its cluster is also a member, the agent's chart has the CRD.
	mv "$charts/vdi-hub/files/crds/vdi.kasm.io_sessionassignments.yaml" "$charts/vdi-agent/files/crds"
	attached
	# shellcheck disable=SC2046 # a path is a word
	role hub hub rbac.yaml $(go list ./hub/... | grep -v /hub/console | sed s/^/paths=/)
	role console hub console.yaml paths=./hub/console/...
	# shellcheck disable=SC2046 # a path is a word
	role agent agent rbac.yaml $(go list ./agent/... | grep -v /agent/door | sed s/^/paths=/)
	role door agent door.yaml paths=./agent/door/...
}

code() {
	bin/controller-gen object paths=./api/... output:object:dir="$out/api/v1alpha1"
	bin/buf generate --output "$out"
}

case $what in
manifests) manifests ;;
code) code ;;
all)
	manifests
	code
	;;
*)
	echo "usage: $0 manifests|code|all DIR" >&2
	exit 2
	;;
esac

#!/usr/bin/env bash
# Generates code and manifests from their sources.
#
#   tools/generate.sh manifests|code|all DIR     DIR is the repository to write
#                                                into; another one leaves this
#                                                one as it is.
set -euo pipefail

what=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."

# role NAME DIRECTORY
role() {
	bin/controller-gen "rbac:roleName=vdi-$1,fileName=$1.yaml" "paths=./$2/..." output:rbac:dir="$out/deploy/rbac"
	# A marker counts only in a comment of its own: one in a type's
	# documentation is passed over without a word.
	local attached
	attached=$(grep -rn --include='*.go' -A1 '+kubebuilder:rbac' "$2" | grep -E '^[^:]+-[0-9]+-(type|func|var|const)' || true)
	if [ -n "$attached" ]; then
		echo "generate: set the +kubebuilder:rbac markers before these off by an empty line, or they are ignored:" >&2
		echo "$attached" >&2
		return 1
	fi
}

manifests() {
	bin/controller-gen crd paths=./api/... output:crd:dir="$out/deploy/crds"
	role hub hub
	role agent agent
	copies
}

# Helm and kustomize read no file outside of their own directories: so each has a
# copy of what is generated, and of what is written once for all of them.
copies() {
	local chart assignments=vdi.kasm.io_sessionassignments.yaml
	for chart in hub agent; do
		rm -rf "$out/deploy/charts/vdi-$chart/files"
		mkdir -p "$out/deploy/charts/vdi-$chart/files/crds"
		cp "$out/deploy/rbac/$chart.yaml" "$out/deploy/charts/vdi-$chart/files/rbac.yaml"
		cp "deploy/observability/rules/$chart.yaml" "$out/deploy/charts/vdi-$chart/files/rules.yaml"
		cp "deploy/observability/dashboards/$chart.json" "$out/deploy/charts/vdi-$chart/files/dashboard.json"
	done
	# The hub has no assignments: it can be in a member's cluster, whose agent brings them.
	cp "$out"/deploy/crds/*.yaml "$out/deploy/charts/vdi-hub/files/crds"
	mv "$out/deploy/charts/vdi-hub/files/crds/$assignments" "$out/deploy/charts/vdi-agent/files/crds"
	mkdir -p "$out/deploy/charts/vdi-hub/files/admission" "$out/deploy/agent"
	cp deploy/admission/*.yaml "$out/deploy/charts/vdi-hub/files/admission"
	cp deploy/users.yaml "$out/deploy/charts/vdi-hub/files/users.yaml"
	cp "$out/deploy/rbac/agent.yaml" "$out/deploy/agent/rbac.yaml"
	cp "$out/deploy/crds/$assignments" "$out/deploy/agent/crds.yaml"
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

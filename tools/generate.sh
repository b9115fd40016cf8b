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

manifests() {
	bin/controller-gen crd paths=./api/... output:crd:dir="$out/deploy/crds"
	bin/controller-gen rbac:roleName=vdi-hub,fileName=hub.yaml paths=./hub/... output:rbac:dir="$out/deploy/rbac"
	bin/controller-gen rbac:roleName=vdi-agent,fileName=agent.yaml paths=./agent/... output:rbac:dir="$out/deploy/rbac"
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

#!/usr/bin/env bash
# Builds the node's binaries that Debian does not have, from Go modules, into
# $cache/bin. Go's cache makes a second run short. Needs gcc, pkg-config and
# libseccomp-dev (runc, pause).
#
# etcd, the API server, the controller manager and the scheduler are the
# binary that `make controlplane` builds for the other tests.
set -euo pipefail
# shellcheck source=versions.sh
. "$(dirname "$0")/versions.sh"
bin=$cache/bin
mkdir -p "$bin/cni" "$cache/src"

# build NAME PACKAGE [FLAGS OF go build...], in the current directory
build() {
	local out=$bin/$1 package=$2
	shift 2
	nice -n 10 go build -trimpath -buildvcs=false "$@" -o "$out" "$package"
	say "built $(basename "$out")"
}

# tree MODULE@VERSION makes a writable copy of a module, in which its go.mod with
# its replace directives applies (go install MODULE@VERSION refuses modules with
# replace directives).
tree() {
	local copy
	copy=$cache/src/$(basename "${1%@*}")-${1#*@}
	if [ ! -d "$copy" ]; then
		cp -r "$(module "$1")" "$copy.part"
		chmod -R u+w "$copy.part"
		mv "$copy.part" "$copy"
	fi
	cd "$copy"
}

# The same flags as in test/controlplane/build.sh, which has compiled most of it.
semver=${kubernetes#v}
version="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	version+=" -X $package.gitVersion=$kubernetes -X $package.gitMajor=${semver%%.*}"
	version+=" -X $package.gitMinor=$(echo "$semver" | cut -d. -f2) -X $package.gitTreeState=clean"
	version+=" -X $package.buildDate=2026-01-01T00:00:00Z"
done
cd "$here/kubernetes"
for command in kubectl kubeadm kube-proxy kubelet; do
	build $command k8s.io/kubernetes/cmd/$command -ldflags "$version"
done
build kindnetd ./kindnetd -ldflags "-s -w"
gcc -Os -static -s -DVERSION="v$pause" -o "$bin/pause" "$(module k8s.io/kubernetes@$kubernetes)/build/pause/linux/pause.c"

cd "$here/coredns"
build coredns . -ldflags "-s -w"

tree github.com/containerd/containerd/v2@$containerd
for command in containerd ctr containerd-shim-runc-v2; do
	build $command ./cmd/$command -mod=mod -tags "no_aufs no_zfs no_btrfs no_devmapper" \
		-ldflags "-s -w -X github.com/containerd/containerd/v2/version.Version=$containerd"
done
tree github.com/opencontainers/runc@$runc
CGO_ENABLED=1 build runc . -mod=mod -tags "seccomp netgo osusergo" \
	-ldflags "-s -w -extldflags -static -X main.version=${runc#v}"
tree github.com/containernetworking/plugins@$cni
for plugin in ipam/host-local main/loopback main/ptp meta/portmap; do
	build cni/"$(basename $plugin)" ./plugins/$plugin -mod=mod -ldflags "-s -w"
done
tree github.com/rancher/local-path-provisioner@$localpath
build local-path-provisioner . -mod=mod -ldflags "-s -w -X main.VERSION=$localpath"
# A separate module with the product's versions, which are compiled already.
cd "$here/crictl"
build crictl sigs.k8s.io/cri-tools/cmd/crictl -ldflags "-s -w -X sigs.k8s.io/cri-tools/pkg/version.Version=$crictl"
say "all binaries are in $bin"

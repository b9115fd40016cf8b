# Versions and paths of the node image: sourced by the scripts here.
# shellcheck shell=bash disable=SC2034

kubernetes=v1.36.3
etcd=v3.6.8
coredns=v1.14.2
containerd=v2.4.2
runc=v1.5.2
cni=v1.9.1
crictl=v1.36.0
localpath=v0.0.30
pause=3.10.2
kind=v0.33.0
debian=bookworm
# The date of every file and image here, so that equal inputs give equal bytes.
epoch=1767225600 # 2026-01-01

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${KIND_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vdi-fleet/kind}
image=${IMAGE:-vdi-fleet/node:$kubernetes}
export GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0

say() { echo "kind-image: ${SECONDS}s: $*"; }

# module PATH@VERSION prints the directory of a module in the module cache.
module() { (cd "$here/kubernetes" && go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'); }

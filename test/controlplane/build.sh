#!/usr/bin/env bash
# Builds etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl
# and KWOK into one binary, with a symlink for each.
#
#   test/controlplane/build.sh [outdir]     outdir defaults to the repository's bin/
#
# Does nothing if nothing has changed since the last build.
set -euo pipefail

kubernetes=v1.36.3
kwok=v0.8.0
components="etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok"

here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../../bin}
mkdir -p "$out"
out=$(cd "$out" && pwd)
stamp=$out/.controlplane.stamp
cd "$here"

# Concurrent builds (make -j, two terminals) take turns.
exec 9>"$out/.controlplane.lock"
flock 9

sum=$( { cat ./*.go go.mod go.sum build.sh; go env GOVERSION GOOS GOARCH; } | sha256sum | cut -d' ' -f1)
if [ -x "$out/controlplane" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ]; then
	exit 0
fi

semver=${kubernetes#v}
ldflags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	ldflags+=" -X $package.gitVersion=$kubernetes"
	ldflags+=" -X $package.gitMajor=${semver%%.*}"
	ldflags+=" -X $package.gitMinor=$(echo "$semver" | cut -d. -f2)"
	ldflags+=" -X $package.gitTreeState=clean"
	ldflags+=" -X $package.buildDate=2026-01-01T00:00:00Z"
done

echo "controlplane: building Kubernetes $kubernetes, etcd and KWOK $kwok from their Go modules"
echo "controlplane: a first build takes about 5 minutes on 2 cores, later ones seconds"

GOGC=${BUILD_GOGC:-400} CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "$ldflags" -o "$out/controlplane" . 9>&- &
build=$!
trap 'kill "$build" 2>/dev/null; exit 130' INT TERM
next=10
while kill -0 "$build" 2>/dev/null; do
	if [ "$SECONDS" -ge "$next" ]; then
		echo "controlplane: still building, ${SECONDS}s"
		next=$((SECONDS + 10))
	fi
	sleep 0.2
done
wait "$build"

for component in $components; do
	ln -sfn controlplane "$out/$component"
done
echo "$sum" >"$stamp"
echo "controlplane: built $out/controlplane ($(du -h "$out/controlplane" | cut -f1)) in ${SECONDS}s"

#!/usr/bin/env bash
# Builds the image of an ingress controller for test/e2e: Traefik, from its Go
# modules, for machines that reach no container registry.
#
#   INGRESS_IMG=vdi-ingress:1.0 test/ingress/build.sh
#
# It differs from the released Traefik in four ways, none of which matters to the
# tests:
#
#   - The dashboard is an empty page: its module has the sources without the build
#     results.
#   - It has no ACME client. That library is not in every module proxy; lego/
#     declares its names, and returns an error if a certificate resolver is
#     configured.
#   - Its fork of the library for basic and digest authentication is the commit
#     that module proxies have, not the newest.
#   - It does not support AWS ECS, whose libraries take longer to compile than
#     everything else.
#
# Build results stay in ${XDG_CACHE_HOME:-~/.cache}/vdi-fleet/ingress. Needs Docker.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
traefik=v3.7.13
auth=v0.4.1-0.20200324110947-a37a7636d23e
epoch=1767225600 # 2026-01-01
image=${INGRESS_IMG:-vdi-ingress:dev}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/vdi-fleet/ingress
export GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0 GOFLAGS=-buildvcs=false
mkdir -p "$cache/context"

inputs=$({ cat "$0" "$here"/lego/go.mod "$here"/lego/*/*.go "$here"/lego/*/*/*.go; go env GOVERSION GOARCH; } | sha256sum | cut -d' ' -f1)
if [ "$(cat "$cache/.inputs" 2>/dev/null)" != "$inputs" ] || [ ! -x "$cache/context/traefik" ]; then
	echo "ingress-image: building Traefik $traefik: 5 minutes or more the first time"
	source=$cache/source
	rm -rf "$source" "$cache/.inputs"
	cp -r "$(go mod download -json "github.com/traefik/traefik/v3@$traefik" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')" "$source"
	chmod -R u+w "$source"
	mkdir -p "$source"/webui/static "$source"/pkg/config/dynamic/ext
	echo '<!doctype html><title>No dashboard</title>' >"$source"/webui/static/index.html
	# A nested module is not in its parent's archive: two empty extensions.
	printf 'module github.com/traefik/traefik/dynamic/ext\n\ngo 1.26.0\n' >"$source"/pkg/config/dynamic/ext/go.mod
	printf 'package ext\n\n// HTTP has no extension.\ntype HTTP struct{}\n\n// Router has none.\ntype Router struct{}\n' >"$source"/pkg/config/dynamic/ext/ext.go
	(
		cd "$source"
		sed -i '/provider\/ecs"$/d; /\becs\.[A-Z]/d' pkg/config/static/static_config.go
		sed -i '/if conf\.Ecs != nil {/,/^\t}/d' pkg/provider/aggregator/aggregator.go
		go mod edit -replace "github.com/go-acme/lego/v5=$here/lego" \
			-replace "github.com/abbot/go-http-auth=github.com/containous/go-http-auth@$auth"
		go build -mod=mod -trimpath -ldflags "-s -w -buildid= -X github.com/traefik/traefik/v3/pkg/version.Version=${traefik#v}" \
			-o "$cache/context/traefik" ./cmd/traefik
	)
	echo "$inputs" >"$cache/.inputs"
	rm -rf "$source"
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd "$here/../../tools/image" && go build -o "$scratch/image" .)
"$here"/../../tools/docker-build.sh -f "$here/Dockerfile" -t "$image" "$cache/context"
docker save "$image" -o "$scratch/built.tar"
"$scratch/image" --epoch "$epoch" --platform "linux/$(go env GOARCH)" "$scratch/built.tar" "$scratch/image.tar" "$image" >/dev/null
docker load -q -i "$scratch/image.tar" >/dev/null
printf 'ingress-image: %-32s %5s  %s\n' "$image" \
	"$(docker image inspect -f '{{.Size}}' "$image" | numfmt --to=iec)" "$(docker image inspect -f '{{.Id}}' "$image")"

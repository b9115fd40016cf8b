module github.com/vdi-fleet/vdi-fleet/deploy/desktop

go 1.26.0

require (
	github.com/coder/websocket v1.8.15
	github.com/google/go-containerregistry v0.22.1
	github.com/jezek/xgb v1.1.1
	golang.org/x/time v0.16.0
)

require (
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
)

module github.com/vdi-fleet/vdi-fleet/deploy/desktop

go 1.26.0

require (
	github.com/coder/websocket v1.8.15
	github.com/jezek/xgb v1.1.1
	golang.org/x/time v0.16.0
)

# vdi-fleet. `make` lists the targets.

SHELL       := /bin/bash -o pipefail
BIN         := bin
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
HUB_IMG     ?= vdi-hub:$(VERSION)
AGENT_IMG   ?= vdi-agent:$(VERSION)
MEMBERS     ?= 3
NODES       ?= 20
TEMPLATES ?= 100
SESSIONS    ?= 300
LOST        ?= 500
GOARCH      ?= $(shell go env GOARCH)
KUBECTL     ?= $(or $(shell command -v kubectl 2>/dev/null),$(BIN)/kubectl)
TESTFLAGS   ?=
# Of compilers, linkers and tests. It trades memory for CPU: linking takes 40% less, the tests a tenth.
BUILD_GOGC  ?= 400
FUZZTIME    ?= 10s
# test-faults (82 scenarios) takes about 75 minutes with the default FACTOR, half of them for
# failover delays; FACTOR=1 and a long SOAK take longer.
FAULTS_TIMEOUT ?= $(if $(SOAK)$(FACTOR),12h,120m)

# golangci-lint vets the code.
GO_TEST     := GOGC=$(BUILD_GOGC) go test -vet=off
GO_BUILD    := GOGC=$(BUILD_GOGC) CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)"
TOOL_BUILD  := GOGC=$(BUILD_GOGC) CGO_ENABLED=0 go build -trimpath -ldflags "-s -w"
# Packages of `make test` and `make test-all`: first those that wait the most, so that the
# others run in parallel. test/scale is a measurement with its own target.
# Two packages use two thirds of two cores, so `make test` runs two and two; `make test-all` runs
# two, since more would disturb its timings, and of those with a fleet one: with two, hubs lose
# their leadership on a slow machine.
MODULE      := github.com/vdi-fleet/vdi-fleet
FLEET_PKGS  := $(addprefix $(MODULE)/,test/integration test/faults test/placement test/harness test/elastic)
SLOW_PKGS   := $(FLEET_PKGS) $(addprefix $(MODULE)/,hub/session agent/session)
TEST_PKGS    = $(SLOW_PKGS) $(filter-out $(SLOW_PKGS) $(MODULE)/test/scale,$(shell go list ./...))
# Packages with concurrent code, which `make test` runs with the race detector; `make test-all`
# runs all with it. The others use the compiled packages of the build, and start sooner.
RACE_PKGS   := $(addprefix $(MODULE)/,agent/assignment agent/capacity agent/guard agent/link hub/link hub/link/protocol \
  hub/member hub/member/cluster hub/scheduling hub/scheduling/cache hub/scheduling/queue hub/session/drain hub/session/memory \
  proto/reconnect proto/tracing test/protocol)

.DEFAULT_GOAL := help

##@ General

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "; printf "Usage: make <target>\n"} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-zA-Z_-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Develop

.PHONY: manifests
manifests: $(BIN)/controller-gen ## Generate the CRDs and RBAC roles of the charts from the markers in the code.
	@tools/generate.sh manifests .

.PHONY: generate
generate: $(BIN)/controller-gen $(BIN)/buf $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-grpc ## Generate deep copies and the wire contract's Go code.
	@tools/generate.sh code .

.PHONY: fmt
fmt: ## Format the code.
	gofmt -w $(GO_DIRS)

.PHONY: vet
vet: ## Run go vet.
	go vet ./...

.PHONY: lint
lint: $(BIN)/buf $(BIN)/golangci-lint ## Run buf lint and golangci-lint (which includes the import rules).
	$(BIN)/buf lint
	tools/lint.sh

.PHONY: vulncheck
vulncheck: $(BIN)/govulncheck ## Fail if the code reaches a known vulnerability (VULNDB=file:///… uses a copy of the Go vulnerability database).
	@tools/vulncheck.sh

.PHONY: test test-race test-other test-all test-fleets test-rest
test: controlplane build $(BIN)/helm ## Run the tests, those of concurrent code with the race detector; of the suites with fleets and real API servers, only the smoke tests.
	@echo "test: compiling with the race detector takes some minutes the first time"
	@$(MAKE) --no-print-directory -j2 test-other test-race

test-race:
	$(GO_TEST) -race -short -timeout 20m -p 2 $(TESTFLAGS) $(RACE_PKGS)
	cd deploy/desktop && $(GO_TEST) -race ./...

test-other:
	CGO_ENABLED=0 $(GO_TEST) -trimpath -short -timeout 20m -p 2 $(TESTFLAGS) $(filter-out $(RACE_PKGS),$(TEST_PKGS))

test-all: controlplane karpenter build $(BIN)/helm $(BIN)/kube-score $(BIN)/crdcompat ## Run all tests with the race detector, the short fault scenarios, and scale-fleet.
	@echo "test-all: compiling with the race detector takes some minutes the first time"
	GOGC=$(BUILD_GOGC) go build -race ./agent/... ./api/... ./hub/... ./proto/...
	@$(MAKE) --no-print-directory -j2 test-fleets test-rest
	go run ./test/scale/fleet -short

test-fleets:
	$(GO_TEST) -race -timeout 40m -p 1 $(TESTFLAGS) $(FLEET_PKGS)

test-rest:
	$(GO_TEST) -race -timeout 40m -p 1 $(TESTFLAGS) $(filter-out $(FLEET_PKGS),$(TEST_PKGS))
	cd deploy/desktop && $(GO_TEST) -race ./...
	cd test/karpenter && CGO_ENABLED=0 $(GO_TEST) -trimpath ./...

.PHONY: test-elastic
test-elastic: controlplane karpenter build ## Test members that add nodes for sessions, by a real Karpenter (FOCUS=).
	SPECS=all $(GO_TEST) -count=1 -timeout 40m -v ./test/elastic -args -ginkgo.v $(if $(FOCUS),-ginkgo.focus '$(FOCUS)')

.PHONY: test-faults
test-faults: controlplane karpenter build ## Inject faults into a fleet, and check its guarantees (FOCUS= SEED= FACTOR= SOAK=30m).
	@mkdir -p dist
	SCENARIOS=all REPORT=$(or $(REPORT),$(CURDIR)/dist/faults.json) LOGS=$(or $(LOGS),$(CURDIR)/dist/faults-logs) \
	  go test -count=1 -timeout $(FAULTS_TIMEOUT) -v -run 'TestFaults$$' ./test/faults

.PHONY: console-test
console-test: controlplane build chromium ## Test the console in headless Chromium, with a fleet of real control planes (FOCUS=); screenshots are in dist/console.
	cd test/console && go test -count=1 -v -timeout 15m $(if $(FOCUS),-run '$(FOCUS)') .

.PHONY: failover
failover: controlplane build $(if $(GROWING),karpenter) ## Measure the failover of a member with LOST sessions: detection, decision, assignment and restart, and the delays by policy (GROWING=1: into a member that adds nodes).
	go run ./test/scale/failover --sessions $(LOST) --members $(MEMBERS) --nodes $(NODES) $(if $(GROWING),--growing) $(ARGS)

.PHONY: fuzz
fuzz: ## Run every fuzzer for FUZZTIME (10s); FOCUS= selects some by name.
	@FUZZTIME=$(FUZZTIME) tools/fuzz.sh $(FOCUS)

.PHONY: bench
bench: controlplane build ## Run the benchmarks, and 1,000 sessions in one member.
	go test -run '^$$' -bench . -benchmem ./api/... ./proto/... ./hub/... ./agent/...
	go run ./test/scale --sessions 1000 --members 1 --nodes 80 --idle 20s --baseline=false

.PHONY: simulate
simulate: ## Simulate a day of placements, and compare strategies (plots in dist/).
	go run ./test/scale/placement --out dist/simulation $(ARGS)

.PHONY: verify
verify: $(BIN)/crdcompat $(BIN)/controller-gen $(BIN)/buf $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-grpc $(BIN)/golangci-lint $(BIN)/govulncheck ## Fail if generated files are stale, formatting, modules or lint are not clean, or the code reaches a known vulnerability (VULNDB=file:///…).
	@tools/verify.sh

##@ Build

.PHONY: build
build: ## Build bin/hub, bin/agent, bin/kubectl-vdi, and bin/fleet, which runs a fleet on this machine.
	@echo "build: hub, agent, kubectl-vdi and fleet $(VERSION) (a first build takes some minutes)"
	@mkdir -p $(BIN)
	$(GO_BUILD) -o $(BIN)/ ./cmd/hub ./cmd/agent ./cmd/kubectl-vdi ./test/harness/cmd/fleet

.PHONY: run
run: build install ## Run the hub against the cluster of the current kubeconfig.
	$(BIN)/hub $(or $(ARGS),--session-namespaces=desktops)

.PHONY: controlplane
controlplane: ## Build real Kubernetes control planes into bin/ (about 5 minutes the first time).
	@test/controlplane/build.sh $(BIN)

.PHONY: karpenter
karpenter: $(BIN)/karpenter ## Build bin/karpenter, the autoscaler of members in test/harness (2 minutes or more the first time).

.PHONY: docker-build
docker-build: ## Build the images HUB_IMG and AGENT_IMG (PLATFORMS=linux/amd64,linux/arm64; GO_IMAGE=golang:1.26 builds in that image).
	@VERSION=$(VERSION) HUB_IMG=$(HUB_IMG) AGENT_IMG=$(AGENT_IMG) PLATFORMS=$(PLATFORMS) GO_IMAGE=$(GO_IMAGE) tools/images.sh

.PHONY: clean
clean: down ## Stop the fleet and remove all build results.
	rm -rf $(BIN) dist .fleet

##@ Local fleet

.PHONY: up
up: controlplane build ## Start a hub and MEMBERS members of NODES simulated nodes in the background.
	$(BIN)/fleet up --members $(MEMBERS) --nodes $(NODES)

.PHONY: down
down: ## Stop that fleet and remove its data.
	@if [ -x $(BIN)/fleet ]; then $(BIN)/fleet down; fi

.PHONY: demo
demo: controlplane karpenter build ## Demonstrate a fleet (KEEP=1 leaves it running).
	go run ./test/demo

.PHONY: writes
writes: ## Print the API writes of hub and agents in the running fleet, by user and per session (SESSIONS).
	$(BIN)/fleet audit --sessions $(SESSIONS) $(ARGS)

.PHONY: scale
scale: controlplane build ## Measure a fleet: time and cost of SESSIONS created at once, and the cost of the idle fleet.
	go run ./test/scale --sessions $(SESSIONS) --members $(MEMBERS) --nodes $(NODES) $(ARGS)

.PHONY: scale-fleet
scale-fleet: MEMBERS = 100
scale-fleet: SESSIONS = 5000
scale-fleet: controlplane build ## Measure the hub with simulated MEMBERS (1000), SESSIONS (100000) and TEMPLATES of them.
	go run ./test/scale/fleet -members $(MEMBERS) -sessions $(SESSIONS) -templates $(TEMPLATES) $(ARGS)

.PHONY: scale-elastic
scale-elastic: controlplane karpenter build ## Measure a burst of SESSIONS in members without nodes, which real Karpenters add.
	go run ./test/scale/elastic -members $(MEMBERS) -sessions $(SESSIONS) $(ARGS)

.PHONY: scale-console
scale-console: controlplane build ## Measure the console with 10,000 sessions, 1,000 changes a second and 500 open pages.
	go run ./test/scale/console $(ARGS)

##@ kind

# Real kubelets. IMAGE=kindest/node:v1.36.3 uses the published node image.
SAMPLE_IMG  ?= vdi-sample-desktop:$(VERSION)
# Images to load into the nodes, in addition to those of hub and agent.
E2E_IMAGES  ?= $(SAMPLE_IMG)
NODE_IMAGE   = $(or $(IMAGE),$(shell . test/e2e/nodeimage/versions.sh && echo $$image))
E2E_FLEET    = $(BIN)/kindfleet
E2E_TIMEOUT ?= 60m
# Scales all timings of link and failover.
E2E_FACTOR  ?= 0.3

.PHONY: kind-docker
kind-docker: ## Install Docker and the requirements of kind-image from Debian packages, and start dockerd, if they are missing (root).
	@test/e2e/nodeimage/docker.sh up

.PHONY: kind-image
kind-image: kind-docker ## Build a node image for kind from Go modules and Debian packages (12 minutes or more the first time).
	@[ -n "$(IMAGE)" ] || test/e2e/nodeimage/build.sh

.PHONY: sample-desktop-image
sample-desktop-image: ## Build SAMPLE_IMG, the sample desktop of test/desktop.
	@mkdir -p dist/images/sample
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -buildid=" -o dist/images/sample/desktop ./test/desktop
	@touch -d @0 dist/images/sample/desktop
	@tools/docker-build.sh -f test/desktop/Dockerfile -t $(SAMPLE_IMG) dist/images/sample

.PHONY: kindfleet
kindfleet: build $(BIN)/helm
	@cd test/e2e && CGO_ENABLED=0 go build -trimpath -o $(abspath $(E2E_FLEET)) ./cmd/kindfleet

.PHONY: kind-up
kind-up: kind-image docker-build sample-desktop-image kindfleet ## Start a hub and two members in two regions as kind clusters with five nodes, from this tree's charts and images.
	$(E2E_FLEET) up --image $(NODE_IMAGE) --hub-image $(HUB_IMG) --agent-image $(AGENT_IMG) --load $(E2E_IMAGES) --time-factor $(E2E_FACTOR) $(ARGS)

.PHONY: kind-test
kind-test: kind-up desktop-image ingress-image chromium ## Run test/e2e on them: sessions on real kubelets, a real browser, failover, the guard, upgrades (FOCUS=, SEED= for the order).
	@mkdir -p dist/e2e
	cd test/e2e && E2E=1 DESKTOP_IMG=$(DESKTOP_IMG) INGRESS_IMG=$(INGRESS_IMG) go test -count=1 -timeout $(E2E_TIMEOUT) -v . -args -ginkgo.v -ginkgo.label-filter=e2e $(if $(SEED),-ginkgo.seed $(SEED)) $(if $(FOCUS),-ginkgo.focus '$(FOCUS)')

.PHONY: kind-down
kind-down: ## Remove these clusters, their network and kubeconfig.
	@if [ -x $(E2E_FLEET) ]; then $(E2E_FLEET) down; fi

##@ desktop

# A complete desktop of Debian packages. DESKTOP_PACKAGES="firefox-esr" adds packages.
DESKTOP_IMG ?= vdi-desktop:$(VERSION)
INGRESS_IMG ?= vdi-ingress:$(VERSION)

.PHONY: desktop-image
desktop-image: ## Build DESKTOP_IMG, a complete desktop, from Debian packages (root, Docker; 2 minutes or more the first time).
	@DESKTOP_IMG=$(DESKTOP_IMG) DESKTOP_PACKAGES="$(DESKTOP_PACKAGES)" deploy/desktop/build.sh

.PHONY: ingress-image
ingress-image: ## Build INGRESS_IMG, an ingress controller for test/e2e, from Go modules (5 minutes or more the first time).
	@INGRESS_IMG=$(INGRESS_IMG) test/ingress/build.sh

.PHONY: chromium
chromium:
	@command -v chromium >/dev/null || { echo "chromium: installing Debian's package"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; }

.PHONY: desktop-test
desktop-test: desktop-image chromium ## Test DESKTOP_IMG in headless Chromium, run by Docker with the privileges of its Pod.
	@mkdir -p dist/e2e
	cd test/browser && DESKTOP_IMG=$(DESKTOP_IMG) ARTIFACTS=$(CURDIR)/dist/e2e go test -count=1 -v -timeout 20m .

##@ Deploy

HUB_FILES = deploy/charts/vdi-hub/files
HUB_TAG   = $(lastword $(subst :, ,$(HUB_IMG)))
# Without the NetworkPolicy, which needs the addresses of the cluster's API server.
HUB_CHART = $(BIN)/helm template vdi-hub deploy/charts/vdi-hub --namespace vdi-system --no-hooks \
  --set 'sessionNamespaces={desktops},networkPolicy.enabled=false,image.repository=$(HUB_IMG:%:$(HUB_TAG)=%),image.tag=$(HUB_TAG)'

.PHONY: install
install: $(KUBECTL) ## Install the CRDs, admission policies and user roles into the cluster of the current kubeconfig.
	$(KUBECTL) apply --server-side $(patsubst %,-f %,$(filter-out %/session-finalizer.yaml,$(wildcard $(HUB_FILES)/admission/*.yaml))) -f $(HUB_FILES)/crds -f $(HUB_FILES)/users.yaml

.PHONY: deploy
deploy: install $(BIN)/helm ## Deploy the hub with image HUB_IMG, for sessions in namespace desktops.
	for name in vdi-system desktops; do $(KUBECTL) get namespace $$name >/dev/null 2>&1 || $(KUBECTL) create namespace $$name || exit; done
	$(KUBECTL) label --overwrite namespace vdi-system pod-security.kubernetes.io/enforce=restricted
	$(HUB_CHART) | $(KUBECTL) apply --server-side -f -

.PHONY: undeploy
undeploy: $(KUBECTL) $(BIN)/helm ## Remove the hub; its namespace, the objects of `make install`, and all sessions are kept.
	$(KUBECTL) delete --ignore-not-found -f $(HUB_FILES)/admission/session-finalizer.yaml
	$(HUB_CHART) $(foreach name,rbac deployment service monitoring poddisruptionbudget priorityclass,--show-only templates/$(name).yaml) | $(KUBECTL) delete --ignore-not-found -f -

# ---- files

GO_DIRS = api proto/convert proto/tracing hub agent cmd deploy test

$(BIN)/kubectl:
	@$(MAKE) --no-print-directory controlplane

$(BIN)/controller-gen: tools/go.mod
	@echo "tools: building controller-gen"
	@cd tools && $(TOOL_BUILD) -o $(abspath $@) sigs.k8s.io/controller-tools/cmd/controller-gen

$(BIN)/protoc-gen-go: tools/go.mod
	@echo "tools: building protoc-gen-go"
	@cd tools && $(TOOL_BUILD) -o $(abspath $@) google.golang.org/protobuf/cmd/protoc-gen-go

$(BIN)/protoc-gen-go-grpc: tools/go.mod
	@echo "tools: building protoc-gen-go-grpc"
	@cd tools && $(TOOL_BUILD) -o $(abspath $@) google.golang.org/grpc/cmd/protoc-gen-go-grpc

$(BIN)/buf: tools/buf/go.mod
	@echo "tools: building buf (2 to 3 minutes)"
	@cd tools/buf && $(TOOL_BUILD) -o $(abspath $@) github.com/bufbuild/buf/cmd/buf

$(BIN)/kube-score: tools/kube-score/go.mod
	@echo "tools: building kube-score"
	@cd tools/kube-score && $(TOOL_BUILD) -o $(abspath $@) github.com/zegl/kube-score/cmd/kube-score

$(BIN)/govulncheck: tools/govulncheck/go.mod
	@echo "tools: building govulncheck"
	@cd tools/govulncheck && $(TOOL_BUILD) -o $(abspath $@) golang.org/x/vuln/cmd/govulncheck

$(BIN)/crdcompat: tools/crdcompat/go.mod $(wildcard tools/crdcompat/*.go)
	@echo "tools: building crdcompat"
	@cd tools/crdcompat && $(TOOL_BUILD) -o $(abspath $@) .

$(BIN)/karpenter: test/karpenter/go.mod $(filter-out %_test.go,$(wildcard test/karpenter/*.go))
	@echo "karpenter: building Karpenter with its KWOK provider (2 minutes or more the first time)"
	@cd test/karpenter && $(TOOL_BUILD) -o $(abspath $@) .

# Without a cluster, Helm renders for the version of Kubernetes in its linker flags, by
# default 1.20.
HELM_KUBERNETES = -X helm.sh/helm/v3/pkg/$(1).k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$(1).k8sVersionMinor=36

$(BIN)/helm: tools/helm/go.mod
	@echo "tools: building helm (a minute; seconds after the control plane)"
	@cd tools/helm && GOGC=$(BUILD_GOGC) CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $(call HELM_KUBERNETES,chartutil) $(call HELM_KUBERNETES,lint/rules)" \
	  -o $(abspath $@) helm.sh/helm/v3/cmd/helm

$(BIN)/golangci-lint: tools/golangci-lint/go.mod
	@echo "tools: building golangci-lint (5 minutes or more)"
	@cd tools/golangci-lint && $(TOOL_BUILD) -o $(abspath $@) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

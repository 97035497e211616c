# Two commands matter: `make test` and `make e2e`. Each does all of its own set-up. `make help` lists the rest.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:

# Without cgo everywhere but under -race, so that packages are compiled once for the components, the linters and the tests.
export CGO_ENABLED := 0

# Not a requirement of go.mod: only the linter itself needs what it depends on.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

# Packages whose tests need a cluster. They run one after the other, without -race: the components are other processes, which it cannot see.
CLUSTER_TESTS := ./e2e/framework/cluster/local
KILL_TEST     := ./e2e/killtest
PERSONA_TABLE := ./e2e/personatest
# The specs themselves, which are `make e2e`.
SPECS := ./e2e/suite
# Unit tests without -race: the command and the engine link most of Kubernetes, which would be compiled a second time; the binaries' tests start
# themselves as other programs a hundred times, and a start under -race takes a second; the checkers have one goroutine, and their tests judge
# hundreds of thousands of events.
PLAIN_TESTS := ./chaos ./cmd/headroom ./e2e ./e2e/framework/binaries ./e2e/framework/cluster/kind ./e2e/framework/preflight ./e2e/framework/run \
	./e2e/framework/workload ./e2e/invariants
# Those that mostly wait, each for a driver of its own: many at once take the time of a few.
WAITING_TESTS := ./e2e/framework/drivercheck

NOT_RACED := $(CLUSTER_TESTS) $(KILL_TEST) $(PERSONA_TABLE) $(SPECS) $(PLAIN_TESTS) $(WAITING_TESTS)
# The packages with tests that are left.
RACED = $(shell go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -vxF $(NOT_RACED:./%=-e headroom/%))

# `make lint` vets all packages, so that testing need not vet their dependencies once more, for each set of flags.
GO_TEST := go test -json -vet=off

# What each stage did; see scripts/stages.sh.
STAGES := runs/stages
# $(call watch,STAGE,FLAGS) shows and keeps what `go test -json` says.
watch = | bin/tally watch $2 $(STAGES)/$1.json

# Flags of `headroom run` for `make e2e`, such as ARGS='--focus count-drop'.
ARGS :=
# The incident of `make incident`.
NAME :=

.PHONY: help
help: ## Say what there is to make
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: e2e
e2e: build ## Build the components, run all specs on a cluster of them, and judge the run (ARGS: flags of `headroom run`)
	bin/headroom run $(ARGS)

.PHONY: test
test: build tally ## Run everything below, lint to persona-table
	@scripts/test.sh

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, shellcheck, actionlint
	@scripts/need.sh shellcheck
	@files=$$(gofmt -l .); [ -z "$$files" ] || { printf 'not formatted, run gofmt -w on:\n%s\n' "$$files"; exit 1; }
	shellcheck -x .ci/run scripts/*.sh docs/ci/*.sh
	go run $(ACTIONLINT) docs/ci/*.yml
	go vet ./...
	go run $(STATICCHECK) ./...

.PHONY: unit
unit: tally ## Unit and golden tests
	@scripts/need.sh gcc
	@{ code=0; CGO_ENABLED=1 $(GO_TEST) -race -timeout 10m $(RACED) || code=1; $(GO_TEST) -timeout 10m $(PLAIN_TESTS) || code=1; \
		$(GO_TEST) -timeout 10m -parallel 12 $(WAITING_TESTS) || code=1; exit $$code; } \
		$(call watch,unit)

.PHONY: cluster-tests
cluster-tests: binaries tally ## Tests of the local cluster
	$(GO_TEST) -count 1 -timeout 15m $(CLUSTER_TESTS) $(call watch,cluster-tests)

.PHONY: kill-test
kill-test: binaries tally ## Kill runs at every phase and look for what is left
	$(GO_TEST) -count 1 -timeout 30m $(KILL_TEST) -kill.headroom $(CURDIR)/bin/headroom $(call watch,kill-test,-v)

.PHONY: fault-kills
fault-kills: binaries tally ## Kill runs in the middle of each fault and look for what is left
	bin/headroom binaries fetch --kubernetes 1.35 --attacher 4.13 >/dev/null # for version-swap
	$(GO_TEST) -count 1 -timeout 45m -run KillFaults $(KILL_TEST) -kill.headroom $(CURDIR)/bin/headroom -kill.faults $(call watch,fault-kills,-v)

.PHONY: persona-table
persona-table: binaries tally ## The reference driver passes, and some broken drivers are caught, for their own mistake only
	HEADROOM_BIN=$(CURDIR)/bin/headroom $(GO_TEST) -count 1 -timeout 30m $(PERSONA_TABLE) $(call watch,persona-table,-v)

.PHONY: mutants
mutants: binaries tally ## Every broken driver is caught, for its own mistake only, two at a time; prints the matrix
	HEADROOM_BIN=$(CURDIR)/bin/headroom $(GO_TEST) -count 1 -timeout 45m -parallel 2 $(PERSONA_TABLE) -personas all $(call watch,mutants,-v)

.PHONY: chaos-mutants
chaos-mutants: binaries ## Every broken driver is caught among faults, by one of ten plans, two at a time; goes on where it was interrupted (ARGS: of `headroom mutants`)
	bin/headroom mutants --parallel 2 --results fixtures/results/mutants.yaml $(ARGS)

.PHONY: alerts-test
alerts-test: tally ## Try the alert rules on series of recorded runs, with Prometheus's engine (a module of its own)
	cd fixtures/manifests/alertstest && go vet ./...
	(cd fixtures/manifests/alertstest && $(GO_TEST) -count 1 ./...) $(call watch,alerts-test)

.PHONY: scenarios
scenarios: binaries ## Play the scenarios of fixtures/scenarios (ARGS: flags of `headroom replay`)
	bin/headroom replay $(ARGS) fixtures/scenarios/*.yaml

.PHONY: chaos
chaos: binaries ## Play ten plans of faults of three minutes each (ARGS: flags of `headroom chaos`)
	bin/headroom chaos --seed 1 --seeds 10 --duration 3m $(ARGS)

.PHONY: incident
incident: binaries ## Play an incident of fixtures/incidents: NAME=driver-surge
	@[ -f fixtures/incidents/$(NAME).yaml ] || { echo "NAME=$(NAME): there is no such incident; there are:" $(basename $(notdir $(wildcard fixtures/incidents/*.yaml))); exit 2; }
	bin/headroom replay $(ARGS) fixtures/incidents/$(NAME).yaml

.PHONY: incidents
incidents: binaries ## Play all incidents three times and add what they showed to their results, from which the README's table is made
	bin/headroom replay --times 3 --procs 12 --results fixtures/results/incidents.yaml $(ARGS) fixtures/incidents/*.yaml

.PHONY: failing-seeds
failing-seeds: binaries ## Play the seeds that are known to fail ten times each and add what they showed to their results
	bin/headroom replay --times 10 --procs 5 --results fixtures/results/seeds.yaml $(ARGS) fixtures/seeds/*.yaml

.PHONY: fault-times
fault-times: binaries ## Play the scenarios in which each fault bites and heals, and add what that took to their results
	bin/headroom replay --results fixtures/results/faults.yaml $(ARGS) fixtures/scenarios/faults-*.yaml

.PHONY: matrix
matrix: build ## Run the smoke specs on the covering set of supported versions (ARGS: flags of `headroom matrix`)
	bin/headroom matrix $(ARGS)

.PHONY: upgrade
upgrade: build ## Walk a cluster from 1.34 to 1.36 under load, back, and up again (ARGS: flags of `headroom upgrade`)
	bin/headroom upgrade --from 1.34 --to 1.36 $(ARGS)

.PHONY: preflight-tests
preflight-tests: build ## Plant every defect that preflight knows, and dry-run every manifest, in live clusters of each version
	for v in 1.34 1.35 1.36 1.37; do bin/headroom binaries fetch --kubernetes $$v >/dev/null; done
	go test -count 1 -timeout 15m -v -run PreflightLive ./e2e/framework/cluster/local -preflight 1.34,1.35/1.34,1.35,1.36/1.34,1.36/1.35,1.36,1.37/1.34,1.37

.PHONY: csimock gcepd
csimock: ## Build bin/csimock, the mock CSI service of k8s.io/kubernetes
	@scripts/need.sh go
	go build -o bin/csimock ./fixtures/csimock

gcepd: ## Build bin/gcepd, the Compute Engine persistent disk driver on its fake cloud (a module of its own)
	@scripts/need.sh go
	cd fixtures/gcepd && go build -o ../../bin/gcepd .

# What `make reports` plays.
KUBERNETES ?= 1.36
REPORTS ?=

.PHONY: reports
reports: build ## Play the drivers of docs/reports and archive their reports: KUBERNETES="1.34 1.36", REPORTS="steady csi-mock" (default all)
	@go build -o bin/reports ./scripts/reports
	@code=0; bin/reports -kubernetes "$(KUBERNETES)" -only "$(REPORTS)" || code=$$?; \
		go test -count 1 ./e2e -run TestArchivedReportsDocs -update || code=1; exit $$code

.PHONY: bench
bench: binaries ## Time the cell's bring-up beside controller-runtime's envtest
	go test -run '^$$' -bench BringUp -benchtime 1x -timeout 30m ./e2e/framework/cluster/local

.PHONY: smoke
smoke: binaries ## Run the smoke specs as an ordinary user (as `nobody` when run by root)
	scripts/smoke.sh

# A Docker daemon of our own serves where none runs; it keeps its images here. DOCKER_PRIVATE=1 makes one in any case.
DOCKER_PRIVATE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/headroom/docker
WITH_DOCKER := scripts/docker-private.sh $(DOCKER_PRIVATE_DIR)

.PHONY: node-image
node-image: build ## Assemble the node image of kind clusters, once per machine
	@scripts/need.sh docker dockerd debootstrap
	$(WITH_DOCKER) bin/headroom node-image

.PHONY: e2e-kind
e2e-kind: build ## Run all specs on a kind cluster (ARGS: flags of `headroom run`, such as --topology two-workers)
	@scripts/need.sh docker dockerd debootstrap
	$(WITH_DOCKER) bin/headroom run --provider kind $(ARGS)

.PHONY: kind-tests
kind-tests: build ## Tests that make kind clusters, and kill them
	@scripts/need.sh docker dockerd debootstrap
	HEADROOM_KIND_TEST=1 $(WITH_DOCKER) go test -count 1 -timeout 20m -v -run 'Live|SweepAfterKill|PullByDigest' ./e2e/framework/cluster/kind/...
	HEADROOM_KIND_TEST=1 $(WITH_DOCKER) go test -count 1 -timeout 15m -v -run OnKind $(KILL_TEST) -kill.headroom $(CURDIR)/bin/headroom
	HEADROOM_KIND_TEST=1 go test -count 1 -timeout 5m -v -run PrivateDaemon $(KILL_TEST)

.PHONY: down
down: build ## End all your clusters and remove what killed runs left, in a Docker daemon of our own as well
	@scripts/need.sh docker dockerd
	$(WITH_DOCKER) bin/headroom down --all

.PHONY: smoke-kind
smoke-kind: build ## Run the smoke specs on a kind cluster where a Docker daemon can be had, and say so where not
	scripts/smoke-kind.sh $(WITH_DOCKER)

.PHONY: build
build: ## Build bin/headroom
	@scripts/need.sh go
	go build -o bin/headroom ./cmd/headroom

.PHONY: binaries
binaries: build ## Download or build the cluster's components, once per machine
	@bin/headroom binaries fetch >/dev/null # its progress goes to stderr

.PHONY: tally
tally:
	@scripts/need.sh go
	@go build -o bin/tally ./scripts/tally
	@mkdir -p $(STAGES)

.PHONY: clean
clean: ## Remove bin/ and all run directories; component binaries stay in their cache
	rm -rf bin runs

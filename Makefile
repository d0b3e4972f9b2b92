# make run and make test work on a fresh Debian or Ubuntu machine: what they
# need and do not find they install, as root, or name.

SHELL    := /bin/bash
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TOOL     := go tool -modfile=tools.mod
FUZZTIME := 20s

.PHONY: help run build test soak check adversarial test-gvisor test-cgroup2 test-kubernetes eval-cheats eval-kills humaneval bench fuzz generate clean setup

help: ## Show the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

run: build ## Build, find or install an engine, and run a command in a container
	@scripts/engine start
	./belljar run 'echo "hello from $$(hostname): uid $$(id -u) on $$(uname -sm)"'

build: setup ## Build ./belljar
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o belljar ./cmd/belljar

test: setup ## Run every test, or with PKG=./policy those of one package
	scripts/engine with scripts/test $(PKG)

soak: setup ## Run 1,000 warm commands while containers and the engine are killed, and 1,000 detached ones while their supervisors are; kill 200 belljars; compare 700 random scripts
	BELLJAR_SOAK=1000 scripts/engine with go test -race -count 1 -timeout 40m -v -run '^Test(Detach)?Soak$$' ./e2e
	BELLJAR_SOAK=200 BELLJAR_ENGINE_KIND=oci scripts/engine with go test -count 1 -timeout 40m -v -run '^TestKilledAtAnyMoment$$' ./e2e
	BELLJAR_SOAK=700 scripts/engine with go test -count 1 -timeout 60m -v -run '^TestRandomScripts$$' ./e2e

check: setup ## Run test, formatting, vet, lint, modules
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt would change:" $$out; exit 1; }
	go mod tidy -diff
	CGO_ENABLED=0 $(TOOL) golangci-lint run ./... # vets, too; without cgo, as scripts/test compiles
	CI=true $(MAKE) test

adversarial: setup ## Try to break out, and say by group which attacks held
	scripts/engine with scripts/adversarial

test-gvisor: setup ## Build gVisor's runsc, as runsc.mod pins it, and test both engines on it
	scripts/engine with scripts/gvisor

test-cgroup2: setup ## Start a virtual machine whose control groups are of version 2, and test there what depends on them
	scripts/cgroup2

test-kubernetes: setup ## Build a Kubernetes, as cluster.mod pins it, start it here with one node, test the engine over pods, attack it there, and measure it; BENCH=40: only measure; SCALE=1000/500/20: only measure 500 commands/s on 1,000 fake nodes for 20 s
	scripts/kubernetes

eval-cheats: setup ## Have answers cheat the graders of belljar eval, and say how many were found out
	ALL_CHEATS=1 CGO_ENABLED=0 scripts/engine with go test -count 1 -timeout 40m -v -run '^Test(Cheats|Agents|PlantedRewards)$$' ./eval

eval-kills: setup ## Kill belljar eval at 50 random moments of runs of 60 tasks, and resume them
	EVAL_KILLS=50 scripts/engine with go test -count 1 -timeout 60m -v -run '^TestEvalKilled$$' ./e2e

humaneval: setup ## Grade the solutions of HUMANEVAL=PATH, openai/human-eval's HumanEval.jsonl.gz, and doing nothing
	HUMANEVAL=$(abspath $(HUMANEVAL)) CGO_ENABLED=0 scripts/engine with go test -count 1 -timeout 60m -v -run '^TestHumanEval$$' ./eval

bench: build ## Measure against docker in the same run, and the parts
	scripts/engine with ./belljar bench
	go test -run '^$$' -bench . -benchmem ./...

fuzz: setup ## Run each fuzz target for FUZZTIME
	scripts/fuzz $(FUZZTIME)

generate: setup ## Update the generated files: docs/cli.md, docs/openapi.yaml, docs/sandbox.schema.json
	go test ./cmd/belljar -run TestGenerated -update

clean: ## Remove what was built, and the containers that belljar left, if any
	! command -v docker >/dev/null || docker ps -aq --filter label=dev.belljar.managed=true | xargs -r docker rm -f
	rm -f belljar

setup: ## Install what building and testing need
	@scripts/setup

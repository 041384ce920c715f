# Every target works in all modules of go.work. The first one, help, lists them.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

MODULES  := $(shell go list -m -f '{{.Dir}}')
PKG      ?= $(patsubst $(CURDIR)%,.%/...,$(MODULES))
FUZZTIME ?= 20000x
BENCH    ?= .
ARGS     ?=

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-11s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Variables: PKG=$(PKG) FUZZTIME=$(FUZZTIME) BENCH=$(BENCH) ARGS=$(ARGS)"

.PHONY: test
test: ## run the tests (on miniredis, and on redis-server where it is installed)
	@go test $(PKG)

.PHONY: test-real
test-real: ## run the tests anew, and fail unless there is a real Redis to run them on
	@[[ -n "$${ASYNQ_TEST_REDIS:-}" ]] || command -v redis-server >/dev/null \
		|| { echo "install redis-server, or name a server in ASYNQ_TEST_REDIS" >&2; exit 1; }
	@go test -count=1 $(PKG)

.PHONY: race
race: ## run the tests with the race detector
	@go test -race $(PKG)

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME inputs (20000x) or time (30s)
	@FUZZTIME=$(FUZZTIME) bash .ci/run fuzz

.PHONY: bench
bench: ## measure against others, a quarter of an hour (ARGS=-quick: a minute); docs/BENCHMARKS.md
	@go run ./x/bench $(ARGS)

.PHONY: bench-guard
bench-guard: ## make sure that no large loss of speed has happened, in seconds
	@go run ./x/bench -guard

.PHONY: bench-go
bench-go: ## run the Go benchmarks that match BENCH
	@go test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG)

.PHONY: chaos
chaos: ## break processes, networks and Redis for a quarter of an hour, and check that nothing is lost (ARGS='-seed 1 -length 1m'); docs/RELIABILITY.md
	@go run ./x/chaos $(ARGS)

.PHONY: load
load: ## put millions of tasks, thousands of queues and hundreds of servers on it (ARGS='-only pending -scale 0.1'); docs/RELIABILITY.md
	@go run ./x/chaos/load $(ARGS)

.PHONY: vendor-web
vendor-web: ## fetch the scripts and the font of the web UI again, in the versions of their lists (needs npm)
	@bash x/web/vendor.sh x/web/internal/ui/vendor.list x/web/internal/ui/static/vendor
	@bash x/web/vendor.sh x/browser/axe.list x/browser/axe

.PHONY: pictures
pictures: ## take the pictures of the web UI in docs/images anew (needs chromium; five minutes)
	@go test -count=1 -run '^TestPictures$$' ./x/browser -pictures $(CURDIR)/docs/images

.PHONY: cover
cover: ## measure what the tests of the core cover; the details are in cover.html
	@go test -coverpkg=./... -coverprofile=cover.out ./...
	@go tool cover -func=cover.out | tail -n 1
	@go tool cover -html=cover.out -o cover.html

.PHONY: fmt
fmt: ## format the code
	@gofmt -w -s $(MODULES)

.PHONY: vet
vet: ## run go vet
	@go vet $(PKG)

.PHONY: lint
lint: ## run golangci-lint (built on first use)
	@bash .ci/run lint

.PHONY: tidy
tidy: ## tidy go.mod and go.sum
	@for dir in $(MODULES); do (cd "$$dir" && go mod tidy); done

.PHONY: ci
ci: ## run everything that a change must pass
	@bash .ci/run

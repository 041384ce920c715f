# Targets apply to all modules of go.work. help, the default, lists them.

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
test: ## run the tests (with miniredis, and redis-server if installed)
	@go test $(PKG)

.PHONY: test-real
test-real: ## run the tests without cache, and fail if redis-server is missing
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
bench: ## compare with other libraries, 15 minutes (ARGS=-quick: a minute); docs/BENCHMARKS.md
	@go run ./test/bench $(ARGS)

.PHONY: bench-guard
bench-guard: ## check for large performance regressions, some seconds
	@go run ./test/bench -guard

.PHONY: bench-go
bench-go: ## run the Go benchmarks that match BENCH
	@go test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG)

.PHONY: chaos
chaos: ## run the chaos tests, 15 minutes (ARGS='-seed 1 -length 1m'); docs/RELIABILITY.md
	@go run ./test/chaos $(ARGS)

.PHONY: load
load: ## run the load tests (ARGS='-only pending -scale 0.1'); docs/RELIABILITY.md
	@go run ./test/chaos/load $(ARGS)

.PHONY: vendor-web
vendor-web: ## update the vendored scripts and fonts of the web UI to the listed versions (needs npm)
	@bash x/web/vendor.sh x/web/internal/ui/vendor.list x/web/internal/ui/static/vendor
	@bash x/web/vendor.sh test/browser/axe.list test/browser/axe

.PHONY: pictures
pictures: ## update the screenshots of the web UI in docs/images (needs chromium; 5 minutes)
	@go test -count=1 -run '^TestPictures$$' ./test/browser -pictures $(CURDIR)/docs/images

.PHONY: cover
cover: ## measure the test coverage of the core, with details in cover.html
	@go test -coverpkg=./... -coverprofile=cover.out ./...
	@go tool cover -func=cover.out | tail -n 1
	@go tool cover -html=cover.out -o cover.html

.PHONY: fmt
fmt: ## format the code
	@gofmt -w -s $(MODULES)

.PHONY: vet
vet: ## run go vet for the platforms that no test runs on
	@bash .ci/run vet

.PHONY: tidy
tidy: ## run go mod tidy in all modules
	@go run ./test/release tidy

.PHONY: release-check
release-check: ## install all modules from the working tree as users do; CONTRIBUTING.md
	@go run ./test/release check

.PHONY: release
release: ## commit and tag a release (VERSION=v0.9.0; --dry-run shows it); CONTRIBUTING.md
	+@go run ./test/release tag $(if $(findstring n,$(firstword -$(MAKEFLAGS))),-dry-run) $(VERSION)

.PHONY: prose
prose: ## check the words of comments, texts and documents (PROSE_DIR=x/web, PROSE_ALL=1 for all findings)
	@go test -count=1 ./internal/prose

.PHONY: lint
lint: ## run golangci-lint (built on first use)
	@bash .ci/run lint

.PHONY: check
check: ## run the quick checks, for each commit
	@bash .ci/run check

.PHONY: ci
ci: ## run all checks of a change
	@bash .ci/run

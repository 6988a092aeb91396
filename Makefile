SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Every directory with a go.mod is a module of its own, which ./... in another
# does not reach. internal/tools holds tools and no package.
MODULES := $(shell find . -name go.mod -not -path '*/testdata/*' -exec dirname {} \; | sort)
PACKAGED := $(filter-out ./internal/tools,$(MODULES))

# in-each MODULES,COMMAND runs COMMAND in each module and stops at the first failure.
in-each = @for dir in $(1); do echo "\# $$dir"; (cd $$dir && $(2)) || exit 1; done

TOOLS := $(CURDIR)/internal/tools
TOOL := go tool -modfile=$(TOOLS)/go.mod

STRESS ?= 1m
STRESS_TIMEOUT ?= 1h
PROP_CHECKS ?= 20000
OLD ?= HEAD
FUZZTIME ?= 1m

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: fmt fmt-check
fmt: ## format every Go file
	gofmt -w .
fmt-check: ## fail if fmt would change a file
	@out=$$(gofmt -l .); [ -z "$$out" ] || { echo "not formatted:"; echo "$$out"; exit 1; }

.PHONY: vet
vet: ## go vet in every module, and once for a 32-bit int
	$(call in-each,$(PACKAGED),go vet ./...)
	GOARCH=386 go vet ./...

.PHONY: lint
lint: ## staticcheck in every module, and no function that nothing reaches, not even a test
	$(call in-each,$(PACKAGED),$(TOOL) staticcheck ./...)
	@out=$$($(TOOL) deadcode -test ./...); [ -z "$$out" ] || { echo "$$out"; exit 1; }

.PHONY: test race
test: ## go test in every module
	$(call in-each,$(PACKAGED),go test ./...)
race: ## the same under the race detector, in shuffled order
	$(call in-each,$(PACKAGED),go test -race -shuffle=on ./...)

.PHONY: stress
stress: ## the stress tests under the race detector, each for STRESS=1m
	STRESS=$(STRESS) go test -race -count=1 -timeout=$(STRESS_TIMEOUT) -run=Stress ./...

.PHONY: xsync
xsync: ## the tests of golang.org/x/sync/semaphore, run on ours
	@$(TOOLS)/xsync

.PHONY: prop
prop: ## the property tests, PROP_CHECKS=20000 scripts each
	go test -count=1 -timeout=1h ./proptest -rapid.checks=$(PROP_CHECKS)

.PHONY: fuzz
fuzz: ## every fuzz target of every module for FUZZTIME=1m
	$(call in-each,$(PACKAGED),$(TOOLS)/fuzz $(FUZZTIME))

.PHONY: bench bench-compare bench-once
bench: ## measure us and our peers in turn, BENCH=regexp COUNT=6; the runs stay in bench.txt
	@DIR=$(CURDIR) internal/bench/run
bench-compare: ## measure us at the revision OLD=HEAD and as we are, BENCH=regexp COUNT=10
	@internal/bench/compare $(OLD)
bench-once: ## run every benchmark of every module once, to see that it works
	$(call in-each,$(PACKAGED),go test -run='^$$' -bench=. -benchtime=1x ./...)

.PHONY: study plots
study: ## measure overload and queued calls, 6 minutes on an idle machine; the figures stay in docs/data
	cd internal/study && go run ./cmd/queued -o ../../docs/data/queued.tsv
	cd internal/study && go run ./cmd/overload -o ../../docs/data/overload.tsv
plots: ## draw docs/plots from docs/data, or with FROM=bench.txt take over what make bench kept first
	cd internal/study && go run ./cmd/plots $(if $(FROM),-bench $(abspath $(FROM)))

.PHONY: mutants
mutants: ## break the code in many small ways; the tests must notice each
	@internal/mutants/run

.PHONY: model
model: ## check the protocol of the state word exhaustively, with spin
	@proptest/promela/run

.PHONY: cover
cover: ## what the tests of the main module reach, in total and in cover.out
	go test -coverpkg=./... -coverprofile=cover.out ./...
	go tool cover -func=cover.out | tail -1

.PHONY: tidy-check
tidy-check: ## fail if go mod tidy would change a go.mod or go.sum
	$(call in-each,$(MODULES),go mod tidy -diff)

# What is quick to fail comes first.
CI := fmt-check vet lint tidy-check test race xsync model fuzz bench-once

.PHONY: ci
ci: export FUZZTIME := 5s
ci: export CI_OPTIONAL_SPIN := 1
ci: ## everything a change must pass, in order, up to the first failure
	@for step in $(CI); do echo "=== $$step, after $$SECONDS s"; $(MAKE) --no-print-directory $$step || exit 1; done

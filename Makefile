# Every command of development. Each target does its own set-up, and reuses what is built.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Cargo, pytest and the demo use all cores by themselves, and their output must not mix.
.NOTPARALLEL:

BIN := .venv/bin
PYTHON := $(BIN)/python
# The extension is built for the interpreter of .venv, whatever else is on the machine. The path is
# the one that maturin passes, so that cargo does not build the bindings a second time.
export PYO3_PYTHON := $(CURDIR)/$(PYTHON)
# rustup installs here; a shell opened before that does not have it on its PATH yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

TOOLS := .venv/.tools
AGENT := sandboxd/_bin/sandboxd-agent
INIT := sandboxd/_bin/sandboxd-init
EXTENSION := sandboxd/_native.abi3.so
# Of the tests; its path is the one that tests/support/fault_proxy.py looks at.
FAULT_PROXY := rust/target/debug/sandboxd-fault-proxy

CARGO := cd rust && cargo
# A `--target` keeps +crt-static away from build scripts and macros, which cannot be linked so.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
STATIC_FLAGS := -C target-feature=+crt-static
MANIFESTS := rust/Cargo.toml rust/Cargo.lock
sources = $(MANIFESTS) $(shell find $(1:%=rust/crates/sandboxd-%) -name '*.rs' -o -name Cargo.toml)

say = @printf '\n==> %s\n' "$(1)"

.PHONY: help setup build build-testkit wheel proto fmt fmt-check lint deny test test-rust test-root soak bench \
	bench-quick demo clean ci

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(TOOLS)  ## check the machine, make .venv, install the tools of development

$(TOOLS): pyproject.toml scripts/setup
	$(call say,Setting up: system packages; Rust; Python tools in .venv)
	@scripts/setup
	@touch $@

build: $(AGENT) $(INIT) $(EXTENSION)  ## build the agent, init and the Python extension

$(AGENT): $(TOOLS) $(call sources,agent linux proto)
	$(call say,Building sandboxd-agent (a static program; about two minutes the first time))
	@RUSTFLAGS='$(STATIC_FLAGS)'; export RUSTFLAGS; \
		$(CARGO) build --locked --target $(HOST) --profile static -p sandboxd-agent
	@scripts/place rust/target/$(HOST)/static/sandboxd-agent $@

$(INIT): $(TOOLS) $(call sources,init linux)
	$(call say,Building sandboxd-init (a static program))
	@RUSTFLAGS='$(STATIC_FLAGS)'; export RUSTFLAGS; \
		$(CARGO) build --locked --target $(HOST) --profile init -p sandboxd-init
	@scripts/place rust/target/$(HOST)/init/sandboxd-init $@

$(EXTENSION): $(TOOLS) $(call sources,py client proto) pyproject.toml
	$(call say,Building the Python extension and installing the package into .venv)
	@PIP_QUIET=1 $(BIN)/maturin develop --release --locked --extras cli
	@touch $@

build-testkit: $(FAULT_PROXY)  ## build the programs that only tests use

$(FAULT_PROXY): $(TOOLS) $(call sources,testkit)
	$(call say,Building the fault proxy for the tests)
	@$(CARGO) build --locked -p sandboxd-testkit
	@touch $@

wheel: build  ## build a wheel with the agent in it, into dist/
	$(call say,Building the wheel)
	@$(BIN)/maturin build --release --locked --out dist

proto: $(TOOLS)  ## regenerate the message classes of Python and Rust
	$(call say,Generating messages)
	@scripts/proto
	@cd rust && SANDBOXD_WRITE_GENERATED=1 cargo test --locked -p sandboxd-proto --test bootstrap

fmt: $(TOOLS)  ## format all code
	@# What it cannot fix is for `make lint` to report, and must not keep the rest from being formatted.
	@$(BIN)/ruff check --fix --quiet || true
	@$(BIN)/ruff format
	@$(CARGO) fmt --all

fmt-check: $(TOOLS)  ## fail if some code is not formatted
	@$(BIN)/ruff format --check
	@$(CARGO) fmt --all --check

lint: $(EXTENSION) fmt-check deny  ## check style, types, imports, stubs, licences of all code
	$(call say,Checking Python: ruff; mypy; import-linter; stubtest)
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/stubtest sandboxd._native --mypy-config-file pyproject.toml
	$(call say,Checking Rust: clippy)
	@$(CARGO) lint

deny: $(TOOLS)  ## check licences, sources and duplicates of the Rust dependencies
	$(call say,Checking Rust dependencies: cargo-deny)
	@scripts/deny

test: build build-testkit  ## run every test but the long ones
	@# Both halves, whatever the first one says: one run tells all.
	@status=0; \
	$(MAKE) --no-print-directory test-rust || status=1; \
	printf '\n==> Testing: pytest\n'; \
	$(BIN)/pytest || status=1; \
	exit $$status

test-rust: $(TOOLS)  ## run the tests of the Rust crates
	$(call say,Testing: the Rust crates (they are compiled first))
	@# sandboxd-py holds conversions only, tested from Python; its test program would need libpython.
	@$(CARGO) test --locked --quiet --no-fail-fast --workspace --exclude sandboxd-py
	@# Those that make real sandboxes from the agent's parts, with an init that is built for them. One
	@# at a time: each is an agent of its own, and they wait for things that take time.
	@if [ "$$(id -u)" = 0 ]; then $(CARGO) build --locked --quiet -p sandboxd-init && \
		cargo test --locked --quiet -p sandboxd-agent -- --ignored --test-threads 1; \
	else echo "not run: the agent's tests that need root"; fi

test-root: build build-testkit  ## run the tests that need root, and fail where they would be skipped
	@test "$$(id -u)" = 0 || { echo "make test-root needs root: sudo make test-root" >&2; exit 1; }
	@SANDBOXD_TEST_REQUIRE=root $(BIN)/pytest \
		tests/conformance tests/integration tests/faults tests/security

soak: build build-testkit  ## run the long tests
	@$(BIN)/pytest -m soak --timeout 3600

bench: build  ## measure everything, into build/bench.json and docs/specification.md
	@$(PYTHON) -m tests.benchmarks --full --output build/bench.json --write-docs

bench-quick: build  ## measure the headline numbers, in about two minutes
	@$(PYTHON) -m tests.benchmarks --quick --output build/bench.json

demo: build  ## run the HumanEval rollouts, and write build/demo.json
	@mkdir -p build
	@$(BIN)/sandboxd demo --json build/demo.json $(DEMO_FLAGS)

clean:  ## remove everything that was built, but not .venv
	rm -rf build dist rust/target sandboxd/_bin $(EXTENSION)

ci: lint test  ## what .ci/run runs

# The commands of this repository. `make` lists them. On a fresh machine with a Rust toolchain,
# `make run` and `make test` install what else they need.

SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin

TARGET := $(or $(CARGO_TARGET_DIR),target)
SANGAM := $(TARGET)/release/sangam
OUT ?= out
FUZZ_SECONDS ?= 60

step := ./scripts/step.sh

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run build xpath test lint format tests bench-smoke bench fuzz deny clean

help: ## list these commands
	@echo "make <command>"
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## set up, build, and show a network that carries a real clip and survives a kill
	@./scripts/setup.sh run
	@$(MAKE) --no-print-directory build
	$(SANGAM) demo

build: ## the release binaries: sangam, and sangam-bench beside it
	cargo build --release --locked --package sangam-app --package sangam-bench

xpath: ## sangam-xpath beside sangam: answers XPath queries; its library takes minutes to build
	cargo build --release --locked --package sangam-xpath

test: ## set up, then every check: style, lints, tidy, tests, bench smoke
	@./scripts/setup.sh test
	@$(MAKE) --no-print-directory lint tests bench-smoke
	@echo
	@echo "all checks passed"

lint: ## rustfmt, clippy and tidy
	@$(step) format cargo fmt --all --check
	@$(step) clippy cargo clippy --workspace --all-targets --locked -- -D warnings
	@$(step) tidy cargo xtask tidy

format: ## rewrite the code as rustfmt wants it
	cargo fmt --all

# nextest runs each test in a process of its own and is used where it is installed; installing it
# would cost minutes, so setup does not.
tests: ## unit, integration and documentation tests
	@if cargo nextest --version >/dev/null 2>&1; then \
		$(step) tests cargo nextest run --workspace --locked; \
	else \
		$(step) tests cargo test --workspace --tests --locked; \
	fi
	@$(step) doc-tests cargo test --workspace --doc --locked

bench-smoke: ## every experiment's machinery once, in seconds; measures nothing
	@$(step) bench-build $(MAKE) --no-print-directory build
	@$(step) bench-smoke $(SANGAM) bench run smoke --out $(OUT)/smoke

bench: ## every experiment at the papers' scale, reports in out/bench; takes hours
	@./scripts/setup.sh bench
	@$(MAKE) --no-print-directory build
	$(SANGAM) bench run all --out $(OUT)/bench

fuzz: ## each fuzz target for FUZZ_SECONDS (60); needs nightly Rust and cargo-fuzz
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { \
		echo "fuzz: first run: rustup toolchain install nightly && cargo install cargo-fuzz" >&2; \
		exit 3; }
	@set -e; for target in $$(cargo +nightly fuzz list); do \
		$(step) "fuzz $$target" cargo +nightly fuzz run "$$target" -- \
			-max_total_time=$(FUZZ_SECONDS); \
	done

# Without advisories: their database has to be fetched. `cargo deny check advisories` adds them.
deny: ## licences, duplicate and banned crates, sources; needs cargo-deny
	@cargo deny --version >/dev/null 2>&1 || { \
		echo "deny: first run: cargo install --locked cargo-deny" >&2; exit 3; }
	@$(step) deny cargo deny --locked check bans licenses sources

clean: ## remove what was built and measured
	cargo clean
	rm -rf $(OUT) fuzz/target

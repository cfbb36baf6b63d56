# The commands of this repository. `make` lists them. On a fresh machine with a Rust toolchain,
# `make run` and `make test` install what else they need.

SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin
export PROPTEST_RNG_SEED

TARGET := $(or $(CARGO_TARGET_DIR),target)
SANGAM := $(TARGET)/release/sangam
OUT ?= out
FUZZ_SECONDS ?= 60
STORMS ?= 200
KILLS ?= 100
SESSIONS ?= 1000
RECORDINGS ?= 10000
SEEDS ?= 10
SECONDS ?= 20
EXPERIMENT ?= *
PACKETS ?= 600000
# Property tests try the same cases in every run of `make test`, so that a change fails for what it
# changed; `make properties` searches further with seeds of its own.
PROPTEST_RNG_SEED ?= 1
CASES ?= 5000

step := ./scripts/step.sh

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run build page xpath test lint format tests properties kills catalogue takeover web web-check page-four bench-smoke bench bench-web previous study simulate fuzz deny clean

help: ## list these commands
	@echo "make <command>"
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## set up, build, show a network that survives a kill, and open a meeting for your browser
	@./scripts/setup.sh run
	@$(MAKE) --no-print-directory page
	@$(MAKE) --no-print-directory build
	$(SANGAM) demo
	$(SANGAM) demo --meeting

build: ## the release binaries: sangam, and the laboratory's beside it
	cargo build --release --locked --package sangam-app --package sangam-bench --package sangam-sim

page: ## the meeting page, which the next build puts into the program
	@$(step) page-build ./scripts/web.sh page

xpath: ## sangam-xpath beside sangam: answers XPath queries; its library takes minutes to build
	cargo build --release --locked --package sangam-xpath

test: ## set up, then every check: style, lints, tidy, tests, bench smoke
	@./scripts/setup.sh test
	@$(MAKE) --no-print-directory page lint tests web-check bench-smoke
	@echo
	@echo "all checks passed"

# The fuzz targets are no members of the workspace, as running them needs nightly; to see that they
# still compile does not, nor libFuzzer, whose C++ would take half a minute.
lint: ## rustfmt, clippy, the fuzz targets, tidy, and cargo-deny where it is installed
	@$(step) format cargo fmt --all --check
	@$(step) clippy cargo clippy --workspace --all-targets --locked -- -D warnings
	@$(step) fuzz-check env CUSTOM_LIBFUZZER_PATH=/none/libfuzzer.a \
		cargo check --manifest-path fuzz/Cargo.toml --target-dir $(TARGET) --locked
	@$(step) tidy cargo xtask tidy
	@if cargo deny --version >/dev/null 2>&1; then $(MAKE) --no-print-directory deny; fi

format: ## rewrite the code as rustfmt wants it
	cargo fmt --all

# nextest runs each test in a process of its own and is used where it is installed; installing it
# would cost minutes, so setup does not.
tests: ## unit, integration and documentation tests
	@if cargo nextest --version >/dev/null 2>&1; then \
		$(step) tests cargo nextest run --workspace --locked --no-fail-fast; \
	else \
		$(step) tests cargo test --workspace --tests --locked --no-fail-fast; \
	fi
	@$(step) doc-tests cargo test --workspace --doc --locked

properties: ## the property tests with random seeds and many more cases
	env --unset=PROPTEST_RNG_SEED PROPTEST_CASES=$(CASES) cargo test --locked --no-fail-fast \
		--package sangam-model --package sangam-wire --package sangam-link --package sangam-route \
		--package sangam-broker --package sangam-session --package sangam-jitter \
		--package sangam-reliable --package sangam-placement

# Each kill and restart takes some three seconds, or ten where what is left is exported.
kills: ## KILLS (100) recorders killed at random moments; none may lose what it called safe, and what is left plays
	env KILLS=$(KILLS) cargo test --locked --package sangam-app --test archive --test record_killed killed

catalogue: ## RECORDINGS (10000) recordings listed and found, with the catalogue and without; says how long that took
	env RECORDINGS=$(RECORDINGS) cargo test --release --locked --package sangam-archive \
		--test catalogue many -- --nocapture

# They are made one by one, which takes most of the time.
takeover: ## SESSIONS (1000) sessions of a killed server, taken over by two others; says how long that took
	env SESSIONS=$(SESSIONS) cargo test --locked --package sangam-app --test session_servers twice \
		-- --nocapture

web: ## the page of the four receivers: out/web/receivers.html, to be opened in any browser
	@./scripts/setup.sh web
	./scripts/web.sh build $(OUT)/web

web-check: ## the pages in browsers: a meeting at two brokers, and the receivers
	@$(step) meeting-check ./scripts/web.sh page-check $(OUT)/web
	@$(step) page ./scripts/web.sh build $(OUT)/web
	@$(step) page-check ./scripts/web.sh check $(OUT)/web

page-four: ## four browsers in one meeting at two brokers; takes minutes
	@./scripts/setup.sh test
	@$(step) page-four ./scripts/web.sh page-four $(OUT)/web

# With what the tests have built already: nothing is measured, and release binaries would take minutes.
bench-smoke: ## every experiment's machinery once, in seconds; measures nothing
	@$(step) bench-build cargo build --workspace --bins --locked
	@$(step) bench-smoke $(TARGET)/debug/sangam bench run smoke --out $(OUT)/smoke

bench: ## every experiment at the papers' scale, reports in out/bench; takes hours
	@./scripts/setup.sh bench
	@$(MAKE) --no-print-directory build
	$(SANGAM) bench run all --out $(OUT)/bench

# Not of `sangam bench`, as it needs Node.js and Chromium. SECONDS reaches bash by another name: a
# variable that it counts up by itself.
bench-web: ## pages in browsers: EXPERIMENT=page-render or application, SECONDS (20) each; reports in out/bench-web
	@./scripts/setup.sh test
	@$(MAKE) --no-print-directory page build
	env SANGAM="$(abspath $(SANGAM))" BENCH="$(EXPERIMENT)" BENCH_SECONDS="$(SECONDS)" \
		./scripts/web.sh bench $(OUT)/bench-web

# Without sangam itself: the laboratory's program alone builds in a minute.
# For the machine's own vector units: results are the same, the network that predicts is twice as fast.
study: ## routing and jitter on all traces, at the paper's scale; report in out/study; takes hours
	RUSTFLAGS="-C target-cpu=native $(RUSTFLAGS)" cargo run --release --locked --package sangam-sim --target-dir $(TARGET)/native -- run all --seeds $(SEEDS) --packets $(PACKETS) --out $(OUT)/study

# The program of the last release, or of the commit PREVIOUS, for `sangam bench run upgrade`.
PREVIOUS ?= $(shell git describe --tags --abbrev=0 2>/dev/null || git rev-parse HEAD~1)
previous: ## the previous release's binary in target/previous: PREVIOUS=tag or commit
	./scripts/previous.sh "$(PREVIOUS)" "$(TARGET)/previous"

simulate: ## STORMS (200) seeds of random failures in a simulated network; stops at the first fault
	cargo run --release --locked --package sangam-sim -- brokers --brokers 200 --sessions 300 --seed 1 --storms $(STORMS)

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

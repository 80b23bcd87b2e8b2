# Every target does its own set-up: see .ci/setup.

# Most tests wait more than they compute, and two lanes of .ci/tests run at once: six of each on each core.
export RUST_TEST_THREADS ?= $(shell expr 6 '*' "$$(getconf _NPROCESSORS_ONLN)")

.DEFAULT_GOAL := help
.PHONY: help demo check quick drivers test repeat interop servers mutants planted chaos bench compare

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "REQUIRE_JAVA=1 make ...  installs a JDK and Maven if there are none, and fails rather than skip what needs them"
	@echo "REDIS_SERVER=valkey-8.0 make ...  runs on that server, or on the binary of that path; .ci/servers lists the names"
	@echo "ARGS='...' make test, interop or bench  hands arguments on, such as a filter: ARGS=rust_java make interop"

demo: ## a flash sale: without a lock, with one, and with a Redisson JVM (REDIS_URL: on that server)
	@.ci/setup rust $(if $(REDIS_URL),,redis) java -- cargo run --package flash_sale

check: ## format, lints and pure tests: no Redis, no JVM, seconds after the build
	@.ci/setup rust lints -- .ci/tier check

quick: ## the tests on one server, without a JVM: about two minutes after the build
	@.ci/setup rust redis -- .ci/tier quick

drivers: ## conformance in Rust, faults, TLS and unit tests over redis-rs, the driver that is not the default
	@.ci/setup rust redis -- .ci/tier redis_rs

test: ## all tests: peers in Rust and in Java, clusters, sentinels, TLS
	@.ci/setup rust redis java faketime python peers -- .ci/tests $(ARGS)

repeat: ## the four largest suites 20 times, two at a time, until one fails: six minutes each on two cores (ARGS: how many times)
	@.ci/setup rust redis java faketime python peers -- .ci/repeat $(ARGS)

interop: ## the conformance suite alone: this crate and Redisson, in every mix
	@.ci/setup rust redis java peers -- cargo test --test conformance -- $(ARGS)

servers: ## interop with Rust first and Redisson second, on each server of .ci/servers that can be had
	@.ci/setup rust java peers -- .ci/servers -- .ci/again cargo test --workspace --test conformance -- $(or $(ARGS),rust_java --skip sentinel/)
	$(if $(ARGS),,@.ci/setup rust -- .ci/servers -- .ci/again cargo test --workspace --test faults --test topology -- input:: the_least_rights_are a_user_with_the_least_rights_can a_user_who_may_not_set_a_ttl a_renewal_that_may_not_look a_repeated_request_for_permits a_hold_whose_keys_are_apart an_unlock_is_not_half_done)

chaos: ## two minutes of random faults on real processes and servers, recorded and judged (ARGS: options of one run)
	@.ci/setup rust redis java peers -- .ci/chaos $(ARGS)

mutants: ## each script of lua/ with one small mistake: which tests catch it, in a table (MUTANTS_OF=fair/release: of that script)
	@.ci/setup rust redis java peers -- env MUTANTS=all cargo test --test schedules mutants:: -- --nocapture

planted: ## bugs planted in src/ and lua/, one at a time: when the simulation finds each, in a table (ARGS: some of them; SIM_SECONDS)
	@.ci/setup rust -- tests/planted/run $(ARGS)

bench: ## all tables that README and docs quote (but docs/patterns.md), in one run: writes benches/results (ARGS: some of its tables, only printed)
	@PEER_PROFILE=release .ci/setup rust redis java peers -- cargo run --release -p redisson-lock-race --features crates -- $(ARGS)

compare: ## the speed of this tree beside that of a commit, by turns: a ratio for each sort of work, only printed (ARGS: the commit)
	@PEER_PROFILE=release .ci/setup rust redis -- .ci/compare $(ARGS)

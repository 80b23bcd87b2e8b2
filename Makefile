# Every target does its own set-up: see .ci/setup.

.DEFAULT_GOAL := help
.PHONY: help demo test interop servers bench

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "REQUIRE_JAVA=1 make ...  installs a JDK and Maven if there are none, and fails rather than skip what needs them"
	@echo "REDIS_SERVER=valkey-8.0 make ...  runs on that server, or on the binary of that path; .ci/servers lists the names"
	@echo "ARGS='...' make test, interop or bench  hands arguments on, such as a filter: ARGS=rust_java make interop"

demo: ## a flash sale: without a lock, with one, and with a Redisson JVM (REDIS_URL: on that server)
	@.ci/setup rust $(if $(REDIS_URL),,redis) java -- cargo run --package flash_sale

test: ## all tests
	@.ci/setup rust redis java faketime peers -- cargo test --workspace $(ARGS)
	$(if $(ARGS),,@.ci/setup rust redis -- cargo test --workspace --features tls-rustls-ring --test tls)

interop: ## the conformance suite alone: this crate and Redisson, in every mix
	@.ci/setup rust redis java peers -- cargo test --test conformance -- $(ARGS)

servers: ## interop with Rust first and Redisson second, on each server of .ci/servers that can be had
	@.ci/setup rust java peers -- .ci/servers -- cargo test --test conformance -- $(or $(ARGS),rust_java --skip sentinel/)
	$(if $(ARGS),,@.ci/setup rust -- .ci/servers -- cargo test --test faults --test topology -- input:: the_least_rights_are a_user_with_the_least_rights_can)

bench: ## this crate beside Redisson and other crates: writes benches/results (ARGS: some of its tables, only printed)
	@.ci/setup rust redis java peers -- cargo run --release -p redisson-lock-race --features crates -- $(ARGS)

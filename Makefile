# Every target does its own set-up: see .ci/setup.

.DEFAULT_GOAL := help
.PHONY: help demo test interop

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "REQUIRE_JAVA=1 make ...  installs a JDK and Maven if there are none, and fails rather than skip what needs them"
	@echo "ARGS='...' make test or interop  hands arguments on, such as a filter: ARGS=rust_java make interop"

demo: ## a flash sale: without a lock, with one, and with a Redisson JVM (REDIS_URL: on that server)
	@.ci/setup rust $(if $(REDIS_URL),,redis) java -- cargo run --release --example flash_sale

test: ## all tests
	@.ci/setup rust redis java faketime peers -- cargo test --workspace $(ARGS)
	$(if $(ARGS),,@.ci/setup rust redis -- cargo test --workspace --features tls-rustls-ring --test tls)

interop: ## the conformance suite alone: this crate and Redisson, in every mix
	@.ci/setup rust redis java peers -- cargo test --test conformance -- $(ARGS)

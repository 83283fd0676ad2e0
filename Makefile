# The front door. Everything here also works by hand with cmake, see CONTRIBUTING.md.
#
# JOBS          how many compilers and tests run at once (default: the cores, and 1.5 GiB of memory each)
# CMAKE_FLAGS   more settings for cmake, such as CMAKE_FLAGS=-DROTARY_WERROR=ON

JOBS ?= $(shell tools/jobs.sh)
# $(call build,PRESET) builds all of it; $(call build,PRESET,TARGET ...) no more than that
build = cmake --preset $(1) $(CMAKE_FLAGS) && cmake --build --preset $(1) -j $(JOBS) $(if $(2),--target $(2))

.PHONY: help
help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: ## install what is missing to build and test
	@tools/setup.sh build

.PHONY: build
build: setup ## set up and build everything; the program is build/release/rotary
	$(call build,release)

.PHONY: demo
demo: setup ## set up, build the program, and check two layers of a real model
	$(call build,release,rotary_program demo)
	examples/demo.sh

.PHONY: test
test: build ## set up, build, and run all tests
	ctest --preset release -j $(JOBS)

.PHONY: bench
bench: ## set up, build, and measure against the machine's limits: build/bench/summary.json and pictures. QUICK=1: the main cases
	@tools/setup.sh build bench
	cmake --preset release $(CMAKE_FLAGS) -DROTARY_BENCH=ON
	cmake --build --preset release -j $(JOBS) --target benchmarks
	python3 -B bench/run.py build/release/bench build/bench $(if $(filter-out 0,$(QUICK)),--quick)
	$(if $(filter-out 0,$(QUICK)),,build/release/bench/linear_crossover build/bench)

.PHONY: bench-peers
bench-peers: ## set up, build, and measure against PyTorch and others; asks Python's package index for it, a few GB
	@tools/setup.sh build bench peers
	cmake --preset release $(CMAKE_FLAGS) -DROTARY_BENCH=ON
	cmake --build --preset release -j $(JOBS) --target peers
	test -x build/peers/bin/python || python3 -m venv build/peers
	build/peers/bin/pip install --quiet --requirement bench/peers/requirements.txt
	@for package in onnx onnxruntime openvino; do \
	  build/peers/bin/pip install --quiet --only-binary :all: $$package || echo "bench-peers: $$package does not install here"; \
	done
	build/peers/bin/python -B bench/peers/run.py build/release/bench build/bench/peers.json

# Seconds for each fuzz target.
FUZZ_SECONDS ?= 600

.PHONY: fuzz
fuzz: ## feed the parsers with damaged files, FUZZ_SECONDS each
	@tools/setup.sh build fuzz
	$(call build,fuzz,fuzzers)
	tools/fuzz.sh $(FUZZ_SECONDS)

.PHONY: lint
lint: ## check the format, clang-tidy's advice, and the order of the rooms
	@tools/setup.sh build lint
	tools/lint.sh

# ThreadSanitizer of g++ 12 dies where the kernel shuffles addresses more than it expects (vm.mmap_rnd_bits above 28).
fixed_addresses = $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: sanitize
sanitize: setup ## run all tests under AddressSanitizer and UndefinedBehaviorSanitizer, those with threads under ThreadSanitizer
	$(call build,asan)
	ctest --preset asan -j $(JOBS)
	$(call build,tsan)
	$(fixed_addresses) ctest --preset tsan -j $(JOBS)

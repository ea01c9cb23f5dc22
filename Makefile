# gpu-tune: everything a developer or an admin runs. Targets that need Debian packages install them with apt-get (as root).
SHELL := /bin/bash
PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
DIST := target/dist
BUILD_PACKAGES := build-essential pkg-config libhwloc-dev libudev-dev
SLURM_PACKAGES := slurmctld slurmd slurm-client munge strace
# What ranks are started with, and foreign programs that the shim is loaded into. python3-torch has a real torchrun, in 1 GB.
LAUNCHER_PACKAGES := python3-torch openmpi-bin musl-tools
BENCH_PACKAGES := numactl hyperfine strace

.PHONY: all build install packages demo demo-vm bench lint deny clean
.PHONY: test arm-test vm-test vm-smoke slurm-matrix package-test memcheck endure
.PHONY: build-packages slurm-packages test-packages

all: build

## build: gpu_tune.so, libgpu_tune_preload.so and gpu-tune in target/dist
build: build-packages
	GPU_TUNE_PREFIX=$(PREFIX) $(CARGO) build --release
	$(CARGO) build -p gpu-tune-preload --profile shim
	mkdir -p $(DIST)
	install -m 0755 target/release/libgpu_tune.so $(DIST)/gpu_tune.so
	install -m 0755 target/shim/libgpu_tune_preload.so $(DIST)/libgpu_tune_preload.so
	install -m 0755 target/release/gpu-tune $(DIST)/gpu-tune

## test: every test, with a real Slurm where the machine allows it (as root); tests that cannot run here say why
test: test-packages
	$(CARGO) test --workspace --exclude gpu-tune-preload

## demo: a throw-away Slurm with two stand-in GPUs, a step before and after, and the plan of a machine with eight GPUs
demo: slurm-packages build
	@GPU_TUNE_DIST=$(CURDIR)/$(DIST) $(CARGO) run --quiet --example demo

## bench: what gpu-tune costs, side by side on a real Slurm, written to docs/performance.md (ROUNDS: how often; 5 minutes)
ROUNDS ?= 40
bench: slurm-packages build
	@tests/install-packages $(BENCH_PACKAGES)
	$(CARGO) bench --quiet -p gpu-tune-engine -p gpu-tune-discover --features gpu-tune-engine/testing --bench '*' -- --quick
	@GPU_TUNE_DIST=$(CURDIR)/$(DIST) GPU_TUNE_BENCH_ROUNDS=$(ROUNDS) $(CARGO) run --quiet --example bench

# By rename: a step that is starting sees the old file or the new one, whole.
put = install -m $(1) $(2) $(3).new && mv -f $(3).new $(3)
LIB := $(DESTDIR)$(PREFIX)/lib/gpu-tune
SHARE := $(DESTDIR)$(PREFIX)/share/gpu-tune

## install: the plugin, the shim, the command with man pages and completions, and the example files (after `make build`), below DESTDIR
install:
	install -d -m 0755 $(LIB) $(DESTDIR)$(PREFIX)/bin $(SHARE)/profiles
	$(call put,0644,$(DIST)/gpu_tune.so,$(LIB)/gpu_tune.so)
	$(call put,0644,$(DIST)/libgpu_tune_preload.so,$(LIB)/libgpu_tune_preload.so)
	$(call put,0755,$(DIST)/gpu-tune,$(DESTDIR)$(PREFIX)/bin/gpu-tune)
	sed 's|@PREFIX@|$(PREFIX)|' plugstack.conf.example > $(DIST)/plugstack.conf.example
	$(call put,0644,$(DIST)/plugstack.conf.example,$(SHARE)/plugstack.conf.example)
	install -m 0644 profiles/*.toml $(SHARE)/profiles/
	$(DIST)/gpu-tune manual $(DESTDIR)$(PREFIX)

## packages: a .deb with all of it, below /usr, in target/packages, by cargo-deb, which is installed if it is not there
PACKAGES := $(CURDIR)/target/packages
packages:
	command -v cargo-deb >/dev/null || $(CARGO) install --locked --quiet cargo-deb
	$(MAKE) build PREFIX=/usr
	rm -rf $(PACKAGES)
	$(MAKE) install DESTDIR=$(PACKAGES)/tree PREFIX=/usr
	$(CARGO) deb --no-build --no-strip --output $(PACKAGES)/

## package-test: the .deb installed, used and removed in a clean Debian tree (as root)
package-test: packages
	tests/package target/packages/gpu-tune_*.deb

## lint: formatting and clippy, warnings are errors
lint: build-packages
	$(CARGO) fmt --all --check
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) clippy -p gpu-tune-preload --profile shim -- -D warnings

## deny: licences and sources of all dependencies, by cargo-deny, which is installed if it is not there
deny:
	command -v cargo-deny >/dev/null || $(CARGO) install --locked --quiet cargo-deny
	$(CARGO) deny check licenses bans sources

## endure: two hundred steps, kills while starting, edits and restarts on one node; a minute and a half
endure: test-packages
	$(CARGO) test --test long_life -- --ignored

## memcheck: srun and slurmstepd with the plugin under valgrind; a minute or two
memcheck: test-packages
	@tests/install-packages valgrind
	$(CARGO) test --test memory -- --ignored --nocapture

## arm-test: the workspace built for arm64 and its tests run on an emulated machine (HOW=cross: not compiled on that, too)
HOW ?=
arm-test:
	tests/arm/test $(HOW)

## vm-test: real Slurm on a virtual node with two sockets, where memory really moves (QEMU, no KVM; a quarter of an hour)
vm-test: test-packages build
	GPU_TUNE_DIST=$(CURDIR)/$(DIST) tests/vm/test

## vm-smoke: the short form of vm-test, for every change, with cargo's debug files
vm-smoke: test-packages
	tests/vm/test short || [ $$? = 77 ]

## demo-vm: eight GPUs, two sockets, real Slurm: the same step without and with gpu-tune, side by side
demo-vm: build
	@GPU_TUNE_DIST=$(CURDIR)/$(DIST) tests/vm/test demo

## slurm-matrix: the end-to-end tests on Slurm 22.05, 24.11 and 26.05 with one plugin file (SUITES: this host and Debian suites)
SUITES ?= host trixie sid
slurm-matrix: build
	GPU_TUNE_DIST=$(CURDIR)/$(DIST) tests/slurm-roots/matrix $(SUITES)

build-packages:
	@tests/install-packages $(BUILD_PACKAGES)

slurm-packages:
	@tests/install-packages $(BUILD_PACKAGES) $(SLURM_PACKAGES)

test-packages:
	@tests/install-packages $(BUILD_PACKAGES) $(SLURM_PACKAGES) $(LAUNCHER_PACKAGES)

## clean: removes target/
clean:
	$(CARGO) clean

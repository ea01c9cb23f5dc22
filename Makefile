# gpu-tune: everything a developer or an admin runs. Targets that need Debian packages install them with apt-get (as root).
SHELL := /bin/bash
PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
DIST := target/dist
BUILD_PACKAGES := build-essential pkg-config libhwloc-dev libudev-dev
SLURM_PACKAGES := slurmctld slurmd slurm-client munge

.PHONY: all build test lint install clean vm-layout build-packages test-packages

all: build

## build: gpu_tune.so, libgpu_tune_preload.so and gpu-tune in target/dist
build: build-packages
	$(CARGO) build --release
	$(CARGO) build -p gpu-tune-preload --profile shim
	mkdir -p $(DIST)
	install -m 0755 target/release/libgpu_tune.so $(DIST)/gpu_tune.so
	install -m 0755 target/shim/libgpu_tune_preload.so $(DIST)/libgpu_tune_preload.so
	install -m 0755 target/release/gpu-tune $(DIST)/gpu-tune

## lint: formatting and clippy, warnings are errors
lint: build-packages
	$(CARGO) fmt --all --check
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) clippy -p gpu-tune-preload --profile shim -- -D warnings

## vm-layout: boots the virtual NUMA node of the tests (QEMU, no KVM) and checks its sockets, devices and memory; a minute or two
vm-layout:
	@tests/vm/layout

build-packages:
	@tests/install-packages $(BUILD_PACKAGES)

test-packages:
	@tests/install-packages $(BUILD_PACKAGES) $(SLURM_PACKAGES)

clean:
	$(CARGO) clean

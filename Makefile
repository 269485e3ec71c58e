# SPDX-License-Identifier: Apache-2.0
# The front door; meson and ninja do the work, in build/. SETUP=no: install no packages, only say which are missing.

BUILD ?= build
PREFIX ?= /usr/local
EXAMPLES = vectorAdd matrixMul zeroCopy

all: build

setup:
	@scripts/setup.sh

# The sizes are those of finished builds, in MiB.
build: setup
	@scripts/build.sh "$(BUILD)" 350 all -- --prefix="$(PREFIX)"

# Only what the demo runs: "vcuda-runtime" is all that the command starts or loads.
demo: setup
	@scripts/demo.sh "$(BUILD)" $(EXAMPLES)

check:
	@scripts/setup.sh check
	@BUILD="$(BUILD)" scripts/check.sh

# PARTS="PART...": only these.
check-long:
	@BUILD="$(BUILD)" scripts/check-long.sh $(PARTS)

install: build
	@meson configure --prefix="$(PREFIX)" "$(BUILD)"
	@DESTDIR="$(DESTDIR)" meson install -C "$(BUILD)"

clean:
	rm -rf "$(BUILD)" build-asan build-tsan build-fuzz

# The goals share the build folder.
.NOTPARALLEL:
.PHONY: all setup build demo check check-long install clean

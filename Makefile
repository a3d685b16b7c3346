# Every target sets up what it needs, in VENV, with uv (tools/setup_env.sh).
# classic: torch 2.1 and OpenMMLab's own last releases; modern: this year's torch and the
# maintained forks. Each has an environment of its own (see also tools/env.sh).
STACK ?= classic
ifneq ($(words $(STACK)) $(filter classic modern,$(STACK)),1 $(STACK))
$(error STACK must be classic or modern, not '$(STACK)')
endif
VENV ?= $(if $(filter modern,$(STACK)),.venv-modern,.venv)
PYTHON ?= $(shell for p in python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null \
	&& echo $$p && break; done)
RUN = '$(VENV)/bin/python'
# The types of one torch: those of two contradict each other.
TYPES = $(if $(filter classic,$(STACK)),$(RUN) -m mypy mmbam)
DEMO_ARGS ?=
CHAIN_ARGS ?=
# Two tests at a time, each with one thread; several tests start processes of their own.
# The tests of a file stay in one process, so that its fixtures are made once. (Groups of
# pytest-xdist 3.8 are without effect under pytest 9.)
PYTEST_ARGS ?= -n 2 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help demo chain test cross lint docs clean core dense transformers

help:
	@echo 'make demo    pre-train a tiny network on made images and show what it learned'
	@echo '             (DEMO_ARGS="...": see mmbam demo --help)'
	@echo 'make chain   the same, then detection, segmentation and videos with the result'
	@echo '             (CHAIN_ARGS="...": see mmbam chain --help)'
	@echo 'make test    lint, then run all tests (PYTEST_ARGS="tests/test_models -k ...")'
	@echo 'make cross   set up both stacks; checkpoints of each resume on the other'
	@echo 'make lint    check style and types alone'
	@echo 'make docs    build the site into work_dirs/site (open index.html)'
	@echo 'make core    only set up what pre-training needs; all other targets set up what'
	@echo '             they need themselves, with uv, and need only Python 3.11 and gcc'
	@echo 'make dense   the same, and mmdet, mmsegmentation, mmcv with operators, test tools'
	@echo 'make transformers  only set up what opens exports for transformers, for the tests'
	@echo 'make clean   remove caches and build files; the environment stays'
	@echo 'STACK=classic (default: torch 2.1, OpenMMLab as released) or STACK=modern (this'
	@echo '             year'\''s torch, maintained forks), each in its own environment.'
	@echo 'VENV=folder (default .venv or .venv-modern) and PYTHON=python3.11 choose where'
	@echo '             and with what.'

# No stack can have the newest transformers beside mmpretrain.
transformers: override STACK = modern
transformers: override VENV = .venv-transformers
core dense transformers:
	@test -n '$(PYTHON)' || { echo 'Python 3.11 was not found: install it or pass' \
		'PYTHON=/path/to/python3.11.' >&2; exit 1; }
	@tools/setup_env.sh $@ $(STACK) '$(VENV)' '$(PYTHON)'

demo: core
	$(RUN) -m mmbam demo $(DEMO_ARGS)

chain: dense
	$(RUN) -m mmbam chain $(CHAIN_ARGS)

test: lint transformers
	OMP_NUM_THREADS=1 $(RUN) -m pytest $(PYTEST_ARGS)

# A sub-make each: the two environments never meet in one.
cross:
	@$(MAKE) --no-print-directory dense STACK=classic VENV=.venv
	@$(MAKE) --no-print-directory dense STACK=modern VENV=.venv-modern
	MMBAM_PYTHON_CLASSIC='$(CURDIR)/.venv/bin/python' \
	MMBAM_PYTHON_MODERN='$(CURDIR)/.venv-modern/bin/python' \
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest tests/test_stacks.py

lint: dense
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(TYPES)

docs: dense
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict -q
	@echo 'The site: work_dirs/site/index.html'

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
	find mmbam configs tools tests benchmarks -name __pycache__ -type d -prune \
		-exec rm -rf {} +

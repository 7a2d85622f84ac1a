.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-all lint format bench lock schemas sbom audit chart clean

PY := .venv/bin/python

help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: ## Set up .venv from the hashed locks (and bubblewrap where it may be installed)
	@deploy/setup.sh

demo: setup ## Set up, start the whole system, and build a model from one sentence
	@$(PY) deploy/demo.py

test: setup lint ## Set up, lint, type-check and run the tests, but for the slow campaigns
	@$(PY) -m pytest -n auto --maxprocesses 4 -m "not slow"

test-slow: setup ## Run the slow campaigns: whole jobs of every task, hostile packages, many trainings
	@$(PY) -m pytest -n auto --maxprocesses 4 -m slow

test-all: test test-slow ## Both

lint: setup ## Lint, format check and type check
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

format: setup ## Format the code and sort imports
	@$(PY) -m ruff check --fix-only -q . && $(PY) -m ruff format .

bench: setup ## Print the tables of the benchmarks, but for those that want a folder (bench/README.md)
	@for file in bench/*.py; do name=$$(basename $$file .py); \
	case $$name in kube|m3bench_scores|near_duplicates|report_images|search|whole_runs) continue;; esac; \
	echo "== $$name"; $(PY) -m bench.$$name || exit 1; done

schemas: setup ## Write the JSON Schemas of the contracts anew (a changed contract shows as a diff)
	@$(PY) -m tests.contracts.golden

lock: setup ## Resolve the dependencies anew into requirements/*.lock
	@deploy/lock.sh

sbom: setup ## Write the bill of materials (CycloneDX) of the locks to sbom.cdx.json
	@$(PY) deploy/sbom.py sbom.cdx.json

audit: setup ## Compare the locks with advisories in the OSV format: make audit ADVISORIES=FILE, a folder or a zip
	@$(PY) deploy/audit.py "$(ADVISORIES)"

chart: setup ## Write what follows from the chart and the rights anew: NATS users, rendered examples (wants helm)
	@$(PY) -m deploy.nats_users
	@for name in no-gpu one-gpu hospital; do deploy/render.sh $$name > helm/m3builder/examples/rendered/$$name.yaml || exit 1; done

clean: ## Remove caches (state in .m3builder stays)
	@rm -rf .mypy_cache .ruff_cache .pytest_cache build *.egg-info

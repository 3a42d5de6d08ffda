"""What importing the package costs and brings along, seen from a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

FOREIGN = {
    "fastapi",
    "google",
    "grpc",
    "httpx",
    "kubernetes",
    "prometheus_client",
    "pydantic",
    "rich",
    "typer",
    "uvicorn",
}
"""What an SDK inside somebody's trainer must not bring along."""

HEAVY = {
    "asyncio",
    "logging",
    "multiprocessing",
    "pathlib",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
}
"""What costs as much as the rest together, and is imported by those who need it."""


def _imported_by(statement: str) -> set[str]:
    code = f"{statement}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_the_package_brings_nothing_foreign_along() -> None:
    assert not FOREIGN & _imported_by("import sandboxd")


def test_the_package_does_not_import_what_most_programs_do_not_need() -> None:
    assert not HEAVY & (_imported_by("import sandboxd") - _imported_by("pass"))


def test_importing_starts_no_thread_and_no_process() -> None:
    code = (
        "import os, sandboxd; "
        "print(len(os.listdir('/proc/self/task')), "
        "open('/proc/self/task/%d/children' % os.getpid()).read())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]


def test_exceptions_and_types_need_no_extension() -> None:
    """Tools that only handle results must not need a built package."""
    code = (
        "import importlib.util, sys\n"
        "for name in ('exceptions', 'types'):\n"
        "    path = f'{sys.argv[1]}/{name}.py'\n"
        "    spec = importlib.util.spec_from_file_location(f'alone_{name}', path)\n"
        "    module = importlib.util.module_from_spec(spec)\n"
        "    sys.modules[spec.name] = module\n"
        "    spec.loader.exec_module(module)\n"
        "assert 'sandboxd' not in sys.modules\n"
    )
    import sandboxd  # noqa: PLC0415  (only to find it)

    folder = str(sandboxd.__path__[0])
    subprocess.run([sys.executable, "-c", code, folder], check=True)

"""The folder is the tier, what is missing is named, and nothing is left behind.

* A test gets the name of its folder as its marker.
* `@pytest.mark.needs("root", "limit.memory", …)` skips a test where a need is missing, with the
  reason; a need that `SANDBOXD_TEST_REQUIRE` names fails it instead.
* Around every test of a tier that uses the agent, processes, mounts, namespaces, cgroups, the
  state folder, descriptors and threads are compared; a test that leaves something fails.
* The SDK of the test process has a state folder of its own, so that neither an agent nor a
  leftover of the machine's user is touched.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandboxd import AsyncSandbox, Sandbox
from sandboxd.testing import LocalSetup
from tests.support import needs
from tests.support.agent_probe import AgentProbe, Resources, resources
from tests.support.leaks import Snapshot, check_nothing_left
from tests.support.processes import become_subreaper, descendants
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

TESTS = Path(__file__).parent
AGENT_TIERS = frozenset({"conformance", "integration", "faults", "security"})

BEFORE = pytest.StashKey[Snapshot]()
FAILED = pytest.StashKey[bool]()
AGENT = pytest.StashKey[tuple[int, Resources]]()
CHILDREN = pytest.StashKey[set[int]]()
STATE = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the process before anything imports an agent into it."""
    config.addinivalue_line("markers", "needs(*names): what a test cannot do without")
    state = Path(tempfile.mkdtemp(prefix="sandboxd-tests-"))
    config.stash[STATE] = state
    os.environ["SANDBOXD_STATE"] = str(state)
    become_subreaper()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the state folder; the agent itself ends with this process."""
    shutil.rmtree(config.stash[STATE], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with its tier."""
    for item in items:
        tier = _tier(item)
        if tier in {"unit", "property", *AGENT_TIERS}:
            item.add_marker(tier)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Look at what exists before the test and its fixtures."""
    if _tier(item) in AGENT_TIERS:
        _start_agent()
        item.stash[BEFORE] = Snapshot.take(item.config.stash[STATE])
        item.stash[CHILDREN] = {each.pid for each in descendants()}
        pid = AgentProbe().pid
        item.stash[AGENT] = (pid, resources(pid))
    return (yield)


@pytest.hookimpl(specname="pytest_runtest_setup", tryfirst=True)
def pytest_check_needs(item: pytest.Item) -> None:
    """Skip where a need is missing: not in the wrapper above, which others rely on to go on."""
    needs.check(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Compare after the test and its fixtures; a difference is an error of this test."""
    result = yield
    before = item.stash.get(BEFORE, None)
    if before is not None:
        state, children = item.config.stash[STATE], item.stash[CHILDREN]
        check_nothing_left(before, state, children, failed=item.stash.get(FAILED, False))
        pid, held = item.stash[AGENT]
        wait_until(lambda: resources(pid).has_no_more_than(held))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember a failure for the teardown."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


def _tier(item: pytest.Item) -> str:
    folders = item.path.relative_to(TESTS).parts if item.path.is_relative_to(TESTS) else ("",)
    return folders[0]


_agent_runs = False


def _start_agent() -> None:
    """Start the process's agent ahead of the first look, so that it is no test's leftover."""
    global _agent_runs  # noqa: PLW0603  (one agent per process, like this flag)
    if not _agent_runs:
        with Sandbox() as sandbox:
            sandbox.run("true")
        _agent_runs = True


@pytest.fixture
def setup() -> LocalSetup:
    """The agent of this machine; SANDBOXD_TEST_GRACE gives a busy machine more time."""
    return LocalSetup(grace=float(os.environ.get("SANDBOXD_TEST_GRACE", "0.5")))


@pytest.fixture
async def sandbox() -> AsyncIterator[AsyncSandbox]:
    """One sandbox of the default template, ready, closed after the test."""
    async with AsyncSandbox() as made:
        await made.ready()
        yield made


@pytest.fixture
def agent() -> AgentProbe:
    """The agent of the test process."""
    return AgentProbe()

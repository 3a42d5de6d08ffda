"""A socket between client and agent that fails on order: `sandboxd-fault-proxy` of the testkit."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

ROOT = Path(__file__).parents[2]
BINARY = Path(
    os.environ.get(
        "SANDBOXD_FAULT_PROXY", ROOT / "rust" / "target" / "debug" / "sandboxd-fault-proxy"
    )
)


class Plan(TypedDict, total=False):
    """The fate of one connection: see `rust/crates/sandboxd-testkit/src/plan.rs`."""

    cut_to_agent: int
    cut_to_client: int
    cut_age: float
    mute_to_client: int
    delay: float
    bytes_per_second: int
    late_after: int
    late_by: float


@dataclass(frozen=True)
class Counts:
    """What the proxy has done since its start."""

    connections: int
    cuts: int
    late: int
    ended: int


class FaultProxy:
    """Relays connections to the agent's socket, faithfully until told otherwise.

    Args:
        path: Where to listen.
        agent: Socket of the agent.
    """

    def __init__(self, path: Path, agent: Path) -> None:
        if not BINARY.exists():
            raise FileNotFoundError(f"{BINARY} is missing: run `make build-testkit`")
        self.path = path
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [BINARY, "--listen", path, "--agent", agent],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # Answered when it listens.
        self.counts()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()

    @property
    def connections(self) -> int:
        """Connections that were made so far."""
        return self.counts().connections

    def plans(self, *plans: Plan) -> Counts:
        """Set the fates of the next connections, in their order."""
        return self._order(do="plans", plans=plans)

    def default(self, plan: Plan) -> Counts:
        """Set the fate of connections that have no plan of their own."""
        return self._order(do="default", plan=plan)

    def cut(self) -> Counts:
        """Cut every connection."""
        return self._order(do="cut")

    def stall(self, *, on: bool) -> Counts:
        """Keep connections open and deliver nothing, or go on."""
        return self._order(do="stall", on=on)

    def refuse(self, *, on: bool) -> Counts:
        """Refuse new connections, or take them again."""
        return self._order(do="refuse", on=on)

    def counts(self) -> Counts:
        """What was done so far."""
        return self._order(do="count")

    def _order(self, **order: Any) -> Counts:
        with self._lock:
            process = self._process
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        assert answer, "the fault proxy has ended"
        return Counts(**json.loads(answer))

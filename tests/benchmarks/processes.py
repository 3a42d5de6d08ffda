"""What the kernel says about processes: parents, CPU time, memory."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")


def _parents() -> dict[int, int]:
    """Parent of every process; one that ends meanwhile is left out."""
    parents = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                # The name of a process may contain anything; the last bracket ends it.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(folder.name)] = int(fields[1])
    return parents


def descendants(ancestor: int) -> list[int]:
    """Every process below `ancestor`."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [ancestor]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def agent_below(ancestor: int) -> int:
    """The agent that a process started.

    Raises:
        RuntimeError: There is none, or more than one.
    """
    parents = _parents()
    agents = [
        pid
        for pid in descendants(ancestor)
        if parents.get(pid) == ancestor and _name(pid).startswith("sandboxd-agent")
    ]
    if len(agents) != 1:
        raise RuntimeError(f"process {ancestor} has {len(agents)} agents instead of one")
    return agents[0]


def inits_below(ancestor: int) -> list[int]:
    """The processes below `ancestor` that are PID 1 of a namespace of their own."""
    return [pid for pid in descendants(ancestor) if _is_init(pid)]


def cpu_seconds(pids: list[int]) -> float:
    """CPU time of all threads of these processes, kernel included, to the nanosecond."""
    files = [file for pid in pids for file in (_PROC / str(pid) / "task").glob("*/schedstat")]
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def proportional_kb(pid: int, kind: str = "Pss") -> int:
    """Memory of a process in KiB, shared pages divided among those that share them.

    `kind` is a line of smaps_rollup; `Pss_Anon` leaves the pages of files out.
    """
    for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1])
    raise RuntimeError(f"smaps_rollup has no line {kind}")


def _name(pid: int) -> str:
    return (_PROC / str(pid) / "comm").read_text().strip()


def _is_init(pid: int) -> bool:
    try:
        status = (_PROC / str(pid) / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        # A helper of the launcher, which lives for a moment.
        return False
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
    return len(numbers) > 1 and numbers[-1] == "1"

"""The command: options in, passes over the problems, tables and JSON out."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from sandboxd import AgentInfo, Limits, agent_info
from sandboxd.cli import console
from sandboxd.cli.demo import leaks, report, rollouts
from sandboxd.cli.demo.flaws import FLAWS, Flaw
from sandboxd.cli.demo.plain import PlainRunner
from sandboxd.cli.demo.plan import THINK_SIGMA, Rollout, make_plan
from sandboxd.cli.demo.problems import ProblemsMissingError, load_problems
from sandboxd.cli.demo.progress import Progress
from sandboxd.cli.demo.rollouts import Arena, Played
from sandboxd.cli.demo.scoring import Pass, complaints

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The path of the sandboxes, so that both sides run the same interpreter.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_SHOWN_COMPLAINTS = 20


def demo(
    *,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Rollouts under way at once.", show_default=True)
    ] = 32,
    think: Annotated[
        float,
        typer.Option(
            min=0,
            help="Median think time before an attempt, in seconds. Times are log-normal with "
            f"sigma {THINK_SIGMA}: a tenth is 2.2 times the median or more.",
        ),
    ] = 1.0,
    seed: Annotated[
        int, typer.Option(help="Decides think times, and which first attempts are broken.")
    ] = 1,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Limit of one run of the tests, in seconds.")
    ] = 5.0,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="PATH", help="Write the figures there.")
    ] = None,
) -> None:
    """Solve the 164 problems of HumanEval, each in a sandbox of its own.

    Every rollout claims a sandbox, "thinks", writes a candidate solution with its tests, and runs
    them under limits. A third of the first attempts are broken on purpose: a bug, an endless
    loop, a memory hog, a fork bomb, output without end. Each must be scored with its right cause,
    and is then followed by the canonical solution, which must pass. The canonical programs are
    run again without the broken ones, in sandboxes and as plain subprocesses, to compare.

    Exit code: 0 if all of that held and nothing was left behind, else 1.

    \b
    sandboxd demo
    sandboxd demo --concurrency 164 --think 4
    sandboxd demo --seed 7 --json figures.json
    """  # noqa: D301  (click: do not wrap)
    try:
        problems = load_problems()
    except ProblemsMissingError as error:
        console.fail(str(error))
    python = shutil.which("python3", path=_PATH)
    if python is None:
        console.fail("no python3 is in /usr: install the system's Python (apt-get install python3)")
    info = agent_info()
    plan = make_plan(problems, _flaws_to_try(info), think=think, seed=seed)

    arena = Arena(python, _limits(info), timeout=timeout)
    outcome = asyncio.run(_play(plan, arena, PlainRunner(python), info.pid, concurrency))

    report.show(outcome, console.OUT)
    if json_path is not None:
        json_path.write_text(json.dumps(report.as_json(outcome), indent=2) + "\n")
    found = complaints((outcome.rollouts, outcome.boxed, outcome.plain), outcome.leaks)
    for complaint in found[:_SHOWN_COMPLAINTS]:
        console.warn(complaint)
    if found:
        console.fail(f"{len(found)} expectations of the demo did not hold", code=1)


def _flaws_to_try(info: AgentInfo) -> list[Flaw]:
    """The flaws that this machine can contain; the others are named and left out."""
    given = {each.name for each in info.capabilities if each.available}
    for flaw in FLAWS:
        if flaw.needs is not None and flaw.needs not in given:
            console.warn(f"not tried: {flaw.name}, since {flaw.needs} is missing (sandboxd doctor)")
    return [flaw for flaw in FLAWS if flaw.needs is None or flaw.needs in given]


def _limits(info: AgentInfo) -> Limits:
    given = {each.name for each in info.capabilities if each.available}
    return Limits(
        memory=rollouts.MEMORY if "limit.memory" in given else None,
        pids=rollouts.PIDS if "limit.pids" in given else None,
        output=rollouts.OUTPUT,
    )


async def _play(
    plan: Sequence[Rollout],
    arena: Arena,
    plain_runner: PlainRunner,
    agent_pid: int,
    concurrency: int,
) -> report.Outcome:
    right_only = [rollout.without_flaws() for rollout in plan]
    # Once, so that what an agent and a client make on first use is not taken for a leak.
    await arena.play_all(right_only[:1], concurrency=1, on_played=lambda: None)
    before = await leaks.settled(agent_pid)
    with Progress(3 * len(plan)) as progress:
        progress.describe("rollouts, in sandboxes")
        job = await _timed(arena, plan, concurrency, progress)
        peak = arena.peak_sandboxes
        progress.describe("right ones only, in sandboxes")
        boxed = await _timed(arena, right_only, concurrency, progress)
        progress.describe("right ones only, plain subprocesses")
        plain = await _timed(plain_runner, right_only, concurrency, progress)
    after = await leaks.settled(agent_pid, before=before)
    return report.Outcome(job, boxed, plain, peak, after.beyond(before))


class _Player(Protocol):
    async def play_all(
        self, rollouts: Sequence[Rollout], *, concurrency: int, on_played: Callable[[], None]
    ) -> list[Played]: ...


async def _timed(
    player: _Player, plan: Sequence[Rollout], concurrency: int, progress: Progress
) -> Pass:
    begin = time.perf_counter()
    played = await player.play_all(plan, concurrency=concurrency, on_played=progress.advance)
    return Pass(played, time.perf_counter() - begin)

"""Takes samples of several contestants in turn: A B A B, in a new order every round.

A machine is never the same for two minutes. Contestants that take turns meet the same machine, so
that the ratio of their medians means something even where the medians themselves do not.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping


# Rounds before the first that counts: caches, connection, branch predictors, frequency.
WARM_UP = 20
# The order is random, to show no contestant the same neighbour always, yet the same in every run.
_SEED = 7


def _turns(names: list[str], rounds: int, warm_up: int) -> Iterator[tuple[str, bool]]:
    """Whose turn it is, and whether the sample counts."""
    chance = random.Random(_SEED)
    for number in range(warm_up + rounds):
        for name in chance.sample(names, len(names)):
            yield name, number >= warm_up


async def interleave(
    contestants: Mapping[str, Callable[[], Awaitable[int]]],
    rounds: int,
    *,
    warm_up: int = WARM_UP,
    gap: tuple[float, float] = (0, 0),
) -> dict[str, list[int]]:
    """Nanoseconds of `rounds` samples of each contestant.

    `gap` is the least and the longest idle time before each sample, in seconds.
    """
    taken: dict[str, list[int]] = {name: [] for name in contestants}
    chance = random.Random(_SEED)
    for name, counts in _turns(list(contestants), rounds, warm_up):
        if gap[1]:
            await asyncio.sleep(chance.uniform(*gap))
        sample = await contestants[name]()
        if counts:
            taken[name].append(sample)
    return taken


async def in_pairs(
    product: str,
    contestants: Mapping[str, Callable[[], Awaitable[int]]],
    rounds: int,
    *,
    gap: tuple[float, float] = (0, 0),
) -> dict[str, dict[str, list[int]]]:
    """One pass for each contestant, alone with the product.

    A container runtime leaves cold caches and kernel work behind. In a common pass the product
    would pay for that, and another contestant's ratio with it.
    """
    return {
        name: await interleave(
            {product: contestants[product], name: call}, rounds, warm_up=5, gap=gap
        )
        for name, call in contestants.items()
        if name != product
    }


def interleave_blocking(
    contestants: Mapping[str, Callable[[], int]], rounds: int, *, warm_up: int = WARM_UP
) -> dict[str, list[int]]:
    """The same for contestants that need no event loop."""
    taken: dict[str, list[int]] = {name: [] for name in contestants}
    for name, counts in _turns(list(contestants), rounds, warm_up):
        sample = contestants[name]()
        if counts:
            taken[name].append(sample)
    return taken


def as_async(sample: Callable[[], int]) -> Callable[[], Awaitable[int]]:
    """Lets a blocking contestant take turns with asynchronous ones.

    It blocks the loop while it runs, which is what is wanted: nothing else may run meanwhile.
    """

    async def run() -> int:
        return sample()

    return run


def timed(operation: Callable[[], object]) -> int:
    """Nanoseconds of one blocking call."""
    start = time.perf_counter_ns()
    operation()
    return time.perf_counter_ns() - start

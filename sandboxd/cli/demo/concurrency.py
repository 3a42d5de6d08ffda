"""Doing many things with a bound on how many are under way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

Item = TypeVar("Item")
Result = TypeVar("Result")


async def map_bounded(
    work: Callable[[Item], Awaitable[Result]], items: Iterable[Item], *, concurrency: int
) -> list[Result]:
    """Apply `work` to every item, at most `concurrency` at a time.

    When one fails, or the caller is cancelled, the others are cancelled and waited for: nothing
    runs on behind the caller's back.

    Returns:
        Results in the order of the items.
    """
    gate = asyncio.Semaphore(concurrency)

    async def one(item: Item) -> Result:
        async with gate:
            return await work(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""Does what the pools decide, and tells them what became of it.

One look at the agents every few seconds corrects what no event has told: sandboxes that died while
they waited, those of another replica, an agent that is gone. Claims wait for none of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from sandboxd.controller import pool
from sandboxd.exceptions import AgentError, SandboxClosedError, SandboxError, UnknownTemplateError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from typing import Any

    from sandboxd.controller.registry import Registry

LOG = logging.getLogger("sandboxd.controller")

LOOK_EVERY = 2.0
"""Seconds between looks at the agents."""


class Refill:
    """The pools of one control plane."""

    def __init__(self, registry: Registry, sizes: Mapping[str, int]) -> None:
        """Describe the pools; nothing is made."""
        self._registry = registry
        self._pools = {
            template: pool.Pool(template, size, _fresh) for template, size in sizes.items()
        }
        self._tasks: set[asyncio.Task[None]] = set()
        self._alarms: dict[str, asyncio.TimerHandle] = {}

    def start(self) -> None:
        """Begin to fill the pools. Needs a running event loop."""
        self._begin(self._look_for_ever())

    async def stop(self) -> None:
        """Stop; what waits for a claim goes on waiting."""
        for alarm in self._alarms.values():
            alarm.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def statuses(self) -> list[pool.PoolStatus]:
        """How the pools are, by name of their template."""
        return [self._pools[template].status for template in sorted(self._pools)]

    def resize(self, template: str, size: int) -> pool.PoolStatus:
        """Give a pool another size, or begin one.

        Returns:
            How it is now.
        """
        if template not in self._pools:
            self._pools[template] = pool.Pool(template, 0, _fresh)
        self.tell(template, pool.Resized(size))
        LOG.info("pool=%s resized size=%d", template, size)
        return self._pools[template].status

    def tell(self, template: str, event: pool.Event) -> None:
        """Tell a pool what happened, and begin what it answers."""
        concerned = self._pools.get(template)
        if concerned is None:
            return
        loop = asyncio.get_running_loop()
        for action in concerned.on(event, loop.time()):
            if isinstance(action, pool.Make):
                self._begin(self._make(template, action.name))
            else:
                self._begin(self._remove(action.name))
        self._set_alarm(template, concerned, loop)

    def _set_alarm(
        self, template: str, concerned: pool.Pool, loop: asyncio.AbstractEventLoop
    ) -> None:
        alarm = self._alarms.pop(template, None)
        if alarm is not None:
            alarm.cancel()
        if concerned.wake_at is not None:
            at = max(concerned.wake_at, loop.time())
            self._alarms[template] = loop.call_at(at, self.tell, template, pool.Woken())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _make(self, template: str, name: str) -> None:
        try:
            await self._registry.place().warm(name, template)
        except SandboxClosedError:
            # Claimed or ended before this answer came; the claim or the next look has told.
            self.tell(template, pool.Died(name))
            self.tell(template, pool.Failed(name, ""))
        except SandboxError as error:
            LOG.warning("pool=%s sandbox=%s cannot be made: %s", template, name, error)
            self.tell(template, pool.Failed(name, str(error)))
        else:
            self.tell(template, pool.Made(name))

    async def _remove(self, name: str) -> None:
        try:
            await self._registry.release(name)
        except AgentError as error:
            # The next look finds it, and it is surplus again.
            LOG.warning("sandbox=%s cannot be removed: %s", name, error)

    async def _look_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            asked_at = loop.time()
            try:
                found = await self._registry.list({}, warm=True)
            except AgentError as error:
                LOG.warning("an agent does not answer: %s", error)
                await self._look_for_agents()
                continue
            waiting = [record for record, _ in found if record.state == "warm"]
            for template in list(self._pools):
                names = frozenset(
                    record.sandbox_id for record in waiting if record.template == template
                )
                self.tell(template, pool.Viewed(names, asked_at))
            await asyncio.sleep(LOOK_EVERY)

    async def _look_for_agents(self) -> None:
        try:
            await self._registry.find_agents()
        except AgentError:
            LOG.exception("agents cannot be started")
        await asyncio.sleep(LOOK_EVERY / 4)

    async def check_template(self, template: str) -> None:
        """Refuse a template that no agent has.

        Raises:
            UnknownTemplateError: If there is none of that name.
            AgentError: If no agent answers.
        """
        known = (await self._registry.place().info()).templates
        if template not in known:
            raise UnknownTemplateError(
                f"no template is named {template!r}: use one of {', '.join(known)}"
            )


def _fresh() -> str:
    return f"warm-{os.urandom(8).hex()}"

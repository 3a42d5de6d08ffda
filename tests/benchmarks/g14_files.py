"""G14, the half about files: a large upload is about as fast as writing the file.

Both sides of the ratio write the same bytes into a new file in memory. The product's go through a
socket, are hashed, and become a file of the sandbox in one step.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sandboxd import AsyncSandbox, Limits
from tests.benchmarks.interleave import as_async, interleave, timed
from tests.benchmarks.plan import load_average
from tests.benchmarks.product import PRODUCT
from tests.benchmarks.report import TIMES, Bound, Result, compare
from tests.benchmarks.stats import summarise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.benchmarks.plan import Plan
    from tests.benchmarks.stats import Summary

RAW_WRITE = "raw write to a tmpfs"
HASHED_WRITE = "raw write and sha256"
RAW_READ = "raw read from a tmpfs"

_SIZE = 256 << 20
_STEP = 1 << 20
_LEAST_RATE = 0.7


def _summaries(taken: Mapping[str, list[int]]) -> dict[str, Summary]:
    return {name: summarise(samples, per_unit=1e6) for name, samples in taken.items()}


def _write(path: Path, data: bytes, *, hashed: bool) -> None:
    view, digest = memoryview(data), hashlib.sha256()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for start in range(0, len(data), _STEP):
        chunk = view[start : start + _STEP]
        if hashed:
            digest.update(chunk)
        if os.write(file, chunk) != len(chunk):
            raise RuntimeError("a raw write was short")
    os.close(file)


def _read(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        if sum(len(chunk) for chunk in iter(lambda: file.read(_STEP), b"")) != _SIZE:
            raise RuntimeError("a raw read was short")


async def _measure(plan: Plan, raw: Path) -> list[Result]:
    data = os.urandom(_STEP) * (_SIZE // _STEP)
    right = hashlib.sha256(data).hexdigest()
    rounds = plan.size(15, 5)
    load = load_average()
    limits = Limits(memory=_SIZE * 5, disk=_SIZE * 4)
    async with AsyncSandbox(limits=limits) as sandbox:

        async def upload() -> int:
            start = time.perf_counter_ns()
            written = await sandbox.files.write("/tmp/upload", data)
            elapsed = time.perf_counter_ns() - start
            if (written.size, written.sha256) != (_SIZE, right):
                raise RuntimeError(f"an upload ended with {written!r}")
            await sandbox.files.remove("/tmp/upload")
            return elapsed

        async def download() -> int:
            start, size = time.perf_counter_ns(), 0
            async for chunk in await sandbox.files.stream("/tmp/kept"):
                size += len(chunk)
            if size != _SIZE:
                raise RuntimeError("a download was short")
            return time.perf_counter_ns() - start

        def raw_write(*, hashed: bool) -> int:
            raw.unlink(missing_ok=True)
            return timed(lambda: _write(raw, data, hashed=hashed))

        up = _summaries(
            await interleave(
                {
                    PRODUCT: upload,
                    RAW_WRITE: as_async(lambda: raw_write(hashed=False)),
                    HASHED_WRITE: as_async(lambda: raw_write(hashed=True)),
                },
                rounds,
                warm_up=1,
            )
        )
        await sandbox.files.write("/tmp/kept", data)
        raw_write(hashed=False)
        down = _summaries(
            await interleave(
                {PRODUCT: download, RAW_READ: as_async(lambda: timed(lambda: _read(raw)))},
                rounds,
                warm_up=1,
            )
        )
    references, ratios = compare(up, PRODUCT)
    read_references, read_ratios = compare(down, PRODUCT)
    limit = Bound(RAW_WRITE, 1 / _LEAST_RATE, f"≥ {_LEAST_RATE:g}{TIMES} the rate of {RAW_WRITE}")
    return [
        Result(
            id="G14",
            metric="upload of 256 MiB, hashed, async API",
            unit="ms",
            product=up[PRODUCT],
            references=references,
            ratios=ratios,
            bounds=(limit,),
            load=load,
        ),
        Result(
            id="G14",
            metric="download of 256 MiB, async API",
            unit="ms",
            product=down[PRODUCT],
            references=read_references,
            ratios=read_ratios,
            load=load,
        ),
    ]


def measure(plan: Plan) -> list[Result]:
    """Both directions. The raw file is in memory, as what a sandbox writes is."""
    raw = Path(f"/dev/shm/sandboxd-bench-{os.getpid()}")
    try:
        return asyncio.run(_measure(plan, raw))
    finally:
        raw.unlink(missing_ok=True)

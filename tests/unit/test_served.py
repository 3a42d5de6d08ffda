"""What the SDK sends to a control API is what it would send to an agent itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxd.api.errors import STATUSES
from sandboxd.api.schemas import ClaimBody
from sandboxd.client import _served, _validate
from sandboxd.exceptions import _BY_CODE
from sandboxd.types import Limits

SECONDS = st.floats(1e-9, 100 * 365 * 86_400) | st.integers(1, 100 * 365 * 86_400)


@given(
    ttl=st.none() | SECONDS,
    idle=st.none() | SECONDS,
    cpus=st.none() | st.floats(0.01, 10_000),
    memory=st.none() | st.integers(1, 2**63 - 1),
    env=st.dictionaries(
        st.text(min_size=1).filter(lambda name: "=" not in name and "\0" not in name),
        st.binary(max_size=20).filter(lambda value: b"\0" not in value),
    ),
    cwd=st.sampled_from([None, "/tmp", b"/\xff"]),
)
def test_a_claim_arrives_as_it_was_meant(  # noqa: PLR0917  (hypothesis names them)
    ttl: float | None,
    idle: float | None,
    cpus: float | None,
    memory: int | None,
    env: dict[str, str | bytes],
    cwd: str | bytes | None,
) -> None:
    """An agent knows a claim again by every field, so that none may be off by a nanosecond."""
    checked = (
        "host",
        _validate.limits(Limits(cpus=cpus, memory=memory)),
        _validate.nanoseconds("ttl", ttl),
        _validate.nanoseconds("idle_timeout", idle),
        _validate.environment(env),
        _validate.directory("cwd", cwd),
        _validate.user("1000"),
        _validate.labels({"run": "r1"}),
    )
    body: dict[str, Any] = _served.body(checked, ttl, idle)
    claim = ClaimBody.model_validate_json(ClaimBody.model_validate(body).model_dump_json())
    sent = claim.claim("sb")

    limits = sent.limits
    assert (
        sent.template,
        (
            limits.memory_bytes,
            limits.pids,
            limits.cpu_millis,
            limits.disk_bytes,
            limits.output_bytes,
        ),
        sent.ttl_ns,
        sent.idle_timeout_ns,
        list(sent.env),
        sent.cwd,
        sent.user,
        dict(sent.labels),
    ) == checked


def test_every_status_is_of_a_code_that_exists() -> None:
    assert set(STATUSES) <= set(_BY_CODE)


@pytest.mark.parametrize("code", ["resource_exhausted"])
def test_too_many_is_told_when_to_come_again(code: str) -> None:
    from sandboxd.api.errors import problem  # noqa: PLC0415
    from sandboxd.exceptions import from_code  # noqa: PLC0415

    answer = problem(from_code(code, "full"))
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")

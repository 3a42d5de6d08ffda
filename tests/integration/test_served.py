"""Sandboxes from a control plane: a real server, a real agent, the SDK."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sandboxd import (
    AsyncSandbox,
    ControlUnreachableError,
    InvalidArgumentError,
    Limits,
    Sandbox,
    SandboxClosedError,
    UnknownTemplateError,
)
from sandboxd.client import _agent, _http
from tests.support.control import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """What the SDK keeps for as long as the process would look like a test's leftover."""
    yield
    _http.stop()
    _agent._externals.forget()


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    """A control plane with a pool of two."""
    with ControlPlane("host=2") as made:
        made.wait_for_pool(2)
        yield made


@pytest.mark.needs("root", "limit.memory")
async def test_p4_a_warm_claim_has_all_that_was_asked_for(control: ControlPlane) -> None:
    async with AsyncSandbox(
        url=control.url,
        limits=Limits(memory=64 * 2**20, pids=64),
        ttl=600,
        idle_timeout=300.5,
        env={"WHO": "caller", "RAW": b"\xff"},
        cwd="/tmp",
        user="65534",
        labels={"run": "r1"},
    ) as sandbox:
        result = await sandbox.run("echo $WHO; pwd; id -u; printf %s $RAW | od -An -tx1")
        info = await sandbox.info()

    assert result.stdout == "caller\n/tmp\n65534\n ff\n"
    assert (info.launch, info.labels, info.limits.memory) == ("warm", {"run": "r1"}, 64 * 2**20)
    assert (info.expires_at - info.created_at).total_seconds() == pytest.approx(600)
    assert control.pool()["claims"] == {"warm": 1, "cold": 0}
    assert control.ids() == []


def test_the_blocking_form_uses_it_by_the_environment_too(
    control: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOXD_URL", control.url)
    with Sandbox() as sandbox:
        sandbox.files.write("/tmp/f", b"hello")
        process = sandbox.start("cat /tmp/f; cat", stdin=True)
        process.write_stdin(b" world")
        process.close_stdin()
        assert process.wait().stdout == "hello world"
        assert control.ids() == [sandbox.id]
        assert sandbox.startup.total == pytest.approx(
            sandbox.startup.hidden + sandbox.startup.waited
        )


def test_a_unix_socket_serves_as_well_and_is_for_this_user_alone() -> None:
    with ControlPlane(socket=True) as control:
        assert (control.state / "api.sock").stat().st_mode & 0o777 == 0o600
        with Sandbox(url=control.url) as sandbox:
            assert sandbox.run("echo hi").stdout == "hi\n"
            assert sandbox.info().launch == "cold"


async def test_an_unbound_handle_is_asked_in_order(control: ControlPlane) -> None:
    async with AsyncSandbox(url=control.url) as sandbox:
        calls = [
            asyncio.ensure_future(sandbox.run(f"echo {number} >> /tmp/log")) for number in range(20)
        ]
        writes = asyncio.ensure_future(sandbox.files.write("/tmp/last", b"x"))
        await asyncio.gather(*calls, writes)
        order = (await sandbox.run("cat /tmp/log")).stdout

    # Begun in order; short ones may still overtake each other inside.
    assert sorted(map(int, order.split())) == list(range(20))


async def test_after_the_claim_the_control_plane_is_not_on_the_path(control: ControlPlane) -> None:
    async with AsyncSandbox(url=control.url) as sandbox:
        await sandbox.ready()
        control.stop()
        assert (await sandbox.run("echo still here")).stdout == "still here\n"
        await sandbox.files.write("/tmp/f", b"data")
        assert await sandbox.files.read("/tmp/f") == b"data"
        lost = AsyncSandbox(url=control.url)
        with pytest.raises(ControlUnreachableError, match="sandboxd serve"):
            await lost.ready()
        await lost.close()
    control.start()
    assert control.ids() == []


def test_r6_a_repeated_claim_finds_the_same_sandbox(control: ControlPlane) -> None:
    with control.client() as client:
        key = {"Idempotency-Key": "rollout 7"}
        answers = [client.post("/v1/sandboxes", json={}, headers=key) for _ in range(2)]
        assert [each.status_code for each in answers] == [201, 201]
        assert len({each.json()["id"] for each in answers}) == 1
        other = client.post("/v1/sandboxes", json={"ttl": 60}, headers=key)
        assert (other.status_code, other.json()["code"]) == (400, "invalid_argument")
        assert control.ids() == [answers[0].json()["id"]]
        assert control.pool()["claims"] == {"warm": 1, "cold": 0}
        assert client.delete(f"/v1/sandboxes/{answers[0].json()['id']}").json()["released"]


async def test_r6_the_same_claim_at_once_makes_one_sandbox(control: ControlPlane) -> None:
    def claim() -> str:
        with control.client() as client:
            answer = client.post("/v1/sandboxes", json={}, headers={"Idempotency-Key": "k"})
            return str(answer.json()["id"])

    ids = await asyncio.gather(*(asyncio.to_thread(claim) for _ in range(8)))
    assert len(set(ids)) == 1
    assert control.ids() == [ids[0]]
    with control.client() as client:
        client.delete(f"/v1/sandboxes/{ids[0]}")


async def test_p3_more_claims_than_the_pool_has_are_all_served_and_counted() -> None:
    with ControlPlane("host=3") as control:
        control.wait_for_pool(3)
        sandboxes = [AsyncSandbox(url=control.url) for _ in range(20)]
        results = await asyncio.gather(*(each.run("echo ok") for each in sandboxes))
        launches = [(await each.info()).launch for each in sandboxes]
        await asyncio.gather(*(each.close() for each in sandboxes))

        assert [each.stdout for each in results] == ["ok\n"] * 20
        # Refills may be faster than the last claims.
        assert launches.count("warm") >= 3
        counted = control.pool()["claims"]
        assert counted == {name: launches.count(name) for name in ("warm", "cold")}
        assert control.ids() == []
        control.wait_for_pool(3)


async def test_l6_a_handle_closed_before_it_is_ready_leaves_nothing(control: ControlPlane) -> None:
    for _ in range(20):
        sandbox = AsyncSandbox(url=control.url)
        await sandbox.close()
        with pytest.raises(SandboxClosedError):
            await sandbox.run("true")
    async with AsyncSandbox(url=control.url) as last:
        await last.ready()
        assert control.ids() == [last.id]


async def test_l1_a_release_before_the_claim_refuses_it(control: ControlPlane) -> None:
    with control.client() as client:
        early = client.delete("/v1/sandboxes/rollout-1")
        assert early.json() == {"id": "rollout-1", "released": False}
        late = client.post("/v1/sandboxes", json={"id": "rollout-1"})
    assert (late.status_code, late.json()["code"]) == (410, "sandbox_closed")
    assert control.ids() == []


async def test_l5_a_sandbox_can_be_released_by_somebody_else(control: ControlPlane) -> None:
    async with AsyncSandbox(url=control.url) as sandbox:
        await sandbox.ready()
        with control.client() as client:
            assert client.delete(f"/v1/sandboxes/{sandbox.id}").json()["released"]
            assert not client.delete(f"/v1/sandboxes/{sandbox.id}").json()["released"]
        with pytest.raises(SandboxClosedError):
            await sandbox.run("true")


async def test_what_the_agent_refuses_comes_through_by_its_code(control: ControlPlane) -> None:
    async with AsyncSandbox("nope", url=control.url) as sandbox:
        with pytest.raises(UnknownTemplateError, match="host-hardened"):
            await sandbox.run("true")
    with pytest.raises(InvalidArgumentError, match="url must be"):
        AsyncSandbox(url="ftp://here")


def test_bad_input_names_the_field_and_makes_nothing(control: ControlPlane) -> None:
    cases = [
        (b'{"ttl": -1}', "ttl"),
        (b'{"ttl": "10"}', "ttl"),
        (b'{"ttl": NaN}', "ttl"),
        (b'{"tll": 10}', "tll"),
        (b'{"limits": {"memory": 1.5}}', "limits.memory"),
        (b'{"env": {"A": {"base64": "%"}}}', "env.A"),
        (b'{"id": "a/b"}', "id"),
        (b'{"ttl": 10', "body"),
        (b"[]", "body"),
    ]
    with control.client() as client:
        for body, field in cases:
            headers = {"Content-Type": "application/json"}
            answer = client.post("/v1/sandboxes", content=body, headers=headers)
            problem = answer.json()
            assert answer.status_code == 400, (body, problem)
            assert answer.headers["content-type"] == "application/problem+json"
            assert problem["code"] == "invalid_argument"
            assert field in problem["detail"], (body, problem)
        assert client.get("/v1/sandboxes/nobody").json()["code"] == "sandbox_not_found"
        assert client.get("/v1/nothing").status_code == 404
        assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 400
        long = client.post("/v1/sandboxes", content=b" " * (9 << 20), headers=headers)
        assert (long.status_code, long.json()["code"]) == (413, "too_large")
    assert control.ids() == []


def test_a_pool_can_be_resized_and_emptied(control: ControlPlane) -> None:
    with control.client() as client:
        assert client.put("/v1/pools/host", json={"size": 4}).json()["size"] == 4
        control.wait_for_pool(4)
        client.put("/v1/pools/host", json={"size": 0})
        control.wait_for_pool(0)
        unknown = client.put("/v1/pools/nope", json={"size": 1})
        assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_template")
        assert client.get("/readyz").status_code == 200
        assert "host" in client.get("/v1/templates").json()["templates"]

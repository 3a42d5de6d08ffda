"""Arguments are refused by name before anything is sent, or passed on exactly."""

from __future__ import annotations

import math
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxd import InvalidArgumentError, Limits, run_many
from sandboxd.client import _validate

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.lists(st.one_of(st.text(max_size=5), st.integers()), max_size=5),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
    st.just(object()),
)


@pytest.mark.parametrize("value", [10, 10.0, 0.5, 1e-9, 3600])
def test_t18_a_timeout_is_seconds_whole_or_not(value: float) -> None:
    assert _validate.nanoseconds("timeout", value) == round(value * 1e9)


def test_t14_no_timeout_is_no_limit() -> None:
    assert _validate.nanoseconds("timeout", None) is None


@pytest.mark.parametrize(
    "value", [-1, 0, -0.5, math.nan, math.inf, -math.inf, "10", b"10", True, [], 1e300, 10**30]
)
@pytest.mark.parametrize("name", ["timeout", "ttl", "idle_timeout"])
def test_t18_a_wrong_time_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        _validate.nanoseconds(name, value)


@pytest.mark.parametrize("value", [-1, 0, math.nan, math.inf, "10", True])
@pytest.mark.parametrize("name", ["timeout", "idle_output_timeout", "cpu_time"])
def test_t18_every_limit_of_time_of_a_command_is_refused_by_its_name(name: str, value: Any) -> None:
    given = {"timeout": None, "idle_output_timeout": None, "cpu_time": None, name: value}
    with pytest.raises(InvalidArgumentError, match=rf"^{name} "):
        _validate.times(**given)


def test_t14_a_command_has_no_limit_of_time_that_was_not_given() -> None:
    assert _validate.times(None, None, None) == (None, None, None)
    assert _validate.times(10, 0.5, 10.0) == (10_000_000_000, 500_000_000, 10_000_000_000)


@given(ANYTHING)
def test_t18_whatever_a_time_is_it_is_refused_or_fits_the_wire(value: object) -> None:
    try:
        checked = _validate.nanoseconds("timeout", value)
    except InvalidArgumentError:
        return
    assert checked is None or 1 <= checked < 2**64


@given(st.tuples(ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING))
def test_t18_whatever_limits_are_they_are_refused_or_fit_the_wire(values: Any) -> None:
    try:
        checked = _validate.limits(Limits(*values))
    except InvalidArgumentError as error:
        assert "limits." in str(error)  # noqa: PT017  (half of the cases raise)
        return
    widths = (64, 32, 32, 64, 64)
    for number, width in zip(checked, widths, strict=True):
        assert number is None or 1 <= number < 2**width


@given(ANYTHING)
def test_whatever_a_command_is_it_is_refused_or_bytes(value: Any) -> None:
    try:
        checked = _validate.command(value)
    except InvalidArgumentError as error:
        assert "command" in str(error)  # noqa: PT017  (half of the cases raise)
        return
    assert checked
    assert isinstance(checked, bytes) or all(isinstance(each, bytes) for each in checked)


@given(st.lists(st.binary(max_size=50).filter(lambda each: b"\0" not in each), min_size=1))
def test_arguments_pass_exactly(argv: list[bytes]) -> None:
    if argv[0]:
        assert _validate.command(argv) == argv


def test_arguments_from_the_file_system_pass_exactly() -> None:
    name = os.fsdecode(b"caf\xe9")
    assert _validate.command(["cat", name]) == [b"cat", b"caf\xe9"]


@pytest.mark.parametrize("value", ["", [], [""], [b""], ()])
def test_an_empty_command_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="command"):
        _validate.command(value)


@pytest.mark.parametrize("value", ["a\0b", ["a", "b\0"], ["a", b"\0"]])
def test_a_nul_byte_in_a_command_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"command.*NUL"):
        _validate.command(value)


@pytest.mark.parametrize("value", [b"ls", bytearray(b"ls"), 7, None, {"ls"}, ["ls", 7]])
def test_a_command_of_another_kind_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="command"):
        _validate.command(value)


def test_f4_an_argument_is_refused_above_the_limit_of_the_kernel() -> None:
    limit = 131_071
    assert _validate.command(["echo", "x" * limit]) == [b"echo", b"x" * limit]
    with pytest.raises(InvalidArgumentError, match=r"command\[1\].*131071"):
        _validate.command(["echo", "x" * (limit + 1)])


def test_f4_a_variable_is_refused_above_the_limit_of_the_kernel() -> None:
    fits = "x" * (131_071 - len("NAME="))
    assert _validate.environment({"NAME": fits}) == [(b"NAME", fits.encode())]
    with pytest.raises(InvalidArgumentError, match=r"env NAME.*131071"):
        _validate.environment({"NAME": fits + "x"})


def test_f4_a_shell_line_may_be_long() -> None:
    line = "#" + "x" * 1024 * 1024 + "\necho ok"
    assert _validate.command(line) == line.encode()


def test_all_arguments_together_are_bounded() -> None:
    with pytest.raises(InvalidArgumentError, match="in all"):
        _validate.command(["echo"] + ["x" * 131_000] * 100)


@pytest.mark.parametrize("value", [{"": "x"}, {"A=B": "x"}, {"A": 1}, {1: "x"}, {"A\0": "x"}])
def test_a_wrong_variable_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="env"):
        _validate.environment(value)


@pytest.mark.parametrize("value", ["A=B", ["A=B"], 7])
def test_an_environment_of_another_kind_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="env must be a mapping"):
        _validate.environment(value)


@pytest.mark.parametrize("value", ["/tmp", b"/tmp", Path("/tmp")])
def test_a_directory_is_text_bytes_or_a_path(value: Any) -> None:
    assert _validate.directory("cwd", value) == b"/tmp"


@pytest.mark.parametrize("value", ["", "tmp", "./x", "/a\0", 7, ["/"], "/" + "x" * 4096])
def test_a_wrong_directory_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="cwd"):
        _validate.directory("cwd", value)


@pytest.mark.parametrize("value", ["root", "0", "1000:1000", "häns"])
def test_a_user_is_text(value: str) -> None:
    assert _validate.user(value) == value


@pytest.mark.parametrize("value", ["", "a\0", 0, b"root", "a\nb", "x" * 257])
def test_a_wrong_user_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="user"):
        _validate.user(value)


@pytest.mark.parametrize("value", ["a", "x" * 64, "A-b_c.9"])
def test_an_id_is_short_and_plain(value: str) -> None:
    assert _validate.identifier("sandbox_id", value) == value


@pytest.mark.parametrize("value", ["", "x" * 65, "a b", "a/b", "é", "a\n", 7, None])
def test_a_wrong_id_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="sandbox_id"):
        _validate.identifier("sandbox_id", value)


@pytest.mark.parametrize("value", [["a"], "a", {"a": 1}, {"": "x"}, {1: "x"}, {"a": "\0"}])
def test_wrong_labels_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="labels"):
        _validate.labels(value)


def test_half_a_core_is_five_hundred_thousandths() -> None:
    assert _validate.limits(Limits(cpus=0.5)) == (None, None, 500, None, None)


@pytest.mark.parametrize("value", [5, "512M", {"memory": 1}, (1, 2, None, 3, 4), True, []])
def test_t18_what_is_no_limits_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="limits must be a Limits"):
        _validate.limits(value)


def test_the_least_and_most_cores_are_those_of_the_agent() -> None:
    source = Path(__file__).parents[2] / "rust/crates/sandboxd-agent/src/sandboxes/limits.rs"
    least = re.search(r"MIN_CPU_MILLIS: u32 = ([0-9_]+);", source.read_text())
    most = re.search(r"MIN_CPU_MILLIS, ([0-9_]+)\)", source.read_text())
    assert least is not None
    assert most is not None
    assert _validate.limits(Limits(cpus=_validate.LEAST_CPUS))[2] == int(least[1])
    assert _validate.limits(Limits(cpus=_validate.MOST_CPUS))[2] == int(most[1])


@pytest.mark.parametrize("value", [0.001, 0.0099, 10_001])
def test_fewer_or_more_cores_than_the_agent_takes_are_refused_with_the_range(value: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"limits\.cpus must be from 0\.01 to 10000"):
        _validate.limits(Limits(cpus=value))


@pytest.mark.parametrize("value", ["true", b"true", None, 5, {"true": 1}])
def test_t18_what_is_no_list_of_commands_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="commands must be a list of commands"):
        run_many(value)


def test_commands_may_come_one_by_one() -> None:
    assert list(_validate.commands(each for each in ("a", "b"))) == ["a", "b"]


def test_a_wrong_lifetime_does_not_promise_that_leaving_it_out_means_no_limit() -> None:
    with pytest.raises(InvalidArgumentError, match="leave it out for the default"):
        _validate.nanoseconds("ttl", 0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("memory", 0),
        ("memory", -1),
        ("memory", 1.5),
        ("memory", 2**63),
        ("pids", 0),
        ("pids", 2**32),
        ("pids", True),
        ("cpus", 0),
        ("cpus", math.nan),
        ("cpus", math.inf),
        ("cpus", "1"),
        ("disk", -5),
        ("output", "1"),
    ],
)
def test_a_wrong_limit_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"limits\.{field}"):
        _validate.limits(Limits(**{field: value}))


def test_text_for_stdin_is_utf_8() -> None:
    assert _validate.stdin("é") == "é".encode()


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), memoryview(b"x")])
def test_any_bytes_are_content(value: Any) -> None:
    assert _validate.content("data", value) == b"x"


@pytest.mark.parametrize("value", [7, None, ["x"], "\ud800"])
def test_wrong_content_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="data"):
        _validate.content("data", value)


def test_more_stdin_than_a_run_takes_is_refused_and_the_way_named() -> None:
    with pytest.raises(InvalidArgumentError, match="write_stdin"):
        _validate.stdin(bytes(_validate.STDIN_LIMIT + 1))


def test_a_message_does_not_repeat_megabytes() -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        _validate.nanoseconds("timeout", "x" * 1_000_000)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("number", sorted(signal.valid_signals()))
def test_a_signal_has_the_number_that_this_machine_gives_its_name(number: signal.Signals) -> None:
    assert _validate.signal(number) == number
    if isinstance(number, signal.Signals) and not number.name.startswith("SIGRT"):
        for name in (number.name, number.name.removeprefix("SIG"), number.name.lower()):
            assert _validate.signal(name) == number


@pytest.mark.parametrize(
    "value", [0, 65, -1, 1.0, None, "", "SIG", "NOPE", "SIGSIGTERM", "15", "TERM ", "RTMIN"]
)
def test_a_wrong_signal_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="signal"):
        _validate.signal(value)


@pytest.mark.parametrize("value", [-1, 0o10000, "644"])
def test_a_wrong_mode_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="mode"):
        _validate.mode(value)

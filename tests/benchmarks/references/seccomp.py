"""The filter that podman gives every container, as an OCI runtime wants it.

Docker's is nearly the same. A runtime compiles and installs it for every container and again for
every exec, which is a large part of what an exec in a container costs.
"""

from __future__ import annotations

import json
from typing import Any

from tests.benchmarks.references.program import BUILT

# Taken from Debian's golang-github-containers-common by setup.sh.
_PROFILE = BUILT / "seccomp.json"
_ARCHITECTURE = "amd64"
_ARCHITECTURES = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]

CAPABILITIES = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
]


def available() -> bool:
    """Whether the set-up found the profile."""
    return _PROFILE.exists()


def default_filter() -> dict[str, Any]:
    """`linux.seccomp` of a container with podman's default capabilities."""
    profile = json.loads(_PROFILE.read_text())
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile["defaultErrnoRet"],
        "architectures": _ARCHITECTURES,
        "syscalls": [_rule(rule) for rule in profile["syscalls"] if _applies(rule)],
    }


def _applies(rule: dict[str, Any]) -> bool:
    includes, excludes = rule["includes"], rule["excludes"]
    return (
        _ARCHITECTURE in includes.get("arches", [_ARCHITECTURE])
        and set(includes.get("caps", [])) <= set(CAPABILITIES)
        and not set(excludes.get("caps", [])) & set(CAPABILITIES)
    )


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    known = {key: rule[key] for key in ("names", "action", "errnoRet", "args") if rule.get(key)}
    if "args" in known:
        known["args"] = [_argument(argument) for argument in known["args"]]
    return known


def _argument(argument: dict[str, Any]) -> dict[str, Any]:
    return {key: argument[key] for key in ("index", "value", "valueTwo", "op")}

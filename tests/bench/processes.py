"""What a process and its children take, as Linux tells it."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tree of processes takes; *resident_bytes* counts pages that several of them share several times."""

    processes: int
    resident_bytes: int
    anonymous_bytes: int
    cpu_seconds: float


def usage(pid: int) -> Usage:
    """Return what the process and all its descendants take; those that end meanwhile count nothing."""
    pids = _descendants(pid)
    resident = anonymous = 0
    cpu = 0.0
    for one in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            status = _status(one)
            resident += status.get("VmRSS", 0)
            anonymous += status.get("RssAnon", 0)
            fields = _stat(one)
            cpu += (int(fields[11]) + int(fields[12])) / _TICKS
    return Usage(len(pids), resident, anonymous, cpu)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for path in _PROC.iterdir():
        if path.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                children[int(_stat(int(path.name))[1])].append(int(path.name))
    found = [pid]
    for one in found:
        found.extend(children[one])
    return found


def _stat(pid: int) -> list[str]:
    """Return the fields after the command's name, which may hold anything: state, parent and so on."""
    return (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _status(pid: int) -> dict[str, int]:
    lines = (_PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    return {
        name: int(rest.split()[0]) * 1024
        for name, _, rest in (line.partition(":") for line in lines)
        if rest.strip().endswith("kB")
    }

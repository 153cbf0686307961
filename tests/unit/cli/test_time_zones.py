"""The name of the machine's time zone, by TZ and by files as systems have them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from memsvc.cli.moments import in_machine_zone, in_zone, is_time_zone, machine_time_zone
from memsvc.client import MemsvcCallError
from memsvc.client.errors import Violation


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root folder with `etc` and files of zones, without TZ."""
    monkeypatch.delenv("TZ", raising=False)
    (tmp_path / "etc").mkdir()
    for name in ("Asia/Shanghai", "posix/Europe/Lisbon", "localtime"):
        zone = tmp_path / "usr/share/zoneinfo" / name
        zone.parent.mkdir(parents=True, exist_ok=True)
        zone.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("Asia/Shanghai", "Asia/Shanghai"),
        (":Asia/Shanghai", "Asia/Shanghai"),
        (":/usr/share/zoneinfo/Asia/Shanghai", "Asia/Shanghai"),
        ("CST-8", "Europe/Lisbon"),
        (":/etc/localtime", "Europe/Lisbon"),
        ("localtime", "Europe/Lisbon"),
        ("../x\udc80", "Europe/Lisbon"),
        ("", "Europe/Lisbon"),
    ],
)
def test_the_variable_is_first_if_it_names_a_zone(
    root: Path, monkeypatch: pytest.MonkeyPatch, given: str, name: str
) -> None:
    """Rules of a zone, or a file that is none of the IANA, are passed over."""
    (root / "etc/timezone").write_text("Europe/Lisbon\n")
    monkeypatch.setenv("TZ", given)
    assert machine_time_zone(root) == name


def test_a_link_is_next_and_then_the_file_of_the_name(root: Path) -> None:
    """A copy of a zone's file has no name."""
    link, named = root / "etc/localtime", root / "etc/timezone"
    assert machine_time_zone(root) == ""
    link.symlink_to("../usr/share/zoneinfo/Asia/Shanghai")
    named.write_text("Europe/Lisbon\n")
    assert machine_time_zone(root) == "Asia/Shanghai"
    link.unlink()
    link.symlink_to(root / "usr/share/zoneinfo/posix/Europe/Lisbon")
    named.write_bytes(b"\xff")
    assert machine_time_zone(root) == "Europe/Lisbon"
    link.unlink()
    link.touch()
    assert machine_time_zone(root) == ""
    named.write_text("Asia/Tokyo\n")
    assert machine_time_zone(root) == "Asia/Tokyo"
    link.unlink()
    link.symlink_to(link)
    assert machine_time_zone(root) == "Asia/Tokyo"


def test_names_that_are_no_zones() -> None:
    """Neither paths nor files that are not of the IANA."""
    assert is_time_zone("Asia/Shanghai")
    others = ("", "Nowhere", "/etc/passwd", "../x", "localtime", "posixrules", "Factory", "right/Europe/Berlin", "a\0")
    assert not [name for name in others if is_time_zone(name)]


def service_of(*known: str, asked: list[str], field: str = "options.time_zone") -> Callable[[str], str]:
    """Return a call to a service that knows these zones only, and records the zones that it gets."""

    def ask(zone: str) -> str:
        asked.append(zone)
        if zone and zone not in known:
            violations = (Violation(field, "must be an IANA time zone such as Asia/Shanghai."),)
            raise MemsvcCallError(grpc.StatusCode.INVALID_ARGUMENT, "Invalid.", violations=violations)
        return zone

    return ask


@pytest.mark.parametrize(
    ("zone", "known", "asked"),
    [
        ("Asia/Tokyo", ["Asia/Tokyo"], ["Asia/Tokyo"]),
        ("Japan", ["Etc/GMT-9"], ["Japan", "Etc/GMT-9"]),
        ("US/Hawaii", ["Etc/GMT+10"], ["US/Hawaii", "Etc/GMT+10"]),
        ("US/Hawaii", [], ["US/Hawaii", "Etc/GMT+10", ""]),
        ("Asia/Calcutta", [], ["Asia/Calcutta", ""]),
        ("Iceland", [], ["Iceland", ""]),
        ("Etc/UTC", ["Etc/UTC"], [""]),
    ],
)
def test_a_zone_that_the_service_does_not_know(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], zone: str, known: list[str], asked: list[str]
) -> None:
    """The present offset takes its place, else none; it is said once. The zone of UTC is left to the service."""
    monkeypatch.setenv("TZ", zone)
    calls: list[str] = []
    assert in_machine_zone(service_of(*known, asked=calls)) == asked[-1]
    assert calls == asked
    assert capsys.readouterr().err.count(repr(zone)) == (len(asked) > 1)


def test_other_errors_and_named_zones_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zone that is named in the command is the zone, or an error."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    calls: list[str] = []
    with pytest.raises(MemsvcCallError):
        in_machine_zone(service_of(asked=calls, field="query"))
    with pytest.raises(MemsvcCallError):
        in_zone("Mars/Olympus", service_of(asked=calls))
    assert in_zone("Asia/Seoul", service_of("Asia/Seoul", asked=calls)) == "Asia/Seoul"
    assert calls == ["Asia/Tokyo", "Mars/Olympus", "Asia/Seoul"]


def test_a_service_knows_zones_on_a_system_without_any() -> None:
    """Earlier names among them, which some systems have in a package of their own: its dependencies bring them."""
    script = (
        "from memsvc.domain.field_rules import time_zone; print([str(time_zone(n)) for n in ('US/Pacific', 'Japan')])"
    )
    environment = {"PYTHONTZPATH": "", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['US/Pacific', 'Japan']"

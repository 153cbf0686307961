"""The name of the machine's time zone, by TZ and by files as systems have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsvc.cli.moments import is_time_zone, machine_time_zone


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
    assert not [name for name in ("", "Nowhere", "/etc/passwd", "../x", "localtime", "a\0") if is_time_zone(name)]

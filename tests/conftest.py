"""What holds for every test: logging is as it was before, names are short, and work is shared out well."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

LONGEST_NAME = 200
LAST = ("unit", "contract")
"""Folders of quick tests, in order: the last ones are given out one by one, so that all processes end together."""

# How long an example takes, or takes to be drawn, tells of what else the machine is at: it may stand still for seconds.
# Examples are the same in every run; those of a run with MEMSVC_TEST_EXAMPLES are new.
settings.register_profile(
    "memsvc",
    parent=settings.default,
    deadline=None,
    derandomize="MEMSVC_TEST_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("memsvc")

# Servers of tests have no HTTP address unless a test gives them one: all would take the same port.
os.environ["MEMSVC_HTTP__ADDRESS"] = ""


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Take back what a test that configures logging did: the process is shared."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    config = structlog.get_config()
    yield
    structlog.configure(**config)
    root.setLevel(level)
    root.handlers[:] = handlers


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten the names of tests of long texts: each is escaped, sent between processes and reported several times."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_NAME:
        return f"{val[:40]!r} and so on, {len(val)} long"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that share a fixture of their module to one process, and quick tests to whichever is ready first.

    Otherwise each process makes the fixture, be it a server, and at the end one has nothing to do while the other is in
    the midst of a long test. Unit tests go by the module: after each test xdist counts all that it has given out.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None and (group := _group(item)):
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: next((place for place, name in enumerate(LAST, 1) if name in item.path.parts), 0))


def _group(item: pytest.Item) -> str:
    """Return the class or module whose fixture a test uses, or the module of a unit test, or nothing."""
    if not isinstance(item, pytest.Function):
        return ""
    if "unit" in item.path.parts:
        return item.nodeid.partition("::")[0]
    scopes = {found[-1].scope for found in item._fixtureinfo.name2fixturedefs.values()}
    if "module" in scopes:
        return item.nodeid.partition("::")[0]
    return item.nodeid.rpartition("::")[0] if "class" in scopes else ""


def pytest_collection_finish() -> None:
    """Spare the garbage collector what lives as long as the run: modules and thousands of tests."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Save the coverage of a worker of xdist, which ends without its exit handlers."""
    if hasattr(session.config, "workerinput") and "COVERAGE_PROCESS_START" in os.environ:
        from coverage import Coverage  # noqa: PLC0415 - seldom measured

        measured = Coverage.current()
        if measured is not None:
            measured.stop()
            measured.save()

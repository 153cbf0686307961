"""Summaries of the last month and of topics, by maintenance."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create, list_all
from tests.support.server_process import Stubs
from tests.support.server_thread import served

STEP = lifecycle_pb.MAINTENANCE_STEP_SUMMARIZE
LAST = datetime.now(UTC).replace(day=1, hour=12) - timedelta(days=3)
MONTH = f"summary/{LAST:%Y-%m}"
TEXTS = {
    "en": ("The otter moved into the pond.", "The pond was cleaned.", "Tea was served in the garden."),
    "zh": ("水獭搬进了池塘。", "池塘清理干净了。", "花园里上了茶。"),
}


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A service that summarises months of three memories, and two topics."""
    settings = {"month_memories": 3, "month_topics": ["Pond", "池塘", "chess"]}
    with served(tmp_path_factory.mktemp("months") / "data", consolidation=settings) as opened:
        yield opened


def run(stubs: Stubs, scope: types_pb.Scope, **request: object) -> list[lifecycle_pb.MaintenanceChange]:
    """Run the step and return its changes."""
    asked = lifecycle_pb.RunMaintenanceRequest(scope=scope, steps=[STEP], **request)  # type: ignore[arg-type] # any field
    told = list(stubs.lifecycle.RunMaintenance(asked, timeout=TIMEOUT))
    assert [STEP] == [tally.step for tally in told[-1].tallies]
    assert not told[-1].tallies[0].failure
    return [change for response in told for change in response.changes]


def store(stubs: Stubs, scope: types_pb.Scope, *texts: str) -> list[str]:
    """Store memories of the last month; return their ids."""
    moment = Timestamp()
    moment.FromDatetime(LAST)
    return [create(stubs, scope, text, event_time=moment).id for text in texts]


def keys(stubs: Stubs, scope: types_pb.Scope) -> set[str]:
    """Return the keys of the memories of a project."""
    return {
        memory.key for memory in list_all(stubs, scope) if memory.key and memory.scope.project_id == scope.project_id
    }


@pytest.mark.parametrize(("language", "topic"), [("en", "pond"), ("zh", "池塘")])
def test_the_last_month_is_summarised_once(stubs: Stubs, user: str, language: str, topic: str) -> None:
    """As a whole and by the topics that it has; a dry run says so before, and a second run finds nothing."""
    whole, project = types_pb.Scope(user_id=user), types_pb.Scope(user_id=user, project_id="garden")
    ids = store(stubs, project, *TEXTS[language])
    store(stubs, types_pb.Scope(user_id=user, project_id="small"), *TEXTS[language][:2])
    store(stubs, types_pb.Scope(user_id=f"{user}-corp", project_id="garden"), "The heron stole a fish.")

    [planned] = run(stubs, whole, dry_run=True)
    assert (planned.project_id, planned.reason) == ("garden", lifecycle_pb.MAINTENANCE_REASON_MONTH_ENDED)
    assert planned.memory_id in ids
    assert not keys(stubs, project)
    assert [planned] == run(stubs, whole)
    assert keys(stubs, project) == {MONTH, f"{MONTH}/{topic}"}
    summaries = {memory.key: memory for memory in list_all(stubs, project) if memory.key}
    assert set(summaries[MONTH].derived_from_ids) == set(ids)
    assert set(summaries[f"{MONTH}/{topic}"].derived_from_ids) == set(ids[:2])
    assert "heron" not in summaries[MONTH].content
    assert run(stubs, whole) == run(stubs, project) == []


def test_what_is_of_another_month_is_left(stubs: Stubs, user: str) -> None:
    """The present month has not ended."""
    scope = types_pb.Scope(user_id=user)
    for text in TEXTS["en"]:
        create(stubs, scope, text)
    assert run(stubs, scope) == []

"""Webhooks of a real server, to a receiver that misbehaves: order, retries, dead letters, restarts and erasure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from google.protobuf.json_format import ParseDict

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.access.support import ASKING, keyed
from tests.e2e.access.test_key_commands import memsvc
from tests.support.postgres_server import schema
from tests.support.rpc import TIMEOUT, create, create_all, refused
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until
from tests.support.webhook_receiver import SECRET, Answer, Receiver, Request, receiving

STRICT = "wh-strict"
"""A user whose changes a second endpoint gets, too."""


def settings(**endpoints: dict[str, Any]) -> dict[str, str]:
    """Return the variables of endpoints."""
    variables = {
        "MEMSVC_WEBHOOKS__ALLOW_PRIVATE": "true",
        "MEMSVC_WEBHOOKS__TIMEOUT_SECONDS": "1",
        "MEMSVC_WEBHOOKS__RETRY_SECONDS": "0.05",
        "MEMSVC_WEBHOOKS__MAX_RETRY_SECONDS": "0.5",
        "MEMSVC_WEBHOOKS__MAX_ATTEMPTS": "1000",
    }
    for name, values in endpoints.items():
        for key, value in {"secret": SECRET, **values}.items():
            text = value if isinstance(value, str) else json.dumps(value)
            variables[f"MEMSVC_WEBHOOKS__ENDPOINTS__{name.upper()}__{key.upper()}"] = text
    return variables


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """The receiver of the module's server."""
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def sender(receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with an endpoint for all changes and one for some users and kinds."""
    environment = FAST | settings(
        all={"url": f"{receiver.url}/"},
        strict={"url": f"{receiver.url}/strict?a=1", "user_ids": [STRICT], "events": ["memory.created"]},
    )
    environment["MEMSVC_METRICS__ADDRESS"] = "127.0.0.1:0"
    with ServerProcess(tmp_path_factory.mktemp("webhooks") / "data", environment) as server:
        with server.stubs() as stubs:
            # An endpoint gets what is written from its first read of the outbox on.
            until(lambda: _ping(stubs, receiver))
        yield server


def _ping(stubs: Stubs, receiver: Receiver) -> list[Request]:
    create(stubs, types_pb.Scope(user_id=STRICT), f"ping {datetime.now(UTC)}")
    return receiver.of("/strict?a=1")


@pytest.fixture
def sending(sender: ServerProcess, receiver: Receiver) -> Iterator[Stubs]:
    """Stubs of the server; the receiver accepts everything again afterwards."""
    with sender.stubs() as stubs:
        yield stubs
    receiver.answer = lambda _path, _user: Answer()


def letters(stubs: Stubs, endpoint: str = "", **request: Any) -> list[admin_pb.DeadLetter]:
    """Return dead letters."""
    request_ = admin_pb.ListDeadLettersRequest(endpoint=endpoint, **request)
    return list(stubs.admin.ListDeadLetters(request_, timeout=TIMEOUT).dead_letters)


def test_every_change_arrives_signed_and_as_a_watch_streams_it(
    sending: Stubs, receiver: Receiver, scope: types_pb.Scope
) -> None:
    """Created, updated and deleted, in order, in Chinese and English; a removed memory is not in the event."""
    scope.project_id = "网"
    memory = create(sending, scope, "Ada 喜欢绿茶, she says")
    changed = types_pb.Memory(id=memory.id, content="Ada 现在喝咖啡")
    sending.memory.UpdateMemory(memory_pb.UpdateMemoryRequest(scope=scope, memory=changed), timeout=TIMEOUT)
    sending.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=memory.id), timeout=TIMEOUT)

    arrived = until(lambda: found if len(found := receiver.of(user=scope.user_id)) == 3 else None)
    changes = [ParseDict(one.change, memory_pb.MemoryChange()) for one in arrived]
    assert [one.event["type"] for one in arrived] == ["memory.created", "memory.updated", "memory.deleted"]
    assert [change.memory.content for change in changes] == ["Ada 喜欢绿茶, she says", "Ada 现在喝咖啡", ""]
    assert [change.effect for change in changes] == [1, 2, 3]
    assert {change.memory_id for change in changes} == {memory.id}
    assert all(one.is_signed() for one in arrived)
    assert not arrived[0].is_signed("whsec_" + "A" * 32)
    assert len({one.headers["webhook-id"] for one in arrived}) == 3
    assert {one.headers["host"] for one in arrived} == {receiver.url.removeprefix("http://")}
    assert {one.event["data"]["projectId"] for one in arrived} == {"网"}
    sent = int(arrived[0].headers["webhook-timestamp"])
    assert abs(datetime.now(UTC).timestamp() - sent) < TIMEOUT
    assert datetime.fromisoformat(arrived[0].event["timestamp"]) == changes[0].time.ToDatetime(UTC)


def test_an_endpoint_gets_the_chosen_users_and_events_only(
    sending: Stubs, receiver: Receiver, scope: types_pb.Scope
) -> None:
    """The endpoint for one user and for new memories gets nothing else."""
    strict = types_pb.Scope(user_id=STRICT)
    first = create(sending, strict, "strict 一")
    sending.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=strict, id=first.id), timeout=TIMEOUT)
    create(sending, scope, "of somebody else")
    last = create(sending, strict, "strict 二")

    def ids() -> list[str]:
        return [one.change["memoryId"] for one in receiver.of("/strict?a=1")]

    until(lambda: last.id in ids())
    assert ids()[ids().index(first.id) :] == [first.id, last.id]
    assert {one.user for one in receiver.of("/strict?a=1")} == {STRICT}
    assert {one.event["type"] for one in receiver.of("/strict?a=1")} == {"memory.created"}


def test_what_is_in_quarantine_is_not_sent(sending: Stubs, receiver: Receiver, scope: types_pb.Scope) -> None:
    """Until a review accepts it."""
    quarantined = types_pb.MEMORY_STATUS_QUARANTINED
    doubtful = create(sending, scope, "来路不明 of doubtful origin", status=quarantined)
    assert doubtful.status == quarantined
    clear = create(sending, scope, "a clear one")
    until(lambda: receiver.of(user=scope.user_id))
    assert [one.change["memoryId"] for one in receiver.of(user=scope.user_id)] == [clear.id]

    review = memory_pb.ReviewMemoryRequest(scope=scope, id=doubtful.id, verdict=memory_pb.REVIEW_VERDICT_APPROVE)
    sending.memory.ReviewMemory(review, timeout=TIMEOUT)
    arrived = until(lambda: found[1:] if len(found := receiver.of(user=scope.user_id)) > 1 else None)
    change = ParseDict(arrived[0].change, memory_pb.MemoryChange())
    assert (change.memory_id, change.effect) == (doubtful.id, memory_pb.WATCH_EFFECT_ENTERED)
    assert change.memory.content == "来路不明 of doubtful origin"


@pytest.mark.parametrize(
    "failure",
    [
        Answer(500),
        Answer(503, {"retry-after": "0"}),
        Answer(429, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        Answer(408, {"retry-after": "soon"}),
        Answer(hangs=True),
        Answer(drips=True),
    ],
    ids=["500", "503", "429", "408", "hangs", "drips"],
)
def test_a_failure_holds_back_one_user_and_keeps_the_order(
    sending: Stubs, receiver: Receiver, scope: types_pb.Scope, failure: Answer
) -> None:
    """Others get theirs in the meantime; afterwards everything comes in order, retries with the same id."""
    failing = scope.user_id
    receiver.answer = lambda _path, user: failure if user == failing else Answer()
    written = [create(sending, scope, f"held back {number}").id for number in range(3)]
    other = types_pb.Scope(user_id=f"{failing}-other")
    passed = [create(sending, other, f"passes {number} 次").id for number in range(3)]

    until(lambda: len(receiver.of(user=other.user_id)) == 3)
    until(lambda: len(receiver.of(user=failing)) >= 2)
    tried = receiver.of(user=failing)
    receiver.answer = lambda _path, _user: Answer()
    arrived = until(lambda: found if len(found := receiver.of(user=failing, accepted=True)) >= 3 else None)

    assert [one.change["memoryId"] for one in receiver.of(user=other.user_id)] == passed
    assert {(one.headers["webhook-id"], one.change["memoryId"]) for one in tried} == {
        (arrived[0].headers["webhook-id"], written[0])
    }
    assert [one.change["memoryId"] for one in arrived] == written


@pytest.mark.parametrize("status", [302, 307, 400, 404])
def test_a_refusal_is_a_dead_letter_at_once(
    sending: Stubs, sender: ServerProcess, receiver: Receiver, scope: types_pb.Scope, status: int
) -> None:
    """Redirects are not followed; the next change is sent; commands list it, deliver it again and drop it."""
    refused_user = scope.user_id
    target = {"location": f"{receiver.url}/elsewhere"}
    receiver.answer = lambda _path, user: Answer(status, target) if user == refused_user else Answer()
    memory = create(sending, scope, "is refused 被拒绝")
    [letter] = until(lambda: [one for one in letters(sending, "all") if one.user_id == refused_user])

    assert (letter.memory_id, letter.status, letter.attempt_count, letter.type) == (
        memory.id,
        status,
        1,
        "memory.created",
    )
    assert f"answered {status}" in letter.error
    assert receiver.of("/elsewhere") == []
    receiver.answer = lambda _path, _user: Answer()
    following = create(sending, scope, "the next one")
    until(lambda: following.id in [one.change["memoryId"] for one in receiver.of(user=refused_user, accepted=True)])

    here = {"MEMSVC_ADDRESS": sender.bound}
    assert letter.event_id in memsvc("webhooks", "dead-letters", "all", "--json", **here)[1]
    assert memsvc("webhooks", "retry", "all", letter.event_id, **here)[:2] == (0, "1 to be delivered again")
    again = until(lambda: found if len(found := receiver.of(user=refused_user)) == 3 else None)
    assert again[2].headers["webhook-id"] == letter.event_id == again[0].headers["webhook-id"]
    assert letter.event_id not in [one.event_id for one in letters(sending)]
    assert memsvc("webhooks", "drop", "all", letter.event_id, **here)[:2] == (0, "0 dropped")


def test_dead_letters_come_page_by_page_and_can_be_dropped(
    sending: Stubs, receiver: Receiver, scope: types_pb.Scope
) -> None:
    """In the order of the changes, and a dropped one is gone for good."""
    receiver.answer = lambda _path, user: Answer(400) if user == scope.user_id else Answer()
    written = [create(sending, scope, f"refused {number}").id for number in range(3)]
    until(lambda: len([one for one in letters(sending) if one.user_id == scope.user_id]) == 3)
    found: list[admin_pb.DeadLetter] = []
    request = admin_pb.ListDeadLettersRequest(page_size=2)
    while True:
        page = sending.admin.ListDeadLetters(request, timeout=TIMEOUT)
        found += page.dead_letters
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    mine = [one for one in found if one.user_id == scope.user_id]
    assert [one.memory_id for one in mine] == written

    dropped = admin_pb.DropDeadLettersRequest(endpoint="all", event_ids=[mine[0].event_id])
    assert sending.admin.DropDeadLetters(dropped, timeout=TIMEOUT).count == 1
    left = [one.memory_id for one in letters(sending) if one.user_id == scope.user_id]
    assert left == written[1:]


def test_wrong_requests_name_the_field(sending: Stubs) -> None:
    """An unknown endpoint, a foreign event and a foreign page."""
    retry, drop, show = sending.admin.RetryDeadLetters, sending.admin.DropDeadLetters, sending.admin.ListDeadLetters
    assert refused(retry, admin_pb.RetryDeadLettersRequest()).fields == ("endpoint",)
    unknown = refused(drop, admin_pb.DropDeadLettersRequest(endpoint="al"))
    assert unknown.fields == ("endpoint",)
    assert "'all', 'strict'" in unknown.message
    foreign = admin_pb.RetryDeadLettersRequest(endpoint="all", event_ids=["msg_1_2"])
    assert refused(retry, foreign).fields == ("event_ids[0]",)
    foreign = admin_pb.RetryDeadLettersRequest(endpoint="al", event_ids=["msg_1_2", "x"])
    assert refused(retry, foreign).fields == ("endpoint", "event_ids[0]", "event_ids[1]")
    assert refused(show, admin_pb.ListDeadLettersRequest(endpoint="x" * 65)).fields == ("endpoint",)
    assert refused(show, admin_pb.ListDeadLettersRequest(page_token="A" * 4)).fields == ("page_token",)


def test_a_gone_endpoint_is_turned_off_until_a_retry(sending: Stubs, receiver: Receiver) -> None:
    """410: nothing more is sent; a retry turns it on again, and what was written in the meantime arrives."""
    strict = types_pb.Scope(user_id=STRICT)
    receiver.answer = lambda path, _user: Answer(410) if path != "/" else Answer()
    first = create(sending, strict, "gone 1")
    until(lambda: letters(sending, "strict"))
    receiver.answer = lambda _path, _user: Answer()
    second = create(sending, strict, "gone 2")
    until(lambda: second.id in [one.change["memoryId"] for one in receiver.of(user=STRICT)])
    assert second.id not in [one.change["memoryId"] for one in receiver.of("/strict?a=1")]

    request = admin_pb.RetryDeadLettersRequest(endpoint="strict")
    assert sending.admin.RetryDeadLetters(request, timeout=TIMEOUT).count == 1
    until(lambda: second.id in [one.change["memoryId"] for one in receiver.of("/strict?a=1")])
    accepted = [one.change["memoryId"] for one in receiver.of("/strict?a=1", accepted=True)]
    assert accepted[-2:] == [first.id, second.id]


def test_an_erasure_removes_what_waits_and_dead_letters(
    sending: Stubs, receiver: Receiver, scope: types_pb.Scope
) -> None:
    """Nothing of an erased user is sent afterwards, and nothing is listed."""
    answers = iter([Answer(400)])
    erased = scope.user_id
    receiver.answer = lambda _path, user: next(answers, Answer(500)) if user == erased else Answer()
    for number in range(3):
        create(sending, scope, f"要删除 {number}")
    until(lambda: [one for one in letters(sending) if one.user_id == erased])
    until(lambda: len(receiver.of(user=erased)) >= 3)
    request = lifecycle_pb.EraseUserRequest(scope=scope, confirm=True)
    sending.lifecycle.EraseUser(request, timeout=TIMEOUT)

    assert [one for one in letters(sending) if one.user_id == erased] == []
    receiver.answer = lambda _path, _user: Answer()
    after = types_pb.Scope(user_id=f"{erased}-after")
    until(lambda: create(sending, after, f"{datetime.now(UTC)}") and receiver.of(user=after.user_id))
    assert receiver.of(user=erased, accepted=True) == []


def test_metrics_count_attempts_and_what_waits(
    sending: Stubs, sender: ServerProcess, receiver: Receiver, scope: types_pb.Scope
) -> None:
    """Delivered and failed attempts, and the age of the oldest event that waits."""
    url = next(line for line in (sender.data_dir.with_name("data.ready")).read_text().split() if "metrics" in line)

    def metric(name: str) -> float:
        with urlopen(url) as page:  # noqa: S310 - of the test's own server
            found = re.search(rf"^{re.escape(name)} (.*)$", page.read().decode(), re.MULTILINE)
        assert found is not None
        return float(found[1])

    failed = 'memsvc_webhook_attempts_total{endpoint="all",outcome="failed"}'
    before = metric(failed)
    receiver.answer = lambda _path, user: Answer(500) if user == scope.user_id else Answer()
    create(sending, scope, "waits 等")
    until(lambda: metric(failed) > before)
    assert metric('memsvc_webhook_pending{endpoint="all"}') >= 1
    assert metric('memsvc_webhook_lag_seconds{endpoint="all"}') > 0
    receiver.answer = lambda _path, _user: Answer()
    until(lambda: metric('memsvc_webhook_pending{endpoint="all"}') == 0)
    assert metric('memsvc_webhook_attempts_total{endpoint="all",outcome="delivered"}') > 0


def test_nothing_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    """What waits, and what was under way, arrives after the restart, in order and with the same ids."""
    scope = types_pb.Scope(user_id="ada")
    with receiving() as receiver:
        environment = FAST | settings(all={"url": f"{receiver.url}/"})
        with ServerProcess(tmp_path / "data", environment) as server:
            with server.stubs() as stubs:
                until(lambda: create(stubs, types_pb.Scope(user_id="p"), f"{datetime.now(UTC)}") and receiver.of())
                receiver.answer = lambda _path, user: Answer(hangs=True) if user == "ada" else Answer()
                written = [create(stubs, scope, f"survives {number} 活").id for number in range(20)]
                tried = until(lambda: receiver.of(user="ada"))
            server.kill()
            receiver.answer = lambda _path, _user: Answer()
            server.start()
            arrived = until(
                lambda: found if len(found := receiver.of(user="ada", accepted=True)) >= len(written) else None
            )
    assert [one.change["memoryId"] for one in arrived] == written
    assert tried[0].headers["webhook-id"] == arrived[0].headers["webhook-id"]


def test_an_endpoint_gets_changes_of_its_tenant_only(tmp_path: Path) -> None:
    """Two tenants have a user of the same name: each endpoint gets what its tenant wrote; only admins see dead letters."""
    ada = types_pb.Scope(user_id="ada")
    with receiving() as receiver:
        environment = ASKING | settings(
            acme={"url": f"{receiver.url}/acme", "tenant_id": "acme", "user_ids": ["ada"]},
            corp={"url": f"{receiver.url}/corp", "tenant_id": "acme-corp"},
        )
        with keyed(tmp_path / "data", environment) as asking:
            with asking.stubs("writer") as acme, asking.stubs("other tenant") as corp:
                until(lambda: create(acme, ada, f"{datetime.now(UTC)}") and receiver.of("/acme"))
                until(lambda: create(corp, ada, f"{datetime.now(UTC)}") and receiver.of("/corp"))
                ours = create(acme, ada, "of acme 甲").id
                theirs = create(corp, ada, "of acme-corp 乙").id
                until(lambda: ours in [one.change["memoryId"] for one in receiver.of("/acme")])
                until(lambda: theirs in [one.change["memoryId"] for one in receiver.of("/corp")])
                denied = refused(acme.admin.ListDeadLetters, admin_pb.ListDeadLettersRequest())
            with asking.stubs("admin") as admin:
                assert letters(admin) == []
    assert {one.event["data"]["tenantId"] for one in receiver.of("/acme")} == {"acme"}
    assert {one.event["data"]["tenantId"] for one in receiver.of("/corp")} == {"acme-corp"}
    assert theirs not in [one.change["memoryId"] for one in receiver.of("/acme")]
    assert denied.reason == "PERMISSION_DENIED"


def test_one_of_two_servers_sends_and_the_other_takes_over(tmp_path: Path) -> None:
    """Over one database every event arrives once and in order; when the sender is killed the other continues."""
    scope = types_pb.Scope(user_id="ada")
    with receiving() as receiver, schema() as url, ExitStack() as stack:
        environment = FAST | settings(all={"url": f"{receiver.url}/"}) | {"MEMSVC_METADATA__OPTIONS__URL": url}
        # The first one has the lease when the second one starts.
        one = stack.enter_context(ServerProcess(tmp_path / "one", environment))
        with one.stubs() as stubs:
            until(lambda: create(stubs, types_pb.Scope(user_id="p"), f"{datetime.now(UTC)}") and receiver.of())
            other = stack.enter_context(ServerProcess(tmp_path / "two", environment))
            with other.stubs() as others:
                both = [create((stubs, others)[number % 2], scope, f"两个 {number}").id for number in range(10)]
                until(lambda: len(receiver.of(user="ada")) >= len(both))
                before = [one.change["memoryId"] for one in receiver.of(user="ada")]
                one.kill()
                last = create(others, scope, "after the first was killed").id
                until(lambda: last in [one.change["memoryId"] for one in receiver.of(user="ada")])
    assert before == both
    assert [one.change["memoryId"] for one in receiver.of(user="ada")][-1] == last


def test_a_thousand_events_of_a_hundred_users_keep_their_order(
    sending: Stubs, receiver: Receiver, scope: types_pb.Scope
) -> None:
    """While every seventh answer is a failure."""
    numbers = iter(range(1_000_000))
    receiver.answer = lambda _path, _user: Answer(500) if next(numbers) % 7 == 0 else Answer()
    users = [f"{scope.user_id}-{number}" for number in range(100)]
    written: dict[str, list[str]] = {}
    for user in users:
        memories = create_all(sending, types_pb.Scope(user_id=user), [f"{user} 第 {number}" for number in range(10)])
        written[user] = [memory.id for memory in memories]

    def accepted() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for one in receiver.of(accepted=True):
            if one.user in written:
                found.setdefault(one.user, []).append(one.change["memoryId"])
        return found

    until(lambda: sum(map(len, accepted().values())) >= 1_000)
    assert accepted() == written

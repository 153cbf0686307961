"""Daily logs that have grown old are found without looking at the other memories."""

from __future__ import annotations

from memsvc.domain.maintenance import EVERYBODY, Area
from memsvc.domain.memory import Status
from memsvc.domain.scope import Scope
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.operations import LogPlace
from memsvc.testing import factories
from memsvc.testing.store_harness import OWNER, StoreSeams, insert

_TODAY = "daily/2026-02-06"


class StoreLogsContract(StoreSeams):
    """Old logs of everybody."""

    def test_old_logs_are_the_active_ones_before_a_day(self, store: MetadataStore) -> None:
        """In the order of their days, not those of that day and later, nor other keys, nor what is put away."""
        days = ("daily/2026-02-06", "daily/2026-01-30", "daily/2025-12-31", "daily/2026-02-05")
        logs = insert(store, *(factories.memory(day, key=day) for day in days))
        others = ("daily", "dailz/2025-01-01", "context/A", "")
        insert(store, *(factories.memory(f"Other {key}.", key=key) for key in others))
        put_away = {Status.ARCHIVED: "daily/2024-01-01", Status.EXPIRED: "daily/2024-01-02"}
        insert(store, *(factories.memory(key, key=key, status=status) for status, key in put_away.items()))
        wanted = [logs[2], logs[1], logs[3]]

        assert store.logs.old_logs(EVERYBODY, before=_TODAY, after=LogPlace(), limit=9) == wanted
        assert store.logs.old_logs(EVERYBODY, before=_TODAY, after=LogPlace(), limit=2) == wanted[:2]
        assert store.logs.old_logs(EVERYBODY, before=_TODAY, after=LogPlace(), limit=0) == []

    def test_logs_of_one_day_are_told_by_their_rows(self, store: MetadataStore) -> None:
        """So that reading goes on where it stopped, whoever the logs belong to."""
        day = "daily/2026-01-30"
        users = ("ada", "ada-2", "bob")
        logs = insert(store, *(factories.memory(f"Log of {user}.", key=day, user_id=user) for user in users))
        found = [
            store.logs.old_logs(EVERYBODY, before=_TODAY, after=place, limit=1)
            for place in (LogPlace(), *(LogPlace(log.key, log.row) for log in logs))
        ]

        assert found == [[logs[0]], [logs[1]], [logs[2]], []]

    def test_logs_are_held_to_the_area(self, store: MetadataStore) -> None:
        """To an owner, and to one of their projects; owners are compared as a whole."""
        day = "daily/2026-01-30"
        scopes = (("ada", ""), ("ada", "web"), ("ada", "web-2"), ("ada-2", "web"))
        logs = insert(
            store,
            *(
                factories.memory(f"{user} {project}", key=day, user_id=user, project_id=project)
                for user, project in scopes
            ),
        )

        def found(area: Area) -> list[str]:
            return [log.id for log in store.logs.old_logs(area, before=_TODAY, after=LogPlace(), limit=9)]

        assert found(Area(OWNER)) == [log.id for log in logs[:3]]
        assert found(Area(OWNER, "web")) == [logs[1].id]
        assert found(Area(Scope("bob").owner)) == []

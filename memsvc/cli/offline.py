"""Work on a data directory that no service has open: API keys, migration of the store, restore of a backup."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from memsvc.cli.connection import ADDRESS_VARIABLE
from memsvc.cli.errors import CommandError, print_error, require_server
from memsvc.cli.output import progress_bar, write, write_json_value
from memsvc.data_directory import private_files

if TYPE_CHECKING:
    from memsvc.client.admin import MigrationAction
    from memsvc.domain.errors import DataDirectoryLockedError
    from memsvc.engine.admin.api_keys import ApiKeyService
    from memsvc.settings import Settings
    from memsvc.v1 import admin_service_pb2 as admin_pb

KEY_PAGE = 1_000
UNIX = "unix:"


class OfflineKeys:
    """The API keys in a data directory, with requests and answers as of the service."""

    def __init__(self, keys: ApiKeyService) -> None:
        self._keys = keys

    def create(self, role: str, ttl: timedelta | None, fields: dict[str, Any]) -> admin_pb.CreateApiKeyResponse:
        """Make a key as the service would."""
        from memsvc.server.requests.admin import create_api_key_request  # noqa: PLC0415 - a quick start
        from memsvc.server.responses.admin import api_key_to_proto  # noqa: PLC0415
        from memsvc.v1 import admin_service_pb2 as admin_pb  # noqa: PLC0415

        request = admin_pb.CreateApiKeyRequest(role=admin_pb.ApiKeyRole.Value(role), **fields)
        if ttl is not None:
            request.ttl.FromTimedelta(ttl)
        made = self._keys.create(create_api_key_request(request)[0])
        return admin_pb.CreateApiKeyResponse(api_key=api_key_to_proto(made.key, datetime.now(UTC)), secret=made.text)

    def list(self, *, include_ended: bool) -> list[admin_pb.ApiKey]:
        """Return all keys, oldest first."""
        from memsvc.server.responses.admin import api_key_to_proto  # noqa: PLC0415 - a quick start

        now, after = datetime.now(UTC), ""
        found: list[admin_pb.ApiKey] = []
        while page := self._keys.page(after=after, limit=KEY_PAGE, include_ended=include_ended):
            found += [api_key_to_proto(key, now) for key in page]
            after = page[-1].id
        return found

    def revoke(self, key_id: str) -> admin_pb.ApiKey:
        """Make a key open nothing any more."""
        from memsvc.server.responses.admin import api_key_to_proto  # noqa: PLC0415 - a quick start

        return api_key_to_proto(self._keys.revoke(key_id), datetime.now(UTC))


def asks_service(address: str, config: Path | None, data_dir: Path | None) -> bool:
    """Return whether a command asks the service at *address* without a look at a data directory.

    --data-dir and --config are for the data directory and override the address of the variable.

    Raises:
        CommandError: Both an address and a data directory are options of the command.
    """
    is_variable = address == os.environ.get(ADDRESS_VARIABLE)
    if address and data_dir is not None and not is_variable:
        message = "Name a service with --address, or a data directory with --data-dir, not both."
        raise CommandError(message)
    return bool(address) and not (is_variable and (data_dir is not None or config is not None))


@contextmanager
def opened_keys(
    config: Path | None, data_dir: Path | None, address: str, *, may_create: bool
) -> Iterator[OfflineKeys | str]:
    """Open the keys of a data directory; yield the address of the service that has it open, if one has.

    That of a service that has not noted its own there is *address*. With *may_create* the directory may be new.

    Raises:
        CommandError: The server is not installed, or the directory does not exist.
    """
    require_server("`memsvc keys` without --address")
    from memsvc.bootstrap.offline import offline_keys  # noqa: PLC0415 - a quick start
    from memsvc.domain.errors import DataDirectoryLockedError  # noqa: PLC0415

    settings = _settings(config, data_dir)
    if not may_create:
        _require_directory(settings)
    with ExitStack() as stack:
        stack.enter_context(private_files())
        try:
            keys = stack.enter_context(offline_keys(settings))
        except DataDirectoryLockedError as error:
            yield _service_address(settings, error, address)
        else:
            print_error(f"No service has {settings.data_dir} open; working on it.")
            yield OfflineKeys(keys)


def migration_steps(
    stack: ExitStack,
    place: tuple[Path | None, Path | None],
    address: str,
    url: str | None,
    action: MigrationAction,
    *,
    discard_changes: bool,
) -> Iterator[admin_pb.MigrateBackendResponse] | str:
    """Return the steps of the store itself, which *stack* closes, or the address of the service that has it open.

    *place* is the settings file and the data directory; a service that has not noted its address is at *address*.

    Raises:
        CommandError: The server is not installed.
    """
    require_server("`memsvc migrate-backend` without --address")
    from memsvc.bootstrap.offline import offline_migration  # noqa: PLC0415
    from memsvc.domain.errors import DataDirectoryLockedError  # noqa: PLC0415 - a quick start
    from memsvc.engine.admin.store_migration import MoveAction  # noqa: PLC0415
    from memsvc.ports.operations import MoveChanges, MoveTarget  # noqa: PLC0415
    from memsvc.server.responses.admin import migrate_backend_response  # noqa: PLC0415

    settings = _settings(*place)
    _require_directory(settings)
    stack.enter_context(private_files())
    try:
        migration = stack.enter_context(offline_migration(settings))
    except DataDirectoryLockedError as error:
        return _service_address(settings, error, address)
    print_error(f"No service has {settings.data_dir} open; working on it.")
    changes = MoveChanges.DISCARD if discard_changes else MoveChanges.KEEP
    return map(migrate_backend_response, migration.run(MoveTarget(url or ""), MoveAction(action), changes))


def restore_backup(backup_folder: Path, data_dir: Path, *, as_json: bool) -> None:
    """Make a data directory of a backup, after verifying it.

    Raises:
        CommandError: The directory is not empty, the backup is not whole, or the server is not installed.
    """
    require_server("`memsvc restore --data-dir`")
    from memsvc.bootstrap.offline import restore  # noqa: PLC0415
    from memsvc.engine.admin.backup import BackupError  # noqa: PLC0415 - a quick start

    try:
        with private_files(), progress_bar("restore", shown=not as_json) as bar:
            counts = restore(backup_folder, data_dir, bar)
    except BackupError as error:
        raise CommandError(str(error)) from error
    if as_json:
        write_json_value({"data_dir": str(data_dir), "row_counts": dict(counts)})
    else:
        found = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()) if count)
        write(f"{data_dir}: {found or 'empty'}. Start with: memsvc serve --data-dir {quote(str(data_dir))}")


def _settings(config: Path | None, data_dir: Path | None) -> Settings:
    from memsvc.settings import load_settings  # noqa: PLC0415 - a quick start

    return load_settings(config, **({} if data_dir is None else {"data_dir": data_dir}))


def _require_directory(settings: Settings) -> None:
    """Refuse to make a data directory for a command that only looks at one: the name has a typing error.

    Raises:
        CommandError: The store is in the data directory, which does not exist.
    """
    if not settings.metadata.options and not settings.data_dir.exists():
        message = (
            f"There is no data directory {str(settings.data_dir)!r}: name that of the service with --data-dir, or the "
            "service with --address."
        )
        raise CommandError(message)


def _service_address(settings: Settings, locked: DataDirectoryLockedError, address: str) -> str:
    """Report the service that has a data directory open, and return where it is asked."""
    chosen = next(iter(sorted(locked.addresses, key=lambda one: not one.startswith(UNIX))), address)
    advice = "To ask another one, give --address instead of --data-dir."
    print_error(f"A service has {settings.data_dir} open; asking {chosen}. {advice}")
    return chosen

"""The commands about API keys and quotas: keys create, list and revoke; quotas set, get and list.

Those about keys ask the service, or work on the data of none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from memsvc.cli.connection import (
    ADDRESS_VARIABLE,
    DEFAULT_ADDRESS,
    ApiKey,
    Certificate,
    CertificateKey,
    CliContext,
    TlsCa,
    connected,
    os_user,
    tls_of,
)
from memsvc.cli.enums import KeyRole
from memsvc.cli.errors import CommandError, print_error, report_errors
from memsvc.cli.output import local_time, write, write_json, write_table

if TYPE_CHECKING:
    from memsvc.cli.offline import OfflineKeys
    from memsvc.client import Memsvc
    from memsvc.v1 import admin_service_pb2 as admin_pb

T = TypeVar("T")

PAGE = 1_000
app = typer.Typer(help="Create, list and revoke API keys.", no_args_is_help=True)

Address = Annotated[
    str,
    typer.Option(
        envvar=ADDRESS_VARIABLE,
        help="Ask the service here: HOST:PORT or unix:PATH.  [default: work on the data directory; while a service has "
        "it open, ask that]",
    ),
]
DataDir = Annotated[Path | None, typer.Option(help="Data directory.")]
Config = Annotated[Path | None, typer.Option(help="Settings file.  [default: memsvc.toml, if it exists]")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]


class _Place:
    """Location of the keys: behind a service, or in a data directory."""

    def __init__(
        self, address: str, config: Path | None, data_dir: Path | None, client: Callable[[str], Memsvc]
    ) -> None:
        self._address = address
        self._config = config
        self._data_dir = data_dir
        self._client = client

    def do(
        self, by_service: Callable[[Memsvc], T], by_store: Callable[[OfflineKeys], T], *, may_create: bool = False
    ) -> T:
        """Do it by the service when one is named or has the directory open, else by the store.

        A directory that is named comes before the address of the variable. With *may_create* it may be new.
        """
        from memsvc.cli.offline import asks_service, opened_keys  # noqa: PLC0415 - a quick start

        address = self._address or DEFAULT_ADDRESS
        if not asks_service(self._address, self._config, self._data_dir):
            with opened_keys(self._config, self._data_dir, address, may_create=may_create) as found:
                if not isinstance(found, str):
                    return by_store(found)
            address = found
        with report_errors(address), self._client(address) as client:
            return by_service(client)


@contextmanager
def _place(
    address: str,
    data_dir: Path | None,
    config: Path | None,
    api_key: str,
    tls: tuple[Path | None, Path | None, Path | None],
) -> Iterator[_Place]:
    with report_errors(address or DEFAULT_ADDRESS):
        from memsvc.client import Memsvc  # noqa: PLC0415 - a quick start

        yield _Place(
            address,
            config,
            data_dir,
            lambda where: Memsvc(where, user_id=os_user(), api_key=api_key, tls=tls_of(*tls)),
        )


@app.command()
def create(  # noqa: PLR0913 - an option each
    *,
    name: Annotated[str, typer.Option(help="Name of the key.")] = "",
    role: Annotated[KeyRole, typer.Option(help="Role of the key.")] = KeyRole.READ_WRITE,
    tenant: Annotated[str, typer.Option(help="Tenant id.  [default: the default tenant]")] = "",
    user: Annotated[list[str] | None, typer.Option(help="Authorise this user only. May be repeated.")] = None,
    project: Annotated[list[str] | None, typer.Option(help="Authorise this project only. May be repeated.")] = None,
    days: Annotated[float, typer.Option(min=0, max=36_500, help="Lifetime in days; 0: unlimited.")] = 0.0,
    calls_per_second: Annotated[
        float, typer.Option(min=0, help="Maximum calls per second; 0: as set for the service.")
    ] = 0,
    concurrent_calls: Annotated[
        int, typer.Option(min=0, help="Maximum concurrent calls; 0: as set for the service.")
    ] = 0,
    address: Address = "",
    data_dir: DataDir = None,
    config: Config = None,
    api_key: ApiKey = "",
    tls_ca: TlsCa = None,
    tls_certificate: Certificate = None,
    tls_key: CertificateKey = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and write it to stdout.

    It is shown once and stored nowhere.

    From the first key on the service asks every caller for one: let that be of role admin.
    """
    ttl = timedelta(days=days) if days else None
    fields: dict[str, Any] = {
        "name": name,
        "tenant_id": tenant,
        "user_ids": user or (),
        "project_ids": project or (),
        "calls_per_second": calls_per_second,
        "concurrent_calls": concurrent_calls,
    }
    with _place(address, data_dir, config, api_key, (tls_ca, tls_certificate, tls_key)) as place:
        reply, lacks_admin = place.do(
            # A service that has keys refuses callers without one.
            lambda client: (client.create_api_key(role=role.name, ttl=ttl, **fields), not api_key),  # type: ignore[arg-type]  # names of the API
            lambda keys: (keys.create(f"API_KEY_ROLE_{role.name}", ttl, fields), not _has_admin(keys)),
            may_create=True,
        )
    if lacks_admin and role is not KeyRole.ADMIN:
        print_error(
            "memsvc: From the first key on calls need a key, and no key has the role admin. To manage keys, stop the "
            "service and run `memsvc keys create --role admin` on its data directory."
        )
    if as_json:
        write_json(reply)
        return
    print_error(f"Key {reply.api_key.id}, of role {_name(role)}. Keep it now: it is not shown again.")
    write(reply.secret)


def _has_admin(keys: OfflineKeys) -> bool:
    from memsvc.v1 import admin_service_pb2 as admin_pb  # noqa: PLC0415 - a quick start

    return any(key.role == admin_pb.API_KEY_ROLE_ADMIN for key in keys.list(include_ended=False))


@app.command("list")
def list_keys(  # noqa: PLR0913 - an option each
    *,
    all_keys: Annotated[bool, typer.Option("--all", help="Include expired and revoked keys.")] = False,
    address: Address = "",
    data_dir: DataDir = None,
    config: Config = None,
    api_key: ApiKey = "",
    tls_ca: TlsCa = None,
    tls_certificate: Certificate = None,
    tls_key: CertificateKey = None,
    as_json: AsJson = False,
) -> None:
    """List the keys, oldest first."""

    def by_service(client: Memsvc) -> list[admin_pb.ApiKey]:
        return list(client.api_keys(include_ended=all_keys, page_size=PAGE))

    with _place(address, data_dir, config, api_key, (tls_ca, tls_certificate, tls_key)) as place:
        found = place.do(by_service, lambda keys: keys.list(include_ended=all_keys))
    if as_json:
        for key in found:
            write_json(key)
        return
    columns = ("=key", "name", "=role", "=state", "=expires", "tenant", "users", "projects")
    write_table(columns, [_row(key) for key in found])


@app.command()
def revoke(  # noqa: PLR0913 - an option each
    *,
    key_id: Annotated[str, typer.Argument(help="Key id.", metavar="KEY")],
    address: Address = "",
    data_dir: DataDir = None,
    config: Config = None,
    api_key: ApiKey = "",
    tls_ca: TlsCa = None,
    tls_certificate: Certificate = None,
    tls_key: CertificateKey = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key for good."""
    with _place(address, data_dir, config, api_key, (tls_ca, tls_certificate, tls_key)) as place:
        key = place.do(lambda client: client.revoke_api_key(key_id).api_key, lambda keys: keys.revoke(key_id))
    if as_json:
        write_json(key)
        return
    write(f"{key.id} is revoked")


quotas = typer.Typer(help="Limit storage and calls of tenants and API keys.", no_args_is_help=True)

Tenant = Annotated[str | None, typer.Option(help="Tenant id; '' is the default tenant.")]
KeyId = Annotated[str, typer.Option("--key", help="Id of an API key.", metavar="KEY")]


@quotas.command("set")
@connected
def set_quota(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    tenant: Tenant = None,
    key: KeyId = "",
    calls_per_second: Annotated[float, typer.Option(min=0, help="Maximum calls per second; 0: unlimited.")] = 0.0,
    memories: Annotated[int, typer.Option(min=0, help="Maximum number of memories; 0: unlimited.")] = 0,
    content_bytes: Annotated[int, typer.Option(min=0, help="Maximum bytes of content; 0: unlimited.")] = 0,
    file_bytes: Annotated[int, typer.Option(min=0, help="Maximum bytes of files; 0: unlimited.")] = 0,
    reset_use: Annotated[bool, typer.Option("--reset-use", help="Count the use of the key from 0 on.")] = False,
) -> None:
    """Replace the quota of a tenant or of a key. Without any limit it is removed."""
    with session.client() as client:
        quota = client.set_quota(
            **_holder(tenant, key),
            calls_per_second=calls_per_second,
            memory_count=memories,
            content_bytes=content_bytes,
            file_bytes=file_bytes,
            reset_use=reset_use,
        )
    _write_quotas(session, [quota])


@quotas.command("get")
@connected
def get_quota(session: CliContext, *, tenant: Tenant = None, key: KeyId = "") -> None:
    """Write the quota of a tenant or of a key, and what it has stored."""
    with session.client() as client:
        quota = client.quota(**_holder(tenant, key))
    _write_quotas(session, [quota])


@quotas.command("list")
@connected
def list_quotas(session: CliContext) -> None:
    """List the quotas of all keys and tenants, and what they have stored."""
    with session.client() as client:
        found = list(client.quotas(page_size=PAGE))
    _write_quotas(session, found)


def _holder(tenant: str | None, key: str) -> dict[str, Any]:
    """Return the holder that the options name.

    Raises:
        CommandError: They name both a tenant and a key, or neither.
    """
    if (tenant is None) == (not key):
        message = "Name a --tenant or a --key."
        raise CommandError(message)
    return {"tenant_id": tenant, "api_key_id": key}


def _write_quotas(session: CliContext, found: list[admin_pb.Quota]) -> None:
    if session.as_json:
        for quota in found:
            write_json(quota)
        return
    columns = ("tenant or key", ">calls/s", ">memories", ">bytes of content", ">bytes of files")
    write_table(columns, [_quota_row(quota) for quota in found])


def _quota_row(quota: admin_pb.Quota) -> tuple[str, ...]:
    holder = quota.api_key_id or repr(quota.tenant_id)
    names = ("memory_count", "content_bytes", "file_bytes")
    amounts = [_use(getattr(quota.use, name), getattr(quota, name)) for name in names]
    return (holder, f"{quota.calls_per_second:g}" if quota.calls_per_second else "", *amounts)


def _use(used: int, limit: int) -> str:
    return f"{used:,} of {limit:,}" if limit else f"{used:,}"


def _row(key: admin_pb.ApiKey) -> tuple[str, ...]:
    from memsvc.v1 import admin_service_pb2 as admin_pb  # noqa: PLC0415 - a quick start

    expires = f"{local_time(key.expire_time):%Y-%m-%d %H:%M}" if key.HasField("expire_time") else ""
    role = _name(admin_pb.ApiKeyRole.Name(key.role).removeprefix("API_KEY_ROLE_"))
    state = _name(admin_pb.ApiKeyState.Name(key.state).removeprefix("API_KEY_STATE_"))
    return key.id, key.name, role, state, expires, key.tenant_id, ", ".join(key.user_ids), ", ".join(key.project_ids)


def _name(value: str) -> str:
    return value.lower().replace("_", "-")

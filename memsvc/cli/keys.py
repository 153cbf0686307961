"""The commands about API keys: keys create, list and revoke. They ask the service, or work on the data of none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from memsvc.cli.connection import ApiKey, Certificate, CertificateKey, TlsCa, os_user, tls_of
from memsvc.cli.enums import KeyRole
from memsvc.cli.errors import print_error, report_errors
from memsvc.cli.output import local_time, write, write_json, write_table

if TYPE_CHECKING:
    from memsvc.client import Memsvc
    from memsvc.engine.admin.api_keys import ApiKeyService
    from memsvc.settings import Settings
    from memsvc.v1 import admin_service_pb2 as admin_pb

T = TypeVar("T")

DEFAULT_ADDRESS = "127.0.0.1:50051"
PAGE = 1_000
app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)

Address = Annotated[
    str,
    typer.Option(
        envvar="MEMSVC_ADDRESS",
        help="Ask the service here: HOST:PORT or unix:PATH.  [default: work on the data directory; while a service has "
        f"it open, ask {DEFAULT_ADDRESS}]",
    ),
]
DataDir = Annotated[Path | None, typer.Option(help="Where everything is kept.")]
Config = Annotated[Path | None, typer.Option(help="The settings' file.  [default: memsvc.toml, when it is there]")]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]


class _Place:
    """Location of the keys: behind a service, or in a data directory."""

    def __init__(self, address: str, settings: Callable[[], Settings], client: Callable[[str], Memsvc]) -> None:
        self._address = address
        self._settings = settings
        self._client = client

    def do(self, by_service: Callable[[Memsvc], T], by_store: Callable[[ApiKeyService], T]) -> T:
        """Do it by the service when one is named or has the directory open, else by the store."""
        from memsvc.bootstrap.offline import offline_keys  # noqa: PLC0415
        from memsvc.domain.errors import DataDirectoryLockedError  # noqa: PLC0415 - a quick start

        if not self._address:
            settings = self._settings()
            try:
                with offline_keys(settings) as keys:
                    print_error(f"No service has {settings.data_dir} open; working on it.")
                    return by_store(keys)
            except DataDirectoryLockedError:
                print_error(
                    f"A service has {settings.data_dir} open; asking {DEFAULT_ADDRESS}, unless --address names another."
                )
        with self._client(self._address or DEFAULT_ADDRESS) as client:
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
        from memsvc.settings import load_settings  # noqa: PLC0415

        overrides = {} if data_dir is None else {"data_dir": data_dir}
        yield _Place(
            address,
            lambda: load_settings(config, **overrides),
            lambda where: Memsvc(where, user_id=os_user(), api_key=api_key, tls=tls_of(*tls)),
        )


@app.command()
def create(  # noqa: PLR0913 - an option each
    *,
    name: Annotated[str, typer.Option(help="What the key is for.")] = "",
    role: Annotated[KeyRole, typer.Option(help="What it is good for.")] = KeyRole.READ_WRITE,
    tenant: Annotated[str, typer.Option(help="Whose memories it opens.  [default: the tenant without a name]")] = "",
    user: Annotated[list[str] | None, typer.Option(help="Good for this user only. May be repeated.")] = None,
    project: Annotated[list[str] | None, typer.Option(help="Good for this project only. May be repeated.")] = None,
    days: Annotated[float, typer.Option(min=0, max=36_500, help="Good for so many days; 0: for good.")] = 0.0,
    calls_per_second: Annotated[
        float, typer.Option(min=0, help="How many calls a second; 0: as the settings say.")
    ] = 0,
    concurrent_calls: Annotated[int, typer.Option(min=0, help="How many at once; 0: as the settings say.")] = 0,
    address: Address = "",
    data_dir: DataDir = None,
    config: Config = None,
    api_key: ApiKey = "",
    tls_ca: TlsCa = None,
    tls_certificate: Certificate = None,
    tls_key: CertificateKey = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and write it to stdout. It is shown this once and kept nowhere.

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
        reply = place.do(
            lambda client: client.create_api_key(role=role.name, ttl=ttl, **fields),  # type: ignore[arg-type]  # names of the API
            lambda keys: _made(keys, f"API_KEY_ROLE_{role.name}", ttl, fields),
        )
    if as_json:
        write_json(reply)
        return
    print_error(f"Key {reply.api_key.id}, of role {_name(role)}. Keep it now: it is not shown again.")
    write(reply.secret)


@app.command("list")
def list_keys(  # noqa: PLR0913 - an option each
    *,
    all_keys: Annotated[bool, typer.Option("--all", help="Expired and revoked ones too.")] = False,
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

    def by_store(keys: ApiKeyService) -> list[admin_pb.ApiKey]:
        from memsvc.server.responses.admin import api_key_to_proto  # noqa: PLC0415 - a quick start

        now, found, after = datetime.now(UTC), [], ""
        while page := keys.page(after=after, limit=PAGE, include_ended=all_keys):
            found += [api_key_to_proto(key, now) for key in page]
            after = page[-1].id
        return found

    with _place(address, data_dir, config, api_key, (tls_ca, tls_certificate, tls_key)) as place:
        found = place.do(by_service, by_store)
    if as_json:
        for key in found:
            write_json(key)
        return
    columns = ("=key", "name", "=role", "=state", "=expires", "tenant", "users", "projects")
    write_table(columns, [_row(key) for key in found])


@app.command()
def revoke(  # noqa: PLR0913 - an option each
    *,
    key_id: Annotated[str, typer.Argument(help="The key's id.", metavar="KEY")],
    address: Address = "",
    data_dir: DataDir = None,
    config: Config = None,
    api_key: ApiKey = "",
    tls_ca: TlsCa = None,
    tls_certificate: Certificate = None,
    tls_key: CertificateKey = None,
    as_json: AsJson = False,
) -> None:
    """Make a key open nothing any more, for good."""

    def by_store(keys: ApiKeyService) -> admin_pb.ApiKey:
        from memsvc.server.responses.admin import api_key_to_proto  # noqa: PLC0415 - a quick start

        return api_key_to_proto(keys.revoke(key_id), datetime.now(UTC))

    with _place(address, data_dir, config, api_key, (tls_ca, tls_certificate, tls_key)) as place:
        key = place.do(lambda client: client.revoke_api_key(key_id).api_key, by_store)
    if as_json:
        write_json(key)
        return
    write(f"{key.id} is revoked")


def _made(
    keys: ApiKeyService, role: str, ttl: timedelta | None, fields: dict[str, Any]
) -> admin_pb.CreateApiKeyResponse:
    """Make a key in the store as the service would."""
    from memsvc.server.requests.admin import create_api_key_request  # noqa: PLC0415 - a quick start
    from memsvc.server.responses.admin import api_key_to_proto  # noqa: PLC0415
    from memsvc.v1 import admin_service_pb2 as admin_pb  # noqa: PLC0415 - a quick start

    request = admin_pb.CreateApiKeyRequest(role=admin_pb.ApiKeyRole.Value(role), **fields)
    if ttl is not None:
        request.ttl.FromTimedelta(ttl)
    made = keys.create(create_api_key_request(request)[0])
    return admin_pb.CreateApiKeyResponse(api_key=api_key_to_proto(made.key, datetime.now(UTC)), secret=made.text)


def _row(key: admin_pb.ApiKey) -> tuple[str, ...]:
    from memsvc.server.enums import API_KEY_ROLE, API_KEY_STATE  # noqa: PLC0415 - a quick start

    expires = f"{local_time(key.expire_time):%Y-%m-%d %H:%M}" if key.HasField("expire_time") else ""
    role, state = _name(API_KEY_ROLE.from_proto[key.role]), _name(API_KEY_STATE.from_proto[key.state])
    return key.id, key.name, role, state, expires, key.tenant_id, ", ".join(key.user_ids), ", ".join(key.project_ids)


def _name(value: str) -> str:
    return value.lower().replace("_", "-")

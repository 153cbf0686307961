"""Keys by the command line and by our client."""

from __future__ import annotations

import json
import os
import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from memsvc.client import Memsvc, MemsvcCallError
from memsvc.data_directory import owned
from tests.e2e.access.support import Keyed
from tests.support.forked_process import run_memsvc
from tests.support.server_process import FAST, ServerProcess


def memsvc(*arguments: str, **variables: str) -> tuple[int, str, str]:
    """Run a command and return its exit code and what it wrote."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMSVC_")} | variables
    done = run_memsvc(*arguments, environment=environment)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def test_keys_are_made_listed_and_revoked_while_no_service_runs(tmp_path: Path) -> None:
    """On the data directory; the key alone is on stdout, and it is nowhere in the directory."""
    here = ("--data-dir", str(tmp_path / "data"))
    code, text, said = memsvc("keys", "create", "--role", "read-only", "--user", "ada", "--days", "1.5", *here)
    key_id = text.split("_")[1]
    listed = memsvc("keys", "list", "--json", *here)[1]
    revoked = memsvc("keys", "revoke", key_id, *here)
    left = memsvc("keys", "list", "--json", *here)[1]
    ended = json.loads(memsvc("key", "list", "--all", "--json", *here)[1])

    assert (code, key_id in said) == (0, True), said
    assert "no key has the role admin" in said
    assert (json.loads(listed)["role"], json.loads(listed)["userIds"]) == ("API_KEY_ROLE_READ_ONLY", ["ada"])
    assert revoked[:2] == (0, f"{key_id} is revoked")
    assert (left, ended["state"]) == ("", "API_KEY_STATE_REVOKED")
    secret = text.split("_")[2].encode()
    assert not any(secret in file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file())
    assert memsvc("keys", "revoke", "f" * 20, *here)[0] == 1
    assert memsvc("keys", "create", "--role", "admin", "--user", "ada", *here)[0] == 1


def test_keys_are_made_by_the_service_that_runs(asking: Keyed) -> None:
    """With an admin's key, which comes by a variable or an option; the new key opens at once."""
    address, admin = asking.server.bound, asking.keys["admin"].text
    code, text, _ = memsvc("keys", "create", "--tenant", "acme", "--address", address, MEMSVC_API_KEY=admin)
    added = memsvc("add", f"Tea {uuid.uuid4()}.", "--user", "ada", "--address", address, "--api-key", text)
    denied = memsvc("keys", "list", "--address", address, MEMSVC_API_KEY=text)
    none = memsvc("list", "--address", address)

    assert (code, added[0]) == (0, 0), added
    assert (denied[0], "needs a key of role ADMIN" in denied[2]) == (1, True), denied
    assert (none[0], "MEMSVC_API_KEY" in none[2]) == (1, True), none


def test_a_first_key_that_is_no_administrators_comes_with_a_warning(tmp_path: Path) -> None:
    """From then on nobody could manage keys while the service runs; its data directory is the way out."""
    warning = "no key has the role admin"
    with ServerProcess(tmp_path / "data", FAST | {"MEMSVC_ACCESS__KEYS": "auto"}) as server:
        first = memsvc("keys", "create", "--address", server.bound)
        locked = memsvc("keys", "create", "--address", server.bound, "--api-key", first[1])
    here = ("--data-dir", str(tmp_path / "data"))
    admin = memsvc("keys", "create", "--role", "admin", *here)
    other = memsvc("keys", "create", *here)

    assert (first[0], locked[0], admin[0], other[0]) == (0, 1, 0, 0), (first, locked, admin, other)
    assert [warning in told[2] for told in (first, admin, other)] == [True, False, False]


def test_a_directory_in_use_is_left_to_its_service(asking: Keyed) -> None:
    """The commands say that, and ask it at its own address, whichever the variable names."""
    nowhere, here = f"unix:{asking.server.data_dir / 'nowhere'}", ("--data-dir", str(asking.server.data_dir))
    admin = {"MEMSVC_API_KEY": asking.keys["admin"].text, "MEMSVC_ADDRESS": nowhere}
    code, listed, said = memsvc("keys", "list", "--json", *here, **admin)
    made = memsvc("keys", "create", *here, **admin)
    revoked = memsvc("keys", "revoke", made[1].split("_")[1], *here, **admin)
    move = ("migrate-backend", "--dry-run", "--url", "postgresql://127.0.0.1:1/d")

    assert f"open; asking {asking.server.bound}. " in said
    assert (code, made[0], revoked[0]) == (0, 0, 0), (said, made, revoked)
    assert asking.keys["admin"].text.split("_")[1] in listed
    moved = memsvc(*move, *here, **admin)
    assert (moved[0], "cannot be reached" in moved[2]) == (1, True), moved
    checked = memsvc("check", *here)
    assert (checked[0], f"which serves at {asking.server.bound}" in checked[2]) == (1, True), checked
    assert memsvc("keys", "list", "--address", nowhere)[0] == 1


def test_a_directory_of_a_process_that_does_not_serve_is_told_with_the_address_that_is_asked(tmp_path: Path) -> None:
    """Another command has it open, or the service has not started yet: the default address is asked, and named."""
    with owned(tmp_path):
        code, _, said = memsvc("keys", "list", "--data-dir", str(tmp_path), MEMSVC_ADDRESS=f"unix:{tmp_path / 'x'}")

    assert code == 1
    assert f"No service answers at unix:{tmp_path / 'x'}" in said


def test_an_address_of_a_service_that_was_killed_is_not_asked(tmp_path: Path) -> None:
    """Its directory is nobody's then; a service at several addresses is asked at its socket."""
    socket = f"unix:{tmp_path / 's'}"
    with ServerProcess(tmp_path / "data", FAST, f"127.0.0.1:0,{socket}") as server:
        said = memsvc("keys", "list", "--data-dir", str(tmp_path / "data"))
        server.kill()
    after = memsvc("keys", "list", "--data-dir", str(tmp_path / "data"))

    assert (said[0], f"asking {socket}. " in said[2]) == (0, True), said
    assert (after[0], "No service has" in after[2]) == (0, True), after


def test_a_named_directory_comes_before_the_variable(tmp_path: Path) -> None:
    """Of an address. Two options that contradict each other are refused."""
    here, elsewhere = ("--data-dir", str(tmp_path / "data")), f"unix:{tmp_path / 'nowhere'}"
    made = memsvc("keys", "create", *here, MEMSVC_ADDRESS=elsewhere)
    listed = memsvc("keys", "list", *here, MEMSVC_ADDRESS=elsewhere)
    by_variable = memsvc("keys", "list", MEMSVC_ADDRESS=elsewhere)
    both = memsvc("keys", "list", *here, "--address", elsewhere)

    assert (made[0], listed[0]) == (0, 0), (made, listed)
    assert made[1].split("_")[1] in listed[1]
    assert (by_variable[0], "No service answers" in by_variable[2]) == (1, True), by_variable
    assert (both[0], "not both" in both[2]) == (1, True), both


def test_a_service_beyond_this_machine_wants_keys_that_are_asked_for(tmp_path: Path) -> None:
    """Keys that are not asked for keep nobody out; the refusal names every way."""
    here = ("--data-dir", str(tmp_path / "data"), "--address", "0.0.0.0:0")
    memsvc("keys", "create", "--data-dir", str(tmp_path / "data"))
    code, _, said = memsvc("serve", *here, MEMSVC_ACCESS__KEYS="off")

    assert code == 1
    assert all(word in said for word in ("keys create", "access.keys", "server.tls.client_ca", "--insecure")), said


def test_a_certificate_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    """In one line, which names the file."""
    (tmp_path / "cert.pem").write_text("no certificate")
    files = {"MEMSVC_SERVER__TLS__CERTIFICATE": "cert.pem", "MEMSVC_SERVER__TLS__KEY": "key.pem"}
    variables = {name: str(tmp_path / file) for name, file in files.items()} | {"MEMSVC_EMBEDDER__BACKEND": "wordllama"}
    variables["MEMSVC_HTTP__ADDRESS"] = ""
    serve = ("serve", "--data-dir", str(tmp_path / "data"), "--address", "127.0.0.1:0")
    missing = memsvc(*serve, **variables)
    (tmp_path / "key.pem").write_text("no key")
    wrong = memsvc(*serve, **variables)
    alone = memsvc(*serve, MEMSVC_SERVER__TLS__KEY="key.pem")

    assert [missing[0], wrong[0], alone[0]] == [1, 1, 1]
    assert "key.pem" in missing[2].splitlines()[-1], missing
    assert "cert.pem" in wrong[2].splitlines()[-1], wrong
    assert "belong together" in alone[2]


def test_the_client_brings_its_key_with_every_sort_of_call(asking: Keyed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unary calls and streams of both directions; the key is that of the variable unless one is given."""
    user = f"user-{uuid.uuid4()}"
    monkeypatch.setenv("MEMSVC_API_KEY", asking.keys["admin"].text)
    with Memsvc(asking.server.bound, user_id=user) as client:
        client.wait_ready(60)
        imported = list(client.import_memories([{"content": "A."}, {"content": "B."}]))
        made = client.create_api_key("x", ttl=timedelta(days=1), tenant_id="acme")
        names = [key.name for key in client.api_keys()]
        exported = b"".join(part.data for part in client.export_user())
        with Memsvc(asking.server.bound, user_id=user, api_key=made.secret) as other:
            other.create("C.")
            watched = next(other.watch(start="OLDEST"))
            revoked = client.revoke_api_key(made.api_key.id)
            with pytest.raises(MemsvcCallError) as refused:
                other.stats()

    assert imported[-1].created_count == 2
    assert "x" in names
    assert b'"A."' in exported
    assert watched.cursor
    assert revoked.api_key.HasField("revoke_time")
    assert (refused.value.code.name, refused.value.reason) == ("UNAUTHENTICATED", "API_KEY_INVALID")

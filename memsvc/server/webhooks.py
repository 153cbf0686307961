"""Sender of webhooks: signed HTTP requests by one process of the service, from a thread with its own event loop."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import socket
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TypeAlias

import httpx2
from google.protobuf.json_format import MessageToDict

from memsvc.domain.clock import from_micros
from memsvc.domain.errors import BackendUnavailableError, MaintenanceRunningError, StoreMovedError
from memsvc.domain.watch import WatchEvent
from memsvc.domain.webhooks import is_public, signature
from memsvc.engine.runtime.leader_lease import Lease
from memsvc.engine.watch.webhooks import MAX_PENDING, Attempt, WebhookService, scope_of
from memsvc.ports.operations import WebhookDelivery
from memsvc.server.options import WebhookEndpoint, WebhookOptions
from memsvc.server.responses.memory import watch_change

POLL_SECONDS = 0.2
"""Interval of looks for changes, and for deliveries whose time has come."""
LEADER_SECONDS = 2.0
"""Interval of attempts to become the process that sends, and the pause while the store is away."""
MAX_READ_BYTES = 16 * 1024
"""Size of an answer up to which it is read, so that the connection can be used again; nothing of it is used."""
READ_SECONDS = 1.0
"""Longest time for which it is read."""
Tasks: TypeAlias = "dict[str, asyncio.Task[tuple[WebhookDelivery, Attempt]]]"
log = logging.getLogger(__name__)


class AddressRefusedError(Exception):
    """A host has an address that requests must not go to."""


class WebhookSender:
    """A thread that sends what the queue holds while this process has the lease of webhooks."""

    def __init__(self, service: WebhookService, options: WebhookOptions) -> None:
        """Send to the endpoints of *options*; without one nothing runs."""
        self._service = service
        self._options = options
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, if there is an endpoint."""
        if self._options.endpoints:
            self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Break off requests under way, which are sent again later, and stop."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        is_unavailable = False
        while not self._stopping.is_set():
            try:
                with self._service.election.lead() as lease:
                    asyncio.run(self._send_all(lease))
                is_unavailable = False
            except MaintenanceRunningError:
                log.debug("webhooks are sent by another process")
            except StoreMovedError:
                log.debug("webhooks are not sent: the store was moved")
            except BackendUnavailableError as error:
                # Warn once for each outage.
                log.log(logging.DEBUG if is_unavailable else logging.WARNING, "webhooks wait: %s", error.message)
                is_unavailable = True
            except Exception:
                log.exception("sending webhooks failed and is retried")
            self._stopping.wait(LEADER_SECONDS)

    async def _send_all(self, lease: Lease) -> None:
        """Send to every endpoint until the stop, or until the lease is lost or the store is away."""
        outlets = [_Outlet(self._service, one, self._options) for one in self._options.endpoints]
        try:
            while not self._stopping.is_set():
                # Short reads and writes of the store, in the only thread that they would block.
                lease.require()
                is_more = [outlet.step() for outlet in outlets]
                await _pause([task for outlet in outlets for task in outlet.tasks.values()], at_once=any(is_more))
        finally:
            for outlet in outlets:
                await outlet.close()


async def _pause(tasks: list[asyncio.Task[tuple[WebhookDelivery, Attempt]]], *, at_once: bool) -> None:
    """Return when a request ended, or after the interval of looks."""
    seconds = 0.0 if at_once else POLL_SECONDS
    if tasks:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    else:
        await asyncio.sleep(seconds)


class _Outlet:
    """Requests of one endpoint under way: at most one of each user.

    Attributes:
        tasks: The requests, by the owner.
    """

    def __init__(self, service: WebhookService, endpoint: WebhookEndpoint, options: WebhookOptions) -> None:
        self._service = service
        self._name = endpoint.name
        self._concurrency = options.concurrency
        self._channel = WebhookChannel(service, endpoint, options)
        self.tasks: Tasks = {}

    def step(self) -> bool:
        """Note what ended, queue further changes and begin requests; return if there may be more to queue.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        self._settle()
        state = self._service.state(self._name)
        if state.is_gone:
            return False
        is_more = state.pending < MAX_PENDING and self._service.collect(self._name)
        if len(self.tasks) < self._concurrency:
            for delivery in self._service.due(self._name, self._concurrency):
                if delivery.owner not in self.tasks and len(self.tasks) < self._concurrency:
                    self._begin(delivery)
        return is_more

    async def close(self) -> None:
        """Break off the requests."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        await self._channel.close()

    def _begin(self, delivery: WebhookDelivery) -> None:
        event = self._service.event(delivery)
        if event is None:
            self._service.discard(delivery)
            return
        self.tasks[delivery.owner] = asyncio.create_task(self._channel.send(delivery, event))

    def _settle(self) -> None:
        for owner in [owner for owner, task in self.tasks.items() if task.done()]:
            delivery, attempt = self.tasks[owner].result()
            self._service.settle(delivery, attempt)
            del self.tasks[owner]


class WebhookChannel:
    """Connections to one endpoint."""

    def __init__(self, service: WebhookService, endpoint: WebhookEndpoint, options: WebhookOptions) -> None:
        self._service = service
        self._endpoint = endpoint
        self._options = options
        self._url = httpx2.URL(endpoint.url)
        # Without the proxies of the environment, which would resolve the name again. One client for each endpoint:
        # connections are shared by address, whatever name their certificate was checked for.
        self._client = httpx2.AsyncClient(
            verify=ssl.create_default_context(),
            trust_env=False,
            follow_redirects=False,
            timeout=options.timeout_seconds,
            limits=httpx2.Limits(max_connections=options.concurrency, max_keepalive_connections=options.concurrency),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def send(self, delivery: WebhookDelivery, event: WatchEvent) -> tuple[WebhookDelivery, Attempt]:
        """Send an event, and return the result.

        Raises:
            BackendUnavailableError: The store cannot be reached. Nothing else is raised.
        """
        event_id = self._service.event_id(delivery)
        try:
            body = body_of(delivery, event)
            headers = self._headers(event_id, body)
            # The timeouts of the client are those of single steps.
            async with asyncio.timeout(self._options.timeout_seconds) as limit:
                return delivery, await self._post(body, headers, limit)
        except TimeoutError:
            return delivery, Attempt(0, f"no answer within {self._options.timeout_seconds:g} seconds")
        except (AddressRefusedError, OSError, httpx2.HTTPError) as error:
            return delivery, Attempt(0, str(error) or type(error).__name__)
        except Exception as error:
            # One event must not keep the others from being sent.
            log.exception("sending an event to the webhook endpoint %r failed and is retried", self._endpoint.name)
            return delivery, Attempt(0, type(error).__name__)

    def _headers(self, event_id: str, body: bytes) -> dict[str, str]:
        timestamp = int(datetime.now(UTC).timestamp())
        return {
            "host": self._url.netloc.decode("ascii"),
            "content-type": "application/json",
            "user-agent": "memsvc-webhooks",
            "webhook-id": event_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self._endpoint.secret, event_id, timestamp, body),
        }

    async def _post(self, body: bytes, headers: dict[str, str], limit: asyncio.Timeout) -> Attempt:
        last: httpx2.ConnectError | None = None
        for address in await self._addresses():
            try:
                return await self._post_to(address, body, headers, limit)
            except httpx2.ConnectError as error:
                last = error
        raise last or AddressRefusedError(f"the host {self._url.host!r} has no address")

    async def _post_to(self, address: str, body: bytes, headers: dict[str, str], limit: asyncio.Timeout) -> Attempt:
        """Send to an address that was checked; the certificate is that of the name."""
        url = self._url.copy_with(host=address)
        names = {"sni_hostname": self._url.host}
        async with self._client.stream("POST", url, content=body, headers=headers, extensions=names) as response:
            # The status decides: a body that is broken, or that does not come, changes nothing.
            limit.reschedule(None)
            await _drain(response)
            return attempt_of(response)

    async def _addresses(self) -> list[str]:
        """Return the addresses of the host.

        Raises:
            AddressRefusedError: One of them is not public.
            OSError: The name cannot be resolved.
        """
        host, port = self._url.host, self._url.port or (443 if self._url.scheme == "https" else 80)
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(place[0]) for *_, place in found))
        refused = [] if self._options.allow_private else [one for one in addresses if not is_public(one)]
        if refused:
            message = f"the host {host!r} has the address {refused[0]}, which is not public; see webhooks.allow_private"
            raise AddressRefusedError(message)
        return addresses


async def _drain(response: httpx2.Response) -> None:
    """Read a short body, undecoded; without it the connection is closed."""
    if int(response.headers.get("content-length") or MAX_READ_BYTES + 1) <= MAX_READ_BYTES:
        with suppress(TimeoutError, httpx2.HTTPError):
            async with asyncio.timeout(READ_SECONDS):
                async for _ in response.aiter_raw():
                    pass


def attempt_of(response: httpx2.Response) -> Attempt:
    """Return the result of an answer."""
    status = response.status_code
    error = "" if response.is_success else f"the endpoint answered {status} {response.reason_phrase}".rstrip()
    return Attempt(status, error, _retry_after(response.headers.get("retry-after", "")))


def _retry_after(text: str) -> timedelta | None:
    """Return the pause of a Retry-After, given in seconds or as a time; None: there is none that can be understood."""
    try:
        seconds = float(text) if text.isdigit() else (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return None
    return timedelta(seconds=min(max(0.0, seconds), 86_400.0)) if math.isfinite(seconds) else None


def body_of(delivery: WebhookDelivery, event: WatchEvent) -> bytes:
    """Return the JSON of an event: type, time, user and project, and the change as WatchMemories streams it."""
    scope = scope_of(delivery)
    change = MessageToDict(watch_change(event, b"\0" * 8).change)
    payload = {
        "type": f"memory.{event.change.action.value.lower()}",
        "timestamp": from_micros(event.change.time).isoformat().replace("+00:00", "Z"),
        "data": {
            "tenantId": scope.tenant_id,
            "userId": scope.user_id,
            "projectId": scope.project_id,
            "change": change,
        },
    }
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()

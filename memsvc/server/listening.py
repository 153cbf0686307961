"""Listening at an address: TCP or a unix socket, encrypted or not."""

from __future__ import annotations

import asyncio

import grpc

from memsvc.server.addresses import AddressError, bound_address, make_room, socket_path


async def listen(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None = None) -> str:
    """Have *server* listen at an address, and return it with the port that was bound. Unix sockets stay unencrypted.

    Raises:
        AddressError: It cannot be listened at.
    """
    await asyncio.to_thread(make_room, address)
    try:
        if credentials is None or socket_path(address):
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        message = f"Cannot listen at {address!r}: it is in use, or not an address of this machine."
        raise AddressError(message) from error
    return bound_address(address, port)

"""Ask the service in this container whether it answers searches: `python health.py READY_FILE`, 0 when it does.

The file is what `memsvc serve --ready-file` writes: the addresses it listens on, whatever the settings said.
"""

# ruff: noqa: INP001 (a script beside the Dockerfile, no package)

from __future__ import annotations

import sys
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

SERVICE = "readiness"
SECONDS = 5.0
ANYWHERE = ("0.0.0.0:", "[::]:")


def address_of(ready_file: Path) -> str:
    """Return the first address, as it can be reached from here."""
    address = ready_file.read_text(encoding="utf-8").split()[0]
    for wildcard in ANYWHERE:
        if address.startswith(wildcard):
            return f"localhost:{address.removeprefix(wildcard)}"
    return address


def main() -> None:
    """Exit with 0 when the service is ready, else with a line that says why not."""
    try:
        address = address_of(Path(sys.argv[1]))
        with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service=SERVICE), timeout=SECONDS
            )
    except OSError as error:
        sys.exit(f"The service has not started: {error}")
    except grpc.RpcError as error:
        sys.exit(f"The service does not answer: {error.code().name}")
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        sys.exit("The service is not ready.")


if __name__ == "__main__":
    main()

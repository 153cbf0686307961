"""The newest change of a running engine."""

from memsvc.engine.services import Services


def newest_position(application: Services) -> int:
    """Return the position of the newest change in the outbox."""
    outbox = application.diagnosis.run(verify=False).outbox
    assert outbox is not None
    return outbox.head_position

"""Files that belong to a memory, such as the images of its content: they go with it when it goes for good."""

from __future__ import annotations

from memsvc.domain.files import FileCategory
from memsvc.domain.memory import Memory
from memsvc.ports.metadata import Transaction


def remove_attachments(transaction: Transaction, gone: Memory) -> set[str]:
    """Remove the files of the category memory that *gone*, which was just removed, and no other memory refers to.

    Returns the hashes of their bytes. Once the transaction is committed these may be removed, if nobody else uses them
    (`memsvc.engine.files.blob_guard`); otherwise a sweep does that later, or the next erasure of any user.
    """
    refs = [ref for ref in gone.file_refs if ref.category == FileCategory.MEMORY]
    if not refs:
        return set()
    owner = gone.scope.owner
    referred = {ref.id for ref in transaction.files.referred_to(owner, refs)}
    files = transaction.files.stored(owner, [ref.id for ref in refs if ref.id not in referred])
    attached = [file for file in files.values() if file.category is FileCategory.MEMORY]
    transaction.files.delete(attached)
    return {file.sha256 for file in attached}

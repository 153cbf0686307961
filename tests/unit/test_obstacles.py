"""Obstacles of files that may be whole are told from damage."""

from __future__ import annotations

import errno

import pytest

from memsvc.data_directory import NO_SPACE, obstacle_of


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        RuntimeError("open: Failed to save structure on disk with error: No space left on device (os error 28)"),
        ValueError("An IO error occurred: 'Das Gerät ist voll (os error 28)'"),
    ],
)
def test_a_full_disk_is_an_obstacle(error: Exception) -> None:
    """By its number, in whatever language the system names it."""
    assert obstacle_of(error) == NO_SPACE


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), "rights"),
        (OSError(errno.EMFILE, "Too many open files"), "open files"),
        (RuntimeError("Read-only file system (os error 30)"), "read-only"),
    ],
)
def test_so_are_rights_and_limits(error: Exception, part: str) -> None:
    """Each says what to change."""
    assert part in obstacle_of(error)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file or directory"),
        OSError(errno.EIO, "Input/output error"),
        OSError("without a number"),
        RuntimeError("No such file or directory (os error 2)"),
        ValueError("checksum 28 does not fit"),
        ValueError("invalid field 'os error 28'"),
    ],
)
def test_damage_is_none(error: Exception) -> None:
    """It is mended by a rebuild."""
    assert obstacle_of(error) == ""

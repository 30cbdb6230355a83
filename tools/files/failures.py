"""Failed system calls as sentences."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from tools.kit.files import NotAFileError

if TYPE_CHECKING:
    from tools.results import ToolError

_CAUSES = {
    errno.ENOENT: "it does not exist",
    errno.EACCES: "permission is missing",
    errno.EPERM: "the system does not permit it",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than allowed",
    errno.ENAMETOOLONG: "its name is too long",
    errno.ENOTDIR: "a part of the path is no folder, or was swapped for a link meanwhile",
    errno.ELOOP: "it was swapped for a link meanwhile, or its links form a loop",
    errno.EISDIR: "it is a folder",
    errno.EEXIST: "it exists already",
    errno.ENOTEMPTY: "the folder is not empty",
    errno.EXDEV: "source and target are on different file systems",
    errno.ETXTBSY: "the program is running",
    errno.EMFILE: "too many files are open",
    errno.EIO: "the disk reports an error",
}


def explain(error: OSError, doing: str) -> ToolError:
    """A sentence for a failed system call, such as `Cannot write a.txt: the disk is full.`"""
    # Not needed to open a file, which is done before the first picture.
    from tools.results import ToolError

    if isinstance(error, NotAFileError):
        return ToolError(f"Cannot {doing}: it is a {error.kind}, not a file.")
    cause = _CAUSES.get(error.errno or 0) or (error.strerror or str(error)).lower()
    return ToolError(f"Cannot {doing}: {cause}.")

"""Read an access class back as an ACL."""

from collections.abc import Sequence
from typing import Any

from context_engine.model import ACL, PUBLIC


def acl_from_row(row: Sequence[Any]) -> ACL:
    """Make an ACL of (public, allow, require, deny)."""
    public, allow, require, deny = row
    return ACL(allow=(*([PUBLIC] if public else []), *allow), require=tuple(require), deny=tuple(deny))

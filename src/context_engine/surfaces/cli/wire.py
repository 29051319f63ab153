"""The JSON that several commands write. Ids are strings: they have more digits than a JavaScript number holds."""

from typing import Any

from context_engine import ACL, DocumentInfo, Policy
from context_engine.access import normalise_rule


def document_json(document: DocumentInfo) -> dict[str, Any]:
    """Write a document."""
    return {
        "id": str(document.id),
        "name": document.name,
        "source": document.source,
        "external_id": document.external_id,
        "metadata": document.metadata,
    }


def acl_json(acl: ACL | Policy) -> dict[str, Any]:
    """Write an ACL in the form that `ingest` reads from a line."""
    if isinstance(acl, Policy):
        return {"policy": acl.name}
    rule = normalise_rule(acl)
    lists = {"allow": rule.allow, "require": rule.require, "deny": rule.deny}
    return {"public": rule.public, **{key: list(names) for key, names in lists.items()}}


def acl_words(acl: ACL | Policy) -> str:
    """Say in words who may read."""
    if isinstance(acl, Policy):
        return f"policy {acl.name}"
    rule = normalise_rule(acl)
    if rule.public:
        who = "everyone"
    elif rule.allow:
        who = "any of " + ", ".join(rule.allow)
    else:
        who = "nobody but unrestricted callers"
    require = [f"who also has {' and '.join(rule.require)}"] if rule.require else []
    deny = [f"except who has {' or '.join(rule.deny)}"] if rule.deny else []
    return ", ".join([who, *require, *deny])

"""Give ACLs and policies the ids that rows carry."""

from collections.abc import Iterable, Mapping

from context_engine.access import AccessRule
from context_engine.db._async.store import AsyncStore
from context_engine.model import Policy
from context_engine.retrieval.compose import Statement
from context_engine.sql import load


class AsyncAccessClasses:
    """The ids of ACLs and policies; an ACL seen for the first time is stored."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    async def ids(self, wanted: Iterable[AccessRule | Policy]) -> dict[AccessRule | Policy, int]:
        """Return the id of each; a policy that does not exist is left out.

        Asked anew each time: an id kept from before would point to another ACL after a restore of the database.
        """
        asked = set(wanted)
        rules = {item.digest: item for item in asked if isinstance(item, AccessRule)}
        policies = [item.name for item in asked if isinstance(item, Policy)]
        found = await self._stored(list(rules), policies)
        missing = {rule: digest for digest, rule in rules.items() if digest not in found}
        if missing:
            await self._intern(missing)
            found |= await self._stored(list(missing.values()), [])
        ids: dict[AccessRule | Policy, int] = {rule: found[digest] for digest, rule in rules.items()}
        ids.update({Policy(name): found[name] for name in policies if name in found})
        return ids

    async def _stored(self, digests: list[bytes], policies: list[str]) -> dict[bytes | str, int]:
        params = {"digests": digests, "policies": policies}
        rows = await self._store.query(Statement(load("write/acl_ids"), params)) if digests or policies else []
        return {bytes(digest) if policy is None else policy: key for digest, policy, key in rows}

    async def _intern(self, rules: Mapping[AccessRule, bytes]) -> None:
        members = [(digest, principal, kind) for rule, digest in rules.items() for principal, kind in rule.members()]
        params = {
            "digests": list(rules.values()),
            "public": [rule.public for rule in rules],
            "member_digests": [digest for digest, _, _ in members],
            "principals": [principal for _, principal, _ in members],
            "kinds": [kind for _, _, kind in members],
        }
        async with self._store.write() as transaction:
            await transaction.run(Statement(load("write/intern_acls"), params))

    async def set_policy(self, name: str, rule: AccessRule) -> None:
        """Define a policy, or change it for every document that points to it."""
        members = rule.members()
        async with self._store.write() as transaction:
            [[(key,)]] = await transaction.run(
                Statement(load("write/claim_policy"), {"policy": name, "public": rule.public})
            )
            params = {
                "acl_id": key,
                "principals": [principal for principal, _ in members],
                "kinds": [kind for _, kind in members],
            }
            await transaction.run(Statement(load("write/replace_members"), params))

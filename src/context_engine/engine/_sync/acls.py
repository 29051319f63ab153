# Generated from engine/_async/acls.py by tools/unasync.py: change that file instead.
"""Give ACLs and policies the ids that rows carry."""

from collections.abc import Iterable, Mapping

from context_engine.access import AccessRule
from context_engine.db._sync.store import Store
from context_engine.model import Policy
from context_engine.retrieval.compose import Statement
from context_engine.sql import load


class AccessClasses:
    """The ids of ACLs and policies; an ACL seen for the first time is stored."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[bytes, int] = {}

    def ids(self, wanted: Iterable[AccessRule | Policy]) -> dict[AccessRule | Policy, int]:
        """Return the id of each; a policy that does not exist is left out."""
        asked = set(wanted)
        rules = {item: item.digest for item in asked if isinstance(item, AccessRule)}
        policies = [item.name for item in asked if isinstance(item, Policy)]
        fresh = {rule: digest for rule, digest in rules.items() if digest not in self._known}
        if fresh:
            self._intern(fresh)
        by_policy: dict[str, int] = {}
        if fresh or policies:
            params = {"digests": list(fresh.values()), "policies": policies}
            for digest, policy, key in self._store.query(Statement(load("write/acl_ids"), params)):
                if policy is None:
                    self._known[bytes(digest)] = key
                else:
                    by_policy[policy] = key
        found: dict[AccessRule | Policy, int] = {rule: self._known[digest] for rule, digest in rules.items()}
        found.update({Policy(name): key for name, key in by_policy.items()})
        return found

    def _intern(self, rules: Mapping[AccessRule, bytes]) -> None:
        members = [(digest, principal, kind) for rule, digest in rules.items() for principal, kind in rule.members()]
        params = {
            "digests": list(rules.values()),
            "public": [rule.public for rule in rules],
            "member_digests": [digest for digest, _, _ in members],
            "principals": [principal for _, principal, _ in members],
            "kinds": [kind for _, _, kind in members],
        }
        with self._store.write() as transaction:
            transaction.run(Statement(load("write/intern_acls"), params))

    def set_policy(self, name: str, rule: AccessRule) -> None:
        """Define a policy, or change it for every document that points to it."""
        members = rule.members()
        with self._store.write() as transaction:
            [[(key,)]] = transaction.run(Statement(load("write/claim_policy"), {"policy": name, "public": rule.public}))
            params = {
                "acl_id": key,
                "principals": [principal for principal, _ in members],
                "kinds": [kind for _, kind in members],
            }
            transaction.run(Statement(load("write/replace_members"), params))

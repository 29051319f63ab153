"""An exact answer to hold a search against, for our tests and yours.

::

    from context_engine.testing import Oracle

    oracle = Oracle(documents, embedder, engine.settings, policies={"hr": ["group:hr"]})
    result = engine.search("pay review", principals=["group:hr"])
    assert oracle.differences(result, "pay review", principals=["group:hr"]) == []

The oracle holds everything in memory, knows no SQL, and reads ACLs, filters, questions and scores by its own lights:
where the two agree, two readings of the same rules agree. It is for corpora of some thousand chunks.
"""

from context_engine.testing.oracle import Oracle, OracleHit

__all__ = ["Oracle", "OracleHit"]

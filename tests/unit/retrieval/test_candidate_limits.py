"""How many rows a leg gives to fusion."""

import pytest

from context_engine.settings import SearchSettings


@pytest.mark.parametrize(
    ("settings", "leg", "top_k", "limit"),
    [
        ({}, "fts", 10, 100),
        ({"candidates": 50}, "trgm", 10, 50),
        ({"candidates": 50}, "ann", 80, 80),
        ({"candidates": 50, "lexical_candidates": 200}, "fts", 10, 200),
        ({"candidates": 50, "lexical_candidates": 200}, "ann", 10, 50),
        ({"lexical_candidates": 5}, "trgm", 10, 10),
    ],
)
def test_the_limit_of_a_leg(settings, leg, top_k, limit):
    assert SearchSettings(**settings).limit(leg, top_k) == limit

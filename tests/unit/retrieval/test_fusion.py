"""Fusion against results worked out by hand."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.model import LegHit
from context_engine.names import LEGS
from context_engine.retrieval.fusion import Candidate, fuse


def ranked(*chunks, step=1.0):
    """A leg's list: the chunks in this order, each `step` below the one before."""
    return [Candidate(chunk, chunk * 100, 10.0 - step * place) for place, chunk in enumerate(chunks)]


def order(fused):
    return [hit.chunk_id for hit in fused]


def scores(fused):
    return {hit.chunk_id: hit.score for hit in fused}


class TestReciprocalRanks:
    def test_p20_the_hand_result(self):
        lists = {"fts": ranked(1, 2, 3), "ann": ranked(3, 1), "trgm": ranked(4)}
        fused = fuse(lists, {"fts": 1.0, "ann": 1.0, "trgm": 0.4}, k=20)
        assert scores(fused) == {
            1: pytest.approx(1 / 21 + 1 / 22),
            3: pytest.approx(1 / 23 + 1 / 21),
            2: pytest.approx(1 / 22),
            4: pytest.approx(0.4 / 21),
        }
        assert order(fused) == [1, 3, 2, 4]

    def test_p20_a_leg_that_did_not_find_a_chunk_gives_it_nothing(self):
        [first, second] = fuse({"fts": ranked(1, 2), "ann": []}, {"fts": 1.0, "ann": 1.0}, k=1)
        assert (first.score, second.score) == (1 / 2, 1 / 3)
        assert second.legs == {"fts": LegHit(2, 9.0)}

    def test_p20_ties_go_to_the_smaller_id_each_time(self):
        for _ in range(20):
            assert order(fuse({"fts": ranked(9, 4), "ann": ranked(4, 9)}, {"fts": 1, "ann": 1})) == [4, 9]

    def test_p20_pages_do_not_overlap(self):
        whole = order(fuse({"fts": ranked(*range(40, 0, -1)), "ann": ranked(*range(1, 41))}, {"fts": 1, "ann": 1}))
        assert len(set(whole[:20]) | set(whole[20:])) == 40

    def test_k_sets_how_much_the_first_ranks_count(self):
        lists = {"fts": ranked(1, 2, 3), "ann": ranked(4, 2, 3)}
        weights = {"fts": 1.0, "ann": 1.0}
        assert order(fuse(lists, weights, k=1))[0] == 2
        assert scores(fuse(lists, weights, k=1))[2] == pytest.approx(2 / 3)

    def test_only_ranks_count(self):
        weights = {"fts": 1.0, "ann": 1.0}
        one = fuse({"fts": ranked(1, 2), "ann": ranked(2, 3)}, weights)
        other = fuse({"fts": ranked(1, 2, step=0.001), "ann": ranked(2, 3, step=50)}, weights)
        assert scores(one) == scores(other)


class TestMinmax:
    def test_the_hand_result(self):
        lists = {
            "fts": [Candidate(1, 1, 8.0), Candidate(2, 2, 6.0), Candidate(3, 3, 4.0)],
            "ann": [Candidate(3, 3, 0.9), Candidate(1, 1, 0.1)],
        }
        fused = fuse(lists, {"fts": 1.0, "ann": 0.5}, "minmax")
        assert [(hit.chunk_id, hit.score) for hit in fused] == [(1, 1.0), (2, 0.5), (3, 0.5)]

    def test_a_short_text_list_is_all_there_is_and_the_rest_scores_0(self):
        lists = {
            "fts": [Candidate(1, 1, 8.0), Candidate(2, 2, 6.0)],
            "ann": [Candidate(1, 1, 0.9), Candidate(2, 2, 0.5)],
        }
        weights = {"fts": 1.0, "ann": 1.0}
        assert scores(fuse(lists, weights, "minmax", limit=3)) == {1: 2.0, 2: 0.75}
        assert scores(fuse(lists, weights, "minmax", limit=2)) == {1: 2.0, 2: 0.0}

    def test_equal_scores_count_in_full(self):
        fused = fuse({"fts": [Candidate(2, 2, 0.0), Candidate(1, 1, 0.0)]}, {"fts": 0.7}, "minmax")
        assert [(hit.chunk_id, hit.score) for hit in fused] == [(1, 0.7), (2, 0.7)]

    def test_a_single_candidate_counts_in_full(self):
        assert scores(fuse({"ann": [Candidate(1, 1, -0.3)]}, {"ann": 2.0}, "minmax")) == {1: 2.0}


@pytest.mark.parametrize("method", ["rrf", "minmax"])
class TestEither:
    def test_a_leg_of_weight_0_or_none_gives_nothing(self, method):
        lists = {"fts": ranked(1), "ann": ranked(2), "trgm": ranked(3)}
        assert order(fuse(lists, {"fts": 1.0, "ann": 0.0}, method)) == [1]

    def test_nothing_gives_nothing(self, method):
        assert fuse({}, {"fts": 1.0}, method) == fuse({"fts": []}, {"fts": 1.0}, method) == []

    def test_a_hit_keeps_its_document_and_its_places(self, method):
        [hit] = fuse({"trgm": ranked(5), "ann": ranked(5)}, {"trgm": 1.0, "ann": 1.0}, method)
        assert (hit.document_id, hit.legs) == (500, {"trgm": LegHit(1, 10.0), "ann": LegHit(1, 10.0)})

    @given(data=st.data())
    def test_the_order_of_the_legs_changes_nothing(self, method, data):
        ids = st.lists(st.integers(0, 30), unique=True, max_size=12)
        lists = {leg: ranked(*data.draw(ids), step=0.37) for leg in LEGS}
        weights = {leg: data.draw(st.sampled_from([0.0, 0.3, 0.4, 1.0])) for leg in LEGS}
        expected = fuse(lists, weights, method)
        for shuffled in itertools.permutations(lists):
            assert fuse({leg: lists[leg] for leg in shuffled}, weights, method) == expected
        assert expected == sorted(expected, key=lambda hit: (-hit.score, hit.chunk_id))

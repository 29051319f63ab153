import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import ProviderError
from context_engine.models.vectors import as_rows, as_vector, normalise

NOTHING = (None, [], ["a", "b"], [1.0, 2.0, 3.0], 7, "text", [10**400, 0])


def test_an_array_of_the_right_shape_comes_back_as_contiguous_float32():
    rows = as_rows(np.asfortranarray([[1, 2], [3, 4]]), 2, 2, name="m")
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    assert rows.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("bad", NOTHING)
def test_a_text_that_got_no_fitting_vector_becomes_nan_and_the_others_stay(bad):
    rows = as_rows([[1, 2], bad, np.array([5, 6])], 3, 2, name="m")
    assert rows[[0, 2]].tolist() == [[1.0, 2.0], [5.0, 6.0]]
    assert np.isnan(rows[1]).all()


def test_a_missing_number_inside_a_vector_is_nan():
    rows = as_rows([[1, None], [3, 4]], 2, 2, name="m")
    assert np.isnan(rows[0, 1])
    assert rows[1].tolist() == [3.0, 4.0]


def test_numbers_too_big_for_float32_become_infinity_without_a_warning():
    assert np.isinf(as_rows([[1e300, 1.0]], 1, 2, name="m")[0, 0])
    assert np.isinf(as_rows(np.array([[1e300, 1.0]]), 1, 2, name="m")[0, 0])


@pytest.mark.parametrize("nothing", [[None, None], [[], None], np.array([None, None])])
def test_nothing_for_every_text_is_not_an_error(nothing):
    assert np.isnan(as_rows(nothing, 2, 2, name="m")).all()


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (np.zeros((2, 3)), "shape (2, 3)"),
        (np.zeros((1, 2)), "shape (1, 2)"),
        (np.zeros((2, 1, 2)), "shape (2, 1, 2)"),
        (np.zeros(()), "shape ()"),
        ([[1, 2, 3], [4, 5, 6]], "shape (2, 3)"),
        ([[1, 2, 3], None], "shape (2, 3 or none)"),
        ([[1, 2]], "shape (1, 2)"),
        ([1.0, 2.0], "shape (2,)"),
        (["ab", "cd"], "shape (2, str)"),
        ([], "shape (0,)"),
        (None, "a NoneType"),
        ("ab", "a str"),
        ({"a": 1, "b": 2}, "a dict"),
    ],
)
def test_a_wrong_shape_is_an_error_that_names_both_shapes(answer, got):
    with pytest.raises(ProviderError) as caught:
        as_rows(answer, 2, 2, name="my-model")
    assert str(caught.value) == f"embedder 'my-model' returned {got}, expected shape (2, 2)"
    assert not caught.value.retryable


def test_a_question_needs_a_vector_of_the_right_length():
    assert as_vector([1, 2], 2, name="m").tolist() == [1.0, 2.0]
    for wrong in (None, [1], [[1, 2]], "ab"):
        with pytest.raises(ProviderError, match=r"expected shape \(2,\)"):
            as_vector(wrong, 2, name="m")


def test_normalise_marks_what_cannot_be_used_and_zeroes_it():
    vectors = np.array(
        [[3, 4], [np.nan, 1], [np.inf, 1], [-np.inf, 0], [0, 0], [70_000, 0], [1e-40, 0]],
        dtype=np.float32,
    )
    unit, usable = normalise(vectors)
    assert usable.tolist() == [True, False, False, False, False, True, True]
    assert unit.dtype == np.float32
    assert unit[usable].tolist() == [
        [np.float32(0.6), np.float32(0.8)],
        [1.0, 0.0],
        [1.0, 0.0],
    ]
    assert not unit[~usable].any()


def test_normalise_takes_the_extremes_of_float64():
    unit, usable = normalise(np.array([[1e300, 1e300], [1e-300, 0]]))
    assert usable.all()
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-6)


def test_normalise_of_no_rows():
    unit, usable = normalise(np.empty((0, 5), dtype=np.float32))
    assert unit.shape == (0, 5)
    assert usable.shape == (0,)


@given(
    st.lists(
        st.lists(st.floats(width=32), min_size=5, max_size=5),
        min_size=1,
        max_size=6,
    )
)
def test_a_row_is_normalised_the_same_alone_and_in_company(rows):
    vectors = np.array(rows, dtype=np.float32)
    unit, usable = normalise(vectors)
    np.testing.assert_allclose(np.linalg.norm(unit[usable], axis=1), 1, rtol=1e-6)
    for position in range(len(vectors)):
        alone, alone_usable = normalise(vectors[position : position + 1])
        assert alone[0].tobytes() == unit[position].tobytes()
        assert alone_usable[0] == usable[position]

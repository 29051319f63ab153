"""The fuzzy leg's own look-ups: what the words of a question may stand for, and which of it visible chunks hold."""

from collections.abc import Sequence
from dataclasses import dataclass

from context_engine.db._async.store import AsyncTransaction, Row
from context_engine.retrieval import legs
from context_engine.retrieval.compose import Statement, Visibility
from context_engine.retrieval.fuzzy import Spelling, choose_spellings, near_spellings, words_to_expand
from context_engine.retrieval.query import Question
from context_engine.retrieval.respell import Guesses, guess, respelled_weights
from context_engine.settings import SearchSettings
from context_engine.text.analyse import Analyser


@dataclass(frozen=True, slots=True)
class Respelled:
    """The fuzzy leg's words.

    Attributes:
        weights: what each word counts.
        joined: whether a visible chunk holds the whole question as one word.
    """

    weights: dict[str, float]
    joined: bool


@dataclass(frozen=True, slots=True)
class AsyncSpeller:
    """Finds what questions may mean."""

    analyser: Analyser
    settings: SearchSettings

    async def respell(
        self,
        transaction: AsyncTransaction,
        visibility: Visibility,
        question: Question,
        chunks: int,
        frequencies: dict[str, int],
    ) -> Respelled:
        """Weigh the question's words and what they may stand for; adds to `frequencies` what it counts."""
        settings = self.settings
        words = words_to_expand(question.terms, frequencies, settings.trgm_expand_below, settings.trgm_max_query_words)
        guesses = guess(question, words, frequencies, self.analyser) if chunks else Guesses()
        if legs.all_words_are_read(chunks):
            near, completed = await self._among_all(transaction, visibility, words, guesses, frequencies)
        else:
            near, completed = await self._in_lexicon(transaction, visibility, words, guesses, frequencies)
        chosen = choose_spellings(near, frequencies, settings.trgm_max_expansions)
        weights = respelled_weights(question, frequencies, chunks, settings.repeated_words, chosen, guesses, completed)
        return Respelled(weights, bool(guesses.whole and frequencies.get(guesses.whole)))

    async def _among_all(
        self,
        transaction: AsyncTransaction,
        visibility: Visibility,
        words: Sequence[str],
        guesses: Guesses,
        frequencies: dict[str, int],
    ) -> tuple[list[Spelling], dict[str, int]]:
        """Look among the visible words; at most one round trip."""
        guessed, start = guesses.words(), guesses.start
        if not words and not guessed and start is None:
            return [], {}
        [rows] = await transaction.attempt(legs.visible_words(visibility, words, guessed, start))
        held: dict[str, int] = dict(rows)
        near = near_spellings(words, [(None, word) for word in held])
        completed = {} if start is None else {word: count for word, count in held.items() if word.startswith(start)}
        wanted = guessed | {spelling.word for spelling in near} | set(completed)
        frequencies |= {word: held[word] for word in wanted if word in held}
        return [*near, *guesses.mended_among(held)], completed

    async def _in_lexicon(
        self,
        transaction: AsyncTransaction,
        visibility: Visibility,
        words: Sequence[str],
        guesses: Guesses,
        frequencies: dict[str, int],
    ) -> tuple[list[Spelling], dict[str, int]]:
        """Look in the lexicon; two round trips at most: which words there are, and in how many visible chunks."""
        near = [legs.spelling_candidates(words)] if words else []
        guessed = sorted(guesses.words() - set(frequencies))
        known = [legs.lexicon_words(guessed)] if guessed else []
        begun = [legs.completions(visibility, guesses.start)] if guesses.start else []
        statements: list[Statement] = [*near, *known, *begun]
        answers: list[list[Row]] = await transaction.attempt(*statements) if statements else []
        candidates = [(place, word) for rows in answers[: len(near)] for place, word in rows]
        found = {word for rows in answers[len(near) : len(near) + len(known)] for (word,) in rows}
        completed = {word: count for rows in answers[len(near) + len(known) :] for word, count in rows}
        frequencies |= completed
        spellings = near_spellings(words, candidates)
        uncounted = sorted(({spelling.word for spelling in spellings} | found) - set(frequencies))
        if uncounted:
            [counted] = await transaction.attempt(legs.document_frequency(visibility, uncounted))
            frequencies |= {uncounted[place]: count for place, count in counted}
        return [*spellings, *guesses.mended_among(found | frequencies.keys())], completed

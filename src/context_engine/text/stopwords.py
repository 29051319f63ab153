"""English function words. They take a position but are not searched for."""

from typing import Final

_ARTICLES = "a an the this that these those some any each every no such"
_PRONOUNS = """i me my mine myself we our ours ourselves you your yours yourself yourselves he him his himself
she her hers herself it its itself they them their theirs themselves"""
_PREPOSITIONS = """of in on at by for from to into onto with without about above below between through during
before after over under against until upon among within than as"""
_AUXILIARIES = """am is are was were be been being have has had having do does did doing can could will would
shall should may might must"""
_CONJUNCTIONS = "and or but nor so yet if then because while although though whether also too very just not only"
_QUESTIONS = "what which who whom whose when where why how there here"
_CONTRACTIONS = """im ive youre youve theyre theyve weve isnt arent wasnt werent dont doesnt didnt havent hasnt
hadnt couldnt wouldnt shouldnt cant wont youll theyll"""

ENGLISH: Final = frozenset(
    " ".join(
        (
            _ARTICLES,
            _PRONOUNS,
            _PREPOSITIONS,
            _AUXILIARIES,
            _CONJUNCTIONS,
            _QUESTIONS,
            _CONTRACTIONS,
        )
    ).split()
)

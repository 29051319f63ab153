"""English function words. They take a position but are not searched for."""

from typing import Final

ENGLISH: Final = frozenset(
    """a an the this that these those some any each every no such
    i me my mine myself we our ours ourselves you your yours yourself yourselves he him his himself
    she her hers herself it its itself they them their theirs themselves
    of in on at by for from to into onto with without about above below between through during
    before after over under against until upon among within than as
    am is are was were be been being have has had having do does did doing can could will would
    shall should may might must
    and or but nor so yet if then because while although though whether also too very just not only
    what which who whom whose when where why how there here
    im ive youre youve theyre theyve weve isnt arent wasnt werent dont doesnt didnt havent hasnt
    hadnt couldnt wouldnt shouldnt cant wont youll theyll""".split()
)

"""Function words, by language. They take a position but are not searched for."""

from typing import Final

_ENGLISH: Final = """a an the this that these those some any each every no such
    i me my mine myself we our ours ourselves you your yours yourself yourselves he him his himself
    she her hers herself it its itself they them their theirs themselves
    of in on at by for from to into onto with without about above below between through during
    before after over under against until upon among within than as
    am is are was were be been being have has had having do does did doing can could will would
    shall should may might must
    and or but nor so yet if then because while although though whether also too very just not only
    what which who whom whose when where why how there here
    im ive youre youve theyre theyve weve isnt arent wasnt werent dont doesnt didnt havent hasnt
    hadnt couldnt wouldnt shouldnt cant wont youll theyll"""
_GERMAN: Final = """der die das den dem des ein eine einen einem einer eines kein keine keinen
    ich mich mir du dich dir er ihn ihm sie ihr es wir uns euch ihnen sich mein dein sein unser
    in im an am auf aus bei beim mit nach von vom vor zu zum zur für über unter durch gegen ohne um bis seit
    bin ist sind war waren sein gewesen habe hat haben hatte wird werden wurde wurden kann können soll sollen
    muss müssen     und oder aber denn wenn weil dass ob als wie auch nur noch schon sehr so nicht
    was wer wen wem wo wann warum welche welcher welches hier da dort dieser diese dieses"""
_FRENCH: Final = """le la les l un une des du de d au aux ce cet cette ces c
    je j me m moi tu te t toi il elle on nous vous ils elles lui leur se s son sa ses mon ma mes ton ta tes notre nos
    votre vos leurs y en dans sur sous par pour avec sans vers chez entre
    suis est sommes sont était étaient être ai a avons ont avait avaient avoir fait
    et ou mais donc car si que qu qui quoi dont où quand comment pourquoi quel quelle quels quelles
    ne n pas plus très aussi comme"""
_SPANISH: Final = """el la los las un una unos unas lo al del de este esta estos estas ese esa eso esto
    yo me mí tú te ti él ella ello nosotros vosotros ellos ellas le les se su sus mi mis tu tus nuestro nuestra
    en a con sin por para sobre entre hasta desde
    soy es somos son era eran ser sido fue fueron estar está están ha han había haber hay
    y e o u pero si porque que como cuando donde quien cuál qué no ni muy más también ya"""
_ITALIAN: Final = """il lo la i gli le l un uno una del dello della dei degli delle al allo alla ai agli alle
    dal dalla nel nella nei nelle sul sulla di a da in con su per tra fra
    io mi me tu ti te lui lei noi ci voi vi loro si suo sua suoi sue mio mia nostro nostra questo questa questi queste
    sono è siamo era erano essere stato ho ha abbiamo hanno aveva avere
    e ed o ma se perché che chi cui come quando dove quale non più molto anche"""
_PORTUGUESE: Final = """o a os as um uma uns umas de do da dos das no na nos nas ao à aos às em por pelo pela para
    com sem sobre entre até eu me mim tu te ele ela nós vos eles elas lhe lhes se seu sua seus suas meu minha nosso
    nossa
    este esta estes estas esse essa isso isto
    sou é somos são era eram ser sido foi foram estar está estão tem têm tinha ter há
    e ou mas se porque que como quando onde quem qual não nem muito mais também já"""
_DUTCH: Final = """de het een deze die dit dat ik me mij je jij hij hem zij ze haar wij we ons jullie hun zich mijn zijn
    in op aan bij met naar van voor uit over onder door tegen zonder om tot te
    ben is was waren geweest heb heeft hebben had wordt worden werd werden kan kunnen zal zullen moet moeten
    en of maar want als omdat wat wie waar wanneer waarom hoe welke niet geen ook nog al zeer er hier daar"""
_SWEDISH: Final = """en ett den det de denna detta dessa jag mig du dig han honom hon henne vi oss ni er dem sig
    min din sin hans hennes vår i på av för från med om till vid under över utan mellan
    är var vara varit har hade ha blir blev kan kunde ska skulle måste
    och eller men att som när var varför hur vad vem vilken inte också bara mycket här där"""
_RUSSIAN: Final = """и в во не на с со к ко по из за у о об от до для без под над при про через
    я меня мне ты тебя тебе он его ему она ее ей оно мы нас нам вы вас вам они их им себя свой мой твой наш ваш
    этот эта это эти тот та то те что кто где когда как почему какой который
    был была было были быть есть будет а но или если чтобы потому же ли бы уже еще только также очень"""

STOPWORDS: Final[dict[str, frozenset[str]]] = {
    "english": frozenset(_ENGLISH.split()),
    "german": frozenset(_GERMAN.split()),
    "french": frozenset(_FRENCH.split()),
    "spanish": frozenset(_SPANISH.split()),
    "italian": frozenset(_ITALIAN.split()),
    "portuguese": frozenset(_PORTUGUESE.split()),
    "dutch": frozenset(_DUTCH.split()),
    "swedish": frozenset(_SWEDISH.split()),
    "russian": frozenset(_RUSSIAN.split()),
}
"""Languages without a list have every word searched for."""

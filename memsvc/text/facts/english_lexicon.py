"""The words that the English rules know."""

from __future__ import annotations

# Lists of words, written as a text.


def words(text: str) -> tuple[str, ...]:
    """Return the words of *text*, in order."""
    return tuple(text.split())


def phrases(text: str) -> tuple[str, ...]:
    """Return the phrases that commas part in *text*, in order."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(","))


def stem(word: str) -> str:
    """Return a word in lower case, without the genitive or plural."""
    word = word.lower().removesuffix("'s").removesuffix("'")
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word  # noqa: PLR2004 - "bus"


def _words(text: str) -> frozenset[str]:
    return frozenset(words(text))


OCCUPATIONS = _words(
    """accountant actor actress analyst architect artist assistant associate attorney author baker banker
    barber barista bartender boss butcher captain carpenter ceo cfo chef chemist cleaner clerk coach coder
    consultant cook counselor cto curator dancer dentist designer detective developer director doctor driver
    economist editor electrician engineer farmer firefighter fisherman florist founder freelancer gardener
    guard guide hairdresser head instructor intern interpreter janitor jeweler journalist judge lawyer lead
    leader lecturer librarian lifeguard manager mechanic midwife miner model musician nanny nurse officer
    operator optician painter paralegal paramedic partner pharmacist photographer physician physicist
    physiotherapist pilot planner plumber poet policeman politician postman president principal producer
    professor programmer psychiatrist psychologist receptionist recruiter reporter representative researcher
    sailor salesman salesperson scientist sculptor secretary singer soldier specialist strategist student
    supervisor surgeon tailor teacher technician therapist trader trainer translator tutor undertaker
    veterinarian vet waiter waitress welder writer retiree copywriter geologist biologist sommelier trainee
    apprentice"""
)
"""Heads of job titles."""

SINGLE = _words(
    """name surname nickname password passcode pin birthday birthdate deadline address email phone number color
    size capital port version price budget salary rent manager boss supervisor mentor lead owner wife
    husband spouse partner girlfriend boyfriend fiance fiancee doctor dentist landlord assistant database
    framework editor browser timezone currency plan license region theme language host hostname url branch
    stack provider headquarters title status priority limit height weight age blood_type nationality
    religion destination venue location room codename cloud backend frontend runtime format diet major
    university school ceo cto leader maintainer responsible supplier bank doctor seat default"""
)
"""Attributes that have one value at a time, whatever it is."""

KIN = _words(
    """
    wife husband spouse partner girlfriend boyfriend fiance fiancee son daughter child kid brother sister mother father
    mom mum dad grandmother grandfather grandma grandpa aunt uncle cousin niece nephew friend"""
)
"""Relatives and friends."""

STABLE_COUNTS = _words(
    """child children kid kids son sons daughter daughters brother brothers sister sisters sibling siblings cat cats dog
    dogs pet pets grandchild grandchildren employee employees bedroom bedrooms monitor monitors"""
)
"""What one has so many of for a long time."""

SCALES: tuple[frozenset[str], ...] = (
    _words("married single divorced engaged widowed separated"),
    _words("enabled disabled"),
    _words("open closed"),
    _words("active inactive"),
    _words("online offline"),
    _words("public private"),
    _words("mandatory required optional"),
    _words("vegetarian vegan pescatarian carnivore omnivore"),
    _words("alive dead"),
    _words("paid free"),
    _words("approved rejected"),
    _words("left-handed right-handed"),
    _words("pregnant"),
    _words("supported unsupported"),
)
"""Words of which one at most is true of a thing."""

COLORS = _words(
    "red green blue yellow orange purple violet pink brown black white gray grey teal turquoise beige gold silver"
)

CONTRASTS: tuple[tuple[frozenset[str], ...], ...] = (
    (_words("short brief concise terse compact"), _words("long detailed verbose thorough elaborate")),
    (_words("dark"), _words("light bright")),
    (_words("tea"), _words("coffee"), _words("beer"), _words("wine")),
    (_words("tabs tab"), _words("spaces space")),
    (_words("metric"), _words("imperial")),
    (_words("formal"), _words("informal casual")),
    (_words("email emails e-mail"), _words("phone phones call calls"), _words("sms text texts")),
    (_words("window"), _words("aisle"), _words("middle")),
    (_words("morning mornings"), _words("afternoon afternoons"), _words("evening evenings night nights")),
    (_words("hot"), _words("cold iced")),
    (_words("remote"), _words("office on-site onsite")),
    (_words("sweet"), _words("savory salty")),
    (_words("12-hour"), _words("24-hour")),
    (_words("quiet"), _words("loud")),
    tuple(
        map(
            _words,
            words("python java javascript typescript rust go golang c++ c# ruby php kotlin swift scala"),
        )
    ),
    tuple(map(_words, words("vim neovim emacs vscode pycharm intellij sublime"))),
    tuple(map(_words, words("windows macos linux"))),
    tuple(map(_words, words("postgresql mysql sqlite mongodb"))),
    tuple(map(_words, words("react vue angular svelte"))),
    (_words("cat"), _words("dog")),
)
"""Things of which one is preferred to the other."""

GENERIC = _words(
    "the of for in at on to from with by current currently new latest project company team now my our its is a an"
)
"""Words of a subject that do not tell it from others."""

DETERMINERS = _words(
    """a an some any every each this that these those there no all many most several what which who whom when where why
    how if it its one nobody somebody everyone everybody anyone people you your"""
)
"""Words with which nothing definite begins."""

NO_SUBJECT = _words(
    """sound sounds look looks feel feels felt seem seems was were went got get it them him who which that
    there how what why being thank thanks sure yeah wow amazing especially but because than like likes not
    could see think know hope said if when where and or so just have had has do does did am is are be been
    sounded looked want love hate prefer"""
)
"""Words that show that the part before a verb is more than a subject."""

COUNTRIES = frozenset(
    phrases("""
    argentina, australia, austria, belgium, brazil, bulgaria, canada, chile, china, colombia, croatia, cuba,
    czechia, denmark, egypt, england, estonia, ethiopia, finland, france, germany, ghana, greece, hungary,
    iceland, india, indonesia, iran, iraq, ireland, israel, italy, japan, kenya, korea, south korea, latvia,
    lithuania, malaysia, mexico, morocco, nepal, netherlands, new zealand, nigeria, norway, pakistan, peru,
    philippines, poland, portugal, romania, russia, scotland, serbia, singapore, slovakia, slovenia,
    south africa, spain, sweden, switzerland, taiwan, thailand, tunisia, turkey, uk, ukraine,
    united kingdom, united states, uruguay, us, usa, venezuela, vietnam, wales, europe, asia, africa,
    america""")
)
"""Names of countries and continents: a city may well lie in them."""

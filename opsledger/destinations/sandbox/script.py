"""Which behaviour a request meets: a scripted rule, else chance by seed, else the plain answer."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .behaviours import Behaviour, default_options, fits, read_behaviour
from .options import Option, perhaps, read_options, text, whole
from .refusal import invalid
from .wire import Request

Choice = tuple[Behaviour, dict[str, Any]]

PLAIN: Choice = (Behaviour.ANSWER, default_options(Behaviour.ANSWER))
RULES_MAX = 1_000

_MATCH_OPTIONS = (
    Option("method", perhaps(text(32)), None, "the method, as sent"),
    Option("path", perhaps(text(2_000)), None, "the path without its query; a * at the end matches any rest"),
    Option("identity", perhaps(text(10_000)), None, "external_id or metadata.operation"),
    Option("key", perhaps(text(10_000)), None, "the Idempotency-Key"),
    Option(
        "nth", perhaps(whole(1, 1_000_000)), None, "only the n-th request that fits the rest of this match"
    ),
)
_RULE_OPTIONS = (
    Option("match", lambda value: _mapping(value), {}, "which requests"),
    Option("behaviour", text(100), "", "what is done with them"),
    Option("count", perhaps(whole(1, 1_000_000)), 1, "how often; null: always"),
    Option("options", lambda value: _mapping(value), {}, "the behaviour's options"),
)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be an object")
    return value


@dataclass(slots=True)
class Rule:
    behaviour: Behaviour
    options: dict[str, Any]
    match: dict[str, Any]
    count: int | None = 1
    number: int = 0
    seen_count: int = 0  # requests that fitted, whoever won them

    def fits(self, request: Request) -> bool:
        wanted = self.match
        return (
            fits(self.behaviour, request.method)
            and wanted["method"] in (None, request.method)
            and wanted["identity"] in (None, request.identity)
            and wanted["key"] in (None, request.key)
            and (wanted["path"] is None or _path_fits(wanted["path"], request.path))
        )

    @property
    def is_due(self) -> bool:
        return self.count != 0 and self.match["nth"] in (None, self.seen_count)

    def take(self) -> Choice:
        if self.count is not None:
            self.count -= 1
        return self.behaviour, self.options


def _path_fits(wanted: str, path: str) -> bool:
    return path.startswith(wanted[:-1]) if wanted.endswith("*") else path == wanted


def read_rule(document: Mapping[str, Any]) -> Rule:
    """A rule as posted to the control. Raises Refused (422) that names what is wrong."""
    given = read_options(_RULE_OPTIONS, document)
    match = read_options(_MATCH_OPTIONS, given["match"], "match.")
    behaviour, options = read_behaviour(given["behaviour"], given["options"])
    if behaviour is Behaviour.EARLY_ANSWER and match["identity"] is not None:
        raise invalid(
            [("match.identity", "early_answer is chosen before the body was read: match something else")]
        )
    return Rule(behaviour, options, match, given["count"])


@dataclass(slots=True)
class Script:
    """Scripted rules, in order; the first that fits and is due wins. `on_change` keeps them for a restart."""

    on_change: Callable[[list[dict[str, Any]]], None]
    rules: list[Rule] = field(default_factory=list)
    last_number: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, rule: Rule) -> Rule:
        with self._lock:
            if len(self.rules) >= RULES_MAX:
                raise invalid([("match", f"there are {RULES_MAX} rules already")])
            self.last_number += 1
            rule.number = self.last_number
            self.rules.append(rule)
            self.on_change(self._document())
        return rule

    def clear(self) -> None:
        with self._lock:
            self.rules.clear()
            self.on_change([])

    def restore(self, documents: list[dict[str, Any]]) -> None:
        self.rules = [Rule(**{**one, "behaviour": Behaviour(one["behaviour"])}) for one in documents]
        self.last_number = max((rule.number for rule in self.rules), default=0)

    def document(self) -> list[dict[str, Any]]:
        with self._lock:
            return self._document()

    def choose(self, request: Request, *, early: bool) -> Choice | None:
        """The choice for this request, its rule used up by one; None when no rule wants it.

        `early` asks only the rules that answer before the body was read; they are asked first.
        """
        if not self.rules:
            return None
        with self._lock:
            mine = [rule for rule in self.rules if (rule.behaviour is Behaviour.EARLY_ANSWER) is early]
            fitting = [rule for rule in mine if rule.fits(request)]
            if not fitting:
                return None
            for rule in fitting:
                rule.seen_count += 1
            winner = next((rule for rule in fitting if rule.is_due), None)
            chosen = winner.take() if winner else None
            self.rules = [rule for rule in self.rules if rule.count != 0]
            self.on_change(self._document())
            return chosen

    def _document(self) -> list[dict[str, Any]]:
        return [asdict(rule) for rule in self.rules]


DEFAULT_WEIGHTS: dict[str, Any] = {
    Behaviour.ANSWER: 50,
    Behaviour.LOSE_REPLY_AFTER_ACTING: 8,
    Behaviour.LOSE_REPLY_BEFORE_ACTING: 8,
    Behaviour.RESET_AFTER_ACTING: 5,
    Behaviour.ACT_LATE: 4,
    Behaviour.ERROR_AFTER_ACTING: 5,
    Behaviour.ERROR_BEFORE_ACTING: 5,
    Behaviour.CUT_REPLY: 4,
    Behaviour.MISSING_LAST_CHUNK: 2,
    Behaviour.NOT_JSON: 2,
    Behaviour.CONFLICT_RUNNING: 2,
    Behaviour.RATE_LIMITED: 3,
    Behaviour.FIND_LATE: 2,
}


@dataclass(frozen=True, slots=True)
class Chance:
    """A weighted choice that depends only on the seed, the identity and how many-th request this is."""

    seed: int
    weights: tuple[tuple[Choice, float], ...]
    lookup_weights: tuple[tuple[Choice, float], ...] = ()

    def choose(self, request: Request, nth: int) -> Choice:
        """`nth` counts this identity's writes, or its lookups, from 1; the two are counted apart."""
        lookup = request.method in ("GET", "HEAD")
        weights = self.lookup_weights if lookup else self.weights
        if not weights:
            return PLAIN
        point = self._point(request.identity, nth, lookup) * sum(weight for _, weight in weights)
        for candidate, weight in weights:
            chosen = candidate
            point -= weight
            if point < 0:
                break
        return chosen if fits(chosen[0], request.method) else PLAIN

    def _point(self, identity: str, nth: int, lookup: bool) -> float:
        """From 0 up to, not including, 1."""
        named = f"{self.seed}:{'lookup' if lookup else 'write'}:{nth}:{identity}".encode()
        return int.from_bytes(hashlib.sha256(named).digest()[:6], "big") / (1 << 48)


_RANDOM_OPTIONS = (
    Option("seed", perhaps(whole(-(1 << 63), (1 << 63) - 1)), None, "null turns random behaviour off"),
    Option(
        "weights", lambda value: _mapping(value), DEFAULT_WEIGHTS, "behaviour: weight, or {weight, options}"
    ),
    Option(
        "lookup_weights", lambda value: _mapping(value), {}, "the same for GET; empty: lookups answer plainly"
    ),
)


def read_chance(document: Mapping[str, Any]) -> Chance | None:
    """Random behaviour as posted to the control; None when it is turned off. Raises Refused (422)."""
    given = read_options(_RANDOM_OPTIONS, document)
    weights = _read_weights(given["weights"], "weights.")
    lookups = _read_weights(given["lookup_weights"], "lookup_weights.")
    return None if given["seed"] is None else Chance(given["seed"], weights, lookups)


def _read_weights(given: Mapping[str, Any], at: str) -> tuple[tuple[Choice, float], ...]:
    weighed = [_read_weight(name, value, f"{at}{name}") for name, value in given.items()]
    order = list(Behaviour)
    return tuple(sorted((one for one in weighed if one[1] > 0), key=lambda one: order.index(one[0][0])))


def _read_weight(name: str, value: Any, at: str) -> tuple[Choice, float]:
    weight, options = value, {}
    if isinstance(value, dict):
        weight, options = value.get("weight"), _options_of(value, at)
    chosen = read_behaviour(name, options, f"{at}.")
    if chosen[0] is Behaviour.EARLY_ANSWER:
        raise invalid([(at, "is chosen before the identity is known: script it instead")])
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1_000_000:
        raise invalid([(at, "needs a weight from 0 to 1000000")])
    return chosen, float(weight)


def _options_of(value: dict[str, Any], at: str) -> dict[str, Any]:
    unknown = [(f"{at}.{name}", "is not known here") for name in value if name not in ("weight", "options")]
    options = value.get("options", {})
    if unknown or not isinstance(options, dict):
        raise invalid(unknown or [(f"{at}.options", "must be an object")])
    return options

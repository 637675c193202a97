"""Everything the peer is but its sockets: its memory, clock and mode, and which behaviour comes next."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from .clock import Clock
from .desk import Desk
from .modes import Mode, changed
from .script import PLAIN, Chance, Choice, Rule, Script, read_chance
from .store import Store
from .wire import Request

PARTS = ("records", "script", "random", "mode", "clock")


class World:
    """Raises StateUnusable when the state file can't be used."""

    def __init__(self, state: str, seed: int | None = None) -> None:
        self.store = Store(state)
        self.store.free_stopped_keys()
        self.clock = Clock(self.store.setting("clock") or 0.0)
        self.desk = Desk(self.store, self.clock, changed(Mode(), self.store.setting("mode") or {}))
        self.script = Script(lambda rules: self.store.save_setting("script", rules))
        self.script.restore(self.store.setting("script") or [])
        self.chance: Chance | None = None
        self.random_document: dict[str, Any] | None = None
        self._counts: dict[tuple[str, bool], int] = {}
        self._counting = threading.Lock()
        self._restore_random()
        if seed is not None and (self.chance is None or self.chance.seed != seed):
            self.set_random({"seed": seed})

    def choose(self, request: Request) -> Choice:
        """The behaviour for a request that was read whole."""
        scripted = self.script.choose(request, early=False)
        chance = self.chance
        by_chance = chance.choose(request, self._count(request)) if chance else PLAIN
        return scripted or by_chance

    def record(self, request: Request, behaviour: str, options: dict[str, Any]) -> int:
        return self.store.add_request(self.clock.now(), request, behaviour, options)

    def add_rule(self, rule: Rule) -> Rule:
        return self.script.add(rule)

    def set_mode(self, changes: Mapping[str, Any]) -> Mode:
        self.desk.mode = changed(self.desk.mode, changes)
        self.store.save_setting("mode", asdict(self.desk.mode))
        return self.desk.mode

    def set_random(self, document: dict[str, Any]) -> None:
        """Raises Refused (422). Counting starts anew."""
        chance = read_chance(document)
        kept = {"document": document, "since": self.store.last_request()} if chance else None
        with self._counting:
            self._counts.clear()
            self.chance, self.random_document = chance, document if chance else None
        self.store.save_setting("random", kept)

    def advance(self, seconds: float) -> float:
        """Move the clock. What acts late and is due by then has acted when this returns."""
        now = self.clock.advance(seconds)
        self.store.save_setting("clock", self.clock.advanced_seconds)
        self.desk.keep_due_promises()
        return now

    def reset(self, parts: tuple[str, ...] = PARTS) -> None:
        if "records" in parts:
            self.store.forget_records()
        if "script" in parts:
            self.script.clear()
        if "random" in parts:
            self.set_random({"seed": None})
        if "mode" in parts:
            self.desk.mode = Mode()
            self.store.save_setting("mode", asdict(self.desk.mode))
        if "clock" in parts:
            self.clock.set_advanced(0.0)
            self.store.save_setting("clock", 0.0)
        self.clock.ring()

    def _count(self, request: Request) -> int:
        counted = (request.identity, request.method in ("GET", "HEAD"))
        with self._counting:
            nth = self._counts[counted] = self._counts.get(counted, 0) + 1
        return nth

    def _restore_random(self) -> None:
        kept = self.store.setting("random")
        if kept:
            self.chance, self.random_document = read_chance(kept["document"]), kept["document"]
            self._counts = self.store.identity_counts(kept["since"])

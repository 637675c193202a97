"""What the console's Python says to people goes through gettext, as one whole text with named places for what it holds."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import settings

from opsledger.console.management.commands.makemessages import Command

HOUSE = Path(settings.BASE_DIR)
# Rooms and modules whose texts are read by people. What rules, the ledger and the API say is stored or English.
ROOMS = ["opsledger/console", "opsledger/accounts"]
MODULES = ["opsledger/engine/messages.py", "opsledger/ledger/queries/if_nobody.py"]
NOT_READ = {"migrations", "management", "verify.py"}  # the last is what a command prints
FILES = sorted(
    [
        str(path.relative_to(HOUSE))
        for room in ROOMS
        for path in (HOUSE / room).rglob("*.py")
        if not NOT_READ & set(path.parts)
    ]
    + MODULES
)
MARKS = {"_", "gettext", "gettext_lazy", "ngettext", "noop", "pgettext"}
# Errors for who writes the code; a person reads another text.
FOR_DEVELOPERS = {
    "ValueError",
    "TypeError",
    "RuntimeError",
    "LookupError",
    "KeyError",
    "AssertionError",
    "TypeVar",
}
CODE = re.compile(
    r"\s*(SELECT|UPDATE|INSERT) |"  # statements
    r"[\w-]+/[\w-]+; |attachment; filename|no-store|"  # values of HTTP headers
    r"[A-Z][A-Za-z]+(-[A-Z][A-Za-z]+)+$"  # names of HTTP headers
)
PLAIN: dict[str, dict[str, str]] = {
    "opsledger/accounts/models.py": {
        "Person": "the name of a class",
        "{} is away until {}": "how a row names itself to who writes the code",
    },
    "opsledger/console/templatetags/ops.py": {" selected": "an attribute of a page"},
    "opsledger/console/approval_pages.py": {
        "Request": "the name of a path of the request, as the ledger has it",
        "Header": "the beginning of a path of the request, as the ledger has it",
    },
    "opsledger/console/middleware.py": {"Allow": "the name of a header"},
    "opsledger/console/errors.py": {
        "Allow": "the name of a header",
        "Origin": "the name of a header",
        "Referer": "the name of a header",
        "The answer could not be made. Everything recorded so far is safe.": "said to programs, by the API",
        "The request, or the name of the host that it was sent to, can’t be taken here. Nothing was recorded.": (
            "said to programs, by the API"
        ),
    },
}
BLANK = re.compile(r"[A-Za-z’]{2,}[,.;:]? +[A-Za-z’(“]|^ [a-z]|[a-z] $|^[A-Z][a-z]{2,}")
PLACES = re.compile(r"%\(\w+\)[sd]")


@dataclass(frozen=True)
class Found:
    line: int
    text: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.line}: {self.why or 'not marked'}: {self.text}"


def plain_texts(source: str) -> list[Found]:
    """Literals that read like a sentence or a label and are not marked, and marks that no catalogue can follow."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    marks = [node for node in nodes if isinstance(node, ast.Call) and _name(node) in MARKS]
    silent = {id(inner) for node in nodes for part in _not_shown(node) for inner in ast.walk(part)}
    silent |= {id(inner) for mark in marks for part in mark.args for inner in ast.walk(part)}
    found = [
        Found(node.lineno, text) for node, text in _literals(nodes) if id(node) not in silent and reads(text)
    ]
    return sorted({*found, *_wrongly_marked(marks)}, key=lambda one: one.line)


def reads(text: str) -> bool:
    """Whether a literal has words for people: not a key, a path, a statement or the tags of a page."""
    words = PLACES.sub("", re.sub(r"<[^>]*>?", "", text))
    return bool(BLANK.search(words)) and not CODE.match(text)


def _name(call: ast.Call) -> str:
    target = call.func
    return (
        target.id
        if isinstance(target, ast.Name)
        else target.attr
        if isinstance(target, ast.Attribute)
        else ""
    )


def _not_shown(node: ast.AST) -> list[ast.AST]:
    """What of a node no person reads: docstrings, the log, patterns, errors for developers."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [
            one for one in node.body[:1] if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        ]
    if isinstance(node, ast.Assign):
        return [node.value] if ast.unparse(node.targets[0]) == "__all__" else []
    if not isinstance(node, ast.Call):
        return []
    of = node.func.value if isinstance(node.func, ast.Attribute) else None
    silent = isinstance(of, ast.Name) and of.id in {"log", "logger", "re"}
    return list(node.args) if silent or _name(node) in FOR_DEVELOPERS else []


def _literals(nodes: list[ast.AST]) -> Iterator[tuple[ast.expr, str]]:
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield node, "".join(_part(part) for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node, node.value


def _part(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "{}"


def _wrongly_marked(marks: list[ast.Call]) -> Iterator[Found]:
    for mark in marks:
        for one in mark.args[: 2 if _name(mark) in {"ngettext", "pgettext"} else 1]:
            if isinstance(one, ast.JoinedStr | ast.BinOp):
                yield Found(mark.lineno, ast.unparse(one), "put together before it is looked up")
            elif isinstance(one, ast.Constant) and one.value != str(one.value).strip():
                yield Found(mark.lineno, str(one.value), "a piece of a sentence")
            elif isinstance(one, ast.Constant) and re.search(
                r"%[sd]|\{\w*\}", PLACES.sub("", str(one.value))
            ):
                yield Found(mark.lineno, str(one.value), "a place without a name")


@pytest.mark.parametrize("name", FILES)
def test_no_text_for_people_is_outside_of_gettext(name: str) -> None:
    allowed = PLAIN.get(name, {})
    found = [one for one in plain_texts((HOUSE / name).read_text()) if one.text not in allowed]
    assert not found, "\n".join(f"{name}:{one}" for one in found)


def test_an_exception_stands_for_a_text_that_is_there() -> None:
    for name, texts in PLAIN.items():
        assert texts.keys() <= {one.text for one in plain_texts((HOUSE / name).read_text())}


CASES = [
    ('say("Nothing was done.")', ["Nothing was done."]),
    ('WORDS = {"a": "Waiting"}', ["Waiting"]),
    ('say(f"The roles of {name} are saved.")', ["The roles of {} are saved."]),
    ('said = text + " now"', [" now"]),
    ('say(_(f"{name} may sign in."))', ["f'{name} may sign in.'"]),
    ('say(_("now " + name))', ["'now ' + name"]),
    ('say(_(" now"))', [" now"]),
    ('say(_("%s steps wait.") % 3)', ["%s steps wait."]),
    ('say(ngettext("One step.", "{count} steps.", 3))', ["{count} steps."]),
    ('say(_("Nothing was done."), noop("Waiting"))', []),
    ('say(ngettext("%(count)s step.", "%(count)s steps.", 3) % {"count": 3})', []),
    ('say(_(WORDS["a"]), "a_key", "two-parts", "/settings/", "n-inbox")', []),
    ('def f():\n    """Nothing was done."""\n    logger.info("form refused")\n    raise ValueError("Not so.")', []),
    ("page(f'<time datetime=\"{at}\" title=\"{full}\">{text}</time>')", []),
    ('page("<b>Copy</b>")', ["<b>Copy</b>"]),
    ('answer["Retry-After"] = ask("SELECT * FROM hold WHERE id = %s")', []),
]  # fmt: skip


@pytest.mark.parametrize(("source", "texts"), CASES, ids=[source for source, _texts in CASES])
def test_what_is_outside_of_gettext_is_found_and_nothing_else(source: str, texts: list[str]) -> None:
    assert [one.text for one in plain_texts(source)] == texts


SAID = """
WORDS = {"a": noop("Waiting")}
said = _("Nothing was done."), ngettext("One step.", "%(count)s steps.", 2), pgettext("days", "d")
late = gettext_lazy("Password"), "a_key"
"""


@pytest.mark.skipif(shutil.which("xgettext") is None, reason="gettext’s own tools are not installed")
def test_what_is_marked_is_what_a_catalogue_is_made_of() -> None:
    told = [
        "xgettext",
        "--language=Python",
        "--keyword=gettext_lazy",
        "--keyword=pgettext:1c,2",
        "--output=-",
        "-",
    ]
    made = subprocess.run(
        [*told, *Command.xgettext_options], input=SAID, capture_output=True, text=True, check=True
    )  # fmt: skip
    found = set(re.findall(r'^msgid(?:_plural)? "(.+)"$', made.stdout, re.MULTILINE))
    assert found == {"Waiting", "Nothing was done.", "One step.", "%(count)s steps.", "d", "Password"}

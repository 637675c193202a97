"""The list of evidence: what lookups brought again and again is told once, with a count."""

from __future__ import annotations

import html as markup
import re

from people import client_of
from scenes import Scenes, path_of


def test_equal_lookups_are_one_line_with_a_count_and_others_stay_apart(scenes: Scenes) -> None:
    opened = scenes.unknown()
    for _ in range(3):
        scenes.look(opened)
    scenes.look(opened, scenes.record(opened, "T-58300", due_date="2027-01-31"))

    page = markup.unescape(client_of(scenes.owner).get(path_of(opened)).content.decode())

    part = page[page.index('aria-labelledby="ev"') :].split("</section>")[0]
    assert re.findall(r"<b>(\d+×)</b>", part) == ["3×"]
    assert part.count("<li>") == 3  # the attempt’s, the three, and the one that found something
    assert "Evidence <small>5</small>" in part
    assert "differs in due date" in part

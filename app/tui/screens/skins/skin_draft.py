"""A skin that is being edited: pure data, one new draft for each change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agent.errors import ConfigError
from themes.colors import DEFAULT, RGB, TERMINAL_COLORS, normalized
from themes.contrast import is_dark
from themes.skin import Skin
from themes.skin_problem import nearest
from themes.skin_text import quoted


@dataclass(frozen=True, slots=True)
class SkinDraft:
    """A skin with some colours changed."""

    base: Skin
    """The skin as it was when editing began, or was last saved."""
    changes: Mapping[str, str]
    """New colours by role; never one that equals the base's."""

    @classmethod
    def of(cls, skin: Skin) -> SkinDraft:
        """A draft in which nothing is changed."""
        return cls(skin, {})

    @property
    def skin(self) -> Skin:
        """The skin as it would be saved."""
        if not self.changes:
            return self.base
        colors = {**self.base.colors, **self.changes}
        page = colors["background"]
        dark = self.base.dark if page == DEFAULT else is_dark(colors)
        return replace(self.base, colors=colors, dark=dark)

    def color(self, role: str) -> str:
        """The colour of a role now."""
        return self.changes.get(role, self.base.colors[role])

    def with_color(self, role: str, color: str) -> SkinDraft:
        """The draft with another colour of `role`, which is normalised."""
        kept = {each: value for each, value in self.changes.items() if each != role}
        if color != self.base.colors[role]:
            kept[role] = color
        return SkinDraft(self.base, kept)

    def reset(self, role: str) -> SkinDraft:
        """The draft with the colour `role` had."""
        return self.with_color(role, self.base.colors[role])


def color_of(text: str) -> str:
    """The colour a person means by `text`, as skins keep it.

    `#rrggbb`, `#rgb`, a colour of the terminal (`ansi_red`), or a name of the web such as
    `steelblue`. Raises `ConfigError` with one sentence when it is none of them.
    """
    from textual.color import Color, ColorParseError

    typed = text.strip().lower()
    if not typed:
        raise ConfigError("A colour is missing; write #rrggbb, or a name such as ansi_red or steelblue.")
    for spelling in (typed, f"#{typed}"):
        if color := normalized(spelling):
            return color
    if typed.startswith("ansi"):
        raise ConfigError(
            f"`{quoted(typed)}` is no colour of the terminal{nearest(typed, (DEFAULT, *TERMINAL_COLORS))}"
        )
    if typed.isascii() and typed.isalpha():
        try:
            named = Color.parse(typed)
        except ColorParseError:
            named = None
        if named is not None and named.a == 1 and named.auto is False and named.ansi is None:
            return RGB(*named.rgb).hex
    raise ConfigError(
        f"`{quoted(typed)}` is no colour; write #rrggbb, or a name such as ansi_red or steelblue."
    )

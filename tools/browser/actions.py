"""Browser actions on pages that need permission."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from tools.effects import Effect, declare_effect
from tools.services.actions import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class UsePage(Action):
    """An action on a page: pressing, typing, selecting. `what` describes it in words."""

    url: str
    what: str

    @property
    def site(self) -> str:
        """Return host and port of the page."""
        return site_of(self.url)

    @property
    def place(self) -> str:
        """Return host, port and path of the page: the text that permission rules are matched against."""
        try:
            return f"{self.site}{urlsplit(self.url).path}"
        except ValueError:
            return self.site

    def headline(self) -> str:
        return f"{self.what} on {self.url}"

    @classmethod
    def of(cls, example: str) -> UsePage:
        """Return an action on the page named by a pattern such as `example.org/path`."""
        return cls(tool="browser_click", url=f"https://{example}", what="click something")


UsePage.effect = declare_effect(
    Effect(
        name="browser",
        why="acts on a page, which may send, buy or change something there",
        subject=lambda action: action.place,
        lasting=lambda action: f"act on pages of {action.site}",
        covers=lambda action: (action.site,),
        example=UsePage.of,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveSecret(Action):
    """Entering a known secret into a form of a page."""

    url: str
    secret: str
    what: str

    def headline(self) -> str:
        return f"{self.what}, which holds the secret {self.secret}, on {self.url}"


GiveSecret.effect = declare_effect(
    Effect(
        name="give_secret",
        why="gives one of your secrets to a page",
        subject=lambda action: site_of(action.url),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepProfile(Action):
    """Using a browser profile that persists beyond the session."""

    profile: str

    def headline(self) -> str:
        return f"use the lasting browser profile {self.profile}"


KeepProfile.effect = declare_effect(
    Effect(
        name="browser_profile",
        why="keeps logins and cookies, with which later sessions act as you; a yes counts for good",
        subject=lambda action: action.profile,
        example=lambda name: KeepProfile(tool="browser_navigate", profile=name),
    )
)


def site_of(url: str) -> str:
    """Return host and port of an address, without a default port; `an unknown place` if it is invalid."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or parts.scheme
        shown = f"[{host}]" if ":" in host else host
        return f"{shown}:{parts.port}" if parts.port not in (None, 80, 443) else shown
    except ValueError:
        return "an unknown place"

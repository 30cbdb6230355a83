"""The dialog of the first start, with all ways to get a model."""

from __future__ import annotations

from collections.abc import Callable

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from agent.errors import HermesError
from agent.model.key_check import KeyProvider
from agent.model.providers import NoModelError
from app.tui.screens.dialog import Choices, Dialog, Hints, ProblemLine, TextDialog
from app.tui.screens.models.key_dialog import (
    KeyDialog,
    ProviderDialog,
    ServerDialog,
    fetch_model,
)
from app.tui.screens.models.model_menu import ModelMenu, Offers
from app.tui.screens.models.models import ModelsScreen
from app.tui.screens.models.ways import Way, ways
from app.tui.screens.page import line, words
from themes.states import NEEDS_YOU

NONE_YET = "No model is chosen yet."
WORDS = "What you type meanwhile is kept, and sent when a model is there."


class OnboardingScreen(Dialog[str | None]):
    """Offers ways to get a model. Its result is the name of a model, or None. The application keeps typed
    text.
    """

    leaves = "quit"
    weighs_digits = True

    def __init__(
        self,
        problem: NoModelError,
        spill: Callable[[str], None] = lambda _text: None,
        *,
        offers: Offers = Offers(),  # noqa: B008 - frozen
        setup: ModelMenu | None = None,
        hold: Callable[[str], None] = lambda _text: None,
        draft: Callable[[], str] = str,
        failed: str = "",
    ) -> None:
        """`hold` takes a message that waits for the model; `draft` returns the text that is not yet sent.

        `failed` says why the model chosen before could not be used.
        """
        super().__init__(spill)
        self._draft = draft
        self._failed = failed
        self._problems = problem.problems
        self._chose = False
        self._offers = offers
        self._setup = setup
        self._hold = hold
        self._ways = ways(problem, offers)

    @property
    def writes(self) -> bool:
        """True if digits belong to the draft: it holds text, and no arrow key has returned to the choices."""
        return (self._to_prompt or not self._chose) and bool(self._draft())

    def back_to_choices(self) -> None:
        super().back_to_choices()
        self._chose = True

    def body(self) -> ComposeResult:
        yield Static(Content(f"{NEEDS_YOU} Choose a model"), classes="who")
        yield words(WORDS if self._failed else f"{NONE_YET} {WORDS}", "text")
        yield ProblemLine()
        stands = next((at for at, way in enumerate(self._ways) if way.stands), len(self._ways) - 1)
        yield Choices([way.title for way in self._ways], chosen=stands)
        yield Hints()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        self._go(self._ways[event.option_index])

    @work(exclusive=True, group="way")
    async def _go(self, way: Way) -> None:
        model = way.model
        kept = False
        match way.act:
            case "name":
                dialog = TextDialog("Model, as provider/name", check=self._problem_of)
                model = (await self.app.push_screen_wait(dialog) or "").strip()
                kept = True
            case "server" if self._setup is not None:
                found = await self.app.push_screen_wait(ServerDialog(self._setup))
                model = await self._choose(found.name, found.models) if found is not None else ""
                kept = True
            case "fetch" if way.weights is not None and self._setup is not None:
                model = await fetch_model(self.app, way.weights, self._offers, self._setup, self._hold)
                kept = True
            case "key":
                provider = await self.app.push_screen_wait(ProviderDialog(self._offers.providers))
                model, kept = await self._with_key(provider) if provider is not None else "", True
            case "models" if way.provider is not None:
                model, kept = await self._choose(way.provider.name, ()), True
            case _:
                kept = model != "demo"
        if not model:
            return
        if kept:
            await self._keep(model)
        self.dismiss(model)

    async def _with_key(self, provider: KeyProvider) -> str:
        """Ask for a provider's key; return one of its models, empty if the person cancelled."""
        if self._setup is None:
            return ""
        check = await self.app.push_screen_wait(KeyDialog(provider, self._setup))
        return "" if check is None else await self._choose(provider.name, check.models)

    async def _problem_of(self, model: str) -> str:
        return (
            await self._setup.problem_of(model.strip()) if self._setup is not None and model.strip() else ""
        )

    async def _choose(self, provider: str, names: tuple[str, ...]) -> str:
        if len(names) == 1:
            return f"{provider}/{names[0]}"
        if self._setup is None:
            return ""
        screen = ModelsScreen("", self._setup, only=(provider, names))
        return await self.app.push_screen_wait(screen) or ""

    async def _keep(self, model: str) -> None:
        """Make the model the default of later sessions."""
        if self._setup is None:
            return
        try:
            await self._setup.keep(model)
        except HermesError as error:
            self.notify(line(str(error)), severity="warning", markup=False)

    def on_mount(self) -> None:
        self.query_one(ProblemLine).say(self._failed or " ".join(self._problems))

    def decline(self) -> None:
        self.dismiss(None)

"""Services for images, sound, devices and messages, as protocols and data. The engine implements them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.effects import Effect, declare_effect
from tools.services.actions import Action, Permit
from tools.services.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class UseService(Action):
    """Using a configured service to generate or examine a picture, to speak, or to transcribe."""

    kind: str
    service: str
    """The service: a host, `this machine`, or a service of a plugin."""
    hosts: str = ""
    """The hosts that a plugin may send the data to."""

    def headline(self) -> str:
        reached = f" (which reaches {self.hosts})" if self.hosts else ""
        return f"have {self.service}{reached} work on this: {self.kind}"


UseService.effect = declare_effect(
    Effect(
        name="service",
        why="sends it to a service that your settings name",
        subject=lambda action: f"{action.kind}/{action.service}",
        default="allow",
        lasting=lambda action: f"have {action.service} work on such things: {action.kind}",
        example=lambda text: UseService(
            tool="image_generate", kind=text.partition("/")[0], service=text.partition("/")[2]
        ),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDevice(Action):
    """Changing something through Home Assistant."""

    service: str
    """Domain and service, as `light.turn_on`."""
    entity: str = ""
    data: str = ""
    """Further data sent, as JSON."""

    def headline(self) -> str:
        return " ".join(part for part in (f"call {self.service}", self.entity, self.data) if part)


CallDevice.effect = declare_effect(
    Effect(
        name="home",
        why="changes something in the home",
        subject=lambda action: f"{action.service}/{action.entity}" if action.entity else action.service,
        lasting=lambda action: f"call {action.service} {action.entity}".strip(),
        example=lambda text: CallDevice(
            tool="homeassistant", service=text.partition("/")[0], entity=text.partition("/")[2]
        ),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessage(Action):
    """Sending a text to a configured target, with files if that is a chat."""

    target: str
    text: str
    files: tuple[str, ...] = ()
    """Each file in words: its path and its size."""

    def headline(self) -> str:
        # Before the text, which may be long.
        files = f" {', '.join(self.files)}" if self.files else ""
        return f"send{files} to {self.target}" + (f": {self.text}" if self.text else "")


SendMessage.effect = declare_effect(
    Effect(
        name="message",
        why="sends a message that cannot be taken back",
        subject=lambda action: action.target,
        lasting=lambda action: f"send messages and files to {action.target}",
        example=lambda text: SendMessage(tool="send_message", target=text, text="…"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRequest:
    """The description of a picture to generate."""

    prompt: str
    shape: str = "square"
    """`square`, `landscape` or `portrait`."""
    like: Sequence[bytes] = ()
    """Pictures to start from, prepared for sending."""
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedFile:
    """A file that a service generated."""

    data: bytes
    ending: str
    """The file name extension, with the dot."""
    by: str
    """The service or model that generated it, in words."""
    note: str = ""
    """A note on the file."""
    cost: float | None = None
    """US dollars; None: unknown."""
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A file sent with a message."""

    path: str
    """The path, as model and user read it."""
    name: str
    data: bytes


def until_ready() -> bool:
    """Return False, because the tool is offered only after a session has found that it can work."""
    return False


class Senses(Service, ABC):
    """The services of the tools for images, sound, devices and messages. All methods raise `ToolError`."""

    absent = "Nothing that sees, draws or speaks is set up here."

    @abstractmethod
    async def fetch(self, url: str, tool: str, permit: Permit) -> bytes:
        """Fetch a picture from the web, through the checked network access."""

    @abstractmethod
    async def analyze(self, data: bytes, name: str, question: str, permit: Permit) -> Mapping[str, Any]:
        """Ask a model a question about a picture, or recognise its text without a model."""

    @abstractmethod
    async def generate(
        self, drawing: PictureRequest, permit: Permit, progress: Callable[[str], None]
    ) -> GeneratedFile:
        """Generate a picture and return it as a file. `progress` is called with texts on the progress."""

    @abstractmethod
    async def speak(self, text: str, voice: str, permit: Permit) -> GeneratedFile:
        """Convert a text to speech; return it as a sound file."""

    @abstractmethod
    async def transcribe(self, data: bytes, name: str, language: str, permit: Permit) -> Mapping[str, Any]:
        """Transcribe a recording; return the result for the model."""

    @abstractmethod
    async def home(self, arguments: Mapping[str, Any], permit: Permit) -> Mapping[str, Any]:
        """Query or control Home Assistant; return the result for the model."""

    @abstractmethod
    async def send(
        self, target: str, text: str, title: str, permit: Permit, files: Sequence[MessageFile] = ()
    ) -> Mapping[str, Any]:
        """Send a message to a configured target, a chat or, with `here`, the chat of this session."""

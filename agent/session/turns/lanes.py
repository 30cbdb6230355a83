"""Lanes: the conversation in the wire form of one route, with the images that its model takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent.core.attachments import AttachmentStore
from agent.core.messages import Image, Message
from agent.knowledge.context.message_history import MessageHistory
from agent.knowledge.context.prefix_ledger import PrefixLedger
from agent.model.codecs.native import surplus, with_fitting, without_images
from agent.model.dialect import Dialect, RoleRules
from agent.model.protocol import Frame, Profile
from agent.model.transport.reply import ModelRoute
from agent.model.wire_format import Framer, offered
from agent.session.conversation.live_session import LiveSession


@dataclass(slots=True, kw_only=True)
class Lane:
    """The conversation in the wire form of one route."""

    system: bytes
    tools: bytes
    framer: Framer
    ledger: PrefixLedger = field(default_factory=PrefixLedger)
    framed: int = 0
    """Messages of the session that are in the ledger."""
    dialect: Dialect
    """What the frames were made for."""
    ordered: RoleRules | None = None
    """How the messages of the last request that was answered were ordered."""
    surplus: int = 0
    """Bytes by which the images in the ledger are larger than what they count for."""

    @property
    def size(self) -> int:
        """What the next request counts as in estimates, in bytes."""
        return self.ledger.size + len(self.head) - self.surplus

    @property
    def head(self) -> bytes:
        """What precedes the conversation."""
        return self.tools + self.system


class LaneFraming:
    """Makes lanes and their frames for one session."""

    def __init__(self, session: LiveSession, attachments: AttachmentStore, profile: Profile) -> None:
        self._session = session
        self._attachments = attachments
        self._profile = profile

    def lane(self, route: ModelRoute, dialect: Dialect | None = None) -> Lane:
        """An empty lane for a route; `dialect` is that of a request in work, where it differs."""
        dialect = dialect or route.spoken.current
        node = self._session.system()
        tools = route.wire.tools(route.tools, dialect)
        system = route.wire.system(node.content if node is not None else "", offered(route.tools, dialect))
        framer = route.wire.framer(route.name, tools + system, dialect)
        return Lane(system=system, tools=tools, framer=framer, dialect=dialect)

    def examples(self, framer: Framer) -> list[Frame]:
        """Worked examples, which precede the conversation."""
        return [frame for message in self._profile.examples for frame in framer.frames(message)]

    def left_out(self, dialect: Dialect) -> frozenset[str]:
        """The SHA-256 of images that the model refused, or that are more than it takes."""
        rules = dialect.images
        if not rules.count:
            return frozenset(rules.without)
        digests = list(dict.fromkeys(self.image_digests()))
        kept = [each for each in digests if each not in rules.without]
        return frozenset((*rules.without, *kept[: -rules.count]))

    def frames(
        self, framer: Framer, lane: Lane, messages: Sequence[MessageHistory], images: bool
    ) -> list[Frame]:
        """Messages in wire form. Reads the files of their images."""
        frames: list[Frame] = []
        rules = lane.dialect.images
        left_out = self.left_out(lane.dialect)
        for turned in messages:
            message = turned.message
            if message.images:
                message = with_fitting(message, rules, left_out) if images else without_images(message)
                message = self._loaded(message)
            lane.surplus += surplus(message)
            frames += framer.frames(message)
        return frames

    def _loaded(self, message: Message) -> Message:
        images = (Image(each.attachment, self._attachments.read(each.attachment)) for each in message.images)
        return replace(message, images=tuple(images)) if message.images else message

    def image_digests(self) -> list[str]:
        """The SHA-256 of the images of the conversation, in their order."""
        messages = self._session.messages()
        return [image.attachment.sha256 for turned in messages for image in turned.message.images]

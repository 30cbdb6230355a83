"""Images that go with a message, and messages that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.attachments import AttachmentError as AttachmentError
    from agent.attachments import AttachmentStore as AttachmentStore
    from agent.attachments import NotAnImageError as NotAnImageError
    from agent.attachments import attachments_of as attachments_of
    from agent.attachments import check as check
    from agent.attachments import image_label as image_label
    from agent.attachments import short_name as short_name
    from agent.attachments import shown as shown
    from agent.messages import Attachment as Attachment
    from agent.turns.turn_queue import QueuedMessage as QueuedMessage
    from agent.turns.turn_queue import readdressed as readdressed

__getattr__ = exports(
    __name__,
    {
        "agent.attachments": (
            "AttachmentError AttachmentStore NotAnImageError attachments_of check image_label "
            "short_name shown"
        ),
        "agent.turns.turn_queue": "QueuedMessage readdressed",
        "agent.messages": "Attachment",
    },
)

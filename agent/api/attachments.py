"""Images that go with a message, and messages that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.attachments import AttachmentError as AttachmentError
    from agent.core.attachments import AttachmentStore as AttachmentStore
    from agent.core.attachments import NotAnImageError as NotAnImageError
    from agent.core.attachments import attachments_of as attachments_of
    from agent.core.attachments import check as check
    from agent.core.attachments import image_label as image_label
    from agent.core.attachments import short_name as short_name
    from agent.core.attachments import shown as shown
    from agent.core.messages import Attachment as Attachment
    from agent.session.turns.turn_queue import QueuedMessage as QueuedMessage
    from agent.session.turns.turn_queue import readdressed as readdressed

__getattr__ = exports(
    __name__,
    {
        "agent.core.attachments": (
            "AttachmentError AttachmentStore NotAnImageError attachments_of check image_label "
            "short_name shown"
        ),
        "agent.session.turns.turn_queue": "QueuedMessage readdressed",
        "agent.core.messages": "Attachment",
    },
)

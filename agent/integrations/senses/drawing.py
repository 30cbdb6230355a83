"""Pictures drawn by OpenAI-compatible services and fal, and shapes drawn on this machine."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agent.core.net.door import DoorLimits
from agent.integrations.senses.hearing import ServicePayer
from agent.integrations.senses.kinds import picture_ending
from agent.integrations.senses.online import FormPart, Online, ServiceAddress
from tools.results import ToolError
from tools.senses.services import Made, Permit, PictureOrder, UseService
from tools.services.actions import Fetch
from tools.text.words import shorten

if TYPE_CHECKING:
    from agent.core.config.sections import ImageSettings

TOOL = "image_generate"
_OPENAI_SIZES = {"square": "1024x1024", "landscape": "1536x1024", "portrait": "1024x1536"}
_FAL_SIZES = {"square": "square_hd", "landscape": "landscape_4_3", "portrait": "portrait_4_3"}
_LOCAL_SIZES = {"square": (768, 768), "landscape": (1024, 768), "portrait": (768, 1024)}
_NOTE = (
    "This is a pattern that was computed from the words on this machine, not a picture of what they say: no "
    "service that draws is set up. Tell the user so; image.base_url or the variable FAL_KEY sets one up."
)


class Artist:
    """Draws by what the settings name."""

    def __init__(
        self, settings: ImageSettings, environ: Mapping[str, str], online: Online, account: ServicePayer
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._online = online
        self._account = account

    async def draw(
        self, backend: str, drawing: PictureOrder, permit: Permit, progress: Callable[[str], None]
    ) -> Made:
        """A picture by `openai`, `fal` or `local`. Raises `ToolError`."""
        if backend == "local":
            await permit(UseService(tool=TOOL, kind="draw", service="this machine"))
            return await asyncio.to_thread(pattern, drawing)
        service = self._service(backend)
        await permit(UseService(tool=TOOL, kind="draw", service=service.host))
        name = f"{backend}/{self._settings.model}"
        progress(f"{service.name} draws, which may take {self._settings.timeout:g} s")
        async with self._account.paying(name, self._settings.price):
            make = self._by_openai if backend == "openai" else self._by_fal
            data, note, seed = await make(service, drawing, permit)
        return Made(
            data=data, ending=picture_ending(data), by=name, note=note, cost=self._settings.price, seed=seed
        )

    def _service(self, backend: str) -> ServiceAddress:
        settings = self._settings
        if backend == "fal":
            key = self._environ.get(settings.fal_key_env, "")
            return ServiceAddress(name="fal", base=settings.fal_url, headers={"Authorization": f"Key {key}"})
        key = self._environ.get(settings.api_key_env, "") if settings.api_key_env else ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return ServiceAddress(name="The image service", base=settings.base_url, headers=headers)

    @property
    def _limits(self) -> DoorLimits:
        return DoorLimits(size=40_000_000, unpacked=40_000_000, seconds=self._settings.timeout)

    async def _by_openai(
        self, service: ServiceAddress, drawing: PictureOrder, permit: Permit
    ) -> tuple[bytes, str, int | None]:
        body: dict[str, Any] = {
            "model": self._settings.model,
            "prompt": drawing.prompt,
            "n": 1,
            "size": _OPENAI_SIZES[drawing.shape],
        }
        if drawing.like:
            parts = [FormPart(name=key, data=str(value).encode()) for key, value in body.items()]
            for number, data in enumerate(drawing.like, 1):
                ending = picture_ending(data)
                media = "image/jpeg" if ending == ".jpg" else "image/png"
                parts.append(FormPart(name="image[]", data=data, file=f"{number}{ending}", media_type=media))
            answer = await self._online.json_form(service, "/images/edits", parts, self._limits)
        else:
            answer = await self._online.json(service, "/images/generations", body, limits=self._limits)
        first = _first(answer, "data")
        note = str(first.get("revised_prompt") or "")
        return await self._bytes_of(first, permit), f"Drawn from: {note}" if note else "", None

    async def _by_fal(
        self, service: ServiceAddress, drawing: PictureOrder, permit: Permit
    ) -> tuple[bytes, str, int | None]:
        body: dict[str, Any] = {
            "prompt": drawing.prompt,
            "image_size": _FAL_SIZES[drawing.shape],
            "num_images": 1,
            "sync_mode": True,
        }
        if drawing.seed is not None:
            body["seed"] = drawing.seed
        if drawing.like:
            urls = [f"data:{_media(each)};base64,{base64.b64encode(each).decode()}" for each in drawing.like]
            body |= {"image_url": urls[0], "image_urls": urls}
        path = "/" + self._settings.model.strip("/")
        answer = await self._online.json(service, path, body, limits=self._limits)
        seed = answer.get("seed") if isinstance(answer, Mapping) else None
        return (
            await self._bytes_of(_first(answer, "images"), permit),
            "",
            seed if isinstance(seed, int) else None,
        )

    async def _bytes_of(self, found: Mapping[str, Any], permit: Permit) -> bytes:
        packed = found.get("b64_json")
        url = str(found.get("url") or "")
        if url.startswith("data:"):
            packed = url.partition(",")[2]
        if isinstance(packed, str) and packed:
            try:
                data = base64.b64decode(packed, validate=True)
            except (binascii.Error, ValueError):
                raise ToolError("The image service sent a picture that cannot be unpacked.") from None
        elif url:
            data = await self._online.made_picture(url, Fetch(tool=TOOL, url=url), permit)
        else:
            raise ToolError("The image service sent no picture.")
        if not picture_ending(data):
            raise ToolError("The image service sent something that is no png, jpeg or webp picture.")
        return data


def _first(answer: Any, key: str) -> Mapping[str, Any]:
    found = answer.get(key) if isinstance(answer, Mapping) else None
    if not isinstance(found, list) or not found or not isinstance(found[0], Mapping):
        raise ToolError("The image service sent no picture.")
    return found[0]


def _media(data: bytes) -> str:
    return {".jpg": "image/jpeg", ".webp": "image/webp"}.get(picture_ending(data), "image/png")


def pattern(drawing: PictureOrder) -> Made:
    """Shapes and colours that the words decide, with the words below them; the same words give the same."""
    from PIL import Image, ImageDraw, ImageFont

    seed = drawing.seed if drawing.seed is not None else 0
    digest = hashlib.sha256(f"{seed}\n{drawing.prompt}".encode()).digest()
    values = digest + hashlib.sha256(digest).digest()
    width, height = _LOCAL_SIZES[drawing.shape]
    top, bottom = tuple(values[:3]), tuple(each // 3 for each in values[3:6])
    image = Image.new("RGB", (width, height))
    pen = ImageDraw.Draw(image)
    for y in range(height):
        share = y / height
        pen.line(
            [(0, y), (width, y)],
            fill=tuple(int(a + (b - a) * share) for a, b in zip(top, bottom, strict=True)),
        )
    for at in range(6, 54, 6):
        x, y = values[at] * width // 255, values[at + 1] * height // 255
        size = 40 + values[at + 2]
        fill = (values[at + 3], values[at + 4], values[at + 5])
        box = (x - size // 2, y - size // 2, x + size // 2, y + size // 2)
        (pen.ellipse if at % 12 else pen.rounded_rectangle)(box, fill=fill)
    pen.rectangle((0, height - 64, width, height), fill=(16, 16, 16))
    words = shorten(drawing.prompt, 70)
    font = ImageFont.load_default(20)
    pen.text((16, height - 56), words, fill=(240, 240, 240), font=font)
    pen.text((16, height - 28), "a pattern made of these words", fill=(160, 160, 160), font=font)
    written = io.BytesIO()
    image.save(written, "PNG")
    return Made(data=written.getvalue(), ending=".png", by="this machine", note=_NOTE, cost=0.0, seed=seed)

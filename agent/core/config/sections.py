"""Sections of the settings that do not contain those in `schema`, which combines all of them."""

from __future__ import annotations

import shlex
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

STRICTEST = "strictest"
"""The key in a security setting's `json_schema_extra` for the value used if the given one is invalid."""

_ON, _OFF = ("on", "always", "auto"), ("off", "never", "none")
"""Words that the user may have meant where YAML reads true and false, in order of preference."""


class SettingsSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _bare_words(cls, values: Any) -> Any:
        """Turn booleans back into words where a setting takes a word.

        YAML reads a bare `on`, `yes`, `off` or `no` as true or false.
        """
        if not isinstance(values, dict) or not any(isinstance(each, bool) for each in values.values()):
            return values
        return {key: _word(cls.model_fields.get(key), value) for key, value in values.items()}


def _word(field: Any, value: Any) -> Any:
    annotation = getattr(field, "annotation", None)
    if not isinstance(value, bool) or get_origin(annotation) is not Literal:
        return value
    words = _ON if value else _OFF
    return next((word for word in words if word in get_args(annotation)), value)


class BrowserSettings(SettingsSection):
    backend: Literal["auto", "local", "cdp", "browserbase"] = Field(
        "auto", description="Which browser is used; `auto` takes a running one, else the installed one."
    )
    program: str = Field("", description="Path of the browser; empty = the Chromium or Chrome it finds.")
    cdp_url: str = Field(
        "", description="Address of a running browser, such as `http://127.0.0.1:9222`; it is not confined."
    )
    profile: str = Field(
        "", description="Name of a profile that lasts, with its logins; empty = a new one each time."
    )
    idle: float = Field(120, ge=5, description="Seconds without use after which the browser is closed.")


Language = Literal["python", "typescript", "go", "rust", "cpp"]
"""The languages with a known language server; `typescript` includes JavaScript, `cpp` includes C."""


class DiagnosticsSettings(SettingsSection):
    mode: Literal["auto", "off"] = Field(
        "auto", description="Whether new errors are told with an edit, where a language server is installed."
    )
    seconds: float = Field(3, gt=0, le=60, description="Seconds an edit waits for a language server.")
    idle_minutes: float = Field(10, gt=0, description="Minutes without an edit until a server is ended.")
    commands: dict[Language, str] = Field(
        {}, description="Command of the server of a language; empty = none for that language."
    )

    @field_validator("commands")
    @classmethod
    def _commands(cls, given: dict[Language, str]) -> dict[Language, str]:
        for text in given.values():
            try:
                shlex.split(text)
            except ValueError as error:
                raise ValueError(f"{text!r} cannot be read as a command: {error}") from error
        return given


class ForeignAgentSettings(SettingsSection):
    """The settings of one external agent program."""

    command: str = Field(min_length=1, description="Command line of a program that speaks ACP.")
    env: dict[str, str] = Field({}, description="Variables for it.")
    env_passthrough: list[str] = Field([], description="Names of your variables that it gets besides.")
    description: str = Field("", description="When to send it, for the model.")
    mode: str = Field("", description="Mode of its sessions, by its own name; empty: one that asks.")
    files: bool = Field(True, description="Whether it is offered to read and write files through Hermes.")


Variable = Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")]
_KEY = "Name of the variable that holds the key, never the key itself."


class VisionSettings(SettingsSection):
    model: str = Field(
        "", description="Model that looks at pictures for one that does not see; empty = none."
    )
    ocr: bool = Field(
        True, description="Whether text in pictures is read on this machine where no model sees."
    )


class ImageSettings(SettingsSection):
    backend: Literal["auto", "openai", "fal", "local", "off"] = Field(
        "auto", description="Who draws; `auto`: what is set up here, `local`: shapes drawn on this machine."
    )
    base_url: str = Field("", description="Address of an OpenAI-compatible API that draws, ending in /v1.")
    model: str = Field("gpt-image-1", description="Model that draws; for fal its path, as `fal-ai/flux/dev`.")
    api_key_env: Variable = Field("OPENAI_API_KEY", description=_KEY)
    fal_url: str = Field("https://fal.run", description="Address of fal.")
    fal_key_env: Variable = Field("FAL_KEY", description=_KEY)
    price: float | None = Field(None, ge=0, description="US dollars for one picture; unset = unknown.")
    timeout: float = Field(180, gt=0, le=1_800, description="Seconds a picture may take.")


class SpeechSettings(SettingsSection):
    backend: Literal["auto", "openai", "elevenlabs", "hibari", "espeak", "off"] = Field(
        "auto", description="Who reads aloud; `auto`: what is set up here, else what is on this machine."
    )
    base_url: str = Field("", description="Address of an OpenAI-compatible API that speaks, ending in /v1.")
    model: str = Field("gpt-4o-mini-tts", description="Model that speaks.")
    voice: str = Field("", description="Voice; empty = the first one that the service offers.")
    api_key_env: Variable = Field("OPENAI_API_KEY", description=_KEY)
    elevenlabs_url: str = Field("https://api.elevenlabs.io", description="Address of ElevenLabs.")
    elevenlabs_key_env: Variable = Field("ELEVENLABS_API_KEY", description=_KEY)
    price: float | None = Field(
        None, ge=0, description="US dollars for a thousand characters; unset = unknown."
    )
    player: str = Field("", description="Command that plays a sound file; empty = one that is found.")


class TranscribeSettings(SettingsSection):
    backend: Literal["auto", "openai", "local", "off"] = Field(
        "auto", description="Who writes down what is said; `auto`: what is set up here, else this machine."
    )
    base_url: str = Field("", description="Address of an OpenAI-compatible API that listens, ending in /v1.")
    model: str = Field("whisper-1", description="Model that listens; on this machine a path or a known size.")
    api_key_env: Variable = Field("OPENAI_API_KEY", description=_KEY)
    price: float | None = Field(None, ge=0, description="US dollars for one recording; unset = unknown.")
    recorder: str = Field("", description="Command that records into a WAV file; empty = one that is found.")


class HomeAssistantSettings(SettingsSection):
    url: str = Field("", description="Address of Home Assistant, as `http://homeassistant.local:8123`.")
    token_env: Variable = Field("HASS_TOKEN", description="Name of the variable with its long-lived token.")


class MessageTargetSettings(SettingsSection):
    kind: Literal["webhook", "ntfy", "chat"] = Field(description="How it is reached.")
    chat: str = Field("", description="For `chat`: a messenger, or GATEWAY:CHAT[/THREAD].")
    url: str = Field("", description="Address of a webhook, or of an ntfy topic; empty = that of `url_env`.")
    url_env: Variable = Field("", description="Variable with the address, where that is itself a secret.")
    token_env: Variable = Field("", description="Variable with a token that is sent along; empty = none.")


class MessageSettings(SettingsSection):
    targets: dict[str, MessageTargetSettings] = Field(
        default={}, description="Whom messages can be sent to, by name; see docs/senses.md."
    )


_URL = r"^(https?://[^\s]+)?$"


class GatewaySettings(SettingsSection):
    """The settings common to all messenger platforms."""

    enabled: bool = Field(False, description="Whether `hermes serve` and `hermes gateway run` start it.")
    api_url: str = Field("", pattern=_URL, description="Base of the platform's API; empty = its own.")
    allow: list[str] = Field([], description="Ids of people who may talk, beside those who were paired.")
    approve: list[str] = Field([], description="Ids of people who may also answer approvals.")
    groups: Literal["off", "mention", "all"] = Field(
        "mention", description="In groups: nothing, what speaks to it, or every message of who may talk."
    )
    workspace: str = Field("", description="Folder of new sessions; empty = a folder in the home.")
    home: str = Field("", description="Chat, or CHAT/THREAD, for messages that name none.")


class TokenGatewaySettings(GatewaySettings):
    token_env: Variable = Field("", description="Variable with the token, never the token itself.")


class TelegramSettings(TokenGatewaySettings):
    token_env: Variable = Field("TELEGRAM_BOT_TOKEN", description="Variable with the token of the bot.")


class DiscordSettings(TokenGatewaySettings):
    token_env: Variable = Field("DISCORD_BOT_TOKEN", description="Variable with the token of the bot.")
    gateway_url: str = Field("", description="Address of the gateway socket; empty = as the API names it.")


class SlackSettings(GatewaySettings):
    bot_token_env: Variable = Field("SLACK_BOT_TOKEN", description="Variable with the `xoxb-` token.")
    app_token_env: Variable = Field("SLACK_APP_TOKEN", description="Variable with the `xapp-` token.")


class WhatsAppSettings(TokenGatewaySettings):
    token_env: Variable = Field("WHATSAPP_TOKEN", description="Variable with the token of the Cloud API.")
    secret_env: Variable = Field(
        "WHATSAPP_APP_SECRET", description="Variable with the app secret that signs what comes in."
    )
    verify_env: Variable = Field(
        "WHATSAPP_VERIFY_TOKEN", description="Variable with the word that the subscription is checked with."
    )
    phone_id: str = Field("", description="Id of the telephone number, as the Cloud API names it.")


class SignalSettings(GatewaySettings):
    account: str = Field("", description="Own number, as `+4915…`; empty = the only one of the daemon.")


class MatrixSettings(TokenGatewaySettings):
    token_env: Variable = Field("MATRIX_ACCESS_TOKEN", description="Variable with the access token.")
    user: str = Field("", description="Own id, as `@hermes:example.org`.")


class EmailSettings(GatewaySettings):
    address: str = Field("", description="Own address.")
    password_env: Variable = Field("EMAIL_PASSWORD", description="Variable with the password.")
    imap_host: str = Field("", description="Server that mail is read from, with TLS.")
    authserv: str = Field(
        "", description="Name by which the own server signs what it checked; empty = `imap_host`."
    )
    imap_port: int = Field(993, ge=1, le=65_535, description="Its port.")
    smtp_host: str = Field("", description="Server that mail is sent by.")
    smtp_port: int = Field(465, ge=1, le=65_535, description="Its port; 465 = TLS at once, else STARTTLS.")
    tls: bool = Field(True, description="Whether both are reached with TLS; without only on this machine.")
    poll: float = Field(30, gt=0, description="Seconds between two looks where the server cannot tell.")


class WebhookSettings(GatewaySettings):
    secret_env: Variable = Field("HERMES_WEBHOOK_SECRET", description="Variable with the secret that signs.")
    window: float = Field(300, gt=0, description="Seconds a signed request counts, either way.")


class MessengerSettings(SettingsSection):
    telegram: TelegramSettings = TelegramSettings.model_construct()
    discord: DiscordSettings = DiscordSettings.model_construct()
    slack: SlackSettings = SlackSettings.model_construct()
    whatsapp: WhatsAppSettings = WhatsAppSettings.model_construct()
    signal: SignalSettings = SignalSettings.model_construct()
    matrix: MatrixSettings = MatrixSettings.model_construct()
    email: EmailSettings = EmailSettings.model_construct()
    webhook: WebhookSettings = WebhookSettings.model_construct()


class GatewayDefaults(SettingsSection):
    approval_timeout: float = Field(
        600, gt=0, description="Seconds an approval waits in a chat where nobody may give it; then no."
    )


class HookSettings(SettingsSection):
    command: str = Field(min_length=1, description="A line for `sh -c`.")
    match: str = Field("*", description="Names of tools, with `*`, separated by `|`.")
    timeout: float = Field(5, gt=0, le=600, description="Seconds it has for an answer.")
    required: bool = Field(False, description="Whether a call is refused when the hook fails.")


class LearningSettings(SettingsSection):
    enabled: bool = Field(True, description="Whether Hermes learns from calls that failed and what worked.")
    hold_back: bool = Field(
        True, description="Whether a call that failed before is held back once, with what worked."
    )
    promote_after: int = Field(
        2,
        ge=0,
        le=100,
        description="How often a candidate has to work to become a learning by itself; 0 = never.",
    )
    candidates: int = Field(300, ge=10, le=10_000, description="Candidates kept of one project.")


class RecallSettings(SettingsSection):
    embeddings: str = Field(
        "auto",
        min_length=1,
        description="What tells the meaning of texts in searches: `auto` (the extra `semantic` where it is "
        "installed), `off`, or `PROVIDER/MODEL`, which is sent all that is said.",
    )


class ScheduleSettings(SettingsSection):
    enabled: bool = Field(True, description="Whether jobs run while Hermes is open.")
    tick: float = Field(
        15, ge=1, le=3600, description="Seconds after which the clock is looked at again while jobs exist."
    )
    grace: float = Field(
        120,
        ge=0,
        description="Seconds a run may be late before it counts as missed; at most half its period.",
    )
    at_once: int = Field(2, ge=1, le=32, description="Runs of jobs at once; further ones wait in order.")
    tokens: int | None = Field(1_000_000, ge=1, description="Tokens one run of a job may use.")
    money: float | None = Field(None, gt=0, description="US dollars one run of a job may use.")
    script_timeout: float = Field(600, gt=0, description="Seconds a script of a job may take.")


class HeartbeatSettings(SettingsSection):
    interval: float = Field(1800, ge=60, description="Seconds between two beats of HEARTBEAT.md.")
    active: str = Field(
        "",
        pattern=r"^$|^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$",
        description="Hours of the day in which it beats, such as 08:00-22:00; empty = all.",
    )
    watch: list[str] = Field([], description="Files whose change is a reason to ask the model.")
    processes: list[str] = Field([], description="Files that hold a process id; its end is a reason.")
    mail: str = Field("", description="Command whose output is a reason, and is read to the model.")
    projects: list[str] = Field([], description="Folders whose HEARTBEAT.md counts beside that of the home.")
    deliver: str = Field(
        "notice", description="Where an answer goes, as for jobs: notice, none, file:PATH, telegram and more."
    )
    model: str = Field("", description="Model that is asked at a beat; empty = that of the settings.")


class SearxngSettings(SettingsSection):
    url: str = Field("", description="Base address of a SearXNG server; empty = none.")


class WebSearchSettings(SettingsSection):
    providers: list[str] = Field(
        ["searxng", "brave", "tavily", "exa", "firecrawl", "parallel", "public", "ddgs"],
        description="Services that search, in order; those without what they need are passed over. `public` "
        "are endpoints of vendors that want no key.",
    )
    timeout: float = Field(20, gt=0, le=300, description="Seconds one service has for an answer.")


class WebCrawlSettings(SettingsSection):
    pages: int = Field(50, ge=1, le=10_000, description="Pages one crawl may fetch at most.")
    size_mb: float = Field(20, gt=0, description="Megabytes one crawl may fetch.")
    seconds: float = Field(180, gt=0, description="Seconds one crawl may take; it can be gone on with.")


class WebSettings(SettingsSection):
    search: WebSearchSettings = WebSearchSettings.model_construct()
    searxng: SearxngSettings = SearxngSettings.model_construct()
    addresses: dict[str, str] = Field(
        {}, description="Other base addresses of search services, by name, such as of your own proxy."
    )
    crawl: WebCrawlSettings = WebCrawlSettings.model_construct()
    timeout: float = Field(30, gt=0, le=600, description="Seconds a page has, with all redirects.")
    page_mb: float = Field(10, gt=0, le=200, description="Megabytes of a page as it comes in.")
    unpacked_mb: float = Field(20, gt=0, le=500, description="Megabytes of a page when it is unpacked.")
    redirects: int = Field(10, ge=0, le=30, description="Redirects that are followed.")
    cache_mb: float = Field(200, ge=0, description="Megabytes of pages kept on the disk; 0 = none are kept.")

"""Settings of messengers: one section per platform, secrets only by the names of their variables."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agent.core.config.section import SettingsSection
from agent.core.config.senses import Variable

_URL = r"^(https?://[^\s]+)?$"


class GatewaySettings(SettingsSection):
    """What every platform has."""

    enabled: bool = Field(False, description="Whether `hermes serve` and `hermes gateway run` start it.")
    api_url: str = Field("", pattern=_URL, description="Base of the platform's API; empty = its own.")
    allow: list[str] = Field([], description="Ids of people who may talk, beside those who were paired.")
    approve: list[str] = Field([], description="Ids of people who may also say yes to what the gate asks.")
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

"""The schema of `config.yaml`. Unknown keys are errors; every key has a default.

Field descriptions are the help texts of `hermes config`.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator

from agent.core.config import sections
from agent.core.config import sections as messengers
from agent.core.config.hook_list import Hook, HookEvent
from agent.core.config.sections import STRICTEST as STRICTEST
from agent.core.config.sections import (
    BrowserSettings,
    DiagnosticsSettings,
    ForeignAgentSettings,
    RecallSettings,
    WebSettings,
)
from agent.core.config.sections import HeartbeatSettings as HeartbeatSettings
from agent.core.config.sections import HookSettings as HookSettings
from agent.core.config.sections import LearningSettings as LearningSettings
from agent.core.config.sections import ScheduleSettings as ScheduleSettings
from agent.core.config.sections import SettingsSection as SettingsSection
from agent.core.messages import ModeName

ToolMode = Literal["native", "schema", "text"]
FORMAT_NAME = r"^[a-z][a-z0-9_]*$"
VARIABLE = r"^([A-Za-z_][A-Za-z0-9_]*)?$"


class ModelSettings(SettingsSection):
    name: str = Field("", description="Model to use: a name, `local`, `demo`, or `provider/name`.")
    fallbacks: list[str] = Field([], description="Models tried in order when the first one cannot answer.")
    max_output: int | None = Field(None, ge=1, description="Upper limit of tokens for one reply.")
    temperature: float | None = Field(
        None, ge=0, le=2, description="Sampling temperature; unset = provider's."
    )
    stall_timeout: float = Field(
        120, gt=0, description="Seconds without a byte before a stream counts as dead."
    )
    retries: int = Field(4, ge=0, le=20, description="How often a failed request is tried again.")
    token_ids: bool = Field(False, description="Ask for the ids of tokens, which training needs (vLLM).")
    thinking: Literal["off", "low", "medium", "high"] | int | None = Field(
        None, description="How much it thinks before it answers: a word, or tokens; unset = provider's."
    )

    @field_validator("thinking", mode="before")
    @classmethod
    def _level(cls, value: object) -> object:
        """Turn `false` back into `off`, because YAML reads a bare `off` as false. Raises `ValueError` for an
        unknown word and for a budget below one token.
        """
        if value is False:
            return "off"
        is_budget = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        if not is_budget and value not in (None, "off", "low", "medium", "high"):
            raise ValueError("it takes off, low, medium, high or a number of tokens from 1 on")
        return value


class ModelInfoSettings(SettingsSection):
    context_window: int | None = Field(None, ge=1, description="Tokens the model can read and write in all.")
    max_output: int | None = Field(None, ge=1, description="Tokens the model can write in one reply.")
    input_price: float | None = Field(None, ge=0, description="US dollars per million input tokens.")
    output_price: float | None = Field(None, ge=0, description="US dollars per million output tokens.")
    cached_price: float | None = Field(None, ge=0, description="US dollars per million cached input tokens.")
    written_price: float | None = Field(
        None, ge=0, description="US dollars per million input tokens written to the cache."
    )
    format: str | None = Field(None, pattern=FORMAT_NAME, description="Wire format of this model.")
    tool_mode: ToolMode | None = Field(None, description="How tool calls travel for this model.")
    images: bool | None = Field(
        None, description="Whether the model reads images; unset: they are sent, unless it is known not to."
    )


KeyVariable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _model_address(text: str) -> str:
    """Return the address of an API unchanged. Raises `ValueError` if it is not a valid HTTP address.

    It may contain variables such as `${NAME}`.
    """
    parts = urlsplit(re.sub(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}", "x", text))
    is_open = text.startswith("${")
    if not is_open and (parts.scheme not in ("http", "https") or not parts.hostname or " " in text):
        raise ValueError("it takes an address such as https://api.example.com/v1")
    return text


ModelAddress = Annotated[str, AfterValidator(_model_address)]


class ProviderSettings(SettingsSection):
    base_url: ModelAddress = Field(
        "",
        description="Address of an API, ending in /v1 as a rule; empty = that of the provider of this name.",
        json_schema_extra={"takes": "an address such as https://api.example.com/v1"},
    )
    api_key_env: str = Field(
        "", pattern=VARIABLE, description="Name of the variable that holds the key, never the key itself."
    )
    more_key_envs: list[KeyVariable] = Field(
        [], description="Variables of further keys, used in turn when one is refused for now."
    )
    format: str | None = Field(
        None,
        pattern=FORMAT_NAME,
        description="Wire format: `chat`, `anthropic`, `responses`; unset = the provider's own, else `chat`.",
    )
    dialect: str = Field("", description="Table of what it takes (docs/models.md); empty = found by itself.")
    tool_mode: ToolMode = Field("native", description="How tool calls travel.")
    headers: dict[str, str] = Field({}, description="Further HTTP headers.")
    models: dict[str, ModelInfoSettings] = Field({}, description="What is known about single models.")


class AgentSettings(SettingsSection):
    max_turns: int = Field(90, ge=1, description="Requests to the model within one turn.")
    parallel_calls: int = Field(8, ge=1, le=32, description="Read-only calls that may run at once.")


class LayerBudgetSettings(SettingsSection):
    identity: int = Field(2_000, ge=0, description="Tokens of SOUL.md in the system prompt.")
    project: int = Field(8_000, ge=0, description="Tokens of the project's files in the system prompt.")
    skills: int = Field(600, ge=0, description="Tokens of the index of skills.")
    user: int = Field(600, ge=0, description="Tokens of what is remembered of the person.")
    learnings: int = Field(800, ge=0, description="Tokens of what was learned from failures.")
    memory: int = Field(1_500, ge=0, description="Tokens of what is remembered of projects and the rest.")
    session: int = Field(500, ge=0, description="Tokens about the session itself.")
    runtime: int = Field(500, ge=0, description="Tokens about the machine and the workspace.")


class ContextSettings(SettingsSection):
    mask_at: float = Field(0.85, gt=0.1, lt=1, description="Share of the window at which room is made.")
    words_share: float = Field(
        0.3,
        gt=0,
        le=0.6,
        description="Share of the window in which your own words survive a compaction whole.",
    )
    references_share: float = Field(
        0.25, gt=0, le=0.6, description="Share of the window for what one message attaches with `@`."
    )
    summary_model: str = Field(
        "",
        description="Model that writes summaries, `PROVIDER/NAME`; empty: the model of the session.",
    )
    file_chars: int = Field(20_000, ge=0, description="Characters taken from one context file.")
    prompt_share: float = Field(
        0.25,
        gt=0,
        le=0.6,
        description="Share of the window that the layers of the system prompt may take together.",
    )
    budgets: LayerBudgetSettings = LayerBudgetSettings.model_construct()


class MemorySettings(SettingsSection):
    enabled: bool = Field(True, description="Whether notes outlive a session and are shown in the prompt.")
    provider: str = Field("auto", description="Who keeps the notes: `files`, `auto`, or `PLUGIN.SERVICE`.")
    write_approval: Literal["off", "ask"] = Field(
        "off",
        description="Whether a person is asked before the agent writes a note.",
        json_schema_extra={STRICTEST: "ask"},
    )
    memory_chars: int = Field(2_200, ge=200, le=20_000, description="Characters of MEMORY.md.")
    user_chars: int = Field(1_375, ge=200, le=20_000, description="Characters of USER.md.")
    project_chars: int = Field(2_200, ge=200, le=20_000, description="Characters of a project's MEMORY.md.")


class SkillSourceSettings(SettingsSection):
    kind: Literal["github", "git", "folder", "well-known", "marketplace", "clawhub", "lobehub"] = Field(
        description="What it is: see docs/skills.md."
    )
    url: str = Field(min_length=1, description="An address, `owner/repository` on GitHub, or a folder.")
    token_env: str = Field(
        "", pattern=VARIABLE, description="Name of the environment variable that holds a token for it."
    )


class SkillSettings(SettingsSection):
    enabled: bool = Field(True, description="Whether skills are shown in the prompt and can be used.")
    disabled: list[str] = Field([], description="Names of skills that are not used.")
    folders: list[str] = Field([], description="Further folders of skills, read after your own.")
    offer: bool = Field(True, description="Whether saving the way as a skill is offered after a long task.")
    sources: dict[str, SkillSourceSettings] = Field(default={})

    @field_validator("sources")
    @classmethod
    def _check_names(cls, value: dict[str, SkillSourceSettings]) -> dict[str, SkillSourceSettings]:
        for name in value:
            if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", name):
                raise ValueError(f"the name {name[:60]!r} of a source is made of a-z, 0-9, _ and -")
        return value


class DockerSettings(SettingsSection):
    image: str = Field("debian:stable-slim", min_length=1, description="Image of the container.")
    program: str = Field("docker", min_length=1, description="`docker`, or one like it such as `podman`.")
    pull: Literal["missing", "always", "never"] = Field("missing", description="When the image is fetched.")
    network: bool = Field(True, description="Whether the container reaches the network.")
    cpus: float = Field(0, ge=0, description="Processors it may use; 0 = all.")
    memory: str = Field("", pattern=r"^(\d+[bkmg]?)?$", description="Memory it may use, such as `2g`.")
    processes: int = Field(1024, ge=0, description="Processes it may hold; 0 = no limit.")
    mounts: list[str] = Field([], description="Further folders, as `source:target` or `source:target:ro`.")
    user: str = Field("", description="Who commands run as, as `uid:gid`; empty = you.")


class SshSettings(SettingsSection):
    host: str = Field("", description="Host that commands run on.")
    user: str = Field("", description="Name to log in with; empty = what ssh is configured for.")
    port: int = Field(0, ge=0, le=65535, description="Port; 0 = what ssh is configured for.")
    key: str = Field("", description="Path of a private key; empty = what ssh finds.")
    known_hosts: str = Field("", description="File with the keys of hosts, in place of the usual one.")
    connect_timeout: int = Field(10, ge=1, description="Seconds until the host counts as unreachable.")
    shared: bool = Field(False, description="Whether the host has the project under the same path.")


class SingularitySettings(SettingsSection):
    image: str = Field(
        "docker://debian:stable-slim", min_length=1, description="Image file, or where to fetch one."
    )
    program: str = Field("", description="`apptainer` or `singularity`; empty = whichever there is.")
    network: bool = Field(True, description="Whether the container reaches the network.")
    gpu: bool = Field(False, description="Whether it sees the graphics processors.")
    mounts: list[str] = Field([], description="Further folders, as `source:target` or `source:target:ro`.")


class ModalSettings(SettingsSection):
    image: str = Field("debian:stable-slim", min_length=1, description="Image of the sandbox.")
    app: str = Field("hermes", min_length=1, description="App that the sandbox belongs to.")
    cpus: float = Field(0, ge=0, description="Processors; 0 = the provider's default.")
    memory: int = Field(0, ge=0, description="Mebibytes of memory; 0 = the provider's default.")
    lifetime: int = Field(3600, ge=1, description="Seconds after which the sandbox ends in any case.")
    network: bool = Field(True, description="Whether the sandbox reaches the network.")


class DaytonaSettings(SettingsSection):
    image: str = Field("", description="Image of the sandbox; empty = the provider's default.")
    lifetime: int = Field(60, ge=1, description="Minutes without activity until the sandbox stops.")


class TerminalSettings(SettingsSection):
    backend: Literal["local", "docker", "ssh", "singularity", "modal", "daytona"] = Field(
        "local", description="Where commands run; see docs/backends.md."
    )
    workdir: str = Field(
        "",
        description="Folder to begin in elsewhere; empty = the project in containers, else the home there.",
    )
    env: dict[str, str] = Field({}, description="Variables commands get elsewhere; no secrets.")
    timeout: int = Field(180, ge=1, description="Seconds a command may run.")
    max_timeout: int = Field(600, ge=1, description="Largest timeout the model may ask for.")
    env_passthrough: list[str] = Field(
        [],
        description="Further variables commands get: a name, secret or not, or a prefix such as `FOO_*`.",
    )
    docker: DockerSettings = DockerSettings.model_construct()
    ssh: SshSettings = SshSettings.model_construct()
    singularity: SingularitySettings = SingularitySettings.model_construct()
    modal: ModalSettings = ModalSettings.model_construct()
    daytona: DaytonaSettings = DaytonaSettings.model_construct()


class SandboxSettings(SettingsSection):
    mode: Literal["auto", "bubblewrap", "landlock", "seatbelt", "off"] = Field(
        "auto",
        description="What keeps commands in; `auto` takes the strongest this machine offers.",
        json_schema_extra={STRICTEST: "auto"},
    )
    network: Literal["on", "filtered", "ask", "off"] = Field(
        "filtered",
        description="What commands in the sandbox reach: all; listed hosts, others if you allow them; "
        "nothing unless you allow it for the command; nothing.",
        json_schema_extra={STRICTEST: "off"},
    )
    writable: list[str] = Field([], description="Folders beside the project that commands may change.")
    hidden: list[str] = Field([], description="Further files and folders that commands cannot read.")
    hosts: list[str] = Field(
        [], description="Further hosts that are reached unasked: `example.org`, `*.example.org:8443`."
    )
    cache_mb: int = Field(2048, ge=0, description="Megabytes caches in it may take, over all projects.")
    cache_days: float = Field(30, ge=0, description="Days after which the unused caches of a project go.")
    memory: int = Field(0, ge=0, description="Megabytes each process in the sandbox may use; 0 = no limit.")

    @field_validator("hosts")
    @classmethod
    def _hosts(cls, given: list[str]) -> list[str]:
        from agent.core.net.hosts import entry

        for text in given:
            try:
                entry(text)
            except ValueError as error:
                raise ValueError(f"{text!r} {error}") from error
        return given


class CodeSettings(SettingsSection):
    timeout: float = Field(120, gt=0, description="Seconds a script may run, waiting for you not counted.")
    max_calls: int = Field(50, ge=0, description="Calls of tools one script may make.")
    stdout: int = Field(50_000, ge=0, description="Bytes of its output the model gets to see.")
    stderr: int = Field(10_000, ge=0, description="Bytes of its errors the model gets to see.")
    mode: Literal["strict", "project"] = Field(
        "strict", description="Interpreter of scripts: Hermes' own, or the project's with its packages."
    )


class ToolSettings(SettingsSection):
    enabled: list[str] = Field(["default"], description="Toolsets or tools on offer.")
    disabled: list[str] = Field([], description="Toolsets or tools taken away again.")
    direct: list[str] = Field(
        [
            *("terminal", "process", "read_file", "write_file", "patch", "search", "todo_write", "clarify"),
            *("execute_code", "delegate_task", "skill_view", "web_search", "tool_search", "tool_call"),
        ],
        description="Toolsets or tools that every request shows; `tool_search` finds the others on offer. "
        "What `enabled` names is shown as well.",
    )


class ApprovalSettings(SettingsSection):
    mode: ModeName = Field(
        "ask",
        description="What happens to actions: `careful`, `normal` (`ask`, `auto-edit`), `plan`, "
        "`yolo` (`all`) or `deny`.",
        json_schema_extra={STRICTEST: "deny"},
    )


class SmartSettings(SettingsSection):
    model: str = Field(
        "", description="Model that looks at actions too and may make verdicts stricter; empty = none."
    )
    timeout: float = Field(10, gt=0, le=120, description="Seconds it has for an answer; then rules decide.")


class SafetySettings(SettingsSection):
    smart: SmartSettings = SmartSettings.model_construct()


class LocalSettings(SettingsSection):
    model: str = Field("", description="Path of a GGUF file; empty = the one `hermes model pull` fetched.")
    url: str = Field("", description="Address of a GGUF file to fetch; empty = the model Hermes knows.")
    sha256: str = Field("", description="SHA-256 of that file, in hexadecimal; without it none is fetched.")
    threads: int = Field(0, ge=0, description="Threads of the local model; 0 = all free cores.")
    context: int = Field(8192, ge=1024, description="Context window of the local model.")


class DisplaySettings(SettingsSection):
    skin: str = Field("night", description="Look of the application; see `hermes skins list`.")
    personality: str = Field("", description="How Hermes speaks, such as `concise`; empty = plainly.")
    motion: bool = Field(True, description="Whether spinners turn; off, words say what is happening.")
    vi: bool = Field(False, description="Whether the prompt takes vi keys.")
    wrap_code: bool = Field(False, description="Whether long lines of code wrap instead of being cut.")
    reader: Literal["auto", "true", "false"] = Field(
        "auto",
        description="Whether `hermes` is made for a screen reader: only appended lines, states in words; "
        "auto = when one is announced.",
    )
    pictures: Literal["auto", "kitty", "sixel", "blocks", "off"] = Field(
        "auto",
        description="How images are drawn: by Kitty's protocol, as sixel, as half blocks, or not at all.",
    )
    notifications: bool = Field(
        True, description="Whether Hermes calls you when you look elsewhere; how, `notifications` says."
    )
    mouse: Literal["full", "wheel", "off"] = Field(
        "full",
        description="What the mouse does here: everything, scrolling, or nothing, so that it selects text as "
        "in any other program.",
    )
    copy_on_select: bool = Field(False, description="Whether text is copied once the mouse has selected it.")
    leave_answer: bool = Field(False, description="Whether the last answer stays on the terminal at exit.")


CallWays = list[Literal["bell", "terminal", "desktop", "sound"]]


class NotificationSettings(SettingsSection):
    needs_you: CallWays = Field(
        default=["bell", "terminal"],
        description="How you are called when a question waits: `bell`, `terminal` (a notification of the "
        "terminal), `desktop` (one of the desktop), `sound`.",
    )
    done: CallWays = Field(
        default=["bell", "terminal"], description="How you are called when a turn is done."
    )
    failed: CallWays = Field(
        default=["bell", "terminal"], description="How you are called when a turn failed."
    )
    away_seconds: float = Field(
        20,
        ge=0,
        description="Seconds without a key after which you count as away, where the terminal does not report "
        "its focus.",
    )


class WatcherSettings(SettingsSection):
    enabled: bool = Field(True, description="Whether changes others make in the project are noticed.")


class EngineSettings(SettingsSection):
    process: bool = Field(
        False, description="Whether the engine of the full screen works in a process of its own."
    )


class ServeSettings(SettingsSection):
    hosts: list[str] = Field(
        [], description="Further names under which `hermes serve` is reached, such as that of a proxy."
    )
    approval_timeout: float = Field(
        600,
        gt=0,
        description="Seconds an approval waits for somebody in a turn that an OpenAI client began; then no.",
    )


class McpOAuthSettings(SettingsSection):
    client_id: str = Field(
        "", description="Id of a client that was registered by hand; empty = registers itself."
    )
    client_secret_env: str = Field("", description="Name of the variable with the secret of that client.")
    client_metadata_url: str = Field("", description="Address of a document that describes this client.")
    scopes: list[str] = Field([], description="Scopes to ask for; empty = what the server names.")


class McpServerSettings(SettingsSection):
    command: str = Field("", description="Program that is started and spoken to over its input and output.")
    args: list[str] = Field([], description="Its arguments.")
    env: dict[str, str] = Field({}, description="Variables for it; `${NAME}` stands for one of yours.")
    env_passthrough: list[str] = Field([], description="Names of your variables that it gets besides.")
    cwd: str = Field("", description="Folder it starts in; empty = the project.")
    url: str = Field("", description="Address of a server that runs already, instead of a command.")
    transport: Literal["stdio", "http", "sse"] | None = Field(
        None, description="How it is spoken to; unset = `stdio` with a command, `http` with an address."
    )
    headers: dict[str, str] = Field({}, description="HTTP headers; `${NAME}` stands for a variable.")
    include: list[str] = Field([], description="Names of tools to offer, with `*`; empty = all.")
    exclude: list[str] = Field([], description="Names of tools to leave out, with `*`.")
    timeout: float = Field(60, gt=0, le=3_600, description="Seconds a call has.")
    connect_timeout: float = Field(
        10,
        gt=0,
        le=600,
        description="Seconds its start has; 120 instead of 10 where `npx`, `uvx` and such may install it.",
    )
    enabled: bool = Field(True, description="Whether it is used.")
    sandbox: bool = Field(True, description="Whether a command starts in the sandbox.")
    network: bool = Field(True, description="Whether a command in the sandbox has the network.")
    writable: list[str] = Field([], description="Folders a command may change; paths from the project.")
    oauth: McpOAuthSettings = McpOAuthSettings.model_construct()


class CheckpointSettings(SettingsSection):
    enabled: bool = Field(True, description="Whether what steps do to files is kept, to be taken back.")
    max_total_mb: int = Field(2000, ge=1, description="Megabytes all checkpoints may take; oldest steps go.")
    max_file_mb: int = Field(100, ge=0, description="Megabytes above which a file is left out.")
    objects: bool = Field(True, description="Whether contents of LFS and git-annex are kept, of any size.")
    max_age_days: float = Field(30, gt=0, description="Days after which a step can no longer be taken back.")


class SubagentSettings(SettingsSection):
    at_once: int = Field(3, ge=1, le=32, description="Agents that work at once; further ones wait in order.")
    depth: int = Field(2, ge=0, le=2, description="How deep agents may send agents; 0 = none are sent.")
    turns: int | None = Field(40, ge=1, description="Requests to a model one agent may make.")
    seconds: float | None = Field(None, gt=0, description="Seconds one agent may work.")
    tokens: int | None = Field(
        2_000_000, ge=1, description="Tokens all agents of a session may use together, as a hard ceiling."
    )
    money: float | None = Field(
        None, gt=0, description="US dollars all agents of a session may use together, as a hard ceiling."
    )
    forecast_tokens: int | None = Field(
        200_000,
        ge=0,
        description="Tokens that agents of one call may be going to take before you are asked whether they "
        "are sent; 0 = always asks, null = never.",
    )


class SessionBudget(SettingsSection):
    turns: int | None = Field(None, ge=1, description="Requests to models one session may make, all agents.")
    tokens: int | None = Field(None, ge=1, description="Tokens one session may use, as a hard ceiling.")
    money: float | None = Field(None, gt=0, description="US dollars one session may use, as a hard ceiling.")


class DayBudget(SettingsSection):
    tokens: int | None = Field(None, ge=1, description="Tokens all sessions of a day may use together.")
    money: float | None = Field(None, gt=0, description="US dollars all sessions of a day may use together.")


class TotalBudget(SettingsSection):
    tokens: int | None = Field(
        None, ge=1, description="Tokens all sessions of a home may use together, ever."
    )
    money: float | None = Field(
        None, gt=0, description="US dollars all sessions of a home may use together, ever."
    )


class BudgetSettings(SettingsSection):
    session: SessionBudget = SessionBudget.model_construct()
    day: DayBudget = DayBudget.model_construct()
    total: TotalBudget = TotalBudget.model_construct()


class Settings(SettingsSection):
    """All settings of `config.yaml`."""

    model: ModelSettings = ModelSettings.model_construct()
    providers: dict[str, ProviderSettings] = Field(default={})
    agent: AgentSettings = AgentSettings.model_construct()
    context: ContextSettings = ContextSettings.model_construct()
    memory: MemorySettings = MemorySettings.model_construct()
    learnings: LearningSettings = LearningSettings.model_construct()
    recall: RecallSettings = RecallSettings.model_construct()
    skills: SkillSettings = SkillSettings.model_construct()
    terminal: TerminalSettings = TerminalSettings.model_construct()
    sandbox: SandboxSettings = SandboxSettings.model_construct()
    browser: BrowserSettings = BrowserSettings.model_construct()
    code: CodeSettings = CodeSettings.model_construct()
    tools: ToolSettings = ToolSettings.model_construct()
    approvals: ApprovalSettings = ApprovalSettings.model_construct()
    safety: SafetySettings = SafetySettings.model_construct()
    diagnostics: DiagnosticsSettings = DiagnosticsSettings.model_construct()
    vision: sections.VisionSettings = sections.VisionSettings.model_construct()
    image: sections.ImageSettings = sections.ImageSettings.model_construct()
    speech: sections.SpeechSettings = sections.SpeechSettings.model_construct()
    transcribe: sections.TranscribeSettings = sections.TranscribeSettings.model_construct()
    homeassistant: sections.HomeAssistantSettings = sections.HomeAssistantSettings.model_construct()
    messages: sections.MessageSettings = sections.MessageSettings.model_construct()
    local: LocalSettings = LocalSettings.model_construct()
    display: DisplaySettings = DisplaySettings.model_construct()
    notifications: NotificationSettings = NotificationSettings.model_construct()
    watcher: WatcherSettings = WatcherSettings.model_construct()
    engine: EngineSettings = EngineSettings.model_construct()
    web: WebSettings = WebSettings.model_construct()
    serve: ServeSettings = ServeSettings.model_construct()
    gateway: messengers.GatewayDefaults = messengers.GatewayDefaults.model_construct()
    gateways: messengers.MessengerSettings = messengers.MessengerSettings.model_construct()
    checkpoints: CheckpointSettings = CheckpointSettings.model_construct()
    subagents: SubagentSettings = SubagentSettings.model_construct()
    budget: BudgetSettings = BudgetSettings.model_construct()
    schedule: ScheduleSettings = ScheduleSettings.model_construct()
    heartbeat: HeartbeatSettings = HeartbeatSettings.model_construct()
    hooks: dict[HookEvent, list[HookSettings]] = Field(
        default={},
        description="Your own commands that hear of events and may have a say; see docs/hooks.md.",
    )
    agents: dict[str, ForeignAgentSettings] = Field(
        default={}, description="Other programs to send, by name."
    )
    mcp_servers: dict[str, McpServerSettings] = Field(
        default={}, description="Servers whose tools the model may call, by name; see docs/mcp.md."
    )
    keys: dict[str, str] = Field(
        default={},
        description="Keys by the id of what they do, as `view.log: ctrl+l`; separate several with commas.",
    )


def hooks_of(settings: Settings, project: str = "") -> list[Hook]:
    """Return all hooks in `settings`, event by event. `project` is the folder of the project that declares
    them; empty for the user's own.
    """
    return [
        Hook(event, each.command, each.match, each.timeout, each.required, project)
        for event, given in settings.hooks.items()
        for each in given
    ]

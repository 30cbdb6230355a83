"""The shape of `config.yaml`. Unknown keys are errors; every key has a default.

Field descriptions are the help texts of `hermes config`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.safety.permissions.modes import ModeName

ToolMode = Literal["native", "schema", "text"]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ModelSettings(Section):
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


class ModelInfo(Section):
    context_window: int | None = Field(None, ge=1, description="Tokens the model can read and write in all.")
    max_output: int | None = Field(None, ge=1, description="Tokens the model can write in one reply.")
    input_price: float | None = Field(None, ge=0, description="US dollars per million input tokens.")
    output_price: float | None = Field(None, ge=0, description="US dollars per million output tokens.")
    cached_price: float | None = Field(None, ge=0, description="US dollars per million cached input tokens.")
    tool_mode: ToolMode | None = Field(None, description="How tool calls travel for this model.")
    images: bool | None = Field(
        None, description="Whether the model reads images; unset: they are sent, unless it is known not to."
    )


class ProviderSettings(Section):
    base_url: str = Field(description="Address of a chat-completions API, ending in /v1 as a rule.")
    api_key_env: str = Field(
        "",
        pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$",
        description="Name of the environment variable that holds the key, never the key itself.",
    )
    tool_mode: ToolMode = Field("native", description="How tool calls travel.")
    headers: dict[str, str] = Field({}, description="Further HTTP headers.")
    models: dict[str, ModelInfo] = Field({}, description="What is known about single models.")


class AgentSettings(Section):
    max_turns: int = Field(90, ge=1, description="Requests to the model within one turn.")
    parallel_calls: int = Field(8, ge=1, le=32, description="Read-only calls that may run at once.")


class ContextSettings(Section):
    mask_at: float = Field(
        0.85, gt=0.1, lt=1, description="Share of the window at which old results are masked."
    )
    file_chars: int = Field(20_000, ge=0, description="Characters taken from one context file.")


class DockerSettings(Section):
    image: str = Field("debian:stable-slim", min_length=1, description="Image of the container.")
    program: str = Field("docker", min_length=1, description="`docker`, or one like it such as `podman`.")
    pull: Literal["missing", "always", "never"] = Field("missing", description="When the image is fetched.")
    network: bool = Field(True, description="Whether the container reaches the network.")
    cpus: float = Field(0, ge=0, description="Processors it may use; 0 = all.")
    memory: str = Field("", pattern=r"^(\d+[bkmg]?)?$", description="Memory it may use, such as `2g`.")
    processes: int = Field(1024, ge=0, description="Processes it may hold; 0 = no limit.")
    mounts: list[str] = Field([], description="Further folders, as `source:target` or `source:target:ro`.")
    user: str = Field("", description="Who commands run as, as `uid:gid`; empty = you.")


class SshSettings(Section):
    host: str = Field("", description="Host that commands run on.")
    user: str = Field("", description="Name to log in with; empty = what ssh is configured for.")
    port: int = Field(0, ge=0, le=65535, description="Port; 0 = what ssh is configured for.")
    key: str = Field("", description="Path of a private key; empty = what ssh finds.")
    known_hosts: str = Field("", description="File with the keys of hosts, in place of the usual one.")
    connect_timeout: int = Field(10, ge=1, description="Seconds until the host counts as unreachable.")
    shared: bool = Field(False, description="Whether the host has the project under the same path.")


class SingularitySettings(Section):
    image: str = Field(
        "docker://debian:stable-slim", min_length=1, description="Image file, or where to fetch one."
    )
    program: str = Field("", description="`apptainer` or `singularity`; empty = whichever there is.")
    network: bool = Field(True, description="Whether the container reaches the network.")
    gpu: bool = Field(False, description="Whether it sees the graphics processors.")
    mounts: list[str] = Field([], description="Further folders, as `source:target` or `source:target:ro`.")


class ModalSettings(Section):
    image: str = Field("debian:stable-slim", min_length=1, description="Image of the sandbox.")
    app: str = Field("hermes", min_length=1, description="App that the sandbox belongs to.")
    cpus: float = Field(0, ge=0, description="Processors; 0 = the provider's default.")
    memory: int = Field(0, ge=0, description="Mebibytes of memory; 0 = the provider's default.")
    lifetime: int = Field(3600, ge=1, description="Seconds after which the sandbox ends in any case.")
    network: bool = Field(True, description="Whether the sandbox reaches the network.")


class DaytonaSettings(Section):
    image: str = Field("", description="Image of the sandbox; empty = the provider's default.")
    lifetime: int = Field(60, ge=1, description="Minutes without activity until the sandbox stops.")


class TerminalSettings(Section):
    backend: Literal["local", "docker", "ssh", "singularity", "modal", "daytona"] = Field(
        "local", description="Where commands run; see docs/backends.md."
    )
    workdir: str = Field(
        "",
        description="Folder to begin in elsewhere; empty = the project in containers, else the home there.",
    )
    env: dict[str, str] = Field(
        {}, description="Variables commands get elsewhere; secrets do not belong here."
    )
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


class SandboxSettings(Section):
    mode: Literal["auto", "bubblewrap", "landlock", "off"] = Field(
        "auto", description="What keeps commands in; `auto` takes the strongest this machine offers."
    )
    network: Literal["on", "ask", "off"] = Field(
        "on", description="Whether commands in the sandbox reach the network; `ask` asks each time."
    )
    writable: list[str] = Field([], description="Folders beside the project that commands may change.")
    hidden: list[str] = Field([], description="Further files and folders that commands cannot read.")
    memory: int = Field(0, ge=0, description="Megabytes each process in the sandbox may use; 0 = no limit.")


class CodeSettings(Section):
    timeout: float = Field(120, gt=0, description="Seconds a script may run, waiting for you not counted.")
    max_calls: int = Field(50, ge=0, description="Calls of tools one script may make.")
    stdout: int = Field(50_000, ge=0, description="Bytes of its output the model gets to see.")
    stderr: int = Field(10_000, ge=0, description="Bytes of its errors the model gets to see.")
    mode: Literal["strict", "project"] = Field(
        "strict", description="Interpreter of scripts: Hermes' own, or the project's with its packages."
    )


class ToolSettings(Section):
    enabled: list[str] = Field(["default"], description="Toolsets or tools on offer.")
    disabled: list[str] = Field([], description="Toolsets or tools taken away again.")


class ApprovalSettings(Section):
    mode: ModeName = Field(
        "ask",
        description="What happens to actions: `careful`, `normal` (`ask`), `auto-edit`, `plan`, "
        "`yolo` (`all`) or `deny`.",
    )


class SmartSettings(Section):
    model: str = Field(
        "", description="Model that looks at actions too and may make the gate stricter; empty = none."
    )
    timeout: float = Field(10, gt=0, le=120, description="Seconds it has for an answer; then rules decide.")


class SafetySettings(Section):
    smart: SmartSettings = SmartSettings.model_construct()


class LocalSettings(Section):
    model: str = Field("", description="Path of a GGUF file; empty = the one `hermes model pull` fetched.")
    threads: int = Field(0, ge=0, description="Threads of the local model; 0 = all free cores.")
    context: int = Field(8192, ge=1024, description="Context window of the local model.")


class DisplaySettings(Section):
    skin: str = Field("night", description="Look of the application; see `hermes skins list`.")
    personality: str = Field("", description="How Hermes speaks, such as `concise`; empty = plainly.")
    motion: bool = Field(True, description="Whether spinners turn; off, words say what goes on.")
    vi: bool = Field(False, description="Whether the prompt takes vi keys.")
    wrap_code: bool = Field(False, description="Whether long lines of code wrap instead of being cut.")
    notifications: bool = Field(
        True, description="Whether the terminal calls you back when it has lost the focus."
    )


class WatcherSettings(Section):
    enabled: bool = Field(True, description="Whether changes others make in the project are noticed.")


class CheckpointSettings(Section):
    enabled: bool = Field(
        True, description="Whether what steps do to files is kept, so it can be taken back."
    )
    max_total_mb: int = Field(2000, ge=1, description="Megabytes all checkpoints may take; oldest steps go.")
    max_file_mb: int = Field(100, ge=0, description="Megabytes above which a file is left out.")
    max_age_days: float = Field(30, gt=0, description="Days after which a step can no longer be taken back.")


class SubagentSettings(Section):
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


class SessionBudget(Section):
    turns: int | None = Field(None, ge=1, description="Requests to models one session may make, all agents.")
    tokens: int | None = Field(None, ge=1, description="Tokens one session may use, as a hard ceiling.")
    money: float | None = Field(None, gt=0, description="US dollars one session may use, as a hard ceiling.")


class DayBudget(Section):
    tokens: int | None = Field(None, ge=1, description="Tokens all sessions of a day may use together.")
    money: float | None = Field(None, gt=0, description="US dollars all sessions of a day may use together.")


class BudgetSettings(Section):
    session: SessionBudget = SessionBudget.model_construct()
    day: DayBudget = DayBudget.model_construct()


class Settings(Section):
    """Everything in `config.yaml`."""

    model: ModelSettings = ModelSettings.model_construct()
    providers: dict[str, ProviderSettings] = {}
    agent: AgentSettings = AgentSettings.model_construct()
    context: ContextSettings = ContextSettings.model_construct()
    terminal: TerminalSettings = TerminalSettings.model_construct()
    sandbox: SandboxSettings = SandboxSettings.model_construct()
    code: CodeSettings = CodeSettings.model_construct()
    tools: ToolSettings = ToolSettings.model_construct()
    approvals: ApprovalSettings = ApprovalSettings.model_construct()
    safety: SafetySettings = SafetySettings.model_construct()
    local: LocalSettings = LocalSettings.model_construct()
    display: DisplaySettings = DisplaySettings.model_construct()
    watcher: WatcherSettings = WatcherSettings.model_construct()
    checkpoints: CheckpointSettings = CheckpointSettings.model_construct()
    subagents: SubagentSettings = SubagentSettings.model_construct()
    budget: BudgetSettings = BudgetSettings.model_construct()
    keys: dict[str, str] = Field(
        default={},
        description="Keys by the id of what they do, such as `view.log: ctrl+l`; commas part several.",
    )

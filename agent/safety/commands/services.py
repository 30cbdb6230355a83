"""Package managers, containers, clusters, infrastructure, clouds and forges: tables of their subcommands."""

from __future__ import annotations

import re
from dataclasses import replace

from agent.safety.commands import declared, inside_containers
from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.commands.verbs import Verbs
from agent.safety.shell.marks import UNKNOWN, words

INSTALLS = "installs, changes or removes packages"
LISTS = "only lists packages"
LOOKS = "only looks"

_PIP = Verbs(
    harmless=r"list|show|freeze|check|inspect|debug|config (?:list|get|debug)|cache (?:dir|info|list)"
    r"|index versions|help|hash",
    reason=LISTS,
    effects=((r"install|uninstall|download|wheel|config|cache", INSTALLS),),
    valued=words("--python --log --proxy --cert"),
)


def pip(call: Call) -> Opinion:
    if call.arguments[:1] == ("install",):
        opinion = declared.into_environment(call, call.arguments[1:])
        return _PIP(call) if opinion is None else opinion
    if call.arguments[:1] == ("uninstall",) and declared.takes_out_of_environment(call):
        return fine("takes packages out of the environment of the project")
    return _PIP(call)


_SYSTEM_PACKAGES = Verbs(
    harmless=r"list|show|search|policy|depends|rdepends|showpkg|pkgnames|info|contents|deps|uses"
    r"|toolchain list|target list|versions?|switch (?:list|show)|list (?:installed|available|updates)"
    r"|history|component list|which|environment|"
    r"leaves|outdated|config|doctor|home|desc|log|cat|"
    r"list-installed|repolist|provides|whatprovides|check-update|why|madison|stats|dump|changelog|moo"
    r"|refresh --list|connections|services list|find",
    reason=LISTS,
    effects=(
        (
            r"(?!list ).*(?:install|remove|upgrade|update|purge|add|del|erase|autoremove|reinstall"
            r"|refresh|tap"
            r"|link|cask|cleanup|edit).*",
            INSTALLS,
        ),
    ),
)
_DPKG_CHANGES = words(
    "-i --install -r --remove -P --purge --unpack --configure --set-selections --add-architecture --force-all"
)


def dpkg(call: Call) -> Opinion:
    return ask(INSTALLS) if call.flag(*_DPKG_CHANGES) else fine(LISTS)


def rpm(call: Call) -> Opinion:
    queries = any(re.match(r"-[a-zA-Z]*[qVK]|--(?:query|verify|eval)", option) for option in call.options())
    return fine(LISTS) if queries and not call.flag("--eval", "-E") else ask(INSTALLS)


def pacman(call: Call) -> Opinion:
    queries = any(re.match(r"-(?:Q|F(?!y)|Ss|Si|T|V)", option) for option in call.options())
    return fine(LISTS) if queries else ask(INSTALLS)


_DOCKER_HOST = words("-H --host --context -c --config")
_DOCKER = Verbs(
    harmless=r"ps|images|logs|inspect|version|info|stats|top|port|diff|history|events|"
    r"(?:image|container|volume|network|context|plugin|node|service|stack|config|buildx|manifest"
    r"|checkpoint|trust) (?:ls|list|inspect|history|logs|top|stats|port|diff|ps|show|du)|"
    r"system (?:df|info|events)|compose (?:ps|logs|config|ls|top|images|version|port|events)|scout"
    r"|help|buildx (?:version|inspect)|machine (?:list|inspect)",
    reason=LOOKS,
    effects=(
        (r"(?:container |compose )?(?:run|create)", "starts a container, which can reach the whole machine"),
        (r"(?:container |compose )?exec", "runs a command in a container"),
        (
            r"(?:compose )?(?:rm|rmi|down|kill|stop|pause)|(?:container|image|volume|network|system"
            r"|builder|secret|config) (?:rm|remove|prune|kill|stop)|volume (?!ls|list|inspect).*",
            "stops or deletes containers, images or their data",
        ),
        (
            r"(?:image |compose |buildx )?(?:build|bake|pull|push)|push|login|logout|search"
            r"|compose up|start|restart|load|save|import|export|commit|tag|cp|swarm .*",
            "changes containers or images, or reaches the network",
        ),
    ),
    valued=_DOCKER_HOST | words("-f --file -p --project-name --profile --env-file -l --log-level"),
    dangerous=_DOCKER_HOST,
)
_BUILD_REACHES = re.compile(
    r"--(?:push|secret|ssh|allow|network|output|load-all|builder|add-host|cache-to|metadata-file|iidfile"
    r"|build-context|security-opt|device|volume|isolation|cgroup-parent|squash)(?:=.*)?|-o.*|-v.*"
)
_BUILD_VALUES = words(
    "-t --tag -f --file --build-arg --target --platform --progress --cache-from --label -m --memory --cpus "
    "--shm-size --ulimit"
)


_SERVICE = re.compile(r"[a-z][\w-]*|--(?:no-cache|pull|quiet|progress=\w+|parallel)|-q")


def docker(call: Call) -> Opinion:
    """An image built from the workspace is plain work; what runs, is pushed or reaches out is not."""
    words = [argument for argument in call.arguments if argument not in ("buildx", "image")]
    if words[:2] == ["compose", "build"] and all(map(_SERVICE.fullmatch, words[2:])):
        return fine("builds images of the project") if call.inside else _DOCKER(call)
    if (opinion := _executed(call)) is not None:
        return opinion
    if words[:1] == ["build"] and _builds(replace(call, arguments=tuple(words[1:]))):
        return fine("builds an image of the project")
    return _DOCKER(call)


def _executed(call: Call) -> Opinion | None:
    """The opinion on `docker exec` and `docker compose exec` of what only looks; None for all else."""
    start = {("exec",): 1, ("container", "exec"): 2, ("compose", "exec"): 2}
    place = start.get(call.arguments[:1]) or start.get(call.arguments[:2])
    return inside_containers.looks(call, place) if place else None


_COMPOSE = Verbs(
    harmless="ps|logs|config|ls|top|images|version|port|events",
    reason=LOOKS,
    otherwise="starts, stops or changes containers",
    valued=words("-f --file -p --project-name"),
)


def compose(call: Call) -> Opinion:
    """docker-compose: as `docker compose` is."""
    opinion = inside_containers.looks(call, 1) if call.arguments[:1] == ("exec",) else None
    return _COMPOSE(call) if opinion is None else opinion


def _builds(call: Call) -> bool:
    places: list[str] = []
    arguments = list(call.arguments)
    while arguments:
        argument = arguments.pop(0)
        if _BUILD_REACHES.fullmatch(argument) or UNKNOWN in argument:
            return False
        name, _, value = argument.partition("=")
        if argument in _BUILD_VALUES:
            value = arguments.pop(0) if arguments else ""
        if name in ("-f", "--file"):
            places.append(value)
        elif not argument.startswith("-"):
            places.append(argument)
    at_home = all(
        not re.match(r"-|\w+://|git@|[\w.-]+\.\w+/", place) and call.ground.inside(call.path(place))
        for place in places
    )
    return bool(places) and at_home


_KUBE_VALUES = words(
    "-n --namespace --context --cluster --user --kubeconfig -s --server -l --selector -o --output -f "
    "--as -c --container --token"
)
_KUBECTL = Verbs(
    harmless=r"get|describe|logs|top|explain|version|cluster-info|api-resources|api-versions|diff"
    r"|auth can-i|auth whoami|"
    r"config (?:view|current-context|get-contexts|get-clusters|get-users)|rollout (?:status|history)"
    r"|kustomize|events|wait|options|plugin list",
    reason=LOOKS,
    effects=(
        (r"(?:get|describe) (?:secrets?|all,secrets?|.*,secrets?)(?:/\S+)?", "reads secrets of a cluster"),
        ("delete|drain|evict", "deletes or stops what runs in a cluster"),
        ("exec|attach|debug|cp|port-forward|proxy|run", "reaches into a running cluster"),
        (
            "apply|create|replace|patch|edit|set|scale|autoscale|rollout|label|annotate|taint|cordon"
            "|uncordon|expose|certificate|config|auth|plugin|alpha",
            "changes a cluster",
        ),
    ),
    valued=_KUBE_VALUES,
    dangerous=words("--kubeconfig --token --as --raw"),
)
_DRY = frozenset({"client", "server"})


def kubectl(call: Call) -> Opinion:
    """With `--dry-run` the cluster, or nobody at all, is only asked what would change."""
    tried = [a.partition("=")[2] for a in call.arguments if a.startswith("--dry-run")]
    elsewhere = call.flag("-f", "--filename", "-k", "--kustomize") and any(
        "://" in a or a.startswith(("github.com", "git@")) for a in call.arguments
    )
    verbs = call.operands("nlofc")[:1]
    if call.arguments[:1] == ("exec",) and (opinion := inside_containers.looks(call, 1)) is not None:
        return opinion
    if (
        len(tried) == 1
        and _DRY.issuperset(tried)
        and verbs in (["apply"], ["create"], ["replace"], ["run"], ["set"])
    ):
        opens = call.flag(*_KUBECTL.dangerous, "--overrides") or elsewhere
        files = [a.partition("=")[2] for a in call.arguments if a.startswith("--from-")]
        return _KUBECTL(call) if opens else call.revealed(files) or fine("only tries it")
    return _KUBECTL(call)


_HELM = Verbs(
    harmless=r"list|ls|status|get (?:notes|hooks|manifest|metadata|values)|history|show|lint|template"
    r"|version|env|search (?:repo)|verify|repo list|dependency list",
    reason=LOOKS,
    effects=(
        (
            "uninstall|delete|rollback|install|upgrade|push|pull|repo|plugin|registry|dependency"
            "|package|create|get|test",
            "changes what is deployed, or reaches the network",
        ),
    ),
    valued=words("-n --namespace --kube-context --kubeconfig"),
    dangerous=words("--post-renderer --kubeconfig --repo"),
)


def helm(call: Call) -> Opinion:
    """An installation that is only tried renders templates; charts of the workspace, that is."""
    operands = call.operands("nf")
    tried = call.flag("--dry-run") in ("--dry-run", "--dry-run=client", "--dry-run=server")
    if tried and operands[:1] in (["install"], ["upgrade"]) and not call.flag(*_HELM.dangerous):
        chart = next((o for o in operands[1:] if o.startswith((".", "/")) or o.endswith(".tgz")), None)
        if chart is not None and call.ground.inside(call.path(chart)):
            return fine("only tries it")
    return _HELM(call)


_TERRAFORM = Verbs(
    harmless=r"plan|validate|fmt|version|show|graph|providers|state (?:list|show)|workspace (?:list"
    r"|show)|metadata|get|modules|test -help|run-all plan|hclfmt",
    reason=LOOKS,
    effects=(
        (
            r"destroy|apply|import|taint|untaint|refresh|state|workspace|force-unlock|run-all|test",
            "changes or destroys infrastructure",
        ),
        ("init|login|logout|console|output|push", "fetches programs, or shows or sends settings"),
    ),
    dangerous=words("-destroy --destroy -generate-config-out --generate-config-out"),
)


_PLAIN_INIT = re.compile(
    r"-(?:backend=false|input=false|no-color|get=(?:true|false)|lockfile=readonly|lock=(?:true|false))"
)


def terraform(call: Call) -> Opinion:
    """Planning runs the programs of a configuration; one from elsewhere asks."""
    folder = call.value("", "chdir") or next(
        (a.partition("=")[2] for a in call.arguments if a.startswith("-chdir=")), None
    )
    if folder is not None and not call.ground.inside(call.path(folder)):
        return ask("works outside of the workspace")
    said = [argument for argument in call.arguments if not argument.startswith("-chdir=")]
    if said[:1] == ["init"] and call.inside and all(map(_PLAIN_INIT.fullmatch, said[1:])):
        return fine("fetches the providers that the project lists")
    if said[:1] == ["output"] and all(option == "-no-color" for option in said[1:]):
        return fine("shows settings, without those marked as secret")
    return _TERRAFORM(call)


_PULUMI = Verbs(
    harmless=r"preview|stack (?:ls|output|history|graph)|whoami|version|about|config get|logs|plugin ls",
    reason=LOOKS,
    effects=(
        (
            "up|update|destroy|refresh|import|cancel|stack|state|config|login|logout|new|plugin|watch",
            "changes or destroys infrastructure",
        ),
    ),
)
_VAGRANT = Verbs(
    harmless="status|global-status|version|validate|port|box list|plugin list|ssh-config",
    reason=LOOKS,
    otherwise="starts, changes or destroys machines",
)

_CLOUD_SECRETS = re.compile(
    r"get-secret-value|get-parameters?(?:-by-path)?|get-session-token|get-login|get-login-password"
    r"|assume-role\S*|get-federation-token"
    r"|get-authorization-token|get-password-data|decrypt|print-access-token|print-identity-token"
    r"|get-access-token|access|get-credentials"
    r"|secret|keys?|keyvault|secrets|get-random-password|get-role-credentials|credential\S*|kms"
    r"|configure|get-object|list-keys|connection-string"
)
_CLOUD_READS = re.compile(
    r"(?:list|describe|get|ls|show|head|lookup|search|view|info|status|read|filter)(?:-[\w-]+)?"
    r"|get-caller-identity|version|help|tail|account-info"
)
_CLOUD_CHANGES = re.compile(
    r"(?:.*-)?(?:create|delete|remove|rm|rb|mb|cp|mv|sync|put|update|set|start|stop|terminate|reboot"
    r"|run|attach|detach|add|modify|reset|deploy|ssh|scp|import"
    r"|export|restore|purge|destroy|apply|invoke|send|publish|enable|disable|login|logout|revoke"
    r"|authorize|associate|disassociate|tag|untag|register|deregister|cancel|exec|connect|install"
    r"|upgrade|resize|copy|move|upload|download|grant|patch|scale|drain|rollback|promote|execute"
    r"|submit|kill)(?:-.*)?"
)


_ACCOUNTS = words("--profile --region --output --project --account --subscription --zone --location --format")
"""Options before the subcommand that only choose the account, the place and the form of the answer."""
_ACCOUNT_GIVEN = re.compile(
    r"--(?:profile|region|output|project|account|subscription|zone|location|format|no-cli-pager|quiet"
    r"|no-paginate"
    r"|debug|verbosity)(?:=[\w.:/@-]+)?$"
)


def cloud(call: Call) -> Opinion:
    """aws, gcloud, az and their like: subcommands whose last word only lists or describes."""
    if call.flag(
        "--endpoint-url",
        "--query-file",
        "--cli-input-json",
        "--cli-input-yaml",
        "--impersonate-service-account",
        "--profile-file",
        "--access-token-file",
    ):
        return ask("may use other accounts or addresses")
    if call.flag("--version", "--help") and not call.operands():
        return fine(LOOKS)
    given = [argument.partition("file://")[2] for argument in call.arguments]
    given += [argument.partition("fileb://")[2] for argument in call.arguments]
    if opinion := call.revealed([path for path in given if path]):
        return opinion
    said: list[str] = []
    arguments = list(call.arguments)
    while arguments and arguments[0] in _ACCOUNTS:
        del arguments[:2]
    while arguments and re.match(_ACCOUNT_GIVEN, arguments[0]):
        del arguments[:1]
    for argument in arguments:
        if argument.startswith("-"):
            break
        said.append(argument)
    if call.name in ("heroku", "fly", "flyctl") and said[:1] == ["logs"]:
        return fine("only lists what is in a cloud account")
    if said == ["configure", "list"] or said == ["config", "list"]:
        return fine(LOOKS)
    if any(UNKNOWN in word for word in said[:3]) or call.flag("--with-decryption"):
        return ask("does something in the cloud that is not known here")
    if any(_CLOUD_SECRETS.fullmatch(word) for word in said):
        return ask("reads secrets of a cloud account, or writes its data here")
    groups = {"aws": 1, "gcloud": int(said[:1] in (["run"], ["deploy"]) and len(said) > 2)}.get(call.name, 0)
    verbs = said[:2] if call.name == "aws" else said
    if any(_CLOUD_CHANGES.fullmatch(word) for word in verbs[groups:]):
        return ask("changes something in a cloud account")
    if any(_CLOUD_READS.fullmatch(word) for word in verbs):
        return fine("only lists what is in a cloud account")
    return ask(f"is not known to be harmless: {call.name} {' '.join(said[:2])}")


_FORGE = Verbs(
    harmless=r"(?:pr|issue|repo|run|workflow|release|label|gist|project|ruleset|org|cache|mr|pipeline"
    r"|ci|job|milestone|user) (?:list|ls|view|show|status|diff|checks|watch|get|trace)|"
    r"status|search|browse --no-browser|auth status|config (?:get|list)|extension list|alias list"
    r"|version|help|variable list",
    reason="only looks at the forge",
    effects=(
        (
            r"\S+ (?:delete|remove|archive|unarchive|transfer|rename)",
            "deletes or moves something on the forge",
        ),
        ("auth|secret|ssh-key|gpg-key|variable|token", "uses or changes keys and tokens"),
        (
            r"\S+ (?:create|edit|close|reopen|merge|comment|review|ready|lock|unlock|pin|develop"
            r"|approve|update|note|set|upload|download|run|rerun|cancel|enable|disable|fork|clone"
            r"|sync|checkout|revoke|retry|play|start|stop)",
            "changes something on the forge, or fetches from it",
        ),
        ("extension|alias|codespace|copilot|config|attestation", "may run other programs"),
    ),
    valued=words("-R --repo --hostname"),
    dangerous=words("--show-token -t --output-token"),
)


def forge(call: Call) -> Opinion:
    """gh and glab; their `api` reads unless a method, a field or a body is given."""
    if call.flag("--web", "-w"):
        return ask("opens a page in the browser")
    if call.arguments[:1] != ("api",):
        return _FORGE(call)
    inner = replace(call, arguments=call.arguments[1:])
    method = (inner.value("X", "method") or "GET").upper()
    if method != "GET":
        return ask(
            "deletes something on the forge" if method == "DELETE" else "changes something on the forge"
        )
    if any(re.match(r"-[fF]|--(?:field|raw-field|input|hostname)", option) for option in inner.options()):
        return ask("sends data to the forge")
    if any(UNKNOWN in argument for argument in inner.arguments) or "graphql" in inner.arguments:
        return ask("asks the forge for something that is not known here")
    return fine("only looks at the forge")


_TABLE: tuple[tuple[str, Rule], ...] = (
    ("pip pip2 pip3", pip),
    (
        "apt apt-get apt-cache aptitude dnf yum zypper brew port snap flatpak apk emerge pkg nix-env "
        "choco scoop winget "
        "microdnf gem luarocks cpan cpanm opam ghcup rustup",
        _SYSTEM_PACKAGES,
    ),
    ("dpkg dpkg-query", dpkg),
    ("rpm", rpm),
    ("pacman yay paru", pacman),
    ("docker podman nerdctl", docker),
    ("docker-compose podman-compose", compose),
    ("kubectl oc k3s kubecolor", kubectl),
    ("helm", helm),
    ("terraform tofu terragrunt", terraform),
    ("pulumi", _PULUMI),
    (
        "packer",
        Verbs(harmless="validate|fmt|inspect|version", reason=LOOKS, otherwise="makes or changes machines"),
    ),
    ("vagrant", _VAGRANT),
    (
        "aws gcloud az doctl hcloud oci linode-cli gsutil bq ibmcloud flyctl fly heroku vercel "
        "netlify wrangler firebase s3cmd",
        cloud,
    ),
    ("gh glab hub", forge),
)

RULES: dict[str, Rule] = {name: rule for names, rule in _TABLE for name in names.split()}

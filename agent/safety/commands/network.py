"""Programs that reach the network."""

from __future__ import annotations

import re

from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.shell.marks import UNKNOWN, words

_LOOPBACK = re.compile(
    r"(?:https?://)?(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]|0\.0\.0\.0)(?::\d{1,5})?(?:[/?#][^@\s]*)?",
    re.IGNORECASE,
)
_CONTROLS = re.compile(
    r":(?:237[5-7]|4243|2019|4646|5000|6443|8001|8080/(?:exec|script)|8200|8500|9000|9090|9200|9229|9222"
    r"|1025\d|15672|5601|11434)(?![\d])|/(?:_cluster|_all|containers|exec|admin|shutdown|actuator)\b"
)
"""Ports and paths of services that start programs or delete data at a word."""
_QUIET = words(
    "-s -S -f -i -I -L -v -k -g -4 -6 --silent --show-error --fail --include --head --location "
    "--verbose --insecure "
    "--compressed -N --no-buffer --fail-with-body --globoff --ipv4 --ipv6 --http1.1 --http2 "
    "--no-progress-meter"
)
_VALUED = words(
    "-H --header -m --max-time --connect-timeout -w --write-out -A --user-agent --retry "
    "--retry-delay -e --max-redirs"
)


def curl(call: Call) -> Opinion:
    """Reading from this very machine is harmless; everything else reaches out."""
    arguments = list(call.arguments)
    if arguments in (["--version"], ["-V"], ["--help"]):
        return fine("only looks")
    addresses: list[str] = []
    outputs: list[str] = []
    asked, sends = "GET", False
    while arguments:
        argument = arguments.pop(0)
        following = arguments[0] if arguments else ""
        if argument in _VALUED:
            arguments[:1] = []
            if following.startswith("@"):
                return ask("reaches the network")
        elif argument in ("-X", "--request"):
            arguments[:1] = []
            asked = following.upper()
            if following.upper() not in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH"):
                return ask("sends data over the network")
        elif argument in ("-d", "--data", "--data-raw", "--json", "--data-urlencode"):
            arguments[:1] = []
            sends = True
            if UNKNOWN in following or re.match(r"@|[\w.-]+@", following):
                return ask("sends data over the network")
        elif argument in ("-o", "--output"):
            arguments[:1] = []
            outputs.append(following)
        elif argument in _QUIET or re.fullmatch(r"-[sSfiILvkg46N]+", argument):
            pass
        elif re.fullmatch(r"-[sSfiILvkg46N]*o", argument):
            arguments[:1] = []
            outputs.append(following)
        elif argument.startswith("-"):
            return ask("reaches the network")
        else:
            addresses.append(argument)
    if not addresses or any(UNKNOWN in a or not _LOOPBACK.fullmatch(a) for a in addresses):
        return ask("reaches the network")
    if asked in ("POST", "PUT", "PATCH") and not sends:
        return ask("makes a server do something")
    if sends and any(_CONTROLS.search(address) for address in addresses):
        return ask("sends data to a service that controls this machine")
    what = "asks a server" if sends else "reads from a server"
    return call.changed(outputs) or fine(f"{what} on this machine")


def ping(call: Call) -> Opinion:
    operands = call.operands("ciWwstI")
    local = operands and all(re.fullmatch(r"localhost|127(?:\.\d+){3}|::1", operand) for operand in operands)
    return fine("only looks") if local else ask("reaches the network")


def probe(call: Call) -> Opinion:
    """nc: only whether a port of this machine answers (`-z`)."""
    harmless = all(re.fullmatch(r"-[znvu46w\d]+", option) for option in call.options())
    operands = call.operands("w")
    local = bool(operands) and _LOOPBACK.fullmatch(operands[0]) is not None
    ports = all(re.fullmatch(r"[\d-]+", operand) for operand in operands[1:])
    if harmless and call.has("z") and local and ports:
        return fine("only looks")
    return ask("reaches the network")


def reaches(call: Call) -> Opinion:
    if call.arguments in (("--version",), ("--help",)):
        return fine("only looks")
    return ask("reaches the network")


def remote(call: Call) -> Opinion:
    """ssh, scp and others that act on other machines."""
    if call.arguments in (("-V",), ("--version",)):
        return fine("only looks")
    return ask("acts on another machine")


def playbook(call: Call) -> Opinion:
    """ansible-playbook: checking the syntax and listing reach nobody."""
    looks = call.flag("--syntax-check", "--list-tasks", "--list-tags")
    places = all(call.ground.inside(call.path(operand)) for operand in call.operands("i"))
    return fine("checks playbooks") if looks and places else remote(call)


_REMOTE = words(
    "ssh scp sftp mosh rsh rlogin telnet ftp lftp ncftp sshfs autossh ssh-copy-id sshpass rclone "
    "restic borg ansible fab cap croc magic-wormhole wormhole"
)
_REACHES = words(
    "wget wget2 aria2c axel http https xh httpie nc ncat netcat socat dig nslookup host whois "
    "traceroute tracepath mtr "
    "nmap masscan tcpdump tshark wireshark ngrok cloudflared localtunnel tailscale wg openvpn tor "
    "torsocks proxychains curlie "
    "grpcurl websocat wscat mail mailx sendmail mutt swaks youtube-dl yt-dlp lynx w3m links elinks "
    "ipfs arp-scan hping3 iperf iperf3 "
    "ollama huggingface-cli hf wandb kaggle gdown speedtest"
)


def openssl(call: Call) -> Opinion:
    """openssl: digests and looking at certificates; connections and keys ask."""
    verb = call.arguments[0] if call.arguments else ""
    if verb in (
        "version",
        "dgst",
        "x509",
        "list",
        "ciphers",
        "prime",
        "rand",
        "sha256",
        "md5",
        "sha1",
        "verify",
        "asn1parse",
    ) and not call.flag("-engine", "-provider-path", "-sign", "-passin", "-rand", "-writerand"):
        output = call.value("", "out") or next(
            (b for a, b in zip(call.arguments, call.arguments[1:], strict=False) if a == "-out"), None
        )
        return (
            call.changed([output] if output else [])
            or call.revealed(call.operands()[1:])
            or fine("only looks")
        )
    return ask("uses keys or reaches the network")


RULES: dict[str, Rule] = (
    {"curl": curl, "ansible-playbook": playbook, "ping": ping, "ping6": ping, "openssl": openssl}
    | dict.fromkeys(_REMOTE, remote)
    | dict.fromkeys(_REACHES, reaches)
    | dict.fromkeys(("nc", "ncat", "netcat"), probe)
)

"""Programs that reach the network."""

from __future__ import annotations

import itertools
import re

from agent.safety.commands import hosts
from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.shell.marks import UNKNOWN, words

_LOOPBACK = re.compile(
    r"(?:https?://)?(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]|0\.0\.0\.0)(?::\d{1,5})?(?:[/?#][^@\s]*)?",
    re.IGNORECASE,
)
_CONTROLS = re.compile(
    r":(?:237[5-7]|4243|2019|4646|5000|6443|8001|8080/(?:exec|script)|8200|8500|9000|9090|9200|9229|9222"
    r"|1025\d|15672|5601|11434|7700|8983|8108|6333|5984|8086|8123|7474|8529)(?![\d])|/(?:_cluster|_all|containers|exec|admin|shutdown|actuator)\b"
    r"|[/_-](?:delete|drop|flush|purge|truncate|wipe|destroy|reset)(?:[/_-]|$)"
)
"""Ports and paths of services that start programs or delete data at a word."""
_ONE_THING = re.compile(r"[^/]*(?://)?[^/]+/[\w./-]*[\w-]+/[\w.-]+(?:\?[\w=&.-]*)?")
"""An address of one thing in a collection: `host/things/1`, not the collection nor the whole server."""
_QUIET = words(
    "-s -S -f -i -I -L -v -k -g -4 -6 --silent --show-error --fail --include --head --location "
    "--verbose --insecure "
    "--compressed -N --no-buffer --fail-with-body --globoff --ipv4 --ipv6 --http1.1 --http2 "
    "--no-progress-meter --retry-connrefused --retry-all-errors -# --progress-bar --disable -q"
)
_VALUED = words(
    "--retry-max-time --max-filesize -H --header -m --max-time --connect-timeout -w --write-out -A "
    "--user-agent --retry "
    "--retry-delay -e --max-redirs"
)


def curl(call: Call) -> Opinion:
    """Reading from this very machine is harmless; everything else reaches out."""
    arguments = list(call.arguments)
    if arguments in (["--version"], ["-V"], ["--help"]):
        return fine("only looks")
    addresses: list[str] = []
    outputs: list[str] = []
    sent: list[str] = []
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
            if following.upper() not in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"):
                return ask("sends data over the network")
        elif argument in ("-d", "--data", "--data-raw", "--json", "--data-urlencode"):
            arguments[:1] = []
            sends = True
            if UNKNOWN in following or re.match(r"@-|[\w.-]+@", following):
                return ask("sends data over the network")
            sent += [following[1:]] if following.startswith("@") else []
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
    if addresses and asked in ("GET", "HEAD") and not sends and all(map(hosts.is_documentation, addresses)):
        return _documentation(call, outputs)
    if not addresses or any(UNKNOWN in a or not _LOOPBACK.fullmatch(a) for a in addresses):
        return ask("reaches the network")
    sends |= asked in ("POST", "PUT", "PATCH", "DELETE")
    if asked == "DELETE" and not all(map(_ONE_THING.fullmatch, addresses)):
        return ask("deletes what a server holds")
    if sends and any(_CONTROLS.search(address) for address in addresses):
        return ask("sends data to a service that controls this machine")
    what = "asks a server" if sends else "reads from a server"
    if not all(call.ground.inside(call.path(path)) for path in sent):
        return ask("sends data over the network")
    return call.changed(outputs) or call.revealed(sent) or fine(f"{what} on this machine")


_PLAIN_HEADER = re.compile(
    r"(?:accept|user-agent|cache-control|content-type)[\w-]*: ?[\w/.,;*+ =()-]*", re.IGNORECASE
)


def _documentation(call: Call, outputs: list[str]) -> Opinion:
    """Reading pages of documentation: with nothing told about this machine or the person."""
    given = [*call.arguments, ""]
    headers = [b for a, b in itertools.pairwise(given) if a in ("-H", "--header")]
    odd = call.flag("-e", "-A", "--user-agent", "-k", "--insecure", "-w", "--write-out")
    if not all(map(_PLAIN_HEADER.fullmatch, headers)) or (odd and any("@" in a for a in given)):
        return ask("reaches the network")
    return call.changed(outputs) or fine("reads documentation")


_NUMBERED = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}")
"""An address that no name server is asked about."""


def ping(call: Call) -> Opinion:
    if not call.flag("-c") and not any(re.match(r"-c\d", option) for option in call.options()):
        return ask("goes on without end")
    operands = call.operands("ciWwstI")
    plain = all(re.fullmatch(r"-[cWwis]?[\d.]*|-[46nqOv]+", option) for option in call.options())
    known = operands and all(hosts.is_known(each) or _NUMBERED.fullmatch(each) for each in operands)
    return fine("only looks") if known and plain else ask("reaches the network")


_RECORDS = re.compile(
    r"(?:A|AAAA|MX|TXT|NS|CNAME|SOA|SRV|CAA|PTR|ANY|\+[a-z]+(?:=\d+)?|-[46])", re.IGNORECASE
)


def lookup(call: Call) -> Opinion:
    """dig, host, nslookup, traceroute: of names that carry nothing out."""
    arguments = [argument for argument in call.arguments if argument not in ("-t", "-type=any", "-a", "-n")]
    rest = [a for a in arguments if a not in hosts.RESOLVERS and not _RECORDS.fullmatch(a)]
    return fine("only looks") if rest and all(map(hosts.is_known, rest)) else reaches(call)


_WGET_FLAGS = re.compile(
    r"-q|-nv|-S|-qO-|-q?O|-(?:T|t)\d*|--(?:quiet|spider|server-response|no-verbose|tries=\d+"
    r"|timeout=\d+|no-check-"
    r"certificate|output-document=.+|no-cache|content-on-error)|--retry-connrefused"
)


def wget(call: Call) -> Opinion:
    """wget: reading from this machine, or documentation, to standard output or a file of the workspace."""
    outputs: list[str] = []
    addresses: list[str] = []
    arguments = list(call.arguments)
    while arguments:
        argument = arguments.pop(0)
        if argument in ("-O", "-qO", "--output-document"):
            outputs += arguments[:1]
            arguments[:1] = []
        elif argument.startswith("-O"):
            outputs.append(argument[2:])
        elif argument.startswith("-") and not _WGET_FLAGS.fullmatch(argument):
            return reaches(call)
        elif argument.startswith("--output-document="):
            outputs.append(argument.partition("=")[2])
        elif not argument.startswith("-"):
            addresses.append(argument)
    local = addresses and all(_LOOPBACK.fullmatch(a) and UNKNOWN not in a for a in addresses)
    if not local and not (addresses and all(map(hosts.is_documentation, addresses))):
        return reaches(call)
    named = bool(outputs) or call.flag("--spider", "-qO-") is not None
    if not named:
        outputs = [a.partition("?")[0].rstrip("/").rpartition("/")[2] or "index.html" for a in addresses]
    return call.changed([o for o in outputs if o != "-"]) or fine("reads from a server")


_HTTPIE_LOCAL = re.compile(
    r"(?:https?://)?(?:localhost|127(?:\.\d{1,3}){3})?(?::\d{1,5})?(?:/[\w./-]*)?", re.IGNORECASE
)


def httpie(call: Call) -> Opinion:
    """http and xh: requests to this machine that send no files."""
    words = [a for a in call.arguments if not a.startswith("-")]
    flags = all(
        re.fullmatch(
            r"-[bhvjfq]+|--(?:body|headers|verbose|json|form|ignore-stdin|check-status|pretty=\w+"
            r"|print=\w+|timeout=\d+)",
            o,
        )
        for o in call.options()
    )
    method = (
        words.pop(0) if words and words[0] in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH") else "GET"
    )
    if not words or not flags or call.unsure or not _HTTPIE_LOCAL.fullmatch(words[0]):
        return reaches(call)
    items = words[1:]
    plain = all(re.fullmatch(r"[\w.-]+(?:==|:=|=|:)[^@]*", item) and "@" not in item for item in items)
    controls = _CONTROLS.search(words[0]) is not None
    if not plain or (controls and (method not in ("GET", "HEAD") or items)):
        return reaches(call)
    return fine("asks a server on this machine")


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
    if call.arguments in (("-V",), ("--version",)) or (call.name == "ssh" and call.arguments[:1] == ("-Q",)):
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


def _is_certificate(call: Call) -> bool:
    """Whether only certificates are named: they are public, and `x509` prints nothing else of a file."""
    files = [each for each in call.operands()[1:] if "." in each]
    return all(re.fullmatch(r"[\w./-]+\.(?:pem|crt|cer|cert)", file) for file in files)


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
            or (None if verb == "x509" and _is_certificate(call) else call.revealed(call.operands()[1:]))
            or fine("only looks")
        )
    return ask("uses keys or reaches the network")


RULES: dict[str, Rule] = (
    {"curl": curl, "ansible-playbook": playbook, "ping": ping, "ping6": ping, "openssl": openssl}
    | dict.fromkeys(_REMOTE, remote)
    | dict.fromkeys(_REACHES, reaches)
    | dict.fromkeys(("nc", "ncat", "netcat"), probe)
    | dict.fromkeys(("dig", "host", "nslookup", "traceroute", "tracepath", "mtr"), lookup)
    | dict.fromkeys(("http", "xh"), httpie)
    | {"wget": wget}
)

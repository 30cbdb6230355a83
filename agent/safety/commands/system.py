"""Programs that change the running system, its users, services and devices."""

from __future__ import annotations

import re

from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.commands.verbs import Verbs
from agent.safety.shell.marks import words

LOOKS = fine("only looks")

_REASONS: tuple[tuple[str, str], ...] = (
    ("killall pkill skill snice xkill", "ends running processes"),
    ("renice", "changes running processes"),
    ("umount swapoff losetup fusermount fusermount3 pivot_root", "changes what is mounted"),
    ("at batch atrm anacron schtasks", "plans something to run later"),
    ("iptables ip6tables nft ufw firewall-cmd ebtables pfctl", "changes the firewall"),
    (
        "useradd userdel usermod adduser deluser groupadd groupdel groupmod gpasswd passwd chpasswd "
        "chsh chfn vipw visudo chage "
        "newusers dscl newgrp sg",
        "changes users or their rights",
    ),
    ("insmod rmmod modprobe depmod dkms kexec", "changes the kernel"),
    (
        "route arp ifup ifdown dhclient nmcli iwconfig wpa_cli brctl tc ethtool resolvectl networksetup",
        "changes the network",
    ),
    (
        "hwclock update-grub grub-install dpkg-reconfigure efibootmgr alternatives",
        "changes settings of the system",
    ),
    (
        "setcap setenforce semanage restorecon chcon aa-complain auditctl setsebool capsh",
        "changes security settings",
    ),
    (
        "parted mkfs mkswap wipefs hdparm cryptsetup lvm lvremove lvcreate vgremove pvcreate "
        "pvremove mdadm zpool zfs btrfs resize2fs tune2fs "
        "fsck e2fsck debugfs sfdisk gdisk sgdisk cfdisk badblocks blkdiscard nvme diskutil ddrescue "
        "dcfldd dc3dd fstrim xfs_repair eject partclone.restore",
        "changes disks",
    ),
    (
        "reboot shutdown halt poweroff init telinit rtcwake",
        "switches the machine off, or speaks to it about that",
    ),
    (
        "machinectl zellij dtach abduco byobu",
        "starts or changes sessions that go on by themselves",
    ),
    ("ptrace reptyr criu gcore jmap jstack py-spy bpftrace dtrace sysdig", "looks into running programs"),
    (
        "xdg-open open gio osascript pbcopy pbpaste xclip xsel wl-copy wl-paste notify-send say "
        "xdotool screencapture scrot import gsettings dconf defaults",
        "acts on the desktop",
    ),
    (
        "ssh-agent keytool security pass op bw vault age sops secret-tool keyring certbot kinit step",
        "uses keys and passwords",
    ),
    (
        "vi vim nvim view ex ed emacs emacsclient nano pico micro helix hx kak joe subl gedit kate",
        "opens an editor",
    ),
    ("ipython bpython irb pry ghci scala jshell", "opens a console"),
    (
        "hermes claude codex aider gemini cursor-agent",
        "starts another agent or changes the settings of this one",
    ),
    (
        "nginx apachectl httpd caddy redis-server mongod postgres mysqld sshd dockerd containerd "
        "supervisord supervisorctl pm2",
        "starts or changes a server",
    ),
    ("git-shell sudoedit doasedit", "edits with the rights of another user"),
)


def _reason_rule(reason: str) -> Rule:
    opinion = ask(reason)

    def rule(call: Call) -> Opinion:
        asks_itself = call.arguments in (("--version",), ("--help",), ("-V",)) or (
            call.name in ("nginx", "httpd", "apachectl") and call.arguments == ("-v",)
        )
        return LOOKS if asks_itself else opinion

    return rule


def kill(call: Call) -> Opinion:
    """Signal 0 only looks, `%1` and `$!` are jobs of this very shell, and without any nothing happens."""
    if call.arguments[:1] in (("-0",), ("-l",), ("-L",), ("--list",)) or call.arguments[:2] == ("-s", "0"):
        return LOOKS
    operands = [argument for argument in call.arguments if not argument.startswith("-")]
    if (
        all(re.fullmatch(r"%(?:\d+|%|\+|-|!)?|", operand) for operand in operands)
        and "-1" not in call.arguments
    ):
        return fine("ends a job of this shell")
    return ask("ends running processes")


def mount(call: Call) -> Opinion:
    return ask("changes what is mounted") if call.operands() or call.flag("-a", "--all") else LOOKS


def crontab(call: Call) -> Opinion:
    return LOOKS if call.arguments == ("-l",) else ask("plans something to run later")


def kernel_settings(call: Call) -> Opinion:
    changes = call.has("wpf", "write", "load", "system") or any("=" in operand for operand in call.operands())
    strays = any(".." in operand for operand in call.operands())
    return ask("changes settings of the kernel, or leaves them") if changes or strays else LOOKS


def messages(call: Call) -> Opinion:
    file = call.operands() + [value for value in (call.value("F", "file"),) if value]
    return (
        ask("clears or changes the kernel's messages")
        if call.has("cCDEn", "clear", "read-clear", "console-off", "console-on")
        else call.revealed(file) or LOOKS
    )


def journal(call: Call) -> Opinion:
    changes = any(
        re.match(r"--(?:vacuum|rotate|flush|sync|relinquish|setup|update)", option)
        for option in call.options()
    )
    return ask("removes or changes logs") if changes else LOOKS


def addresses(call: Call) -> Opinion:
    """ip: showing is harmless."""
    if any(re.match(r"-(?:b$|ba|force|netns|n$)", option) for option in call.options()):
        return ask("changes the network")
    operands = call.operands()
    verb = operands[1] if len(operands) > 1 else "show"
    return LOOKS if verb in ("show", "list", "ls", "sh", "s", "get") else ask("changes the network")


def interfaces(call: Call) -> Opinion:
    return LOOKS if len(call.operands()) <= 1 else ask("changes the network")


def disks(call: Call) -> Opinion:
    return LOOKS if call.arguments in (("-l",), ("--list",)) else ask("changes disks")


def terminal(call: Call) -> Opinion:
    return LOOKS if not call.operands() else fine("sets up the terminal")


def shows(reason: str, looks: str) -> Rule:
    """A program of which only some forms look: `looks` fits all arguments, joined by blanks."""
    expression = re.compile(looks)

    def rule(call: Call) -> Opinion:
        return LOOKS if expression.fullmatch(" ".join(call.arguments)) else ask(reason)

    return rule


_SETTINGS = "changes settings of the system"
_KEYS = "uses keys and passwords"
_SESSIONS = "starts or changes sessions that go on by themselves"
_PARTLY: dict[str, tuple[str, str]] = {
    "hostnamectl": (_SETTINGS, "(?:status|--static|--pretty|--json=\\w+)?"),
    "timedatectl": (_SETTINGS, "(?:status|show|list-timezones|timesync-status)?(?: --no-pager)?"),
    "localectl": (_SETTINGS, "(?:status|list-\\S+)?(?: --no-pager)?"),
    "update-alternatives": (_SETTINGS, r"(?:--list|--display|--query) [\w.+-]+|--get-selections"),
    "ldconfig": (_SETTINGS, "-p|--print-cache|-V|--version"),
    "swapon": ("changes what is mounted", r"-s|--show(?:=[\w,]+)?(?: --\w+)*|--summary|-V"),
    "loginctl": (
        _SESSIONS,
        r"(?:(?:list-\S+|(?:session|user|seat)-status|show-\S+)(?: [\w-]+)*)?(?: --no-pager)?",
    ),
    "tmux": (_SESSIONS, r"(?:ls|list-(?:sessions|windows|panes|keys)|info|-V)(?: -[at]| [\w:.-]+)*"),
    "screen": (_SESSIONS, "-ls|-list|-v|--version"),
    "ssh-keygen": (
        _KEYS,
        r"(?=.*-l)(?:-E (?:sha256|md5) )?(?:-[lvf]+ )+[^ ]*(?:\.pub|known_hosts)(?: -[lv]| -E \w+)*",
    ),
    "ssh-add": (_KEYS, "-[lL]"),
    "getfacl": (_SETTINGS, "(?!.*--restore).*"),
    "lsattr": (_SETTINGS, ".*"),
    "fuser": ("ends running processes", r"(?:-[vmnuai4]+ )*(?:tcp |udp |file )?[^-][^ ]*(?: [^-][^ ]*)*"),
    "xset": ("acts on the desktop", "q|-q"),
    "xrandr": ("acts on the desktop", "(?:-q|--query|--listmonitors)?"),
    "tldr": ("fetches or changes pages", r"[\w.+-]+(?: [\w.+-]+)*"),
    "cheat": ("fetches or changes pages", r"[\w.+-]+"),
    "code": ("opens an editor", "-v|--version|--list-extensions|--help|--status"),
}
_GPG_LOOKS = re.compile(
    r"--(?:list-(?:keys|public-keys|sigs|packets)|fingerprint|version|verify|list-secret-keys)|-[kK]"
)


def keyring(call: Call) -> Opinion:
    """gpg: listing keys and checking signatures; everything else uses keys."""
    arguments = [a for a in call.arguments if a not in ("--batch", "--no-tty", "--with-colons", "--quiet")]
    plain = all(not a.startswith("-") or a.startswith("--keyid-format") for a in arguments[1:])
    return LOOKS if arguments and _GPG_LOOKS.fullmatch(arguments[0]) and plain else ask(_KEYS)


SYSTEMCTL = Verbs(
    harmless=r"status|show|cat|list-\S+|is-\S+|get-default|show-environment|help",
    reason="only looks",
    otherwise="changes services of the system",
    valued=words("-t --type -n --lines -p --property -H -M --state -o --output"),
    dangerous=words("-H --host -M --machine --root"),
)

SERVICE = Verbs(
    harmless=r"\S+ status|--status-all",
    reason="only looks",
    effects=((r"\S+ (?!status)\S+", "changes services of the system"),),
)

RULES: dict[str, Rule] = (
    {name: _reason_rule(reason) for names, reason in _REASONS for name in names.split()}
    | {name: shows(reason, looks) for name, (reason, looks) in _PARTLY.items()}
    | {
        "gpg": keyring,
        "gpg2": keyring,
        "kill": kill,
        "mount": mount,
        "mountpoint": terminal,
        "crontab": crontab,
        "sysctl": kernel_settings,
        "dmesg": messages,
        "journalctl": journal,
        "ip": addresses,
        "ifconfig": interfaces,
        "fdisk": disks,
        "stty": terminal,
        "systemctl": SYSTEMCTL,
        "service": SERVICE,
        "initctl": SYSTEMCTL,
        "launchctl": Verbs(
            harmless="list|print|version", reason="only looks", otherwise="plans something to run later"
        ),
    }
)

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
    ("umount swapon swapoff losetup fusermount fusermount3 pivot_root", "changes what is mounted"),
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
        "hostnamectl timedatectl localectl hwclock update-alternatives ldconfig update-grub "
        "grub-install dpkg-reconfigure efibootmgr alternatives",
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
        "loginctl machinectl screen tmux zellij dtach abduco byobu",
        "starts or changes sessions that go on by themselves",
    ),
    ("ptrace reptyr criu gcore jmap jstack py-spy bpftrace dtrace sysdig", "looks into running programs"),
    (
        "xdg-open open gio osascript pbcopy pbpaste xclip xsel wl-copy wl-paste notify-send say "
        "xdotool screencapture scrot import gsettings dconf defaults",
        "acts on the desktop",
    ),
    (
        "gpg gpg2 ssh-keygen ssh-add ssh-agent keytool security pass op bw vault age sops "
        "secret-tool keyring certbot kinit step",
        "uses keys and passwords",
    ),
    (
        "vi vim nvim view ex ed emacs emacsclient nano pico micro helix hx kak joe code subl gedit kate",
        "opens an editor",
    ),
    ("ipython bpython irb pry ghci scala jshell", "opens a console"),
    (
        "hermes claude codex aider gemini cursor-agent",
        "starts another agent or changes the settings of this one",
    ),
    (
        "nginx apachectl httpd caddy redis-server mongod postgres mysqld sshd dockerd containerd "
        "supervisord supervisorctl pm2 gunicorn uvicorn flask",
        "starts or changes a server",
    ),
    ("git-shell sudoedit doasedit", "edits with the rights of another user"),
)


def _reason_rule(reason: str) -> Rule:
    opinion = ask(reason)

    def rule(call: Call) -> Opinion:
        asks_itself = call.arguments in (("--version",), ("--help",), ("-V",))
        return LOOKS if asks_itself else opinion

    return rule


def kill(call: Call) -> Opinion:
    """Signal 0 only looks, `%1` is a job of this very shell."""
    if call.arguments[:1] in (("-0",), ("-l",), ("-L",), ("--list",)) or call.arguments[:2] == ("-s", "0"):
        return LOOKS
    operands = [argument for argument in call.arguments if not argument.startswith("-")]
    if operands and all(re.fullmatch(r"%\d+|%%", operand) for operand in operands):
        return fine("ends a job of this shell")
    return ask("ends running processes")


def mount(call: Call) -> Opinion:
    return ask("changes what is mounted") if call.operands() or call.flag("-a", "--all") else LOOKS


def crontab(call: Call) -> Opinion:
    return LOOKS if call.arguments == ("-l",) else ask("plans something to run later")


def kernel_settings(call: Call) -> Opinion:
    changes = call.has("wpf", "write", "load", "system") or any("=" in operand for operand in call.operands())
    return ask("changes settings of the kernel") if changes else LOOKS


def messages(call: Call) -> Opinion:
    return (
        ask("clears or changes the kernel's messages")
        if call.has("cCDEn", "clear", "read-clear", "console-off", "console-on")
        else LOOKS
    )


def journal(call: Call) -> Opinion:
    changes = any(
        re.match(r"--(?:vacuum|rotate|flush|sync|relinquish|setup|update)", option)
        for option in call.options()
    )
    return ask("removes or changes logs") if changes else LOOKS


def addresses(call: Call) -> Opinion:
    """ip: showing is harmless."""
    if any(re.match(r"-(?:b|batch|force|netns|n$)", option) for option in call.options()):
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

RULES: dict[str, Rule] = {
    name: _reason_rule(reason) for names, reason in _REASONS for name in names.split()
} | {
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

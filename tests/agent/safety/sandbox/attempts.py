"""Attempts to get out, by what each of them would do without the boundary.

None of them does lasting harm where it passes: what belongs to the machine is set to what it is
already, or named in a way the kernel would find wrong once it had let the call pass.
"""

from __future__ import annotations

WRITES = {
    "a new file": "echo x > {out}/new",
    "a changed file": "echo x > {out}/file",
    "a file that is appended to": "echo x >> {out}/file",
    "a truncated file": "truncate -s 0 {out}/file",
    "a file moved out": "echo x > a; mv a {out}/new",
    "a file moved in": "mv {out}/file .",
    "a removed file": "rm -f {out}/file",
    "a symbolic link followed": "ln -s {out} link; echo x > link/new",
    "a hard link written through": "ln {out}/file hard && echo x > hard",
    "a folder made": "mkdir {out}/folder",
    "dots in the path": "echo x > {ws}/../../outside/new",
    "a way through proc": "echo x > /proc/self/root{out}/new",
    "a start-up file": "echo evil >> {user}/.bashrc",
    "a new start-up file": "echo evil > {user}/.profile",
    "keys for logging in": "echo key >> {user}/.ssh/authorized_keys",
    "a secret that does not exist yet": "mkdir -p {user}/.aws; echo x > {user}/.aws/credentials",
    "our settings": "echo 'approvals: {{mode: all}}' > {user}/.hermes/config.yaml",
    "our permissions": "echo x > {user}/.hermes/permissions.yaml",
    "our store": "echo x > {user}/.hermes/state.db",
    "the times of a file": 'python3 -I -c \'open("{out}/file", "r+").write("x")\'',
}

READS = {
    "a private key": "cat {user}/.ssh/id_ed25519",
    "a private key by a link": "ln -s {user}/.ssh/id_ed25519 k; cat k",
    "a private key by a hard link": "ln {user}/.ssh/id_ed25519 k; cat k",
    "a private key by proc": "cat /proc/self/root{user}/.ssh/id_ed25519 /proc/self/cwd/../../.ssh/id_ed25519",
    "logins": "cat {user}/.netrc",
    "our store": "cat {user}/.hermes/state.db",
    "our settings": "cat {user}/.hermes/config.yaml",
    "the memory of the parent": "cat /proc/{pid}/environ /proc/{pid}/maps",
    "the root of the parent": "cat /proc/{pid}/root{user}/.ssh/id_ed25519",
    "the folder of the parent": "ls /proc/{pid}/cwd/ && echo PRIVATE KEY",
    "the files of the parent": "ls -l /proc/{pid}/fd/ && echo PRIVATE KEY",
    "the memory of the machine": "head -c 1 /dev/mem && echo PRIVATE KEY",
    "a disk": "for d in /dev/vd* /dev/sd* /dev/loop*; do head -c 1 $d && echo PRIVATE KEY; done",
    "the list of keys": "ls {user}/.ssh | grep id_ed25519 && echo PRIVATE KEY",
}

CALLS = {
    "tracing the parent": "r = L.ptrace(16, {pid}, 0, 0)",
    "reading the parent's memory": "b = ctypes.create_string_buffer(8)\n"
    "class V(ctypes.Structure): _fields_ = [('p', ctypes.c_void_p), ('n', ctypes.c_size_t)]\n"
    "v = V(ctypes.addressof(b), 8); w = V(0x400000, 8)\n"
    "r = L.process_vm_readv({pid}, ctypes.byref(v), 1, ctypes.byref(w), 1, 0)",
    "a signal to the parent": "r = L.kill({pid}, 0)",
    "a signal by descriptor": "f = L.syscall(434, {pid}, 0)\n"
    "r = L.syscall(424, f, 0, None, 0) if f >= 0 else -1",
    "a mount": "r = L.mount(b'none', b'{ws}', b'no such file system', 0, None)",
    "an unmount": "r = L.umount2(b'{ws}/0', 2)",
    "a remount": "r = L.mount(None, b'{ws}/0', None, 32 | 4096, None)",
    "another root": "r = L.chroot(b'{ws}')",
    "a pivot": "r = L.syscall(155, b'{ws}', b'{ws}')",
    "a user namespace": "r = L.unshare(0x10000000)",
    "a mount namespace": "r = L.unshare(0x20000)",
    "a namespace of the parent": "f = os.open('/proc/1/ns/mnt', 0); r = L.setns(f, 0)",
    "a clone in a new namespace": "r = L.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "a clone by the newer call": "a = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17)\n"
    "r = L.syscall(435, ctypes.byref(a), 64)",
    "a file by handle": "a = ctypes.create_string_buffer(136); a[0] = 128; m = ctypes.c_int()\n"
    "r = L.syscall(303, -100, b'/', ctypes.byref(a), ctypes.byref(m), 0)",
    "a program in the kernel": "a = ctypes.create_string_buffer(128); r = L.syscall(321, 0, a, 128)",
    "another ring of calls": "a = ctypes.create_string_buffer(128); r = L.syscall(425, 1, a)",
    "page faults handled": "r = L.syscall(323, 0)",
    "keys of the kernel": "r = L.syscall(250, 0, -3, 0)",
    "a module": "r = L.syscall(175, b'', 0, b'')",
    "a new kernel": "r = L.syscall(246, 0, 0, None, 0xFFFF)",
    "watching the processor": "a = ctypes.create_string_buffer(128); r = L.syscall(298, a, 0, -1, -1, 0)",
    "the name of the machine": "n = os.uname().nodename.encode(); r = L.sethostname(n, len(n))",
    "the clock": "r = L.syscall(227, 0, None)",
    "a disk as a file": "r = L.mknod(b'disk', 0o60600, os.makedev(254, 0))",
    "a swap file": "r = L.swapon(b'{ws}/x', 0)",
    "more rights": "r = L.setuid(12345)",
}

SETTINGS = {
    # Written back as they are: nothing changes even where it is let through.
    "a setting of the kernel": "/proc/sys/kernel/printk_ratelimit_burst",
    "a setting of processes": "/proc/sys/kernel/threads-max",
    "a setting of memory": "/proc/sys/vm/swappiness",
}

SOCKETS = {
    "a stream to the host": "s = socket.socket(); s.settimeout(2); s.connect(('127.0.0.1', {port}))",
    "a datagram": "s = socket.socket(2, 2); s.sendto(b'x', ('192.0.2.1', 53))",
    "a datagram of the newer protocol": "s = socket.socket(10, 2); s.sendto(b'x', ('2001:db8::1', 53))",
    "a raw socket": "s = socket.socket(2, 3, 1)",
    "a packet socket": "s = socket.socket(17, 3)",
    "the machine's own events": "s = socket.socket(16, 3, 15)",
    "the audit of the machine": "s = socket.socket(16, 3, 9)",
    "a virtual machine's host": "s = socket.socket(40, 1)",
    "the kernel's ciphers": "s = socket.socket(38, 5)",
    "an abstract socket of the host": "s = socket.socket(1); s.connect('\\0' + '{abstract}')",
    "the agent of keys": "s = socket.socket(1); s.connect('{out}/agent.sock')",
    "the socket of another child": "s = socket.socket(1); s.connect('{user}/.hermes/run/rpc.sock')",
    "a socket of the system": "s = socket.socket(1); s.connect('{system}')",
}

"""One way out of a sandbox: `ways.py NAME`, in a folder with `ways.json`.

Prints what it got of the secret, or WAY-OPEN; or WAY-SHUT and the system's reason. Anything else is a fault of this program."""
import ctypes
import fcntl
import glob
import json
import mmap
import os
import platform
import pty
import signal
import socket
import struct
import subprocess
import sys
import termios

W = json.load(open("ways.json"))
V = W["victim"]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.ptrace.restype = ctypes.c_long

NAMES = """ptrace process_vm_readv mount umount2 chroot setns add_key keyctl bpf perf_event_open userfaultfd
    open_by_handle_at syslog shmat unshare clone""".split()
BY_MACHINE = {
    "x86_64": [101, 310, 165, 166, 161, 308, 248, 250, 321, 298, 323, 304, 103, 30, 272, 56],
    "aarch64": [117, 270, 40, 39, 51, 268, 217, 219, 280, 241, 282, 265, 116, 196, 97, 220],
}
NUMBER = dict(zip(NAMES, BY_MACHINE[platform.machine()]))
NUMBER |= {"pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428, "fsopen": 430, "pidfd_open": 434,
           "clone3": 435, "pidfd_getfd": 438}
NEW_USER, NEW_MOUNTS = 0x10000000, 0x00020000
AT_FDCWD = -100


def checked(got):
    if got < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return got


def call(name, *args):
    """A system call by its number: no library stands between."""
    number = NUMBER[name] if isinstance(name, str) else name
    args = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    return checked(libc.syscall(ctypes.c_long(number), *args))


def read(path):
    with open(path, "rb") as file:
        print(file.read(4096).decode("utf-8", "replace"))


def opened(*_):
    print("WAY-OPEN")


def write(path, text="evil\n"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a") as file:
        file.write(text)


def may_write(path):
    """Opens and writes nothing: opening is what must fail."""
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    opened()


# Secrets, by what names them.

def own_link():
    os.symlink(W["secret"], "own-link")
    read("own-link")


def hard_link():
    os.link(W["secret"], "hard-link")
    read("hard-link")


def inherited():
    found = []
    for number in range(3, 1024):
        try:
            found.append(os.pread(number, 4096, 0))
        except OSError as error:
            last = error
    if not any(found):
        raise last
    print(b" ".join(found).decode("utf-8", "replace"))


def by_handle():
    handle = bytes.fromhex(V["handle"] or "")
    if not handle:
        raise OSError("the file system has no handles")
    mount = os.open(os.path.dirname(W["readable"]), os.O_RDONLY)
    got = call("open_by_handle_at", mount, ctypes.create_string_buffer(handle, len(handle)), os.O_RDONLY)
    print(os.read(got, 4096).decode())


# Other processes.

def everybody(name):
    """What the processes that can be seen say of themselves, where it is the victim's."""
    found = b""
    for path in glob.glob(f"/proc/[0-9]*/{name}"):
        try:
            said = open(path, "rb").read()
        except OSError:
            continue
        if b"victim-of-the-test" in said:
            found += said
    if not found:
        raise OSError("nothing is seen")
    print(found.replace(b"\0", b" ").decode("utf-8", "replace"))


def pidfd():
    return call("pidfd_open", V["pid"], 0)


def get_descriptor():
    print(os.pread(call("pidfd_getfd", pidfd(), V["descriptor"], 0), 4096, 0).decode())


def trace():
    checked(libc.ptrace(16, V["pid"], None, None))  # PTRACE_ATTACH
    os.waitpid(V["pid"], 0x40000000)  # __WALL
    checked(libc.ptrace(17, V["pid"], None, None))  # PTRACE_DETACH
    opened()


def read_memory_by_call():
    class Piece(ctypes.Structure):
        _fields_ = [("at", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    into = ctypes.create_string_buffer(V["length"])
    here = Piece(ctypes.addressof(into), V["length"])
    there = Piece(V["address"], V["length"])
    call("process_vm_readv", V["pid"], ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    print(into.raw.decode())


def read_memory_by_file(pid=None):
    memory = os.open(f"/proc/{pid or V['pid']}/mem", os.O_RDONLY)
    if pid:
        return opened()
    print(os.pread(memory, V["length"], V["address"]).decode())


def shared_memory():
    libc.shmat.restype = ctypes.c_void_p
    at = libc.shmat(V["segment"], None, 0o10000)
    if at in (None, ctypes.c_void_p(-1).value):
        checked(-1)
    print(ctypes.string_at(at, V["length"]).decode())


# Sockets.

def connected(family, address, kind=socket.SOCK_STREAM, protocol=0, says=b"?"):
    with socket.socket(family, kind, protocol) as end:
        end.settimeout(3)
        end.connect(address)
        end.sendall(says)
        got = end.recv(4096)
    if not got:
        raise OSError("nothing was said")
    print(got.decode("utf-8", "replace"))


def unix(path):
    connected(socket.AF_UNIX, path)


def by_proxy(target):
    proxy = os.environ.get("https_proxy", "")
    if not proxy:
        raise OSError("no proxy is named")
    host, port = proxy.removeprefix("http://").rstrip("/").rsplit(":", 1)
    with socket.create_connection((host, int(port)), 3) as end:
        end.sendall(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
        answer = end.recv(4096)
        if b" 200 " not in answer:
            raise OSError(answer.decode("utf-8", "replace"))
        end.sendall(b"?")
        print(end.recv(4096).decode())


def tcp(address):
    """Directly, and where there is a proxy, through it."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        connected(family, tuple(address))
    except OSError as direct:
        host = f"[{address[0]}]" if family == socket.AF_INET6 else address[0]
        try:
            by_proxy(f"{host}:{address[1]}")
        except OSError:
            raise direct


def made_socket(family, kind=socket.SOCK_STREAM, protocol=0):
    socket.socket(family, kind, protocol).close()
    opened()


# The kernel.

def in_new_namespaces():
    """Where it can be had, all power over mounts; else whatever is there already."""
    libc.unshare(NEW_USER | NEW_MOUNTS)


def unshare():
    call("unshare", NEW_USER)
    opened()


def clone():
    child = call("clone", NEW_USER | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    opened()


def clone3():
    args = struct.pack("<11Q", NEW_USER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    child = call("clone3", ctypes.create_string_buffer(args, len(args)), len(args))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    opened()


def join_namespace():
    if V["in_namespace"] is None:
        raise OSError("there is none to join")
    call("setns", os.open(f"/proc/{V['in_namespace']}/ns/user", os.O_RDONLY), NEW_USER)
    opened()


def mount():
    in_new_namespaces()
    os.makedirs("mount-here", exist_ok=True)
    call("mount", b"none", b"mount-here", b"tmpfs", 0, None)
    call("umount2", b"mount-here", 2)
    opened()


def mount_anew():
    in_new_namespaces()
    os.close(call("fsopen", b"tmpfs", 1))
    opened()


def tree():
    in_new_namespaces()
    os.close(call("open_tree", AT_FDCWD, b"/", 1 | 0x8000))  # a copy, with all below
    opened()


def change_root():
    in_new_namespaces()
    call("chroot", b"/")
    opened()


def io_uring():
    os.close(call("io_uring_setup", 8, ctypes.create_string_buffer(120)))
    opened()


def bpf():
    attributes = struct.pack("<4I", 2, 4, 4, 1)  # an array of one
    os.close(call("bpf", 0, ctypes.create_string_buffer(attributes, 128), 128))
    opened()


def perf():
    attributes = struct.pack("<IIQQQQQ", 1, 112, 9, 0, 0, 0, 1 << 5 | 1 << 6)  # a dummy, of one's own, user side
    os.close(call("perf_event_open", ctypes.create_string_buffer(attributes, 112), 0, -1, -1, 0))
    opened()


def userfaultfd():
    os.close(call("userfaultfd", os.O_CLOEXEC | 1))
    opened()


def keyring():
    call("add_key", b"user", b"hands-test", b"x", 1, -2)  # the process's own, gone with it
    opened()


def session_keyring():
    call("keyctl", 0, -3, 0)  # KEYCTL_GET_KEYRING_ID
    opened()


def terminal():
    master, slave = pty.openpty()
    if os.fork() == 0:
        code = 1
        try:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            fcntl.ioctl(slave, termios.TIOCSTI, b"x")
            code = 0
        finally:
            os._exit(code)
    if os.wait()[1] != 0:
        raise OSError("the terminal takes no typing")
    opened()


def x32():
    call(0x40000000 | 39)  # getpid
    opened()


def i386():
    if platform.machine() != "x86_64":
        raise OSError("not this machine")
    # mov eax, 20 (getpid); int 0x80; ret
    code = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    if ctypes.CFUNCTYPE(ctypes.c_int)(at)() != os.getpid():
        raise OSError("the call is not there")
    opened()


def set_id_bit():
    write(os.path.abspath("set-id"))
    os.chmod("set-id", 0o4755)
    opened()


def set_id_program():
    said = subprocess.run([W["set_id"], "-u"], capture_output=True, check=True).stdout
    if int(said) == os.getuid():
        raise OSError("it ran as its caller")
    opened()


def device():
    os.mknod("device", 0o20600, os.makedev(1, 5))
    os.read(os.open("device", os.O_RDONLY), 1)
    opened()


def has(path, flags=os.O_RDWR):
    os.close(os.open(path, flags))
    opened()


def control_group():
    lists = glob.glob("/sys/fs/cgroup/cgroup.procs") + glob.glob("/sys/fs/cgroup/*/cgroup.procs")
    if not lists:
        raise OSError("there is none")
    may_write(lists[0])


def signalled():
    os.kill(V["pid"], signal.SIGUSR1)


HOME = W["home"]
WAYS = {
    "secret by its path": lambda: read(W["secret"]),
    "secret by a link made before": lambda: read("planted-link"),
    "secret by a link of its own": own_link,
    "secret by a hard link": hard_link,
    "secret by /proc/self/root": lambda: read("/proc/self/root" + W["secret"]),
    "secret by another's root": lambda: read(f"/proc/{V['pid']}/root{W['secret']}"),
    "secret by another's folder": lambda: read(f"/proc/{V['pid']}/cwd/{os.path.basename(W['secret'])}"),
    "secret by another's descriptor": lambda: read(f"/proc/{V['pid']}/fd/{V['descriptor']}"),
    "secret by an inherited descriptor": inherited,
    "secret by a file handle": by_handle,
    ".env file of a workspace": lambda: read("app/.env"),
    "configuration of Hands": lambda: read(W["hands_home"] + "/config.toml"),
    "arguments of others": lambda: everybody("cmdline"),
    "environment of others": lambda: everybody("environ"),
    "signal": signalled,
    "signal by pidfd": lambda: call("pidfd_send_signal", pidfd(), signal.SIGUSR1, None, 0),
    "descriptor by pidfd_getfd": get_descriptor,
    "ptrace": trace,
    "process_vm_readv": read_memory_by_call,
    "/proc/PID/mem": read_memory_by_file,
    "/proc/1/mem": lambda: read_memory_by_file(1),
    "System V shared memory": shared_memory,
    "named shared memory": lambda: read(W["shm"]),
    "ssh agent": lambda: unix(W["agent"]),
    "session bus (systemd-run)": lambda: unix(W["bus"]),
    "docker socket": lambda: unix(W["docker"]),
    "runtime folder (systemd, keyring, display)": lambda: unix(W["runtime"] + "/systemd/private"),
    "socket of Hands": lambda: unix(W["hands_home"] + "/run/mcp.sock"),
    "socket in /tmp (tmux, X11)": lambda: unix(W["in_tmp"]),
    "abstract socket": lambda: unix("\0" + W["abstract"]),
    "user namespace by unshare": unshare,
    "user namespace by clone": clone,
    "user namespace by clone3": clone3,
    "another's namespace": join_namespace,
    "mount": mount,
    "mount by fsopen": mount_anew,
    "open_tree": tree,
    "chroot": change_root,
    "io_uring": io_uring,
    "bpf": bpf,
    "perf_event_open": perf,
    "userfaultfd": userfaultfd,
    "add_key": keyring,
    "keyctl": session_keyring,
    "kernel's log": lambda: (call("syslog", 10, None, 0), opened()),
    "TIOCSTI": terminal,
    "x32 calls": x32,
    "i386 calls": i386,
    "set-user-ID bit": set_id_bit,
    "set-user-ID program": set_id_program,
    "device node": device,
    "/dev/fuse": lambda: has("/dev/fuse"),
    "/dev/net/tun": lambda: has("/dev/net/tun"),
    "/dev/kvm": lambda: has("/dev/kvm"),
    "/dev/kmsg": lambda: has("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK),
    "setting below /proc/sys": lambda: may_write("/proc/sys/fs/lease-break-time"),
    "setting below /sys": lambda: may_write("/sys/kernel/mm/transparent_hugepage/enabled"),
    "control group": control_group,
    "MPTCP socket": lambda: made_socket(socket.AF_INET, socket.SOCK_STREAM, 262),
    "VSOCK socket": lambda: made_socket(40),
    "ALG socket": lambda: made_socket(38, socket.SOCK_SEQPACKET),
    "PACKET socket": lambda: made_socket(17, socket.SOCK_RAW),
    "raw socket": lambda: made_socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "shell start file": lambda: write(HOME + "/.bashrc"),
    "autostart entry": lambda: write(HOME + "/.config/autostart/x.desktop"),
    "systemd user unit": lambda: write(HOME + "/.config/systemd/user/x.service"),
    "authorized_keys": lambda: write(HOME + "/.ssh/authorized_keys"),
    "folder on PATH": lambda: write(HOME + "/.local/bin/x"),
    "git hook": lambda: write(os.path.abspath("repo/.git/hooks/post-checkout")),
    "git configuration": lambda: write(os.path.abspath("repo/.git/config")),
    "TCP to 127.0.0.1": lambda: tcp(W["tcp4"]),
    "TCP to ::1": lambda: tcp(W["tcp6"]),
    "TCP to the machine's own address": lambda: tcp(W["tcp_own"]),
    "UDP to 127.0.0.1": lambda: connected(socket.AF_INET, tuple(W["udp4"]), socket.SOCK_DGRAM),
    "UDP to the machine's own address": lambda: connected(socket.AF_INET, tuple(W["udp_own"]), socket.SOCK_DGRAM),
}

if __name__ == "__main__":
    try:
        WAYS[sys.argv[1]]()
    except OSError as error:
        print("WAY-SHUT:", error)
    else:
        print("WAY-TRIED")

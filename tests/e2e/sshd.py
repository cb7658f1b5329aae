"""sshd.py FOLDER NAME...: hosts for tests of launch --hosts, each an sshd of its own key. Makes
FOLDER/ssh_config for ssh -F, in which every NAME is one, and FOLDER/NAME, its cache; prints a line when they
listen, at ports of loopback that are free; serves until it is ended. sshd.py --at ADDRESS FOLDER NAME: one of
them, at an address, with no ssh_config: FOLDER/NAME.port has its port. For every connection an sshd -i is
started, whose pid is added to FOLDER/NAME.pids."""
import os
import pwd
import signal
import socket
import subprocess
import sys

SSHD = os.environ.get("SSHD", "/usr/sbin/sshd")


def host_make(folder, name):
    """Its key and its configuration, of which PATH lets a test put programs before those of the host."""
    place = os.path.join(folder, name)
    os.makedirs(os.path.join(place, "bin"), exist_ok=True)
    key = os.path.join(place, "key")
    if not os.path.exists(key):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    with open(os.path.join(place, "sshd_config"), "w") as out:
        out.write(f"""HostKey {key}
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
LogLevel ERROR
PidFile none
SetEnv XDG_CACHE_HOME={place}/cache PATH={place}/bin:{os.environ["PATH"]}
""")
    return place


def listen(address):
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listener.bind((address, 0))
    listener.listen(64)
    return listener


def serve(listener, place):
    """In a process of its own, until its parent has ended: a connection an sshd."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    parent = os.getppid()
    listener.settimeout(0.5)
    while os.getppid() == parent:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        connection.setblocking(True)
        daemon = subprocess.Popen([SSHD, "-i", "-f", f"{place}/sshd_config", "-E", f"{place}/log"],
                                  stdin=connection, stdout=connection,
                                  start_new_session=True)
        connection.close()
        with open(f"{place}.pids", "a") as out:
            out.write(f"{daemon.pid}\n")


def main():
    at = None
    if sys.argv[1] == "--at":
        at = sys.argv[2]
        del sys.argv[1:3]
    folder, names = os.path.abspath(sys.argv[1]), sys.argv[2:]
    os.makedirs(folder, exist_ok=True)
    if os.getuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)  # or sshd does not start
    if not os.path.exists(f"{folder}/user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/user"], check=True)
    if at:
        place, listener = host_make(folder, names[0]), listen(at)
        with open(f"{place}.port.new", "w") as out:
            out.write(f"{listener.getsockname()[1]}\n")
        os.rename(f"{place}.port.new", f"{place}.port")
        serve(listener, place)
    config, known = "", ""
    for name in names:
        place, listener = host_make(folder, name), listen("127.0.0.1")
        port = listener.getsockname()[1]
        config += f"Host {name}\nHostName 127.0.0.1\nHostKeyAlias {name}\nPort {port}\n"
        known += f"{name} {open(f'{place}/key.pub').read()}"
        if os.fork() == 0:
            serve(listener, place)
            sys.exit(0)
        listener.close()
    with open(f"{folder}/known_hosts", "w") as out:
        out.write(known)
    with open(f"{folder}/ssh_config", "w") as out:
        out.write(config + f"Host *\nUser {pwd.getpwuid(os.getuid()).pw_name}\n"
                  f"IdentityFile {folder}/user\nIdentitiesOnly yes\n"
                  f"UserKnownHostsFile {folder}/known_hosts\nGlobalKnownHostsFile /dev/null\n")

    print("listens", flush=True)
    while True:
        signal.pause()


main()

#!/bin/sh
# launch --hosts, over real sshds of this machine: the bytes of one node, the program carried once, the key
# nowhere to be seen, nodes and connections that end, and each wrong start with its one sentence.
# tests/quality/hosts.sh does it between network namespaces, and for longer.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
. tests/e2e/nodes.sh
cd "$folder" || exit 1
h=$HETERPS

# --- without a host ---------------------------------------------------------------------------------------------------

check 'no way to start nodes' fails_so 2 'give --local N, .* or --hosts A,B' launch -- tiny.bin
check 'two ways' fails_so 2 'give --local N, .* or --hosts A,B' launch --local 2 --hosts a -- tiny.bin
check 'a host that would be a flag' \
    fails_so 2 'found "-oProxyCommand=x" as number 1: a name that begins with - would be a flag' launch \
    --hosts a,-oProxyCommand=x -- tiny.bin
check 'a user that would be one' fails_so 2 'found "-x@a" as number 0' launch --hosts=-x@a -- tiny.bin
echo '# none' >none
check 'a file without hosts' fails_so 2 'none: expected hosts, as in node1,node2, found none' \
    launch --hosts @none -- tiny.bin
check 'a file that is not there' fails_so 1 'nofile: No such file' launch --hosts @nofile -- tiny.bin
garbage() { # to the far end
    head -c 400 /dev/zero | tr '\0' x | "$h" --launched >out 2>err
    [ $? = 2 ] && is_one_error 'standard input: expected an order of `launch`'
}
check 'the far end takes no other orders' garbage
nowhere() { # the far end of a directory that is not there
    python3 -c 'import struct, sys
words = b"/nowhere\0heterps-run\0tiny.bin\0"
head = struct.pack("8s4I65s3x", b"HPSORDER", 2, len(words), 0, 1, b"0" * 64 + b"\n")
sys.stdout.buffer.write(head + words)' | "$h" --launched >out 2>err
    [ $? = 2 ] &&
        is_one_error '/nowhere: No such file or directory: every host needs the directory in which launch is started'
}
check 'the far end lacks the directory' nowhere
torn() { # an order whose words are cut
    python3 -c 'import struct, sys
words = b"/\0heterps-run\0tiny.bin\0"
head = struct.pack("8s4I65s3x", b"HPSORDER", int(sys.argv[1]), len(words), 0, 1, b"0" * 64 + b"\n")
sys.stdout.buffer.write(head + words)' "$1" | "$h" --launched >out 2>err
    [ $? = 1 ] && is_one_error 'standard input: expected an order of `launch`'
}
check 'the far end of fewer words than there are' torn 1
check 'the far end of more words than there are' torn 3

# --- fixture ----------------------------------------------------------------------------------------------------------

why=
[ -x "${SSHD:-/usr/sbin/sshd}" ] && command -v ssh ssh-keygen >/dev/null ||
    why='there is no sshd and ssh here (Debian: openssh-server)'
if [ -z "$why" ]; then
    python3 "$root/tests/e2e/sshd.py" hosts one two >sshd.out 2>&1 &
    helpers="$helpers $!"
    await listens sshd.out || why="no sshd starts here: $(tail -n 1 sshd.out)"
    ssh -F hosts/ssh_config -oBatchMode=yes -- one true 2>ssh.err ||
        why="sshd lets nobody in here: $(tail -n 1 ssh.err)"
fi
if [ -n "$why" ]; then
    skip 'launch --hosts' "$why"
    finish
fi
tiny_model
heterps compile tiny.cfg -o tiny.bin --set train.lanes=8 --set train.clip_norm=0.5 --set cluster.timeout=5 \
    --set cluster.connect=20 &&
    heterps gen criteo --rows "$(scaled 6000)" -o data.tsv && trains tiny tiny.bin --data data.tsv --threads 1 ||
    { echo "not ok 1 - fixture"; exit 1; }
port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])') # which was free a moment ago
config=hosts/ssh_config
# hosts STATUS HOSTS ARGUMENT...: of a launch, with standard error in $folder/err.
hosts() {
    hosts_status=$1 hosts_of=$2
    shift 2
    runs "$hosts_status" timeout 60 "$h" launch --hosts "$hosts_of" --ssh-config $config \
        -- tiny.bin --data data.tsv --coordinator "127.0.0.1:$port" "$@"
}
same() { exported tiny.bin "$1" again && same_bytes tiny again; }
one_file() {
    sum=$(sha256sum <"$h" | cut -c 1-64) copies=hosts/$1/cache/heterps
    [ "$(ls "$copies" | wc -l)" = 1 ] && [ "$copies/run-$sum" -ef "$copies/$(ls "$copies")" ]
}

# --- bytes ------------------------------------------------------------------------------------------------------------

two() {
    rm -rf two.model
    hosts 0 one,two --out two.model && same two.model && says '^\[0\] done ' && ! grep -q '^\[1\]' err
}
check 'two hosts: the bytes of one node' two
check 'the program is there, and nothing beside it' eval 'one_file one && one_file two'
inode() { ls -i hosts/one/cache/heterps; }
inode >before
listed() { # by a file; one host has two nodes
    printf '# of this job\n%s@one   two # the second\n\none\n' "$(id -un)" >list
    rm -rf two.model
    hosts 0 @list --out two.model && same two.model && says '^\[0\] nodes    3,'
}
check 'three nodes by a file, two of them on one host' listed
check 'the program is copied once' eval 'inode | cmp - before'
spoilt() { # a file of that name with other bytes is not run
    for f in hosts/two/cache/heterps/run-*; do printf 'no program' >"$f"; done
    rm -rf two.model
    hosts 0 one,two --out two.model && same two.model && one_file two
}
check 'a file with another hash is copied anew' spoilt

# --- ends -------------------------------------------------------------------------------------------------------------

# begun ARGUMENT...: launches a long training in the background, until it has saved.
begun() {
    rm -rf long.model
    start launch --hosts one,two --ssh-config $config -- tiny.bin --data data.tsv --coordinator "127.0.0.1:$port" \
        --out long.model --set checkpoint.every=20 "$@" && await 'saved ' run.err
}
node_pid() { pgrep -f -- "^heterps-run tiny.bin .*127.0.0.1:$port.*--rank=$1( |\$)"; }
none_left() { # within 20 s
    tenths=200
    while pgrep -f "127.0.0.1:$port" >/dev/null; do
        tenths=$((tenths - 1))
        [ $tenths -gt 0 ] || { echo "still there: $(pgrep -af "127.0.0.1:$port")"; return 1; }
        sleep 0.1
    done
}
unseen() { # the key: no 64 digits in a command line or an environment, but the program's hash
    for p in $(node_pid 0) $(node_pid 1) $(pgrep -f -- '--launched') "$pid"; do
        tr '\0' '\n' <"/proc/$p/cmdline"
        tr '\0' '\n' <"/proc/$p/environ"
    done 2>/dev/null >seen
    grep -c . seen && ! grep -v "$(sha256sum <"$h" | cut -c 1-64)" seen | grep -E '[0-9a-f]{64}' &&
        ! grep -rlE '^[0-9a-f]{64}$' hosts/*/cache
}
stops() {
    begun --set train.epochs=100000 && unseen && kill -INT "$pid" && ended 75 &&
        says '^\[0\] heterps-run: error: all nodes have stopped after step [0-9]+; the model is saved' && none_left
}
check 'SIGINT: all finish the step, save, and end with 75; the key is nowhere to be seen' stops
deserted() {
    begun --set train.epochs=100000 && kill -9 "$pid" && none_left &&
        heterps eval tiny.bin --model long.model --data data.tsv
}
check 'a launcher that is killed takes its nodes with it, saved' deserted
lost() { # RANK
    begun --set train.epochs=20 && kill -9 "$(node_pid "$1")" && ended 0 &&
        says "node $1 on (one|two) has ended \(by signal 9\): it is started again" && same_long
}
same_long() { exported tiny.bin long.model again && same_bytes long again; }
trains long tiny.bin --data data.tsv --threads 1 --set train.epochs=20 || not_ok 'a long training'
check 'node 1 is killed: the bytes of one node' lost 1
severed() { # a connection ends: the far end ends with it, the job stops with a save, and goes on
    begun --set train.epochs=20 && kill -9 "$(tail -n 1 hosts/two.pids)" && ended 0 &&
        says 'node 1 on two has ended \(ssh: .*\): it is started again in 1 s' && same_long
}
check 'a connection is cut: the bytes of one node' severed

# --- wrong starts -----------------------------------------------------------------------------------------------------

fails_at() { # PATTERN HOSTS: before a node was started, of which the sentence is the last line
    hosts 1 "$2" && tail -n 1 err >last && grep -Eq -- "$1" last && ! grep -q 'nodes ' err && return 0
    echo "expected /$1/, found:"
    cat err
    return 1
}
sed 's/^Host two$/Host lost/; s/^HostKeyAlias two/HostKeyAlias lost/' $config >lost.config
changed() { # the key of another
    cp hosts/known_hosts known && sed "s,^two .*,two $(cut -d ' ' -f 1,2 hosts/one/key.pub)," known >hosts/known_hosts
    question='this command has to succeed without a question: ssh -F hosts/ssh_config -- two true'
    fails_at "error: host two is not reached: Host key verification failed\.; $question" one,two
    changed=$?
    grep -q 'REMOTE HOST IDENTIFICATION HAS CHANGED' err && cp known hosts/known_hosts && return $changed
}
check 'another host key' changed
config=lost.config
check 'a host key that nobody knows' fails_at 'error: host lost is not reached: Host key verification failed' one,lost
config=hosts/ssh_config
check 'a port at which nobody is' fails_at \
    "error: host two is not reached: ssh: connect to host 127.0.0.1 port $port: Connection refused" "one,two:$port"
check 'a name that nobody knows' fails_at \
    'error: host nobody.invalid is not reached: ssh: Could not resolve hostname nobody.invalid' one,nobody.invalid
liar() { # whose copy is another
    rm -rf hosts/two/cache
    printf '#!/bin/sh\necho 0123\n' >hosts/two/bin/sha256sum && chmod 755 hosts/two/bin/sha256sum
    sum=$(sha256sum <"$h" | cut -c 1-64)
    fails_at "error: host two: the copy of the program has SHA-256 0123 there, and $sum here" one,two
    liar=$?
    rm hosts/two/bin/sha256sum
    [ -z "$(ls hosts/two/cache/heterps)" ] && return $liar
}
check 'a copy with another hash is not run, and not left' liar
full() { # nowhere to put it
    rm -rf hosts/two/cache && : >hosts/two/cache
    fails_at 'error: host two: the program cannot be put into ~/.cache/heterps: .*mkdir' one,two
    full=$?
    rm hosts/two/cache
    return $full
}
check 'a host that takes no program' full
failing() { # a node's own failure
    runs 1 timeout 60 "$h" launch --hosts one,two --ssh-config $config \
        -- tiny.bin --data nodata.tsv --coordinator "127.0.0.1:$port"
    says 'nodata.tsv: No such file' && says 'error: node [01] on (one|two) has failed, and with it the job'
}
check 'a failure of a node ends all' failing
check 'no key of launch'\''s' fails_so 2 'launch itself gives --key-file' launch --hosts one -- tiny.bin --key-file key

finish

#!/bin/sh
# Standard input and FIFOs as the data of several nodes: node 0 reads them for all. The bytes of one node,
# whatever their number and how they are packed; what ends a stream ends all alike; and a job that has lost a
# node says that it cannot read again.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
. tests/e2e/nodes.sh
cd "$folder" || exit 1
h=$HETERPS

# --- fixture ----------------------------------------------------------------------------------------------------------

tables_model
{ "$h" gen criteo --rows 9000 -o data.tsv && "$h" compile tables.cfg -o tables.bin --set train.epochs=1 \
        --set cluster.timeout=2 && head -n 3000 data.tsv >few.tsv && gzip -c few.tsv >few.gz &&
    trains all tables.bin --data data.tsv --threads 1 &&
    trains few tables.bin --data few.tsv --threads 1; } >/dev/null 2>&1 || { echo "not ok 1 - fixture"; exit 1; }
# Forever the same lines.
cat >endless.py <<'PY'
import os, signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.alarm(60)
lines = open("data.tsv", "rb").read()
while True:
    os.write(1, lines)
PY

# streamed STATUS N ARGUMENT...: launched with its standard input; standard error in $folder/err.
streamed() {
    streamed_status=$1 streamed_n=$2
    shift 2
    timeout 60 "$h" launch --local "$streamed_n" -- tables.bin "$@" >out 2>err
    streamed_got=$?
    [ $streamed_got = "$streamed_status" ] && return 0
    echo "exit status $streamed_got instead of $streamed_status: $*"
    head -n 5 err
    return 1
}
exported_as() { exported tables.bin new.model again && same_bytes "$1" again; }

# --- bytes ------------------------------------------------------------------------------------------------------------

# same AS N ARGUMENT...: of standard input the bytes of AS.
same() {
    same_as=$1 same_n=$2
    shift 2
    rm -rf new.model
    streamed 0 "$same_n" --data - --out new.model "$@" && exported_as "$same_as"
}
check 'standard input on 2 nodes: the bytes of one' same all 2 <data.tsv
check 'on 3, of which one has no lanes' same all 3 --lanes 5,3,0 --set cluster.rows=servers <data.tsv
check 'packed by gzip' same few 2 <few.gz
slowly() { # what a pipe has comes in pieces, which end anywhere
    { head -c 300001 few.tsv; sleep 0.2; tail -c +300002 few.tsv | head -c 77; sleep 0.2; tail -c +300079 few.tsv; } |
        same few 3
}
check 'a pipe whose pieces end anywhere' slowly
fifos() { # after a file, both read by node 0, whose writers come late
    rm -rf fifo new.model
    mkfifo fifo && head -n 1000 few.tsv >first.tsv
    { sleep 0.3; tail -n +1001 few.tsv >fifo; } &
    streamed 0 2 --data first.tsv,fifo --out new.model </dev/null && exported_as few
}
check 'a file and a FIFO' fifos
cached() { # a second pass, which each has in its own cache
    trains twice tables.bin --data few.tsv --threads 1 --set train.epochs=2 &&
        same twice 2 --set train.epochs=2 --set cache.ram=32MiB <few.tsv
}
check 'two passes, the second one out of caches' cached
resumed() { # 20 steps, and the rest of the same stream, once more from its beginning
    rm -rf new.model
    streamed 0 2 --data - --out new.model --set train.steps_max=20 <few.tsv &&
        streamed 0 3 --data - --resume new.model <few.tsv && exported_as few
}
check '--resume reads the stream from its beginning' resumed

# --- ends -------------------------------------------------------------------------------------------------------------

{ head -n 1500 few.tsv; echo bad; tail -n +1501 few.tsv; } >bad.tsv
check 'a line that is malformed ends all' streamed 1 3 --data - -q <bad.tsv
check 'by its sentence' says '^\[0\] heterps-run: error: standard input:1501: expected 40 columns'
check 'and by no other' silent 'error: (node 0: )?[^sn]'
skipped() {
    same few 2 --set data.bad_lines=skip <bad.tsv && says '^\[1\] heterps-run: warning: skipped 1 malformed line'
}
check 'or is skipped by all' skipped
check 'what cannot be read' streamed 1 2 --data - -q </
check 'is the sentence of all' says '^\[1\] heterps-run: error: (node 0: )?standard input at byte 0: Is a directory'
gone() { # while the first of two is read
    rm -rf fifo second new.model
    mkfifo fifo && cp few.tsv second
    { head -n 500 few.tsv; sleep 0.7; rm second; } >fifo &
    streamed 1 3 --data fifo,second -q </dev/null && says '^\[1\] heterps-run: error: (node 0: )?second: No such file'
}
check 'a file that has gone when its turn comes ends all' gone
head -c 100000 few.gz >cut.gz
check 'a packed stream that is cut off' streamed 1 2 --data - -q <cut.gz
check 'says where' says '^\[1\] heterps-run: error: (node 0: )?standard input: the gzip data ends early, at byte 100000'
check 'one that is empty' streamed 1 2 --data - -q </dev/null
check 'has no examples' says 'error: -: no examples'
check 'several passes without a cache' streamed 1 2 --data - -q --set train.epochs=2 </dev/null
check 'are refused' says 'is a stream and can be read once, but train.epochs = 2'
check 'a stream beside an address' streamed 1 2 --data -,http://127.0.0.1:1/x.tsv -q </dev/null
alone='on several nodes a stream is read by node 0 alone, and cannot be mixed with addresses of the web'
check 'is refused by all' says "^\[1\] heterps-run: error: (node 0: )?$alone"
check 'hosts have no standard input' runs 2 "$h" launch --hosts a,b -- tables.bin --data -
check 'which is said' says 'nodes that are started by ssh have no standard input'
check 'nor where a setting names it' runs 2 "$h" launch --hosts a,b -- train --set=data.path=- tables.bin
check 'which is said, too' says 'data.path = -: nodes that are started by ssh have no standard input'
early() {
    trains early tables.bin --data data.tsv --threads 1 --set train.steps_max=50 &&
        python3 endless.py 2>/dev/null | same early 3 --set train.steps_max=50
}
check 'steps end before the stream does' early
# begun WRITER...: a training of 3 nodes on what that writes, in the background, until it has saved. The stream is
# named by $input.
input='--data -'
begun() {
    rm -rf new.model fifo run.err run.out
    mkfifo fifo
    "$@" >fifo 2>/dev/null &
    helpers="$helpers $!"
    # shellcheck disable=SC2086
    "$h" launch --local 3 -- tables.bin $input --out new.model --lanes 5,3,0 \
        --set checkpoint.every=5 <fifo >run.out 2>run.err &
    pid=$!
    await 'saved ' run.err
}
stops() {
    begun "$@" && kill -TERM "$pid" && ended 75 &&
        says '^\[0\] heterps-run: error: all nodes have stopped after step [0-9]+; the model is saved' &&
        silent 'warning'
}
quiet() { head -n 1000 data.tsv; exec sleep 60; }
check 'SIGTERM while the stream goes on: all stop' stops python3 endless.py
check 'SIGTERM while it is silent' stops quiet
quiet_for_long() { # silence is nobody's fault: longer than cluster.progress, and then the rest
    rm -rf new.model
    { head -n 1500 few.tsv; sleep 2.5; tail -n +1501 few.tsv; } | same few 2 --set cluster.progress=1 &&
        silent 'is lost:'
}
check 'a stream that is silent for longer than cluster.progress' quiet_for_long
again='the data are a stream, of which a part has been read, and cannot be read again'
again="$again: start all nodes again with the stream from its beginning"
lost() { # RANK PATTERN: is killed, and the others end by one sentence
    begun python3 endless.py && kill -9 "$(pgrep -P "$pid" -f -- "--rank=$1( |\$)")" && ended 1 && says "$2" &&
        silent 'starts anew|is started again'
}
check 'node 1 is killed: the others say that the stream cannot be read again' \
    lost 1 "^\[[02]\] heterps-run: error: node [012] at .* is lost: .*; $again"
check 'node 0 is killed: there is nobody who could read' \
    lost 0 'node 0 has ended \(by signal 9\), and the data are a stream, which cannot be read again|; '"$again"
input='--set data.path=-'
check 'node 0 is killed, whose stream a setting names: it is not started again' \
    lost 0 'node 0 has ended \(by signal 9\), and the data are a stream, which cannot be read again|; '"$again"
slow_node() { # node 1 stands still for a second: node 0 reads no further, and nobody is lost
    begun python3 endless.py && victim=$(pgrep -P "$pid" -f -- "--rank=1( |\$)") && kill -STOP "$victim" && sleep 0.7
    before=$(cat "/proc/$(pgrep -P "$pid" -f -- '--rank=0( |$)')/io" | sed -n 's/^rchar: //p')
    sleep 0.5
    after=$(cat "/proc/$(pgrep -P "$pid" -f -- '--rank=0( |$)')/io" | sed -n 's/^rchar: //p')
    kill -CONT "$victim"
    kill -TERM "$pid"
    ended 75 && silent 'lost' &&
        { [ $((after - before)) -lt 1000000 ] || { echo "read $((after - before)) bytes"; return 1; }; }
}
check 'a node that stands still makes node 0 wait' slow_node

finish

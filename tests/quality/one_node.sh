# What the programs here that train on several nodes share: a model with a table, and what one node makes of it.
# Sourced in an empty folder. $h is the program, $root the project.

. "$root/tests/e2e/nodes.sh"

# nodes_model VALUE...: model.bin, with these settings, and data.tsv.
nodes_model() {
    for value in "$@"; do set -- "$@" --set "$value"; shift; done
    tables_model && "$h" compile tables.cfg -o model.bin -q --set data.dense=I1..I13 --set h1.units=32 \
            --set 'train.optimizer=adam 0.005' --set store.ram=8MiB \
        --set cluster.connect=60 "$@" && "$h" gen criteo --rows 6000 -o data.tsv -q
}

# dense_model VALUE...: likewise, of numbers alone, whose layers are a bucket each: a step begins while values
# of the one before are on their way.
dense_model() {
    for value in "$@"; do set -- "$@" --set "$value"; shift; done
    {
        printf '[model]\nname = dense\n[data]\ndense = I1..I13\n[fc h1]\ninput = dense\nunits = 48\nactivation = relu\n'
        for i in 2 3 4 5; do printf '[fc h%d]\ninput = h%d\nunits = 48\nactivation = relu\n' $i $((i - 1)); done
        printf '[fc y]\ninput = h5\nunits = 1\n[loss bce]\ninput = y\n'
        printf '[train]\nbatch = 64\nmicro = 4\nlanes = 8\noptimizer = adam 0.005\n'
    } >dense.cfg
    "$h" compile dense.cfg -o model.bin -q --set cluster.bucket=1 --set cluster.connect=60 "$@" &&
        "$h" gen criteo --rows 6000 -o data.tsv -q
}

# one_node ARGUMENT...: trains it, with these, to one.model; its values are in one.
one_node() {
    "$h" model.bin --data data.tsv --out one.model --threads 1 "$@" && "$h" export model.bin --model one.model -o one -q
}

# pid_here PATTERN: the process of this directory whose command line has it: other tests have nodes of the
# same command line.
pid_here() {
    for pid_found in $(pgrep -f -- "$1"); do
        if [ "/proc/$pid_found/cwd" -ef . ]; then echo "$pid_found" && return; fi
    done
}

# Whether a model has the values of one node's.
as_one_node() {
    rm -rf many
    "$h" export model.bin --model "$1" -o many -q && diff -r one many >/dev/null
}

# told NAME LOG CONDITION...: says whether all of them hold, with the end of the log where one does not, and
# counts in $bad.
bad=0
told() {
    told_name=$1 told_log=$2
    shift 2
    for condition in "$@"; do
        eval "$condition" && continue
        echo "not ok: $told_name: $condition"
        tail -n 8 "$told_log"
        bad=$((bad + 1))
        return
    done
    echo "ok: $told_name"
}

#!/bin/sh
# Columns of the data beside what is said of it: `predict --with` writes their texts, `eval --by` measures by
# the values of one.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
h=$HETERPS
tiny_model
rows 3000 rows.tsv
"$h" tiny.bin --data rows.tsv --out model -q </dev/null || not_ok 'training'

# --- predict --with ---------------------------------------------------------------------------------------------------

"$h" predict tiny.bin --model model --data rows.tsv -o plain -q
"$h" predict tiny.bin --model model --data rows.tsv --with 'C3, label, I1..I2' --header -o with -q
cut -f 1-3,17 rows.tsv | awk -F '\t' -v OFS='\t' '{ print $4, $1, $2, $3 }' | paste plain - >expected
check 'texts of criteo stand behind the predictions' \
    sh -c "printf 'bce\tC3\tlabel\tI1\tI2\n' | cat - expected | cmp - with"
check 'with three threads too' sh -c "'$h' predict tiny.bin --model model --data rows.tsv --with 'C3, label, I1..I2' \
    --threads 3 --set train.readers=2 -q | cmp - expected"
check 'of a stream too' \
    sh -c "'$h' predict tiny.bin --model model --data - --with 'C3, label, I1..I2' -q <rows.tsv | cmp - expected"
(head -3 rows.tsv; echo 'no line'; sed -n 4,6p rows.tsv | cut -f 2-) >some.tsv
"$h" predict tiny.bin --model model --data some.tsv --set data.bad_lines=skip --with label,C3 -o some -q
(
    sed -n 1,3p expected | awk -F '\t' -v OFS='\t' '{ print $1, $3, $2 }'
    printf 'nan\tno line\t\n'
    sed -n 4,6p expected | awk -F '\t' -v OFS='\t' '{ print $1, "", $2 }'
) >some.expected
check 'beside malformed lines, and lines without a label' cmp some some.expected
fails 1 'no column is called "C27"; expected some of label, I1..I13, C1..C26' 'a column that is none' \
    "$h" predict tiny.bin --model model --data rows.tsv --with C27 -q

# csv: quotation marks, lists, other orders of columns in another file.
lists_model
printf 'id,age,job,"day",tags,click\n1, 30 ,"smith, ""J""",mon,a|b,1\n2,40,cook,tue,,0\n' >one.csv
printf 'click,"day",tags,job,age,id\n0,wed,c,"cook" ,50,3\n' >two.csv
printf 'id,age,job,day,tags,click\n4,30,cook,thu,\n' >bare.csv
"$h" csv.bin --data one.csv --out csv.model -q
"$h" predict csv.bin --model csv.model --data one.csv,two.csv,bare.csv --with 'id,job,day,click' -q |
    cut -f 2- >csv.with
printf '1\t"smith, ""J"""\tmon\t1\n2\tcook\ttue\t0\n3\t"cook"\twed\t0\n4\tcook\tthu\t\n' >csv.expected
check 'texts of csv, by the names of each file' cmp csv.with csv.expected
fails 1 'one.csv:1: --with: no column is called "sex"' 'a column that a file lacks' \
    "$h" predict csv.bin --model csv.model --data one.csv --with id,sex -q
tail -n +2 one.csv >bare_one.csv
"$h" predict csv.bin --model csv.model --data bare_one.csv --set data.header=no \
    --set 'data.columns=id,age,job,day,tags,click' --with day,id -q | cut -f 2- >csv.with
check 'of csv without names in it' sh -c "printf 'mon\t1\ntue\t2\n' | cmp - csv.with"
printf 'id,age,job,day,tags,click\n"1\t""x""",30,cook\ttue,mon,a|b,1\n2,40,cook,tue,,0\n' >tabs.csv
"$h" predict csv.bin --model csv.model --data tabs.csv --with id,job --header -o tabs -q
tabs_are_held() {
    python3 -c 'import csv, sys
rows = [row[1:] for row in csv.reader(open("tabs", newline=""), delimiter="\t")]
rows == [["id", "job"], ["1\t\"x\"", "cook\ttue"], ["2", "cook"]] or sys.exit(str(rows))'
}
check 'a tab within a value of csv ends no column' tabs_are_held

# Lines of features have a label, and features.
cat >fm.cfg <<'CFG'
[data]
format = libfm
sparse = features
ids_max = 4
[table t]
dim = 1
[embedding y]
table = t
input = features
[loss bce]
input = y
[store]
ram = 4MiB
CFG
"$h" compile fm.cfg -o fm.bin -q && printf '1 3:1 9:0.5\n0 4:1\n' >fm.txt && "$h" fm.bin --data fm.txt --out fm.model -q
"$h" predict fm.bin --model fm.model --data fm.txt --with label,F2,features -q | cut -f 2- >fm.with
check 'texts of libfm' sh -c "printf '1\t9:0.5\t3:1 9:0.5\n0\t\t4:1\n' | cmp - fm.with"

# Words, of an example or a group: a line has the texts of the example that gives it, of a group the first one.
awk 'BEGIN { srand(3); print "id,user,label,item"
    for (n = 0; n < 400; n++) print n "," "u" int(n < 60 ? n / 2 : rand() * 30) ",0,i" int(rand() * 40) }' >words.csv
beside_words() { # GROUP ROWS: which rows give a line, for awk
    cat >words.cfg <<CFG
[data]
format = csv
path = words.csv
sparse = user
group = $1
bad_lines = skip
[column item]
vocabulary = items
[vocabulary items]
column = item
[candidates drawn]
of = item
negatives = 5
sampler = empirical
[table rows]
dim = 4
init = normal 0.1
[table out]
dim = 4
init = normal 0.1
[embedding q]
table = rows
input = user
[embedding c]
table = out
input = drawn
pool = none
[match m]
input = q, c
[loss l]
kind = sampled_softmax
input = m, drawn.log_q
[train]
batch = 16
lanes = 2
[eval]
top = 3
CFG
    rm -rf words
    "$h" compile words.cfg -o words.bin -q 2>/dev/null && "$h" words.bin --data words.csv --out words -q &&
        "$h" predict words.bin --model words --data words.csv -o bare -q &&
        "$h" predict words.bin --model words --data words.csv --with id,user -o beside -q &&
        "$h" launch --local 2 -- predict words.bin --model words --data words.csv --with id,user -o nodes -q &&
        "$h" predict words.bin --model words --data - --with id,user -q <words.csv >stream || return 1
    cmp beside nodes && cmp beside stream && cut -f 1-3 beside | cmp - bare || return 1
    awk -F , -v OFS='\t' "NR > 1 && $2 { print \$1, \$2 }" words.csv >texts
    cut -f 4,5 beside | cmp - texts
}
check 'beside words: the texts of each example' beside_words '' 1 </dev/null
check "and of each group's first" beside_words user '!seen[$2]++' </dev/null

# --- eval --by --------------------------------------------------------------------------------------------------------

"$h" eval tiny.bin --model model --data rows.tsv --by C3 --by-max 4 --log json >by.log </dev/null
"$h" eval tiny.bin --model model --data rows.tsv --by C3 --by-max 4 >by.txt 2>&1 </dev/null
by_is_by() {
    python3 - <<'PYTHON'
import collections, json, math
rows = [l.rstrip("\n").split("\t") for l in open("expected")]
events = [json.loads(l) for l in open("by.log")]
whole = [e for e in events if e["event"] == "eval"][-1]
found = [e for e in events if e["event"] == "eval_by"]
groups = collections.OrderedDict()
for p, c3, y, *_ in rows: groups.setdefault(c3, []).append((float(p), int(y)))
order = sorted(groups, key=lambda v: -len(groups[v]))  # stable: of equals the first
assert len(order) > 6 and len(found) == 5 and sum(e["samples"] for e in found) == whole["samples"] == 3000, found
def near(a, b): assert abs(a - b) < 2e-6 * max(1, abs(b)), (a, b)
for e, value in zip(found, order[:4] + [None]):
    items = groups[value] if value is not None else [i for v in order[4:] for i in groups[v]]
    assert e["column"] == "C3" and e["samples"] == len(items)
    assert e["value"] == value if value is not None else e["other_values"] == len(order) - 4, e
    near(e["logloss"], sum(-math.log(p if y else 1 - p) for p, y in items) / len(items))
    near(e["calibration"], sum(p for p, y in items) / sum(y for p, y in items))
    pairs = [(p > q) + 0.5 * (p == q) for p, y in items for q, z in items if y > z]
    near(e["auc"], sum(pairs) / len(pairs))
    assert e["heads"][0]["auc"] == e["auc"]
PYTHON
}
check 'figures are those of the examples with the value' by_is_by
check 'and lines' \
    grep -qE '^by       C3: [0-9]+ other values: AUC 0\.[0-9]{5}, log loss .* \([0-9,]+ examples\)$' by.txt
"$h" eval csv.bin --model csv.model --data one.csv,two.csv --by day --log json >by.log </dev/null
check 'by a column of csv that the model does not read' \
    sh -c "[ \"\$(grep -c '\"event\":\"eval_by\",\"column\":\"day\",\"value\":\"[a-z]*\",\"samples\":1' by.log)\" = 3 ]"
fails 2 '--by takes one column, found 2' 'two columns' "$h" eval tiny.bin --model model --data rows.tsv --by C1,C2 -q
"$h" eval fm.bin --model fm.model --data fm.txt --by F2 --log json >by.log </dev/null
check 'by a feature of libfm' sh -c "[ \"\$(grep -c '\"event\":\"eval_by\",\"column\":\"F2\",' by.log)\" = 2 ]"
fails 2 '--by-max counts values of a column: give --by' 'a number of values of no column' \
    "$h" eval tiny.bin --model model --data rows.tsv --by-max 20
fails 1 'no column is called "x"; expected some of label, features, F1, F2' 'a column that libfm has not' \
    "$h" eval fm.bin --model fm.model --data fm.txt --by x -q
finish

"""Small bugs in C: where a source has room for a bug, and for which. Knows C by its tokens alone: the caller drops
what does not compile.

A Mutation replaces source[begin:end] by `text`; lines stay where they are. Left alone are comments, strings (but not
numbers and yes/no in .def tables), includes and conditions of the preprocessor, assertions, and the parts of an error's
message. So is what no test of the plain build can see: hints to the processor and the compiler, locks, sizes of arrays
and of allocations, and what frees memory, with the loop around it (the builds of AddressSanitizer and ThreadSanitizer
see these)."""
import hashlib, re
from collections import Counter

TOKEN = re.compile(
    r'''(?P<space>\s+|\\\n|/\*.*?\*/|//[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<char>'(?:[^'\\\n]|\\.)*')
|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)|(?P<word>[A-Za-z_]\w*)
|(?P<sign><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|.)''',
    re.S | re.X,
)
DIRECTIVE = re.compile(r'^[ \t]*\#(?:/\*.*?\*/|\\\n|[^\n])*', re.S | re.M)
DEFINE = re.compile(r'[ \t]*\#[ \t]*define[ \t]+(\w+)(\([^)]*\))?', re.S)

# Calls whose arguments are left alone: assertions, what makes messages, hints, which only time tells, sizes of what is
# allocated, and what is freed.
MESSAGES = re.compile(
    r'(?:FAIL|CHECK|RAISE|assert\w*|_?[sS]tatic_assert|PRINTF_LIKE|__attribute__|_?[aA]lignas|sizeof|offsetof'
    r'|status_describe|\w*prefetch\w*|madvise|posix_fadvise|malloc|calloc|realloc|aligned_alloc|free|json_decref'
    r'|log_(?:info|detail|warning|error|result|redraw)|(?:bad|fail)(?:_\w+)?|\w+_fail(?:ed)?)$'
)
# Statements whose absence the plain build's tests cannot see: hints, what frees and what locks (AddressSanitizer's and
# ThreadSanitizer's builds see these).
UNMISSED = re.compile(
    r'(?:\(void\) ?)?(?:free|json_decref|\w+_free|\w*prefetch\w*|madvise|posix_fadvise|spin_pause|pthread_mutex_lock)\('
)
KEYWORDS = set(
    'if for while switch return sizeof do else case default goto break continue struct enum union const static inline '
    'extern void '
    'typedef volatile register unsigned signed char short int long float double bool _Bool _Atomic'.split()
)
DECLARES = set(
    'struct enum union const static extern void typedef volatile register unsigned signed char short int long float '
    'double bool '
    '_Atomic _Static_assert static_assert'.split()
)
TURNS = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '=='}
SIGNS = {'+': '-', '-': '+', '+=': '-=', '-=': '+=', '++': '--', '--': '++'}
OPEN, CLOSE = {'(': ')', '[': ']', '{': '}'}, {')', ']', '}'}


class Token:
    __slots__ = ('kind', 'text', 'begin', 'end', 'mate', 'inside', 'frozen', 'function')

    def __init__(self, kind, text, begin):
        self.kind, self.text, self.begin, self.end = kind, text, begin, begin + len(text)
        self.mate = self.inside = None  # the other bracket; the innermost open bracket around it
        self.frozen, self.function = False, ''


class Mutation:
    __slots__ = ('file', 'function', 'line', 'line_text', 'change', 'begin', 'end', 'text', 'kind', 'id', 'is_macro')

    def apply(self, source):
        return source[: self.begin] + self.text + source[self.end :]

    def place(self):
        return self.file, self.function, ' '.join(self.line_text.split()), self.change


def tokens_of(source):
    """Tokens without space, comments and directives, and those of each #define's body, as a function of its name."""
    plain, bodies = list(source), []
    for m in DIRECTIVE.finditer(
        re.sub(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', lambda s: re.sub(r'[^\n]', ' ', s[0]), source, flags=re.S)
    ):
        define = DEFINE.match(source, m.start(), m.end())
        if define:
            bodies.append((define.end(), m.end(), define[1]))
        plain[m.start() : m.end()] = [c if c == '\n' else ' ' for c in plain[m.start() : m.end()]]

    def split(text, begin, end, name=''):
        found = []
        for m in TOKEN.finditer(text, begin, end):
            if m.lastgroup != 'space':
                found.append(Token(m.lastgroup, m[0], m.start()))
                found[-1].function = name
        pair(found)
        return found

    return [split(''.join(plain), 0, len(source))] + [split(source, *body) for body in bodies]


def pair(tokens):
    stack = []
    for i, t in enumerate(tokens):
        if t.kind == 'sign' and t.text in CLOSE and stack:
            t.mate = stack.pop()
            tokens[t.mate].mate = i
        t.inside = stack[-1] if stack else None
        if t.kind == 'sign' and t.text in OPEN:
            stack.append(i)
    for i, t in enumerate(tokens):
        if (
            t.text == '('
            and t.mate is not None
            and i
            and tokens[i - 1].kind == 'word'
            and MESSAGES.match(tokens[i - 1].text)
        ):
            for inner in tokens[i : t.mate + 1]:
                inner.frozen = True
        if t.text == 'for':
            loop_freeze(tokens, i)
        if t.text == '__builtin_expect':  # what is expected, but not of what
            for inner in tokens[tokens[i + 1].mate - 2 : tokens[i + 1].mate]:
                inner.frozen = True


def loop_freeze(tokens, i):
    """Leaves the head of a loop alone of which all that it does is UNMISSED."""
    head_end = tokens[i + 1].mate if i + 1 < len(tokens) else None
    if not head_end or head_end + 1 >= len(tokens):
        return
    begin = head_end + 1
    end = tokens[begin].mate if tokens[begin].text == '{' else next(
        (j for j in range(begin, len(tokens)) if tokens[j].text == ';'), begin
    )
    body = ''.join(t.text for t in tokens[begin : end or begin]).lstrip('{').rstrip(';').split(';')
    if all(UNMISSED.match(statement) for statement in body):
        for inner in tokens[i : head_end + 1]:
            inner.frozen = True


def functions_name(tokens):
    """Gives each token the function that it lies in: `name(...) {` at the outermost level, or KERNEL(name) {."""
    for i, t in enumerate(tokens):
        if t.text != '{' or t.inside is not None or t.mate is None or i < 3 or tokens[i - 1].text != ')':
            continue
        at = tokens[i - 1].mate
        if not at or tokens[at - 1].kind != 'word':
            continue
        name = tokens[at - 1].text
        if name.isupper() and tokens[at + 1].kind == 'word':
            name = tokens[at + 1].text
        for inner in tokens[i : t.mate + 1]:
            inner.function = name


def is_block(tokens, i):
    """Whether the brace at i opens a block, not an initializer, and not the members of a type."""
    if i == 0:
        return True
    before = tokens[i - 1]
    if before.text in ('else', 'do', ';', ':', '}'):
        return True
    if before.text == '{':
        return is_block(tokens, i - 1)
    return (
        before.text == ')'
        and before.mate
        and tokens[before.mate - 1].kind == 'word'
        and tokens[before.mate - 1].text not in ('return', 'sizeof')
    )


def number_other(text):
    """A number beside this one, or None."""
    m = re.match(r'(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)$', text)
    if m:
        is_hex = m[1][:2] in ('0x', '0X')
        if not is_hex and len(m[1]) > 1 and m[1][0] == '0':
            return None
        value = int(m[1], 16 if is_hex else 10)
        other = value + 1 if value <= 16 else value // 2 if value % 2 == 0 else value - 1
        return (hex(other) if is_hex else str(other)) + m[2]
    m = re.match(r'(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?([fFlL]?)$', text)
    if not m:
        return None
    value = float(m[1])
    return f'{repr(value * 2) if value else "1.0"}{m[2] or ""}{m[3]}'


class Finder:
    """Collects the mutations of one stretch of tokens."""

    def __init__(self, source, tokens, is_table, is_define):
        self.source, self.tokens, self.is_table, self.is_define, self.found = source, tokens, is_table, is_define, []

    def add(self, kind, first, last, text, change):
        begin, end = self.tokens[first].begin, self.tokens[last].end
        old = self.source[begin:end]
        text += ('\\\n' if self.is_define else '\n') * (old.count('\n') - text.count('\n'))
        self.found.append((kind, begin, end, text, change, self.tokens[first].function))

    def find(self):
        for i, t in enumerate(self.tokens):
            in_code = bool(t.function) or self.is_table
            if t.frozen or (t.function == '' and self.is_table is None):
                continue
            if t.kind == 'number':
                self.number(i)
            elif t.kind == 'string' and self.is_table:
                self.table_text(i)
            elif t.kind == 'word' and t.text in ('true', 'false'):
                self.add('constant', i, i, other := 'false' if t.text == 'true' else 'true', f'{t.text} to {other}')
            elif t.kind == 'char' and in_code and len(t.text) == 3:
                other = "'" + chr(ord(t.text[1]) + (1 if t.text[1] not in '&[~' else 2)) + "'"
                self.add('constant', i, i, other, f'{t.text} to {other}')
            elif t.kind == 'sign' and in_code:
                self.sign(i)
            if t.function and t.kind == 'word' and i + 1 < len(self.tokens) and self.tokens[i + 1].text == '(':
                self.call(i)
            if t.function and not self.is_define:
                self.statement(i)
        return self.found

    def text_of(self, first, last):
        return self.source[self.tokens[first].begin : self.tokens[last].end]

    def is_operand_end(self, i):
        t = self.tokens[i] if i >= 0 else None
        return t is not None and (
            t.kind in ('number', 'char') or t.text in (')', ']') or (t.kind == 'word' and t.text not in KEYWORDS)
        )

    def is_declaration(self, i, end):
        """Whether the statement that begins at i is a declaration: of a type, or of a name after another."""
        words = [t.text for t in self.tokens[i : min(end, i + 6)]]
        return (
            words[0] in DECLARES
            or (self.tokens[i].kind == 'word' and self.tokens[i + 1].kind == 'word')
            or re.match(r'\w+ \*+ (\* )*\w+ [=;,\[]', ' '.join(words) + ' ;') is not None
        )

    def is_declared_size(self, i):
        """Whether the bracket at i gives a size in a declaration."""
        if self.tokens[i].text != '[':
            return False
        around, begin = self.tokens[i].inside, i
        while (
            begin > 0
            and not (self.tokens[begin - 1].inside == around and self.tokens[begin - 1].text in (';', ','))
            and begin - 1 != around
            and not (self.tokens[begin - 1].text in '{}' and self.is_block_edge(begin - 1))
        ):
            begin = (
                self.tokens[begin - 1].mate
                if self.tokens[begin - 1].text in CLOSE and self.tokens[begin - 1].mate
                else begin - 1
            )
        if begin == i or any(self.tokens[j].text == '=' and self.tokens[j].inside == around for j in range(begin, i)):
            return False  # of a first value
        if self.tokens[begin - 1].text == ',' and (
            around is None or self.tokens[around].text == '{'
        ):  # after another: as that one
            before = begin - 1
            while (
                before > 0
                and not (self.tokens[before - 1].inside == around and self.tokens[before - 1].text == ';')
                and before - 1 != around
                and not (self.tokens[before - 1].text in '{}' and self.is_block_edge(before - 1))
            ):
                before = (
                    self.tokens[before - 1].mate
                    if self.tokens[before - 1].text in CLOSE and self.tokens[before - 1].mate
                    else before - 1
                )
            begin = before
        return self.is_declaration(begin, i)

    def number(self, i):
        t = self.tokens[i]
        if (
            t.inside is not None
            and self.tokens[t.inside].text == '['
            and (self.is_declared_size(t.inside) or not t.function)
        ):
            return
        other = number_other(t.text)
        if other:
            self.add('constant', i, i, other, f'{t.text} to {other}')
            if re.match(r'[1-9]\d?[uUlL]*$', t.text):
                less = str(int(re.match(r'\d+', t.text)[0]) - 1) + t.text.lstrip('0123456789')
                self.add('constant', i, i, less, f'{t.text} to {less}')

    def table_text(self, i):
        inner = self.tokens[i].text[1:-1]
        other = {'yes': 'no', 'no': 'yes'}.get(inner) or number_other(inner)
        if other:
            self.add('constant', i, i, f'"{other}"', f'"{inner}" to "{other}"')

    def sign(self, i):
        t, text = self.tokens[i], self.tokens[i].text
        if text in TURNS and self.is_operand_end(i - 1):
            self.add('comparison', i, i, TURNS[text], f'{text} to {TURNS[text]}')
            self.bound(i)
        elif text in ('&&', '||'):
            other = '||' if text == '&&' else '&&'
            self.add('condition', i, i, other, f'{text} to {other}')
            self.terms(i)
        elif text in SIGNS and (text in ('++', '--', '+=', '-=') or self.is_operand_end(i - 1)):
            self.add('sign', i, i, SIGNS[text], f'{text} to {SIGNS[text]}')
        elif text == '!' and i + 1 < len(self.tokens):
            self.add('condition', i, i, '', '! dropped')
        elif (
            text == '['
            and t.mate
            and t.mate > i + 1
            and t.function
            and self.is_operand_end(i - 1)
            and not self.is_declared_size(i)
        ):
            inner = self.text_of(i + 1, t.mate - 1)
            if self.tokens[t.mate - 1].kind != 'number' and '?' not in inner and '=' not in inner and '"' not in inner:
                for more in ('+ 1', '- 1'):
                    self.add('bound', i + 1, t.mate - 1, f'{inner} {more}', f'[{" ".join(inner.split())}] {more}')

    def bound(self, i):
        """n of a < n: n + 1, n - 1."""
        last = i
        for j in range(i + 1, len(self.tokens)):
            if not (self.tokens[j].kind == 'word' or self.tokens[j].text in ('.', '->')):
                break
            last = j
        if (
            last == i
            or last + 1 >= len(self.tokens)
            or self.tokens[last + 1].text not in (';', ')', '&&', '||', '?', ',')
            or self.tokens[i].text in ('==', '!=')
            or self.tokens[last].text in ('NULL', 'true', 'false')
        ):
            return
        name = self.text_of(i + 1, last)
        for more in ('+ 1', '- 1'):
            self.add('bound', i + 1, last, f'{name} {more}', f'{name} {more}')

    def terms(self, i):
        """a && b without b, and without a."""
        depth_of = self.tokens[i].inside
        stops = {';', ',', '?', ':', '=', 'return', '{', '}', '&&', '||'}

        def reach(j, step):
            last = i
            while 0 <= j < len(self.tokens):
                t = self.tokens[j]
                if (
                    j == depth_of
                    or (t.inside == depth_of and t.text in stops)
                    or (t.mate is not None and t.mate == depth_of)
                ):
                    break
                last = j
                j = (t.mate if t.mate is not None and (t.mate - j) * step > 0 else j) + step
            return last

        first, last = reach(i - 1, -1), reach(i + 1, 1)
        if last > i:
            text = self.text_of(i, last)
            self.add('condition', i, last, '', f'{" ".join(text.split())} dropped')
        if first < i:
            text = self.text_of(first, i)
            self.add('condition', first, i, '', f'{" ".join(text.split())} dropped')

    def call(self, i):
        """Neighbouring arguments exchanged."""
        name, begin = self.tokens[i].text, i + 1
        end = self.tokens[begin].mate
        if (
            name in KEYWORDS
            or name == '__builtin_expect'
            or MESSAGES.match(name)
            or not end
            or (i and self.tokens[i - 1].kind == 'word' and self.tokens[i - 1].text not in ('return', 'else', 'case'))
        ):
            return
        cuts = (
            [begin]
            + [j for j in range(begin + 1, end) if self.tokens[j].inside == begin and self.tokens[j].text == ',']
            + [end]
        )
        arguments = [(a + 1, b - 1) for a, b in zip(cuts, cuts[1:]) if b - a > 1]
        for n, (one, two) in enumerate(zip(arguments, arguments[1:])):
            a, b = self.text_of(*one), self.text_of(*two)
            if a == b or any(self.tokens[j].kind == 'string' for j in range(one[0], two[1] + 1)):
                continue
            compares = re.match(r'(?:str|mem|strn)cmp$', name) and self.text_of(end, end + 1).replace(' ', '') in (
                ')==',
                ')!=',
            )
            if compares and n == 0:
                continue  # either way the same
            between = self.source[self.tokens[one[1]].end : self.tokens[two[0]].begin]
            self.add('arguments', one[0], two[1], b + between + a, f'arguments {n + 1} and {n + 2} of {name} exchanged')

    def statement(self, i):
        """A call, an assignment, a step or a jump left out."""
        before = self.tokens[i - 1] if i else None
        if before is None or not (
            before.text in (';', 'else', 'do')
            or (before.text in ('{', '}') and self.is_block_edge(i - 1))
            or self.is_head_end(i - 1)
            or (before.text == ':' and self.is_label_end(i - 1))
        ):
            return
        first, around = self.tokens[i], self.tokens[i].inside
        if around is not None and self.tokens[around].text != '{':
            return
        end = i
        while end < len(self.tokens) and not (self.tokens[end].text == ';' and self.tokens[end].inside == around):
            if self.tokens[end].text == '{' and is_block(self.tokens, end) and end > i:
                return
            end = self.tokens[end].mate if self.tokens[end].text in OPEN and self.tokens[end].mate else end + 1
        if end >= len(self.tokens) or end == i:
            return
        words = [t.text for t in self.tokens[i:end]]
        if first.text in ('break', 'continue', 'goto') or words == ['return']:
            pass
        elif first.kind == 'word' and (
            first.text in KEYWORDS or first.text in DECLARES or MESSAGES.match(first.text) and first.text != 'FAIL'
        ):
            return
        elif self.is_declaration(i, end):
            return
        elif not (first.kind == 'word' or first.text in ('*', '++', '--', '(')):
            return
        text = ' '.join(self.text_of(i, end).split())
        if not UNMISSED.match(text):
            self.add('statement', i, end, '{}', f'{text} left out')

    def is_block_edge(self, i):
        return is_block(self.tokens, i if self.tokens[i].text == '{' else self.tokens[i].mate or 0)

    def is_head_end(self, i):
        t = self.tokens[i]
        return t.text == ')' and t.mate and self.tokens[t.mate - 1].text in ('if', 'for', 'while', 'switch')

    def is_label_end(self, i):
        return (
            self.tokens[i - 1].kind == 'word'
            and self.tokens[i - 2].text in (';', '{', '}', ':', 'case')
            or self.tokens[i - 1].kind == 'char'
        )


def mutations_of(file, source):
    """All mutations of a file, in the order of places."""
    lines, starts = source.split('\n'), [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    found, seen_lines, is_table = [], {}, file.endswith('.def')
    for n, tokens in enumerate(tokens_of(source)):
        if n == 0:
            functions_name(tokens)
        found += [(*f, n > 0) for f in Finder(source, tokens, is_table, n > 0).find()]
    result, same, line = [], Counter(), 0
    for kind, begin, end, text, change, function, is_macro in sorted(found, key=lambda f: f[1:5]):
        while starts[line + 1] <= begin:
            line += 1
        m = Mutation()
        m.file, m.function, m.line, m.line_text, m.kind = file, function or '-', line + 1, lines[line].strip(), kind
        m.begin, m.end, m.text, m.is_macro = begin, end, text, is_macro
        same[line, change] += 1
        m.change = change if same[line, change] == 1 else f'{change} (place {same[line, change]})'
        key = (file, m.function, m.line_text)  # the n-th line of this text in this function
        order = seen_lines.setdefault(key, [])
        if line not in order:
            order.append(line)
        m.id = hashlib.sha1(
            '\0'.join([file, m.function, m.line_text, str(order.index(line)), m.change]).encode()
        ).hexdigest()[:8]
        result.append(m)
    return result

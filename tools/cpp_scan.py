"""A small reader of C++ text: enough to find functions, their sizes and the names of types.

It knows comments, literals, preprocessor lines and braces, not the grammar. What it calls a function
is a brace at namespace or class level that follows a parameter list.
"""

import re
from dataclasses import dataclass

_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/'
    r'|R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.DOTALL)
_DIRECTIVE = re.compile(r'^[ \t]*#(?:\\\n|[^\n])*', re.MULTILINE)
_OPERATOR = re.compile(r'\boperator\s*(?:\(\s*\)|\[\s*\]|[^\s\w(]+)')
_NOT_A_NAME = {'if', 'for', 'while', 'switch', 'catch', 'requires', 'noexcept', 'decltype', 'alignas',
               'return', 'sizeof', 'throw', 'explicit', 'static_assert', '__attribute__'}
_TYPE_NAME = re.compile(
    r'\b(?:class|struct|union|enum(?:\s+class|\s+struct)?|concept|namespace)\s+([A-Za-z_][\w:]*)'
    r'|\busing\s+([A-Za-z_]\w*)\s*=')


@dataclass
class Function:
    """One function with a body; lines count from 1 and include the closing brace."""
    name: str
    first_line: int
    last_line: int
    parameters: int
    nesting: int = 0

    @property
    def lines(self):
        return self.last_line - self.first_line + 1


def _blank(match):
    text = match.group(0)
    spaces = re.sub(r'[^\n]', ' ', text)
    return spaces if text.startswith(('/', '#')) else '""' + spaces[2:]


def without_comments(text):
    """`text` with comments blanked; strings stay. Line numbers stay the same."""
    keep = lambda m: m.group(0) if m.group(0)[0] != '/' else re.sub(r'[^\n]', ' ', m.group(0))
    return _LITERAL.sub(keep, text)


def bare(text):
    """`text` with comments, literals and preprocessor lines blanked; same lines and columns."""
    return _DIRECTIVE.sub(lambda m: re.sub(r'[^\n]', ' ', m.group(0)), _LITERAL.sub(_blank, text))


def type_names(code):
    """(line, name) of every type, alias, concept and namespace that bare `code` declares."""
    for match in _TYPE_NAME.finditer(code):
        yield code.count('\n', 0, match.start()) + 1, match.group(1) or match.group(2)


_DEFINED = re.compile(r'\b(?:class|struct|union|enum(?:\s+class|\s+struct)?)\s+([A-Za-z_]\w*)\s*(?:final\s*)?'
                      r'(?::[^:].*)?$', re.DOTALL)
_SPECIALISED = re.compile(r'\b(?:class|struct)\s+\w+\s*<')


def defined_types(code):
    """(line, name) of every class, struct, union and enum that bare `code` defines for other files to see: not
    those inside types, functions and nameless namespaces. Names carry namespaces but for inline ones:
    "harmonics::zk::Prover"."""
    scopes, head, index = [], '', 0
    while index < len(code):
        char = code[index]
        if char == '{':
            space = re.search(r'\bnamespace\s+([\w:][\w:\s]*)$', head)
            if space and not re.search(r'\binline\s+namespace\b', head):
                scopes.append('::'.join(part for part in space.group(1).strip().split('::')
                                        if not part.startswith('inline ')))
            elif space:
                scopes.append('')
            else:
                name = _DEFINED.search(_strip_templates(head))
                if name and '(' not in head and not _SPECIALISED.search(head):
                    yield (code.count('\n', 0, index) + 1,
                           '::'.join([*filter(None, scopes), name.group(1)]))
                index = _match(code, index, '{', '}')
                if index < 0:
                    return
            head = ''
        elif char == '}' and scopes:
            scopes.pop()
            head = ''
        elif char == ';':
            head = ''
        else:
            head += char
        index += 1


def _strip_templates(head):
    head = _OPERATOR.sub('operator_', head)
    head = re.sub(r'\[\[.*?\]\]', ' ', head, flags=re.DOTALL).replace('->', '  ')
    while True:
        shorter = re.sub(r'<[^<>;]*>', ' ', head)
        if shorter == head:
            return head
        head = shorter


def _match(text, at, opening, closing):
    """Index of the bracket that closes the one at `at`, or -1."""
    depth = 0
    for index in range(at, len(text)):
        if text[index] == opening:
            depth += 1
        elif text[index] == closing:
            depth -= 1
            if depth == 0:
                return index
    return -1


def _split(parameters):
    depth = 0
    count = 1 if parameters.strip() not in ('', 'void') else 0
    for char in parameters:
        depth += char in '([{'
        depth -= char in ')]}'
        count += char == ',' and depth == 0
    return count


def _signature(head):
    """(name, number of parameters, what follows them) of a function's head, or None."""
    head = _strip_templates(head)
    at = 0
    while True:
        opening = head.find('(', at)
        if opening < 0:
            return None
        closing = _match(head, opening, '(', ')')
        if closing < 0:
            return None
        name = re.search(r'([~\w:]+)\s*$', head[:opening])
        if name and name.group(1) not in _NOT_A_NAME and '=' not in head[:opening]:
            return name.group(1), _split(head[opening + 1:closing]), head[closing + 1:]
        at = closing + 1


def _kind(head):
    """What a brace after `head` opens: 'scope', 'function', or 'other' (part of an expression)."""
    plain = _strip_templates(head)
    if plain.count('(') != plain.count(')'):
        return 'other'
    if re.search(r'\benum\b', plain):
        return 'other'
    if re.search(r'\b(namespace|class|struct|union|extern)\b', plain) and '(' not in plain:
        return 'scope'
    signature = _signature(head)
    if signature is None:
        return 'other'
    rest = signature[2]
    starts_list = re.match(r'[^:]*:(?!:)', rest)
    if starts_list and re.search(r'[\w>]\s*$', rest):
        return 'other'  # a member initialised with braces
    if not starts_list and re.search(r'=', rest):
        return 'other'
    return 'function'


def functions(code):
    """All functions with a body in bare `code`, in order."""
    head_start = 0
    head = ''
    index = 0
    while index < len(code):
        char = code[index]
        if char in ';}' and head.count('(') <= head.count(')'):
            head, head_start = '', index + 1
        elif char == ':' and re.search(r'\b(public|private|protected)\s*$', head):
            head, head_start = '', index + 1
        elif char == '{':
            kind = _kind(head)
            if kind == 'scope':
                head, head_start = '', index + 1
            else:
                end = _match(code, index, '{', '}')
                if end < 0:
                    return
                if kind == 'function':
                    yield _function(code, head, (head_start, end))
                    head, head_start = '', end + 1
                else:
                    head += '{}'
                index = end
        else:
            head += char
        index += 1


_BLOCK = re.compile(r'(?:[)\]{};:]|\b(?:else|do|try|const|mutable|noexcept)|->\s*[\w:<>,&*\s]+'
                    r'|\b(?:struct|class|union)\s+\w+[^;{}()]*)\s*$')


def _nesting(body):
    """How many braces with statements stand in each other in a function's body, its own not counted. Braces of
    values ({1, 2}) count not."""
    deepest, open_braces = 0, []
    for match in re.finditer(r'[{}]', body):
        if match.group(0) == '}':
            if open_braces:
                open_braces.pop()
            continue
        before = body[max(0, match.start() - 200):match.start()]
        open_braces.append(not open_braces or bool(_BLOCK.search(before)))
        deepest = max(deepest, sum(open_braces) - 1)
    return deepest


def _function(code, head, span):
    name, parameters, _ = _signature(head)
    start = span[0] + len(head) - len(head.lstrip())
    line = code.count('\n', 0, start) + 1
    return Function(name, line, code.count('\n', 0, span[1]) + 1, parameters,
                    _nesting(code[span[0] + len(head):span[1] + 1]))

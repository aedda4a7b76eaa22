#!/usr/bin/env python3
"""Checks the rules of the house that a compiler does not: sizes, names, libraries, paths, links.

usage: tools/tidy.py [FOLDER]      (default: the repository that holds this file)

Prints one line per finding, "file:line: rule: message", and exits with 1 if there is any.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cpp_scan  # noqa: E402

FILE_LINES, TEST_FILE_LINES = 600, 900
FUNCTION_LINES, FUNCTION_PARAMETERS, FUNCTION_NESTING = 60, 5, 3
FOLDER_FILES = 45

BANNED_WORDS = {'util', 'utils', 'helper', 'helpers', 'common', 'misc', 'manager', 'impl'}
# Words that mean one thing (DESIGN: one idea, one name): where types and files may carry them. A worker is a process of
# the cluster (and of the parameter server), a replica a copy of a model, a log what a program says or what custody
# keeps (what tasks print is output), a chain and its links what custody signs; a link is also what the planner's
# files call the network between two hosts.
OWNED_WORDS = {
    'worker': {'apps/harmonics-cluster', 'apps/options', 'cluster', 'parameters', 'rpc', 'schedule', 'server', 'sim', 'worker'},
    'replica': {'apps/harmonics-torch', 'apps/options', 'bindings', 'parameters', 'schedule', 'serve'},
    'chain': {'apps/harmonics-torch', 'custody', 'zk'},
    'link': {'custody', 'plan'},
    'log': {'apps/harmonics-cluster', 'apps/options', 'base', 'custody', 'transport'},
}
# Public headers of one name in two modules, from before the rule. The list only shrinks.
SHARED_HEADER_NAMES = {'ids.h', 'message.h', 'pipeline.h'}
UNFINISHED = re.compile(r'\b(TO' r'DO|FIX' r'ME|XX' r'X|HA' r'CK)\b')
MACHINE_PATH = re.compile(
    r'(?<![\w.$})>/*-])/(?:ho' r'me|ro' r'ot|wo' r'rk|Us' r'ers|usr/lo' r'cal|o' r'pt)(?:/[\w.-]|\b)')
SLEEP = re.compile(r'\b(?:sleep_for|sleep_until|usleep|nanosleep)\s*\(|\btime\.sleep\(')

# Which library may be included where (the table in docs/ARCHITECTURE.md). Tests of a module count
# as the module; "module/room" is one folder of it. A library that is not here may be included nowhere.
TORCH_USERS = {'tensor_torch', 'runtime', 'dispatch/torch', 'apps/harmonics-torch', 'bench'}
TESTS, BENCHES, APPS = 'tests', 'bench', 'apps'
LIBRARIES = {
    'fmt/': {'base'}, 'spdlog/': {'base'},
    'torch/': TORCH_USERS, 'ATen/': TORCH_USERS, 'c10/': TORCH_USERS,
    'openssl/': {'custody', 'transport', 'rpc', 'server', 'serve/http'}, 'sodium.h': {'custody', 'zk'}, 'sodium/': {'zk'},
    'yaml-cpp/': {'yaml'}, 'zstd.h': {'transport'}, 'arrow/': {'transport/flight', 'data/arrow'}, 'parquet/': {'data/arrow'},
    'grpcpp/': {'transport/grpc', 'serve/grpc', 'rpc', BENCHES}, 'grpc/': {'transport/grpc', 'rpc'}, 'google/protobuf/': {'rpc'},
    'cluster.grpc.pb.h': {'rpc'}, 'open_inference.grpc.pb.h': {'serve/grpc'},
    'cuda.h': {'runtime/torch'}, 'nvrtc.h': {'runtime/torch'},
    'CL/': {'runtime/opencl'}, 'clblast.h': {'runtime/opencl'}, 'mpi.h': {'dispatch/mpi'},
    'sqlite3.h': {'store'}, 'libpq-fe.h': {'store'},
    'unicode/': {'text'}, 'png.h': {'images'}, 'jpeglib.h': {'images'}, 'jerror.h': {'images'},
    'CLI/': {APPS}, 'jni.h': {'bindings'}, 'nanobind/': {'bindings'}, 'harmonics_c.h': {'bindings'}, 'engine_settings.h': {'bindings'},
    'gtest/': {TESTS}, 'gmock/': {TESTS}, 'benchmark/': {BENCHES},
}
TORCH_HEADERS = ('torch/', 'ATen/', 'c10/')
# Public headers that include torch on purpose: only who writes a layer of one's own includes them.
TORCH_EXTENSION_POINTS = {'src/runtime/include/harmonics/runtime/torch_layer.h'}
UMBRELLA = 'include/harmonics/harmonics.h'
SYSTEM_HEADERS = re.compile(
    r'(?:sys|linux|arpa|net|netinet)/\w+\.h|(?:arm_neon|cpuid|cxxabi|dirent|dlfcn|errno|execinfo|fcntl|fenv|fnmatch|grp|ifaddrs'
    r'|immintrin|link|malloc|netdb|poll|pthread|pwd|sched|signal|spawn|stddef|stdint|stdlib|string|sysexits|termios'
    r'|time|unistd|wait|wordexp|x86intrin)\.h')

LOG_LINE = re.compile(r'\blog_(?:debug|info|warn|error)\(\s*"(\w+)"')
FAILURE = re.compile(r'\bfail\(\s*[\w:.()]+,\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')

CODE = {'.cc', '.h'}
SIZED = CODE | {'.py', '.sh', '.cmake'}
TEXT = SIZED | {'.md', '.txt', '.harp', '.json', '.yml', '.yaml', '.in', ''}


class Tree:
    """The files of a repository and what was found in them."""

    def __init__(self, root):
        self.root = Path(root).resolve()
        self.files = sorted(path for path in self._list() if (self.root / path).is_file())
        self.findings = []
        self.modules = self._modules()

    def _list(self):
        if (self.root / '.git').exists():
            listed = subprocess.run(
                ['git', 'ls-files', '--cached', '--others', '--exclude-standard', '-z'],
                cwd=self.root, capture_output=True, check=True).stdout.decode()
            return {Path(name) for name in listed.split('\0') if name}
        return {path.relative_to(self.root) for path in self.root.rglob('*')
                if not path.relative_to(self.root).parts[0].startswith(('build', '.git'))}

    def _modules(self):
        listing = self.root / 'src/CMakeLists.txt'
        text = listing.read_text() if listing.exists() else ''
        names = re.search(r'set\(HARMONICS_MODULES\s([^)]*)\)', text)
        return names.group(1).split() if names else []

    def read(self, path):
        return (self.root / path).read_text(encoding='utf-8', errors='replace')

    def report(self, path, line, rule, message):
        self.findings.append((str(path), line, rule, message))


def is_test(path):
    return path.parts[0] == 'tests' or path.stem.endswith(('_test', '_testing', '_fuzz'))


def module_of(path):
    """The module that a file belongs to, or for files outside src/ a name that LIBRARIES knows."""
    if path.parts[0] == 'src' and len(path.parts) > 2:
        torch_file = path.parts[1] == 'tensor' and path.name in ('torch.cc', 'torch_test.cc')
        return 'tensor_torch' if torch_file else path.parts[1]
    return '/'.join(path.parts[:2]) if path.parts[0] == 'apps' else path.parts[0]


def same_module(one, other):
    """Whether two files outside public folders can be compiled as one unit."""
    return one.parent == other.parent or (one.parts[0] == 'src' and one.parts[:2] == other.parts[:2])


def words_of(name):
    spaced = re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name)
    return {word.lower() for word in re.split(r'[^A-Za-z0-9]+', spaced)}


def check_file_size(tree, path, text):
    limit = TEST_FILE_LINES if is_test(path) else FILE_LINES
    lines = text.count('\n')
    if lines > limit:
        tree.report(path, limit + 1, 'file-size', f'{lines} lines, at most {limit}: split the file')


def check_function(tree, path, function):
    if function.lines > FUNCTION_LINES:
        tree.report(path, function.first_line, 'function-size',
                    f"'{function.name}' has {function.lines} lines, at most {FUNCTION_LINES}")
    if function.parameters > FUNCTION_PARAMETERS:
        tree.report(path, function.first_line, 'parameters',
                    f"'{function.name}' takes {function.parameters} parameters, at most "
                    f'{FUNCTION_PARAMETERS}: group them in a struct')


def check_nesting(tree, path, functions):
    if is_test(path):
        return
    for function in functions:
        if function.nesting > FUNCTION_NESTING:
            tree.report(path, function.first_line, 'nesting',
                        f"'{function.name}' has {function.nesting} blocks in each other, at most {FUNCTION_NESTING}: "
                        'leave early, or give the inner ones a name')


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            count = sum(argument.arg not in ('self', 'cls') for argument in given)
            yield cpp_scan.Function(node.name, node.lineno, node.end_lineno, count)


def check_file_name(tree, path):
    for word in sorted(words_of(path.stem) & BANNED_WORDS):
        tree.report(path, 1, 'name', f"'{word}' in a file name says nothing: name what the file holds")


def check_type_names(tree, path, code):
    for line, name in cpp_scan.type_names(code):
        for word in sorted(words_of(name) & BANNED_WORDS):
            tree.report(path, line, 'name', f"'{word}' in '{name}': name what the thing is")


def check_owned_words(tree, path, code):
    if path.parts[0] not in ('src', 'apps', 'bindings') or is_test(path):
        return
    named = [(1, path.stem), *cpp_scan.type_names(code)]
    for line, name in named:
        for word in words_of(name):
            owners = OWNED_WORDS.get(word) or OWNED_WORDS.get(word.removesuffix('s'))
            if owners and module_of(path) not in owners:
                tree.report(path, line, 'word', f"'{word}' in '{name}' means another thing in {', '.join(sorted(owners))}: "
                            'find a word of its own')


def check_words(tree, path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            tree.report(path, number, 'unfinished', 'finish it, or write down an issue instead')
        if MACHINE_PATH.search(line):
            tree.report(path, number, 'machine-path', 'a path that exists on one machine only')
        if is_test(path) and SLEEP.search(line):
            tree.report(path, number, 'sleep', 'a test waits for the thing itself, it never sleeps')


def check_voice(tree, path, text):
    """Log lines carry the name of their module; messages of errors read alike."""
    text = cpp_scan.without_comments(text)
    for match in LOG_LINE.finditer(text):
        if path.parts[0] == 'src' and match.group(1) != path.parts[1]:
            tree.report(path, text.count('\n', 0, match.start()) + 1, 'log-name',
                        f"'{match.group(1)}' is not the module that speaks")
    for match in FAILURE.finditer(text):
        message = ''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', match.group(1)))
        line = text.count('\n', 0, match.start()) + 1
        if re.search(r'(?<!\.)\.$', message):
            tree.report(path, line, 'message', 'a message of an error ends without a full stop')
        if re.search(r"\b\w+n't\b", message):
            tree.report(path, line, 'message', 'a message of an error says "cannot", not "can\'t"')


def check_header(tree, path, code):
    if not re.search(r'^#pragma once$', tree.read(path), re.MULTILINE):
        tree.report(path, 1, 'pragma-once', "the header lacks '#pragma once'")
    for match in re.finditer(r'\busing\s+namespace\b', code):
        line = code.count('\n', 0, match.start()) + 1
        tree.report(path, line, 'using-namespace', 'a header must not open a namespace for its users')


def allowed(path, users):
    module = module_of(path)
    if TESTS in users:
        return is_test(path)
    if BENCHES in users and path.stem.endswith('_bench'):
        return True
    room = '/'.join(path.parts[1:3])
    return module in users or room in users or (APPS in users and module.startswith('apps/'))


def check_house_include(tree, path, line, target):
    module = module_of(path)
    if module not in tree.modules:
        return
    used = target.split('/')[1]
    if used not in tree.modules:
        tree.report(path, line, 'layering', f"'{target}' belongs to no module")
    elif tree.modules.index(used) > tree.modules.index(module):
        tree.report(path, line, 'layering', f"'{module}' may not include '{target}': "
                    f"'{used}' stands later in HARMONICS_MODULES")


def check_include(tree, path, line, target):
    if target.startswith('harmonics/'):
        check_house_include(tree, path, line, target)
        return
    for prefix, users in LIBRARIES.items():
        if target == prefix or (prefix.endswith('/') and target.startswith(prefix)):
            if not allowed(path, users):
                tree.report(path, line, 'library', f"'{target}' may be included in "
                            f"{', '.join(sorted(users))} only")
            elif (prefix in TORCH_HEADERS and 'include' in path.parts
                  and path.as_posix() not in TORCH_EXTENSION_POINTS):
                tree.report(path, line, 'library', 'torch stays out of public headers')
            return
    if '/' not in target and '.' not in target:
        return
    if not SYSTEM_HEADERS.fullmatch(target) and not is_beside(tree, path, target):
        tree.report(path, line, 'library', f"'{target}' is of no library in the table of "
                    'tools/tidy.py: add it there and to docs/ARCHITECTURE.md, or leave it out')


def is_beside(tree, path, target):
    """A private header in the same folder, one of the module or program by its path there ("room/header.h") or, for a test or
    benchmark, a test's header of any module."""
    if (tree.root / path.parent / target).is_file():
        return True
    if path.parts[0] in ('src', 'apps') and 'include' not in path.parts and (tree.root / Path(*path.parts[:2]) / target).is_file():
        return True
    return ((is_test(path) or path.parts[0] == BENCHES)
            and any(f'/{other.as_posix()}'.endswith(f'/{target}') and is_test(other) for other in tree.files))


def check_includes(tree, path, text):
    for number, line in enumerate(cpp_scan.without_comments(text).splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")', line)
        if not match:
            continue
        if match.group(1):
            check_include(tree, path, number, match.group(1))
        elif '..' in match.group(2) or not is_beside(tree, path, match.group(2)):
            tree.report(path, number, 'include', f"\"{match.group(2)}\" is not beside this file: "
                        'include public headers as <harmonics/…>')


def check_listed(tree):
    """Every public header and every source stands in a CMakeLists.txt, and what stands there exists."""
    for path in tree.files:
        if path.parts[0] == 'src' and 'include' in path.parts:
            folder, wanted = Path(*path.parts[:2]), path.name
        elif (path.suffix == '.cc' and not path.stem.endswith('_fuzz')
              and path.parts[0] in ('src', 'apps', 'bench', 'tests')):
            folder, wanted = path.parent, path.name
        else:
            continue
        listings = [tree.root / parent / 'CMakeLists.txt' for parent in (folder, *folder.parents)]
        text = ' '.join(file.read_text() for file in listings if file.is_file())
        if not re.search(rf'(?<![\w-]){re.escape(wanted)}(?![\w.])', text):
            tree.report(path, 1, 'listed', f'not in {folder}/CMakeLists.txt: it is not built')


def check_umbrella(tree):
    """The umbrella includes every public header, but for those that include libtorch."""
    umbrella = tree.root / UMBRELLA
    if not umbrella.is_file():
        return
    included = set(re.findall(r'#include <([^>]+)>', umbrella.read_text()))
    for path in tree.files:
        if path.parts[0] == 'src' and 'include' in path.parts and str(path) not in TORCH_EXTENSION_POINTS:
            name = '/'.join(path.parts[path.parts.index('include') + 1:])
            if name not in included:
                tree.report(path, 1, 'umbrella', f'{UMBRELLA} does not include <{name}>')


def check_header_names(tree):
    """A public header has a name of its own: who reads an include in the text of another knows which is meant."""
    seen = {}
    for path in tree.files:
        if path.suffix != '.h' or path.parts[0] not in ('src', 'include') or 'include' not in path.parts:
            continue
        first = seen.setdefault(path.name, path)
        if first != path and path.name not in SHARED_HEADER_NAMES:
            tree.report(path, 1, 'header-name', f'{first} has this name as well: say what differs')
    for name in sorted(SHARED_HEADER_NAMES):
        if name in seen and sum(path.name == name and 'include' in path.parts for path in tree.files) == 1:
            tree.report(seen[name], 1, 'header-name',
                        f"'{name}' is one header's alone: take it out of SHARED_HEADER_NAMES (tools/tidy.py)")


def check_test_headers(tree):
    """A private header that only tests include says so by its name."""
    users = {}
    for path in tree.files:
        if path.suffix in CODE:
            for name in re.findall(r'#\s*include [<"](?:[\w-]+/)*([\w.-]+\.h)[>"]', tree.read(path)):
                users.setdefault(name, []).append(path)
    for path in tree.files:
        if path.suffix != '.h' or path.parts[0] != 'src' or 'include' in path.parts or path.stem.endswith('_testing'):
            continue
        found = [user for user in users.get(path.name, []) if user.parts[:2] == path.parts[:2] or is_test(user)]
        if found and all(is_test(user) for user in found):
            tree.report(path, 1, 'test-header', f'only tests include it: call it {path.stem}_testing.h')


def check_folder_sizes(tree):
    """A folder fits on a screen: a module that outgrows it gets rooms (harmonics_module ROOMS)."""
    counts = {}
    for path in tree.files:
        if path.parts[0] in ('src', 'apps', 'bindings', 'bench', 'tests'):
            counts.setdefault(path.parent, []).append(path)
    for folder, files in counts.items():
        if len(files) > FOLDER_FILES:
            tree.report(files[-1], 1, 'folder', f'{folder} holds {len(files)} files (at most {FOLDER_FILES}): '
                                                'give what belongs together a folder of its own')


def check_one_name(tree):
    """A type that others can see has a name of its own: two of one name are undefined behaviour in one program,
    and do not compile in one file. Types of tests may share theirs: each test is a program."""
    seen = {}
    for path in tree.files:
        if path.suffix not in CODE or path.parts[0] not in ('src', 'apps', 'bindings') or is_test(path):
            continue
        for line, name in cpp_scan.defined_types(cpp_scan.bare(tree.read(path))):
            first = seen.setdefault(name, f'{path}:{line}')
            if first != f'{path}:{line}':
                tree.report(path, line, 'one-name', f"'{name}' is defined in {first} as well: rename one of them")


def check_namespace(tree, path, code):
    """Each module has an inline namespace of its own, so that the linker tells modules apart."""
    if path.parts[0] != 'src' or len(path.parts) < 3:
        return
    wanted = f'harmonics::inline in_{path.parts[1]}'
    for match in re.finditer(r'^namespace (harmonics(?:::inline [\w]+)?) \{', code, re.MULTILINE):
        if match.group(1) != wanted:
            tree.report(path, code.count('\n', 0, match.start()) + 1, 'namespace',
                        f"'{match.group(1)}' must be '{wanted}'")


def check_environment(tree, path, code):
    """The product reads variables through base/environment.h, so that one place says what an unset one is."""
    if path.parts[0] not in ('src', 'apps', 'bindings') or is_test(path) or str(path) == 'src/base/environment.cc':
        return
    for match in re.finditer(r'\bgetenv\s*\(', code):
        tree.report(path, code.count('\n', 0, match.start()) + 1, 'environment',
                    'read variables with environment_text (harmonics/base/environment.h)')


CONSTANT = re.compile(r'^(?:inline |static )*(?:constexpr|const) [^=;({]*?\b(k[A-Z]\w*)(?:\[[^\]]*\])?\s*[={(]', re.MULTILINE)


def check_hidden_constants(tree):
    """No file keeps a constant to itself under a name that a header has for another: several files are compiled
    as one unit, where it would hide the other from its neighbours without a word."""
    said = {}
    for path in tree.files:
        if path.suffix == '.h' and path.parts[0] in ('src', 'apps', 'bindings') and not is_test(path):
            for name in CONSTANT.findall(cpp_scan.bare(tree.read(path))):
                said.setdefault(name, []).append(path)
    for path in tree.files:
        if path.suffix != '.cc' or path.parts[0] not in ('src', 'apps', 'bindings') or is_test(path):
            continue
        code = cpp_scan.bare(tree.read(path))
        for match in CONSTANT.finditer(code):
            for header in said.get(match.group(1), []):
                if 'include' in header.parts or same_module(header, path):
                    tree.report(path, code.count('\n', 0, match.start()) + 1, 'hidden-constant',
                                f"'{match.group(1)}' is also in {header}: rename one of them")


def check_links(tree, path, text):
    prose = re.sub(r'^```.*?^```', lambda m: '\n' * m.group(0).count('\n'), text,
                   flags=re.MULTILINE | re.DOTALL)
    for number, line in enumerate(prose.splitlines(), 1):
        for target in re.findall(r'\]\(([^)\s]+)\)', re.sub(r'`[^`]*`', '', line)):
            if re.match(r'[a-z]+:|#', target):
                continue
            if not (tree.root / path.parent / target.split('#')[0]).exists():
                tree.report(path, number, 'link', f"'{target}' does not exist")


def check_code(tree, path, text):
    code = cpp_scan.bare(text)
    functions = list(cpp_scan.functions(code))
    for function in functions:
        check_function(tree, path, function)
    check_nesting(tree, path, functions)
    check_type_names(tree, path, code)
    check_owned_words(tree, path, code)
    check_namespace(tree, path, code)
    check_environment(tree, path, code)
    check_includes(tree, path, text)
    if not is_test(path):
        check_voice(tree, path, text)
    if path.suffix == '.h':
        check_header(tree, path, code)


def check(root):
    """All findings in the tree at `root`, sorted."""
    tree = Tree(root)
    for path in tree.files:
        check_file_name(tree, path)
        if path.suffix not in TEXT or path.name == 'LICENSE':
            continue
        text = tree.read(path)
        check_words(tree, path, text)
        if path.suffix in SIZED or path.name == 'CMakeLists.txt':
            check_file_size(tree, path, text)
        if path.suffix in CODE:
            check_code(tree, path, text)
        elif path.suffix == '.py':
            for function in python_functions(text):
                check_function(tree, path, function)
        elif path.suffix == '.md':
            check_links(tree, path, text)
    check_listed(tree)
    check_umbrella(tree)
    check_one_name(tree)
    check_header_names(tree)
    check_test_headers(tree)
    check_folder_sizes(tree)
    check_hidden_constants(tree)
    return sorted(tree.findings)


def main(arguments):
    root = arguments[0] if arguments else Path(__file__).resolve().parent.parent
    findings = check(root)
    for path, line, rule, message in findings:
        print(f'{path}:{line}: {rule}: {message}')
    print(f'tidy: {len(findings)} finding(s)' if findings else 'tidy: clean')
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Writes the reference of the Python package as one page: tools/python_reference.py [--check] [--package PACKAGE] FOLDER.

It reads the modules of the package as a build folder has it and the stub of its extension, and loads neither: names that
`__all__` lists, their signatures and what they say of themselves. A public name without a word ends it with 1 and is
named; with --check nothing is written.
"""

import argparse
import ast
import dataclasses
import html
import pathlib
import re
import sys

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / 'build-Release' / 'python' / 'harmonics'
# What the build writes; a class of the package says more under a name of its own.
WRITTEN = '_flags'
# Chapters in their order: what a reader looks for, and the modules that have it.
CHAPTERS = [
    ('Graphs and models', ['_core', 'models', 'torch_modules']),
    ('Training and computing', ['runtime', 'settings', 'distributed', 'custody']),
    ('Plans and parts', ['planning']),
    ('One batch over unlike devices', ['dispatching']),
    ('Clusters', ['client', 'async_client', 'submitted', 'task_options', 'task_refs', 'task_views', 'calls']),
    ('Inside Spark', ['spark.sessions', 'spark.jobs', 'spark.stages']),
    ('Errors', ['errors']),
    ('Programs and drawings', ['programs', 'drawing']),
]
STYLE = '''body { font: 15px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
code, pre { font: 13px/1.5 monospace; background: #f4f4f4 } code { padding: 0 .2em } pre { padding: .5em; overflow-x: auto }
dl { margin-left: 1.5rem } dt { margin-top: .6em } h3 { margin-top: 2em; border-top: 1px solid #ddd; padding-top: .6em }
nav { columns: 3 } a { color: #14579b }'''


@dataclasses.dataclass
class Entry:
    """A public name: what it is, how it is called, what it says, and its members."""

    name: str
    kind: str
    signature: str
    words: str
    members: list['Entry'] = dataclasses.field(default_factory=list)


class Package:
    """The package in its folder."""

    def __init__(self, folder):
        self.folder = folder
        self.written = {node.name: node for node in self.tree(WRITTEN).body if isinstance(node, ast.ClassDef)}

    def tree(self, module):
        """The parsed source of a module, of an extension its stub."""
        path = self.folder.joinpath(*module.split('.'))
        file = path.with_suffix('.pyi') if path.with_suffix('.pyi').exists() else path.with_suffix('.py')
        return ast.parse(file.read_text(encoding='utf-8'), str(file))

    def public_names(self, module):
        """A module's public names: of the extension those that the package shows."""
        if module == '_core':
            shown = set(names_in(self.tree('__init__')))
            return [node.name for node in self.tree(module).body if isinstance(node, ast.ClassDef) and node.name in shown]
        return names_in(self.tree(module))

    def complete(self, node):
        """A class with the members that the build wrote for it."""
        base = next((self.written[ast.unparse(one)] for one in node.bases if ast.unparse(one) in self.written), None)
        if base is None:
            return node
        return ast.ClassDef(name=node.name, bases=base.bases, decorator_list=[],
                            body=[*node.body[:1], *base.body[1:], *node.body[1:]])


def names_in(tree):
    """What `__all__` of a module lists."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], 'id', '') == '__all__':
            return ast.literal_eval(node.value)
    return []


def signature(node):
    """How a function is called, without `self`."""
    arguments = ast.unparse(node.args)
    arguments = re.sub(r'^(self|cls)(, /)?(, )?', '', arguments)
    returns = f' -> {ast.unparse(node.returns)}' if node.returns is not None else ''
    return f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}{node.name}({arguments}){returns}"


def decorators(node):
    return {ast.unparse(one).split('.')[-1] for one in node.decorator_list}


def words_after(body, at):
    """The text that stands after an attribute."""
    following = body[at + 1] if at + 1 < len(body) else None
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant) and isinstance(following.value.value, str):
        return following.value.value
    return ''


def members_of(node):
    """Public members of a class, `__init__` among them; overloads stand for what they overload."""
    typed_dict = any('TypedDict' in ast.unparse(base) or ast.unparse(base).endswith('Settings') for base in node.bases)
    made = {}
    for at, one in enumerate(node.body):
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if one.name.startswith('_') and one.name != '__init__' or 'overload' in decorators(one):
                continue
            is_property = 'property' in decorators(one)
            shown = f'{one.name}: {ast.unparse(one.returns)}' if is_property and one.returns else signature(one)
            made[one.name] = Entry(one.name, 'property' if is_property else 'method',
                                   shown.replace('__init__', node.name).replace(' -> None', '') if one.name == '__init__'
                                   else shown, ast.get_docstring(one) or '')
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and not one.target.id.startswith('_'):
            words = words_after(node.body, at)
            made[one.target.id] = Entry(one.target.id, 'keyword' if typed_dict else 'attribute',
                                        f'{one.target.id}: {ast.unparse(one.annotation)}', words)
    return list(made.values())


def entry_of(node):
    if isinstance(node, ast.ClassDef):
        bases = [ast.unparse(base) for base in node.bases]
        shown = f"class {node.name}{'(' + ', '.join(bases) + ')' if bases else ''}"
        return Entry(node.name, 'class', shown, ast.get_docstring(node) or '', members_of(node))
    return Entry(node.name, 'function', signature(node), ast.get_docstring(node) or '')


def entries_of(package, module):
    """The public names of a module, in their order there."""
    tree = package.tree(module)
    nodes = {node.name: entry_of(package.complete(node) if isinstance(node, ast.ClassDef) else node) for node in tree.body
             if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))}
    for at, node in enumerate(tree.body):  # names for types
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            nodes[node.targets[0].id] = Entry(node.targets[0].id, 'attribute', ast.unparse(node), words_after(tree.body, at))
    return [nodes[name] for name in package.public_names(module)]


def silent(entries, prefix=''):
    """Names that say nothing of themselves. Keywords of processes have the meaning of a flag."""
    for entry in entries:
        if not entry.words and entry.kind != 'keyword':
            yield f'{prefix}{entry.name}'
        yield from silent(entry.members, f'{prefix}{entry.name}.')


def as_html(text):
    """A docstring: paragraphs, indented code, and names in backticks."""
    made = []
    for block in re.split(r'\n\s*\n', text):
        if block.startswith('    '):
            made.append(f'<pre>{html.escape(block)}</pre>')
        else:
            made.append('<p>' + re.sub(r'`([^`]+)`', r'<code>\1</code>', html.escape(block)) + '</p>')
    return '\n'.join(made)


def place_of(module, entry):
    """Where users find a name, below `harmonics`."""
    return f"{module.partition('.')[0]}.{entry.name}" if module in ('errors',) or '.' in module else entry.name


def entry_html(module, entry):
    place = place_of(module, entry)
    lines = [f'<h3 id="{place}"><code>{html.escape(entry.signature)}</code></h3>', as_html(entry.words)]
    if entry.members:
        lines.append('<dl>')
        for one in entry.members:
            lines.append(f'<dt id="{place}.{one.name}"><code>{html.escape(one.signature)}</code></dt>'
                         f'<dd>{as_html(one.words)}</dd>')
        lines.append('</dl>')
    return '\n'.join(lines)


def page(package, chapters):
    contents, body = [], []
    for title, modules in chapters:
        body.append(f'<h2>{title}</h2>')
        for module, entries in modules:
            contents += [f'<a href="#{place_of(module, entry)}">{place_of(module, entry)}</a><br>' for entry in entries]
            body += [entry_html(module, entry) for entry in entries]
    words = as_html(ast.get_docstring(package.tree('__init__')))
    return (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Harmonics: the Python package</title>'
            f'<style>{STYLE}</style></head><body><h1>Harmonics: the Python package</h1>{words}'
            f'<p><a href="index.html">The C++ reference</a></p><nav>{"".join(contents)}</nav>{"".join(body)}</body></html>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--check', action='store_true')
    parser.add_argument('folder', type=pathlib.Path, nargs='?', default=pathlib.Path('build-reference/html'))
    parser.add_argument('--package', type=pathlib.Path, default=PACKAGE)
    wishes = parser.parse_args()
    package = Package(wishes.package)
    chapters = [(title, [(module, entries_of(package, module)) for module in modules]) for title, modules in CHAPTERS]
    nameless = [name for _, modules in chapters for module, entries in modules for name in silent(entries)]
    if nameless:
        print(f"python_reference: these say nothing of themselves: {', '.join(nameless)}", file=sys.stderr)
        return 1
    if not wishes.check:
        wishes.folder.mkdir(parents=True, exist_ok=True)
        (wishes.folder / 'python.html').write_text(page(package, chapters), encoding='utf-8')
    return 0


if __name__ == '__main__':
    sys.exit(main())

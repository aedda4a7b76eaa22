"""Every flag that a --help names is used by a test, in a file that also runs its command."""

import re
import unittest

import program

FLAG = re.compile(r'^  (?:(-\w),)?(--[a-z][a-z0-9-]*)', re.MULTILINE)
COMMAND = re.compile(r'^  ([a-z][a-z-]*) ', re.MULTILINE)
# Every command has the first, all that talk to a server have the others: one use is enough.
SHARED = {'--help', '--scheduler', '--token-file', '--state-dir', '--tls'}
TESTS = [path.read_text() for pattern in ('tests/**/*.py', 'src/**/*_test.cc', 'tests/**/*_test.cc')
         for path in program.SOURCE_DIR.glob(pattern) if path.name != 'flags_test.py']


def section(text, title):
    found = re.search(rf'^{title}:\n((?:  .*\n)+)', text, re.MULTILINE)
    return found.group(1) if found else ''


def has_word(text, word):
    return re.search(rf'(?<![\w-]){re.escape(word)}(?![\w-])', text) is not None


def uses(text, command, short, flag):
    """Whether a test names the command, also as in `start_server`, and the flag."""
    word = 'harmonics' if not command or flag in SHARED else command.split()[-1]
    return (re.search(rf'(?<![a-z-]){re.escape(word)}(?![a-z-])', text) is not None and
            (has_word(text, flag) or bool(short) and has_word(text, short)))


class FlagsTest(program.CliTest):
    maxDiff = None

    def commands(self, command=''):
        text = self.done(*command.split(), '--help')
        yield command, text
        for name in COMMAND.findall(section(text, 'Subcommands')):
            yield from self.commands(f'{command} {name}'.strip())

    def test_every_flag_is_used_by_a_test(self):
        unused = [f'{command} {flag}' for command, text in self.commands()
                  for short, flag in FLAG.findall(section(text, 'Options'))
                  if not any(uses(test, command, short, flag) for test in TESTS)]
        self.assertEqual(unused, [], 'flags that no test uses')


if __name__ == '__main__':
    unittest.main()

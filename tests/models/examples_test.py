"""The imported forms in examples/models are what an import writes today, and graph show reads them.

With --write as its argument this writes them anew.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from example_folders import EXAMPLES, write_folder

HARMONICS = pathlib.Path(os.environ["HARMONICS_BINARY_DIR"]) / "harmonics"
MODELS = pathlib.Path(os.environ["HARMONICS_SOURCE_DIR"]) / "examples" / "models"
HEAD = "# What 'harmonics import' makes of {}, without its weights: --weights FILE brings them, or import your own folder.\n"


def call(*arguments):
    return subprocess.run([HARMONICS, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=True)


def imported(name):
    """The text that an import writes, without the section that names weights."""
    config, tensors, _ = EXAMPLES[name]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "source"
        write_folder(folder, config, tensors)
        out = pathlib.Path(scratch) / f"{name}.harp"
        call("import", folder, "-o", out, "--weights", "link")
        text = out.read_text()
    body, mark, _ = text.partition("\nweights {")
    assert mark, text
    return HEAD.format(config["architectures"][0]) + body


class ExamplesTest(unittest.TestCase):
    def test_an_import_writes_what_lies_there(self):
        for name in EXAMPLES:
            with self.subTest(name):
                self.assertEqual((MODELS / f"{name}.harp").read_text(), imported(name))

    def test_they_have_the_size_that_their_authors_say(self):
        for name, (_, _, parameters) in EXAMPLES.items():
            with self.subTest(name):
                shown = json.loads(call("graph", "show", MODELS / f"{name}.harp", "--output", "json").stdout)
                if parameters is not None:
                    self.assertEqual(shown["parameters"], parameters)

    def test_blocks_are_shown_once(self):
        for name in EXAMPLES:
            with self.subTest(name):
                table = call("graph", "show", MODELS / f"{name}.harp").stdout
                self.assertLess(len(table.splitlines()), 45)
                self.assertRegex(table, r"\((6|12|24|30) x\)")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        for example in EXAMPLES:
            (MODELS / f"{example}.harp").write_text(imported(example))
    else:
        unittest.main()

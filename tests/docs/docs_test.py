"""What the documents show must be true: their C++ is compiled by a test."""

import os
import re
import textwrap
import unittest
from pathlib import Path

ROOT = Path(os.environ.get('HARMONICS_SOURCE_DIR', Path(__file__).resolve().parents[2]))
PAGES = {'CONTRIBUTING.md': 'tests/docs/contributing_test.cc', 'README.md': 'examples/consumer/consumer.cc',
         'docs/guides/data-parallel.md': 'src/schedule/data_parallel_guide_test.cc',
         'docs/guides/custody.md': 'src/schedule/secure_test.cc',
         'docs/guides/planning.md': 'src/plan/plan_test.cc',
         'docs/guides/dispatch.md': 'src/dispatch/guide_test.cc',
         'docs/guides/transports.md': 'src/transport/guide_test.cc'}


def flat(text):
    return re.sub(r'\s+', ' ', textwrap.dedent(text)).strip()


class Docs(unittest.TestCase):
    def test_every_block_is_compiled_by_a_test(self):
        for page, source in PAGES.items():
            compiled = flat((ROOT / source).read_text())
            blocks = re.findall(r'^```cpp\n(.*?)^```', (ROOT / page).read_text(), re.M | re.S)
            self.assertTrue(blocks, f'{page} has no C++ example')
            for block in blocks:
                self.assertIn(flat(block), compiled, f'{page}: this block is not in {source}')


if __name__ == '__main__':
    unittest.main()

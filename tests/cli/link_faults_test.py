"""Links that are cut, stalled and damaged while rows stream through `harmonics stage --infer`: every row comes out
once, in order and the same, and no batch is computed twice."""

import collections
import json
import os
import random
import signal
import threading
import unittest

import program
from rough_link import RoughLink
from stream_test import ROWS, StreamCase, wait_for_lines

SEED = int(os.environ.get('HARMONICS_STREAM_SEED', '90210'))
FAULTS = int(os.environ.get('HARMONICS_LINK_FAULTS', '300' if os.environ.get('HARMONICS_SOAK') else '5'))
BATCHES = 26
MOST_PER_LINK = 6 if FAULTS > 5 else 2


class LinkFaultsTest(StreamCase):
    def boundaries(self, count):
        """Part that sends and part that takes, by the name of the boundary."""
        cut = json.loads(self.done('graph', 'parts', self.net, '--parts', count, '--output', 'json'))
        return {boundary['name']: (boundary['from'], boundary['to']) for boundary in cut['boundaries']}

    def start_parts(self, count, places, *more):
        """`places` are the URLs of each part."""
        out = ('--out', 'prediction=csv:rows.csv')
        return [self.start('stage', self.net, '--infer', '--weights', 'weights.safetensors', '--parts', count,
                           '--part', part, '--restarts', '0', '--output', 'json', '--run', 'rough',
                           *(word for url in urls for word in ('--boundary', url)),
                           *(out if part == count - 1 else ()), *more)
                for part, urls in enumerate(places)]

    def finish(self, stages):
        reports = []
        for stage in stages:
            output, error = stage.communicate(timeout=program.TIMEOUT_S)
            self.assertEqual(stage.returncode, 0, error)
            reports.append(json.loads(output))
        for report in reports:
            # Nothing began again, and nothing was computed twice.
            self.assertEqual((report['restarts'], report['stages'][0]['batches']), (0, BATCHES))
        self.expect_rows({**reports[-1], 'graph': 'quadrant'})

    def stream_through(self, transport, chance):
        count = chance.choice([2, 3])
        places = [[] for _ in range(count)]
        links = []
        try:
            for name, ends in self.boundaries(count).items():
                port = program.reserved_port()
                links.append(RoughLink(port, transport, chance, MOST_PER_LINK))
                listener, caller = chance.sample(ends, 2)
                places[listener].append(f'{transport}://127.0.0.1:{port}/{name}?listen=1')
                places[caller].append(f'{transport}://127.0.0.1:{links[-1].port}/{name}?listen=0')
            self.finish(self.start_parts(count, places, '--in-flight', chance.choice([0, 2, 9])))
        finally:
            for link in links:
                link.close()
        return [kind for link in links for kind in link.dealt]

    def test_links_that_are_cut_stalled_and_damaged(self):
        through = [name for name in self.transports() if name != 'shm']
        dealt = collections.Counter()
        number = 0
        while dealt.total() < FAULTS or number < len(through):
            transport = through[number % len(through)]
            with self.subTest(seed=SEED, round=number, transport=transport):
                dealt.update(self.stream_through(transport, random.Random(f'{SEED}/{number}')))
            number += 1
            self.assertLess(number, 10 + FAULTS, f'too few faults are dealt: {dealt}')
        print(f'{number} streams of {ROWS} rows, {dealt.total()} faults: {dict(dealt)}')

    def test_a_part_that_is_stopped_for_a_while_goes_on(self):
        """Shared memory has no link to cut: its peer can only fall silent."""
        chance = random.Random(SEED)
        for number in range(max(1, FAULTS // 30)):
            port = program.reserved_port()
            places = [[f'shm://127.0.0.1:{port}/{name}' for name in self.boundaries(2)]] * 2
            trace = self.folder / f'passes{number}'
            os.environ['HARMONICS_PASS_TRACE'] = str(trace)
            self.addCleanup(os.environ.pop, 'HARMONICS_PASS_TRACE', None)
            stages = self.start_parts(2, places)
            struck = chance.choice(stages)
            wait_for_lines(trace, chance.randint(1, 30), struck)
            struck.send_signal(signal.SIGSTOP)
            threading.Event().wait(chance.choice([0.1, 0.5]))  # the stall itself
            struck.send_signal(signal.SIGCONT)
            self.finish(stages)


if __name__ == '__main__':
    unittest.main()

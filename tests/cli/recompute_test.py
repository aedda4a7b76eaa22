"""`harmonics verify --recompute` and `--against`: honest runs pass, and who signed a wrong result is named."""

import json
import unittest

import program
from secure_train_test import change_a_weight

STEPS = 18  # three epochs of six


class RecomputeTest(program.CliTest):
    def setUp(self):
        super().setUp()
        self.keys = self.folder / 'keys'

    def secure(self, name, *arguments, key='alice', parts='3', schedule='cosine'):
        """Trains with a chain and kept checkpoints, both under that name."""
        if not (self.keys / f'{key}.key').exists():
            self.done('keys', 'new', key, '--keys', self.keys)
        (self.folder / name).mkdir(exist_ok=True)
        return self.train('--parts', parts, '--micro-batches', '2', '--optimizer', 'adam', '--schedule', schedule, '--secure',
                          '--sign-layers', '--sign-weights-every', '1', '--proof', f'{name}.chain', '--key', key, '--keys',
                          self.keys, '--checkpoint', f'{name}/run', '--checkpoint-every', '4', '--keep-checkpoints', *arguments)

    def verify(self, name, *arguments, kept=None):
        return ('verify', f'{name}.chain', '--keys', self.keys, '--graph', self.net, '--checkpoints',
                kept or name, '--output', 'json', *arguments)

    def recomputed(self, *arguments, **options):
        return json.loads(self.done(*self.verify('run', *arguments, **options)))['compared']['recomputed']

    def test_an_honest_run_is_computed_again(self):
        self.secure('run')
        self.assertEqual(sorted(path.name for path in (self.folder / 'run').iterdir()),
                         ['run', 'run.step12', 'run.step16', 'run.step4', 'run.step8'])
        told = self.recomputed('--recompute', 'all')
        self.assertEqual((told['steps'], told['of'], told['stretches'], told['of_stretches']), (STEPS, STEPS, 5, 5))
        # Steps are counted from 1; of a stretch no more is computed than is needed.
        told = self.recomputed('--recompute', '2,10-11')
        self.assertEqual((told['steps'], told['stretches']), (2 + 3, 2))
        drawn = self.recomputed('--recompute', '1%', '--draw', 'beacon 4711')
        self.assertEqual((drawn['stretches'], drawn['seed']), (1, 'beacon 4711'))
        self.assertEqual(self.recomputed('--recompute', '1%', '--draw', 'beacon 4711'), drawn)
        chance = self.recomputed('--recompute', 'sample=2')
        self.assertEqual(len(chance['seed']), 32)
        self.assertEqual(self.recomputed('--recompute', 'sample=2', '--draw', chance['seed']), chance)
        # From the start alone, without checkpoints between; they say how the run learnt.
        one = self.recomputed('--recompute', 'all', kept='run/run.step16')
        self.assertEqual((one['steps'], one['of_stretches']), (STEPS, 2))
        text = self.done('verify', 'run.chain', '--keys', self.keys, '--graph', self.net, '--checkpoints', 'run',
                         '--recompute', 'all')
        self.assertIn('computed again: 18 of 18 step(s), 5 of 5 stretch(es): all as they were signed', text)

    def test_one_part_is_computed_again(self):
        self.secure('run', parts='1')
        self.assertEqual(self.recomputed('--recompute', 'all')['steps'], STEPS)

    def test_parts_in_processes_are_computed_again_in_one(self):
        self.train('--parts', '3', '--micro-batches', '2', '--processes', '--secure', '--sign-layers', '--sign-weights-every',
                   '3', '--proof', 'run.chain', '--keys', self.keys)
        verify = ('verify', 'run.chain', '--keys', self.keys, '--graph', self.net, '--recompute', 'all', '--output', 'json')
        told = json.loads(self.done(*verify, '--micro-batches', '2'))['compared']['recomputed']
        self.assertEqual((told['steps'], told['of_stretches']), (STEPS, 1))
        # Sums of other slices are other bits: what was agreed has to be known.
        self.assert_fails(self.call(*verify, '--micro-batches', '1'), 'custody: ')

    def test_a_stage_by_hand_is_computed_again(self):
        self.done('keys', 'new', 'alice', '--keys', self.keys)
        (self.folder / 'kept').mkdir()
        self.done('stage', self.net, '--parts', '1', '--part', '0', '--secure', '--sign-layers', '--sign-weights-every', '1',
                  '--proof', 'run.chain', '--key', 'alice', '--keys', self.keys, '--checkpoint', 'kept/run',
                  '--checkpoint-every', '4', '--keep-checkpoints')
        self.assertEqual(self.recomputed('--recompute', 'all', kept='kept')['steps'], STEPS)

    def lie(self, name):
        """From step 12 on that run learns at another rate than its checkpoints before say."""
        self.secure(name, '--epochs', '2', key='mallory', schedule='constant')
        self.secure(name, '--epochs', '3', '--resume', '--lr', '0.5', key='mallory', schedule='constant')

    def test_who_signed_a_wrong_result_is_named(self):
        self.lie('run')
        result = self.call(*self.verify('run', '--recompute', 'all'))
        self.assert_fails(result, 'wrong result: step ', "signed by 'mallory'")
        # What came before was right, and so is what was computed from the wrong weights at their rate.
        self.recomputed('--recompute', '1-12')
        self.assert_fails(self.call(*self.verify('run', '--recompute', '14')), 'wrong result')

    def test_two_accounts_are_settled(self):
        self.secure('run', '--epochs', '2', schedule='constant')
        self.secure('run', '--epochs', '3', '--resume', schedule='constant')
        self.lie('liar')
        same = json.loads(self.done(*self.verify('run', '--against', 'run.chain')))['compared']['recomputed']
        self.assertEqual(same['steps'], 0)
        wrong = self.call(*self.verify('liar', '--against', 'run.chain', kept='run'))
        self.assert_fails(wrong, 'wrong result: step 13', "signed by 'mallory'", '(1 step(s) were computed again)')
        other = self.call(*self.verify('run', '--against', 'liar.chain'))
        self.assert_fails(other, 'wrong result: the account of --against: step 13', "signed by 'mallory'")

    def test_a_changed_checkpoint_is_refused(self):
        self.secure('run')
        change_a_weight(self.folder / 'run' / 'run.step8')
        self.assert_fails(self.call(*self.verify('run', '--recompute', '9')), 'wrong weights')
        self.recomputed('--recompute', '5')

    def test_what_cannot_be_computed_is_an_error(self):
        self.secure('run')
        self.assert_fails(self.call(*self.verify('run', '--recompute', 'some')), "'some' does not say what to compute again")
        self.assert_fails(self.call(*self.verify('run', '--recompute', '19')), 'steps from 1 to 18')
        self.assert_fails(self.call('verify', 'run.chain', '--keys', self.keys, '--recompute', 'all'), 'with --graph')
        self.assert_fails(self.call(*self.verify('run', '--recompute', 'all', kept='points.csv')), 'is no checkpoint')
        self.assert_fails(self.call('train', self.net, '--checkpoint', 'x', '--keep-checkpoints'), '--checkpoint-every')


if __name__ == '__main__':
    unittest.main()

"""`harmonics plan --check` compares a run with its plan, and `harmonics profile --from-run` learns from it."""

import json
import re
import unittest

import program

ROWS = 163  # twenty batches of eight and one of three


class PlanCheckTest(program.CliTest):
    made = None  # plan, files and a run of it; the same for all tests

    def setUp(self):
        super().setUp()
        self.write('points.csv', program.points(ROWS))
        files = ('models.yml', 'device_types.yml', 'devices.yml', 'plan.json', 'run.json')
        if PlanCheckTest.made is None:
            self.make_run()
            PlanCheckTest.made = {name: (self.folder / name).read_text() for name in files}
        for name in files:
            self.write(name, PlanCheckTest.made[name])
        self.run_json = json.loads(PlanCheckTest.made['run.json'])
        self.plan = json.loads(PlanCheckTest.made['plan.json'])

    def make_run(self):
        self.done('profile', self.net, '--batch-size', '8', '--type', 'here', '--bw-mbps', '10000', '--mem-mb', '1000',
                  '--repeats', '1', '--threads', '1', '--output', 'quiet')
        types = (self.folder / 'device_types.yml').read_text()
        # A second a layer, so that both hosts get work.
        self.write('device_types.yml', re.sub(r'time_s: \[[^\]]*\]', 'time_s: [1, 1, 1, 1, 1]', types))
        self.write('devices.yml', 'here: [desk, shelf]\n')
        self.done('train', self.net, '--epochs', '1', '--checkpoint', 'weights.safetensors')
        self.write('plan.json', self.done('plan', self.net, '--output', 'json'))
        self.write('run.json', self.done('run', self.net, '--weights', 'weights.safetensors', '--plan', 'plan.json',
                                         '--processes', '--transport', 'tcp', '--threads', '1', '--output', 'json'))

    def check(self, code, *words):
        result = self.call('plan', '--check', 'run.json', '--output', 'json', *words)
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout)

    def as_planned(self):
        """Figures of a run that is what its plan says."""
        for stage in self.run_json['stages']:
            plan = stage['plan']
            stage['period_s'] = self.plan['period_s']
            stage['busy_s'] = stage['cpu_s'] = plan['compute_s'] * stage['batches']
            stage['for_core_s'] = 0
            for link in stage['links']:
                link['bytes_per_s'] = stage['bytes_sent'] / stage['batches'] / max(plan['transfer_s'], 1e-9)
                link['latency_s'] = 0
        self.save()

    def save(self):
        self.write('run.json', json.dumps(self.run_json))

    def test_a_run_says_what_was_planned_and_measured(self):
        self.assertEqual((self.run_json['model'], self.run_json['batch_size']), ('quadrant', 8))
        stages = self.run_json['stages']
        self.assertEqual([stage['number'] for stage in stages], [0, 1])
        self.assertEqual(len({stage['machine'] for stage in stages}), 1)
        for stage, planned in zip(stages, self.plan['stages']):
            for key in ('hosts', 'layers', 'compute_s', 'receive_s', 'send_s', 'transfer_s', 'period_s'):
                self.assertEqual(stage['plan'][key], planned[key], key)
            self.assertGreater(stage['cpu_s'], 0)
            self.assertEqual(stage['threads'], 1)
        self.assertEqual([len(stage['links']) for stage in stages], [1, 0])
        self.assertGreater(stages[0]['links'][0]['bytes_per_s'], 0)
        self.assertGreater(stages[0]['links'][0]['latency_s'], 0)

    def test_layers_that_take_a_thousandth_are_found_and_learnt(self):
        for stage in self.run_json['stages']:  # whatever else this machine does
            stage['period_s'] = 1e-3 * self.plan['period_s']
            stage['busy_s'] = stage['cpu_s'] = 1e-3 * stage['plan']['compute_s'] * stage['batches']
            stage['for_core_s'] = 0
        self.save()
        found = self.check(4)
        self.assertLess(found['error'], -0.9)
        self.assertEqual([finding['fault'] for finding in found['findings']], ['compute', 'compute'])
        table = self.call('plan', '--check', 'run.json')
        self.assertEqual(table.returncode, 4)
        self.assertRegex(table.stdout, r'(?m)^host +layers +compute ms +planned')
        self.assertRegex(table.stdout, r'(?m)^quadrant: .* ms per batch of 8, planned .*: -\d+\.\d %, more than 10 %')
        self.assertIn('--from-run', table.stdout)
        lines = self.done('profile', '--from-run', 'run.json').splitlines()
        self.assertTrue(any('layers 1 to' in line for line in lines), lines)
        self.assertEqual([line for line in lines if '->' in line], ['  -> device_types.yml', '  -> links.yml'])
        again = json.loads(self.done('plan', self.net, '--links-file', 'links.yml', '--output', 'json'))
        self.assertLess(again['period_s'], 0.5 * self.plan['period_s'])
        self.assertIn('already', self.done('profile', '--from-run', 'run.json'))

    def test_the_same_plan_again_takes_what_was_measured(self):
        self.as_planned()
        self.assertEqual(self.check(0)['findings'], [])
        for stage, factor in zip(self.run_json['stages'], (1.5, 1.4)):
            stage['busy_s'] *= factor
            stage['cpu_s'] *= factor
            stage['period_s'] *= 1.5
            stage['machine'] = f"{stage['machine']}-{stage['number']}"  # each has its own
        self.save()
        self.assertEqual(self.check(4)['findings'][0]['fault'], 'compute')
        self.assertTrue(self.check(0, '--tolerance', '0.6')['holds'])
        self.done('profile', '--from-run', 'run.json', '--output', 'json')
        again = json.loads(self.done('plan', self.net, '--links-file', 'links.yml', '--output', 'json'))
        # The planner may place layers better by what it has learnt, and not worse.
        self.assertLessEqual(again['period_s'], 1.5 * self.plan['period_s'] * 1.001)
        self.assertGreater(again['period_s'], 1.1 * self.plan['period_s'])

    def test_links_and_cores_are_found(self):
        self.as_planned()
        for stage in self.run_json['stages']:
            for link in stage['links']:
                link['bytes_per_s'] = stage['bytes_sent'] / stage['batches'] / 9
                link['latency_s'] = 0.02
            stage['period_s'] = 9
        self.save()
        found = self.check(4)
        self.assertEqual([finding['fault'] for finding in found['findings']], ['link'])
        self.assertIn('from desk to shelf', found['findings'][0]['what'].replace('shelf to desk', 'desk to shelf'))
        self.done('profile', '--from-run', 'run.json', '--output', 'quiet')
        links = (self.folder / 'links.yml').read_text()
        self.assertIn('latency_ms: 20\n', links)
        self.assertIn('machines:', links)
        again = json.loads(self.done('plan', self.net, '--links-file', 'links.yml', '--output', 'json'))
        self.assertLessEqual(again['period_s'], 9)
        self.as_planned()
        for stage in self.run_json['stages']:
            stage['for_core_s'] = 0.8 * stage['busy_s']
            stage['busy_s'] += stage['for_core_s']
            stage['period_s'] *= 1.8
        self.save()
        found = self.check(4)
        self.assertEqual({finding['fault'] for finding in found['findings']}, {'contention'})

    def test_what_is_no_run_of_a_plan_is_refused(self):
        self.write('other.json', '{"graph": "x", "rows": 3}')
        self.assert_fails(self.call('plan', '--check', 'other.json'), 'other.json is no report of a planned run',
                          '--output json')
        self.assert_fails(self.call('plan', '--check', 'nowhere.json'), 'nowhere.json')
        self.assert_fails(self.call('profile', '--from-run', 'other.json'), 'is no report of a planned run')
        self.write('devices.yml', 'here: [attic]\n')
        self.assert_fails(self.call('profile', '--from-run', 'run.json'), 'is not in the file of hosts')
        for words, text in [(('plan',), 'GRAPH'), (('plan', self.net, '--check', 'run.json'), 'leave out GRAPH'),
                            (('plan', self.net, '--tolerance', '0.2'), 'needs --check'),
                            (('profile', self.net, '--from-run', 'run.json'), 'leave out GRAPH')]:
            result = self.call(*words)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(text, result.stderr)


if __name__ == '__main__':
    unittest.main()

"""sched-pipeline from outside: what it prints where, its exit codes, every option."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(os.environ['HARMONICS_BINARY_DIR']) / 'sched-pipeline'
EXAMPLES = Path(os.environ['HARMONICS_SOURCE_DIR']) / 'examples/plan'
LARGE = 'google/vit-large-patch16-224'


def run(*arguments, cwd=EXAMPLES):
    return subprocess.run([str(PROGRAM), *map(str, arguments)], cwd=cwd, capture_output=True,
                          text=True, check=False)


def stages(text):
    """[(host, first, last)] of a plan, read by its documented form alone."""
    result = []
    for line in text.splitlines():
        host, layers = line.removeprefix('- ').rsplit(': ', 1)
        first, last = json.loads(layers)
        result.append((host, first, last))
    return result


class SchedPipeline(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix='harmonics-sched-')
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def report(self, *arguments):
        done = run('--report', 'json', *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stderr)

    def files(self, **changed):
        """The example files in a folder of their own, some with another text."""
        for name in ('models', 'device_types', 'devices'):
            text = changed.get(name, (EXAMPLES / f'{name}.yml').read_text())
            (self.folder / f'{name}.yml').write_text(text)
        return self.folder

    def test_standard_output_is_the_plan_and_nothing_else(self):
        done = run()
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        plan = stages(done.stdout)
        self.assertEqual([plan[0][1], plan[-1][2]], [1, 48])
        for before, after in zip(plan, plan[1:]):
            self.assertEqual(after[1], before[2] + 1)
        self.assertEqual(len({host for host, _, _ in plan}), 8)

    def test_the_examples_are_proven_optimal(self):
        for model, period in (('google/vit-base-patch16-224', 1.539864), (LARGE, 5.091929)):
            report = self.report('-m', model)
            self.assertAlmostEqual(report['period_s'], period, delta=5e-7)
            self.assertTrue(report['proven'])
            self.assertEqual(report['gap'], 0)
            self.assertLess(report['certificate']['period_s'], report['period_s'])

    def test_the_same_plan_every_time(self):
        self.assertEqual(run('-m', LARGE).stdout, run('-m', LARGE).stdout)

    def test_long_and_short_names_of_the_original(self):
        short = run('-d', 'torch.float32', '-b', 8, '-i', 2, '-o', 2, '-m', LARGE, '-M', 'models.yml',
                    '-T', 'device_types.yml', '-D', 'devices.yml')
        long = run('--dtype', 'torch.float32', '--batch-size', 8, '--buffers-in', 2, '--buffers-out', 2,
                   '--model-name', LARGE, '--models-file', 'models.yml', '--dev-types-file',
                   'device_types.yml', '--dev-file', 'devices.yml')
        self.assertEqual(short.returncode, 0, short.stderr)
        self.assertEqual(short.stdout, long.stdout)

    def test_a_model_without_layers_has_an_empty_plan(self):
        done = run('-m', 'DummyModel')
        self.assertEqual((done.returncode, done.stdout), (0, '[]\n'))

    def test_no_feasible_plan_is_exit_code_3_and_says_why(self):
        types = (EXAMPLES / 'device_types.yml').read_text()
        types = types.replace('mem_MB: 2048', 'mem_MB: 40').replace('mem_MB: 8192', 'mem_MB: 50')
        done = run(cwd=self.files(device_types=types))
        self.assertEqual((done.returncode, done.stdout), (3, ''))
        self.assertIn('memory: layer 47', done.stderr)
        self.assertIn("('RCC-VE-C2558') has 50.0 MB", done.stderr)

    def test_types_without_a_profile_are_left_out_with_a_warning(self):
        done = run('-b', 3)
        self.assertEqual((done.returncode, done.stdout), (3, ''))
        self.assertIn("'Minnowboard-E3845' is left out", done.stderr)
        self.assertIn('batch size 3; measured of it: torch.float32 with 8', done.stderr)

    def test_mistakes_are_exit_code_1_with_file_and_line(self):
        broken = (EXAMPLES / 'devices.yml').read_text() + '- mb-0\n'
        done = run(cwd=self.files(devices=broken))
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertRegex(done.stderr, r"devices\.yml:\d+: .*'mb-0' is there twice")
        missing = run('-M', 'nowhere.yml')
        self.assertEqual(missing.returncode, 1)
        self.assertIn('nowhere.yml', missing.stderr)
        unknown = run('-m', 'nothing')
        self.assertEqual(unknown.returncode, 1)
        self.assertIn(LARGE, unknown.stderr)

    def test_wrong_usage_is_exit_code_2(self):
        for arguments in (['--what'], ['-b', 'many'], ['-b', '0'], ['--goal', 'fun'], ['--pin', 'x'],
                          ['--tolerance', '-1'], ['-i', '-1'], ['--horizon', '5'], ['extra']):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ''), arguments)
            self.assertRegex(done.stderr, r"^sched-pipeline: .*\ntry 'sched-pipeline --help'\n$")
        self.assertIn("has no flag '--reprt'; did you mean '--report'?",
                      run('--reprt', 'text').stderr)

    def test_a_host_that_is_not_there_is_named_with_those_that_are(self):
        self.assertIn("there is no host 'mb-00'; did you mean 'mb-0'?",
                      run('--exclude', 'mb-1,mb-00').stderr)
        self.assertIn("there is no host 'kitchen'; there are: mb-0, ",
                      run('--pin', '1-4=kitchen').stderr)

    def test_several_hosts_are_left_out_in_one_word_or_several(self):
        together = run('--exclude', 'mb-0,mb-1')
        self.assertEqual(together.stdout, run('--exclude', 'mb-0', '--exclude', 'mb-1').stdout)
        self.assertEqual({'mb-0', 'mb-1'} & {host for host, _, _ in stages(together.stdout)}, set())

    def test_help_and_version(self):
        done = run('-h')
        self.assertEqual(done.returncode, 0)
        for flag in ('--dtype', '--batch-size', '--buffers-in', '--buffers-out', '--model-name',
                     '--models-file', '--dev-types-file', '--dev-file', '--report', 'Example:'):
            self.assertIn(flag, done.stdout)
        self.assertRegex(run('--version').stdout, r'^sched-pipeline \d')

    def test_reports_and_pictures_go_to_files(self):
        text, svg = self.folder / 'report.txt', self.folder / 'plan.svg'
        done = run('--report-file', text, '--svg', svg)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertIn('proven optimal', text.read_text())
        self.assertTrue(svg.read_text().startswith('<svg'))

    def test_a_report_that_cannot_be_written_is_an_error(self):
        done = run('--svg', self.folder / 'no/such/folder.svg')
        self.assertEqual((done.returncode, done.stdout), (1, ''))

    def test_goals_and_tolerance(self):
        best = self.report('-m', LARGE)
        few = self.report('-m', LARGE, '--then', 'hosts', '--tolerance', 1)
        self.assertLess(few['hosts'], best['hosts'])
        self.assertLessEqual(few['period_s'], 2 * best['period_s'] + 1e-9)
        printed = stages(run('-m', LARGE, '--then', 'hosts', '--tolerance', 1).stdout)
        self.assertEqual(len(printed), few['hosts'], 'hosts without layers are not listed')
        quick = self.report('-m', LARGE, '--goal', 'latency')
        self.assertTrue(quick['proven'])
        self.assertLess(quick['latency_s'], best['latency_s'])
        summed = self.report('-m', LARGE, '--overlap', 'none')
        self.assertGreater(summed['period_s'], best['period_s'])

    def test_replicated_stages_list_every_host(self):
        done = run('--replicate', '--report', 'json')
        report = json.loads(done.stderr)
        self.assertLess(report['period_s'], 1.5398)
        plan = stages(done.stdout)
        self.assertEqual(len(plan), report['hosts'])
        self.assertLess(len({(first, last) for _, first, last in plan}), len(plan))

    def test_several_pipelines(self):
        one = self.report('--replicate')
        done = run('--pipelines', 'runnable', '--report', 'json', '--work', 20_000_000)
        report = json.loads(done.stderr)
        self.assertGreaterEqual(report['samples_per_s'], one['samples_per_s'] * (1 - 1e-9))
        self.assertLessEqual(report['samples_per_s'], report['bound_samples_per_s'] * (1 + 1e-9))
        self.assertTrue(report['runs'])
        hosts = [host for pipeline in report['pipelines'] for stage in pipeline['stages'] for host in stage['hosts']]
        self.assertEqual(len(set(hosts)), len(hosts))
        self.assertEqual(len(done.stdout.splitlines()), len(hosts))
        self.assertAlmostEqual(sum(pipeline['share'] for pipeline in report['pipelines']), 1)
        text = run('--pipelines', 'auto', '--report', 'text', '--work', 20_000_000).stderr
        self.assertIn('no way to use these hosts makes more than', text)
        for other in ('--replicate', '--fallbacks', '--front'):
            wrong = run('--pipelines', 'auto', other)
            self.assertEqual(wrong.returncode, 2)
            self.assertIn(f'--pipelines: and {other} do not go together', wrong.stderr)
        self.assertIn("not 'auto'", run('--pipelines', 'auto', '-b', 'auto').stderr)

    def priced(self):
        """The example with prices and watts: the faster boards cost and draw more than they are faster."""
        text = (EXAMPLES / 'device_types.yml').read_text()
        for name, price, watts in (('Minnowboard-E3845', 0.02, 9), ('RCC-VE-C2558', 0.05, 21)):
            text = text.replace(f'{name}:\n', f'{name}:\n  price_per_hour: {price}\n  watts: {watts}\n')
        return self.files(device_types=text)

    def test_cost_energy_and_deadlines(self):
        folder = self.priced()
        fast = json.loads(run('--report', 'json', cwd=folder).stderr)
        for goal, figure, own in (('cost', 'cost_per_sample', {'mb': 0.02 / 3600, 'rcc': 0.05 / 3600}),
                                  ('energy', 'joules_per_sample', {'mb': 9, 'rcc': 21})):
            done = run('--goal', goal, '--report', 'json', cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stderr)
            aim = report['aim']
            self.assertTrue(aim['proven'])
            expected = sum(own[host.split('-')[0]] for host, _, _ in stages(done.stdout)) * report['period_s'] / 8
            self.assertAlmostEqual(aim[figure] / expected, 1, places=9)
            self.assertEqual(aim['value'], aim[figure])
            self.assertGreaterEqual(report['period_s'], fast['period_s'])
            whole = sum(own[host] for host in ('mb', 'rcc')) * 4 * fast['period_s'] / 8
            self.assertLess(aim['value'], whole, 'the fastest plan is not the cheapest here')
        quick = json.loads(run('--deadline', 11, '--report', 'json', cwd=folder).stderr)
        self.assertLessEqual(quick['latency_s'], 11)
        self.assertGreater(quick['period_s'], fast['period_s'])
        self.assertIn('deadline 11', run('--deadline', 11, '--report', 'text', cwd=folder).stderr)
        late = run('--deadline', 1, cwd=folder)
        self.assertEqual((late.returncode, late.stdout), (3, ''))
        self.assertRegex(late.stderr, r'deadline: the quickest way .* takes 10\.\d+ s \(proven\), the deadline is 1\.0')
        unpriced = run('--goal', 'cost')
        self.assertEqual(unpriced.returncode, 1)
        self.assertIn("needs 'price_per_hour' of every device type; it is missing for", unpriced.stderr)

    def test_the_front(self):
        folder = self.priced()
        done = run('--front', '--svg', 'front.svg', '--report', 'json', cwd=folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stderr)
        self.assertEqual(report['aims'], ['period', 'latency', 'hosts', 'cost', 'energy'])
        figures = [(plan['period_s'], plan['latency_s'], plan['hosts'], plan['cost_per_sample'], plan['joules_per_sample'])
                   for plan in report['front']]
        for a in figures:
            self.assertFalse(any(all(x < y * (1 - 1e-9) for x, y in zip(b, a)) for b in figures))
        self.assertAlmostEqual(figures[0][0], 1.539864, places=6)
        self.assertEqual(min(hosts for _, _, hosts, _, _ in figures), 1)
        self.assertEqual(len(done.stdout.splitlines()), len(figures) + 3)
        picture = (folder / 'front.svg').read_text()
        for words in ('the cheapest', 'takes the least energy', 'what binds', 'cost of 1000 samples', 'period in seconds'):
            self.assertIn(words, picture)
        ticks = [float(text) for text in re.findall(r'text-anchor="middle">([\d.]+)</text>', picture)]
        steps = {round(after - before, 9) for before, after in zip(ticks, ticks[1:])}
        self.assertEqual(len(steps), 1)
        self.assertIn(f'{steps.pop():e}'[0], '125')
        kept = json.loads(run('--front', '--deadline', 11, '--report', 'json', cwd=folder).stderr)
        self.assertTrue(all(plan['latency_s'] <= 11 for plan in kept['front']))
        self.assertIn('leave out --goal', run('--front', '--goal', 'cost').stderr)

    def trained(self, spread='', mem_mb=1000):
        """Six layers that were measured for training, on two hosts over a slow network."""
        return self.files(
            models="""net-training:
  layers: 6
  mem_MB: [30, 30, 30, 30, 30, 30]
  parameters_in: 262144
  parameters_out: [262144, 262144, 262144, 262144, 262144, 262144]
  training: {fixed_MB: [9, 9, 9, 9, 9, 9], kept_MB: [2, 2, 2, 2, 2, 2], scratch_MB: [1, 1, 5, 1, 1, 1]}
""", device_types=f"""board:
  bw_Mbps: 8
  mem_MB: {mem_mb}
  model_profiles:
    net-training:
    - batch_size: 8
      dtype: torch.float32
      time_s: [0.3, 0.3, 0.3, 0.3, 0.3, 0.3]
      forward_s: [0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
{spread}""", devices='board: [a, b]\n')

    def test_training_is_told_for_the_order_of_its_micro_batches(self):
        folder = self.trained()
        given = ('-m', 'net-training', '--micro-batches', 16, '--host-order', 'a,b')
        told = {}
        for order in ('1f1b', 'gpipe', 'sequential'):
            done = run(*given, '--pipeline', order, '--report', 'json', cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            told[order] = json.loads(done.stderr)
        # Eight megabytes over a megabyte a second: the link binds, so a plan on one host is best ...
        self.assertEqual(len(told['1f1b']['stages']), 1)
        self.assertAlmostEqual(told['gpipe']['training']['batch_s'], 16 * 1.8, places=6)
        # ... unless each has to have its half.
        halves = (*given, '--pin', '1-3=a', '--pin', '4-6=b')
        for order, least, most in (('1f1b', 16 * 8, 16 * 8 * 1.2), ('gpipe', 32 * 8, 32 * 8 * 1.1),
                                   ('sequential', 16 * 17.8 - 1e-6, 16 * 17.8 + 1e-6)):
            done = run(*halves, '--pipeline', order, '--report', 'json', cwd=folder)
            report = json.loads(done.stderr)
            training = report['training']
            self.assertTrue(least <= training['batch_s'] <= most, (order, training))
            self.assertEqual((training['pipeline'], training['micro_batches']), (order, 16))
            held = {'1f1b': [2, 1], 'gpipe': [16, 16], 'sequential': [1, 1]}[order]
            self.assertEqual([stage['in_flight'] for stage in training['stages']], held)
            memory = [27 + 5 + 24 + 16 * 8 + held[0] * 6, 27 + 1 + 24 + held[1] * (8 + 6)]
            self.assertEqual([stage['memory_mb'] for stage in report['stages']], memory)
        # Without a word it is 1f1b, four micro-batches.
        done = run(*given[:2], '--report', 'text', cwd=folder)
        self.assertIn('training in 1f1b order, 4 micro-batches of 8: ', done.stderr)

    def test_training_that_does_not_fit_or_was_not_measured_is_refused(self):
        folder = self.trained(mem_mb=190)
        halves = ('-m', 'net-training', '--host-order', 'a,b', '--pin', '1-3=a', '--pin', '4-6=b')
        self.assertEqual(run(*halves, '--micro-batches', 8, cwd=folder).returncode, 0)
        done = run(*halves, '--micro-batches', 16, '--pipeline', 'gpipe', cwd=folder)
        self.assertEqual((done.returncode, done.stdout), (3, ''))
        self.assertIn('memory: learning in gpipe order, a holds 16 micro-batches at once', done.stderr)
        done = run('--pipeline', '1f1b')
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertIn('--mode training', done.stderr)
        for other in (('--front',), ('--pipelines', 'auto'), ('--deadline', '9')):
            done = run('--pipeline', '1f1b', *other)
            self.assertEqual(done.returncode, 2, other)
            self.assertIn('do not go together', done.stderr)

    def test_noise_of_the_measurements_is_told_where_it_moves_a_cut(self):
        calm = '      spread: [0.01, 0.01, 0.01, 0.01, 0.01, 0.01]\n'
        loud = calm.replace('0.01', '0.9')
        for spread, moves in ((calm, False), (loud, True)):
            folder = self.trained(spread)
            types = (folder / 'device_types.yml').read_text().replace('bw_Mbps: 8', 'bw_Mbps: 8000')
            (folder / 'device_types.yml').write_text(types)
            done = run('-m', 'net-training', '--report', 'json', cwd=folder)
            self.assertEqual('noise' in json.loads(done.stderr), moves, done.stderr)
            text = run('-m', 'net-training', '--report', 'text', cwd=folder).stderr
            self.assertEqual('this cut, behind layer 3, may move by ' in text, moves, text)

    def test_rules_for_hosts(self):
        pinned = stages(run('--pin', '1-3=rcc-2', '--pin', '48=Minnowboard-E3845').stdout)
        self.assertEqual(pinned[0][0], 'rcc-2')
        self.assertTrue(pinned[-1][0].startswith('mb-'))
        ordered = stages(run('--host-order', 'rcc-3,mb-0,rcc-1').stdout)
        self.assertEqual([host for host, _, _ in ordered], ['rcc-3', 'mb-0', 'rcc-1'])
        left_out = run('--exclude', 'mb-0', '--exclude', 'rcc-3').stdout
        self.assertNotIn('mb-0', left_out)
        self.assertNotIn('rcc-3', left_out)

    def test_links_limit_the_plan(self):
        links = self.folder / 'links.yml'
        links.write_text('links:\n- between: [Minnowboard-E3845, RCC-VE-C2558]\n  bw_Mbps: 1\n')
        hosts = [host.split('-')[0] for host, _, _ in stages(run('--links-file', links).stdout)]
        changes = sum(a != b for a, b in zip(hosts, hosts[1:]))
        self.assertLessEqual(changes, 1, 'the slow link is crossed once at most')

    def test_batch_size_auto_takes_the_most_samples_per_second(self):
        types = (EXAMPLES / 'device_types.yml').read_text()
        doubled = types.replace('batch_size: 8', 'batch_size: 16')
        profiles = []
        for original, larger in zip(types.split('- batch_size')[1:], doubled.split('- batch_size')[1:]):
            profiles.append((original, larger))
        merged = types
        for original, larger in profiles:
            block = larger.split(']')[0] + ']\n'
            merged = merged.replace('- batch_size' + original,
                                    '- batch_size' + block + '    - batch_size' + original)
        folder = self.files(device_types=merged)
        done = run('-b', 'auto', '--report', 'json', cwd=folder)
        report = json.loads(done.stderr)
        self.assertEqual(report['batch_size'], 16)
        self.assertEqual(len(report['tried']), 2)

    def test_batch_size_auto_where_one_takes_no_time(self):
        profile = '    - batch_size: {}\n      dtype: torch.float32\n      time_s: [{}, {}]\n'
        folder = self.files(
            models='m:\n  layers: 2\n  mem_MB: [1, 1]\n  parameters_in: 1\n  parameters_out: [1, 1]\n',
            device_types='t:\n  bw_Mbps: 1000\n  mem_MB: 1000\n  model_profiles:\n    m:\n'
                         + profile.format(1, 1, 1) + profile.format(2, 0, 0) + profile.format(3, 1, 1),
            devices='t: [h]\n')
        report = json.loads(run('-m', 'm', '-b', 'auto', '--report', 'json', cwd=folder).stderr)
        self.assertEqual((report['batch_size'], report['period_s']), (2, 0))
        self.assertEqual([one['samples_per_s'] for one in report['tried']], [0.5, None, 1.5])
        text = run('-m', 'm', '-b', 'auto', '--report', 'text', cwd=folder).stderr
        self.assertIn('no time measured for a sample', text)
        self.assertNotIn('inf', text)
        self.assertNotIn('nan', text)

    def test_replication_without_overlap_is_no_worse(self):
        single = self.report('--overlap', 'none')
        replicated = self.report('--overlap', 'none', '--replicate')
        self.assertLessEqual(replicated['period_s'], single['period_s'] * (1 + 1e-9))

    def test_what_the_tolerance_permits_is_not_called_proven(self):
        report = self.report('--then', 'hosts', '--tolerance', 0.2)
        self.assertGreater(report['period_s'], report['lower_bound_s'] * 1.1)
        self.assertFalse(report['proven'])
        self.assertTrue(report['least_proven'])
        self.assertAlmostEqual(report['least_s'], 1.539864, delta=5e-7)
        text = run('--then', 'hosts', '--tolerance', 0.2, '--report', 'text').stderr
        self.assertIn('as the tolerance allows, than 1.539864 s, which is proven optimal', text)

    def test_without_work_there_is_no_gap_of_infinity(self):
        done = run('--work', 1, '--report', 'text')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('inf', done.stderr)
        self.assertIn('was not found out', done.stderr)
        self.assertIsNone(self.report('--work', 1)['gap'])

    def test_the_json_report_is_alone_on_its_stream(self):
        types = (EXAMPLES / 'device_types.yml').read_text()
        head, tail = types.split('RCC-VE-C2558', 1)
        folder = self.files(device_types=head + 'RCC-VE-C2558' + tail.replace('batch_size: 8', 'batch_size: 9'))
        done = run('--report', 'json', cwd=folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stderr)
        self.assertIn("device type 'RCC-VE-C2558' is left out", ' '.join(report['warnings']))
        self.assertIn('is left out', run(cwd=folder).stderr)
        failed = run('--report', 'json', '-b', 3, cwd=folder)
        self.assertEqual(failed.returncode, 3)
        self.assertIn('is left out', failed.stderr)

    def test_of_an_option_that_is_there_twice_the_last_counts(self):
        self.assertEqual(run('-b', 8, '-b', 8).stdout, run().stdout)
        self.assertEqual(run('-b', 3, '-b', 8, '-m', 'none', '-m', LARGE).stdout, run('-m', LARGE).stdout)
        self.assertEqual(run('--goal', 'latency', '--goal', 'throughput', '--tolerance', 1, '--tolerance', 0).stdout,
                         run().stdout)
        twice = run('--exclude', 'mb-0', '--exclude', 'mb-1,mb-2')
        self.assertFalse({'mb-0', 'mb-1', 'mb-2'} & {host for host, _, _ in stages(twice.stdout)})

    def test_anchors_as_pyyaml_writes_them(self):
        devices = (EXAMPLES / 'devices.yml').read_text()
        models = (EXAMPLES / 'models.yml').read_text()
        first = re.search(r'mem_MB: (\[[^]]*\])', models).group(1)
        shared = models.replace(first, '&id001 ' + first, 1).replace(first, '*id001')
        shared = shared.replace('&id001 *id001', '&id001 ' + first)
        folder = self.files(models=shared, devices=devices)
        self.assertEqual(run(cwd=folder).stdout, run().stdout)

    def test_fallbacks(self):
        report = self.report('--fallbacks')
        self.assertEqual([one['lost_host'] for one in report['fallbacks']], ['mb-3', 'rcc-3'])
        for one in report['fallbacks']:
            self.assertGreater(one['period_s'], report['period_s'])

    def test_replanning_and_differences(self):
        current = self.folder / 'current.yml'
        current.write_text(''.join(f'- {host}: [{1 + 6 * k}, {6 + 6 * k}]\n' for k, host in enumerate(
            ['mb-0', 'mb-1', 'mb-2', 'mb-3', 'rcc-0', 'rcc-1', 'rcc-2', 'rcc-3'])))
        stay = run('--current', current, '--migration-cost', 100, '--horizon', 10)
        self.assertEqual(stay.stdout, current.read_text())
        move = run('--current', current, '--migration-cost', 0, '--report', 'json')
        report = json.loads(move.stderr)
        self.assertFalse(report['replan']['stays'])
        self.assertAlmostEqual(report['period_s'], 1.539864, delta=5e-7)
        self.assertNotEqual(report['changes'], [])
        after = self.folder / 'after.yml'
        after.write_text(move.stdout)
        done = run('--diff', current, after)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(done.stdout.splitlines()), len(report['changes']))
        self.assertEqual(run('--diff', after, after).stdout, 'no difference\n')

    def test_starts_without_torch(self):
        linked = subprocess.run(['ldd', PROGRAM], capture_output=True, text=True, check=True).stdout
        self.assertNotIn('torch', linked)


if __name__ == '__main__':
    sys.exit(unittest.main())

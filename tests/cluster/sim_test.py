"""harmonics sim: a trace played to the scheduler. HARMONICS_TRACES names a folder with the published traces."""

import json
import os
import pathlib
import random
import subprocess
import unittest

from cluster import HARMONICS, TIMEOUT_S, ClusterTest, environment

TRACES = os.environ.get('HARMONICS_TRACES')
NODES = 'sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\nn2,96000,393216,4,T4\n'
PODS = 'name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1500,1024,1,1000\nb,8000,2048,2,1000\nc,500,512,0,0\n'


class Sim(ClusterTest):
    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def harmonics(self, *arguments):
        return subprocess.run([str(HARMONICS), *map(str, arguments)], text=True, capture_output=True, cwd=self.folder,
                              env=environment(self.folder), timeout=TIMEOUT_S * 5)

    def sim(self, *arguments):
        done = self.harmonics('sim', *arguments, '--output', 'json')
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def busy(self):
        """Jobs of three users that ask for more than eight GPUs for a while."""
        chance = random.Random(5)
        rows = ['arrival_s,duration_s,gpus,user']
        for _ in range(400):
            rows.append(f'{chance.randrange(86400)},{60 << chance.randrange(9)},'
                        f'{chance.choice([1, 1, 1, 2, 4, 8])},{chance.choice("abc")}')
        return self.write('busy.csv', '\n'.join(rows) + '\n')

    def test_a_trace_is_played(self):
        trace = self.write('two.csv', 'arrival_s,duration_s,gpus\n0,3600,1\n0,3600,1\n')
        report = self.sim(trace, '--nodes', '1x1')
        self.assertEqual((report['jobs'], report['finished'], report['starts']), (2, 2, 2))
        self.assertEqual([one['class'] for one in report['classes']], ['all', '1 gpu'])
        self.assertEqual(report['classes'][0]['completion_h']['mean'], 1.5)
        self.assertEqual(report['classes'][0]['waiting_h']['max'], 1)
        table = self.harmonics('sim', trace, '--nodes', '1x1').stdout
        self.assertIn('completion h mean', table)
        self.assertIn('2 jobs on 1 GPUs, 0 refused; 2 starts, 0 preemptions', table)
        self.assertEqual(self.harmonics('sim', trace, '--nodes', '1x1', '--output', 'quiet').stdout, '1.500\n')

    def test_policies_and_what_they_are_told(self):
        trace = self.busy()
        means = {}
        for policy in ('balanced', 'simple', 'fair', 'las', 'srtf', 'fgd'):
            for limits in ((), ('--limits', 'exact'), ('--limits', '2')):
                report = self.sim(trace, '--nodes', '1x8', '--policy', policy, *limits)
                self.assertEqual(report['finished'], 400)
                means[policy, limits] = report['classes'][0]['completion_h']['mean']
            self.assertLessEqual(means[policy, ('--limits', 'exact')], means[policy, ()])
        self.assertLess(means['srtf', ('--limits', 'exact')], means['simple', ()])
        with_fair_share = means['simple', ()]
        alone = self.sim(trace, '--nodes', '1x8', '--policy', 'simple', '--one-user')
        self.assertNotEqual(alone['classes'][0]['completion_h']['mean'], with_fair_share)

    def test_restarts_cost_what_is_said(self):
        trace = self.write('las.csv', 'arrival_s,duration_s,gpus\n0,36000,1\n18000,60,1\n')

        def longest(*arguments):
            report = self.sim(trace, '--nodes', '1x1', '--policy', 'las', *arguments)
            self.assertEqual(report['preemptions'], 1)
            return round(3600 * report['classes'][0]['completion_h']['max'])

        self.assertEqual(longest(), 36120)
        self.assertEqual(longest('--restart-cost', 0), 36060)
        self.assertEqual(longest('--restart-cost', 0, '--from-start'), 54060)

    def test_jobs_that_stay(self):
        nodes, pods = self.write('nodes.csv', NODES), self.write('pods.csv', PODS)
        once = self.sim(pods, '--nodes', nodes, '--load', '1.5', '--seed', 1)
        self.assertEqual(once['gpus'], 6)
        self.assertEqual(once['starts'] + once['refused'], once['jobs'])
        self.assertGreater(once['allocated'], 0.8)
        self.assertEqual(once, self.sim(pods, '--nodes', nodes, '--load', '1.5', '--seed', 1))

    def test_what_cannot_be_read(self):
        bad = self.write('bad.csv', 'arrival_s,duration_s,gpus\n0,1,1\n0,long,1\n')
        for arguments, words in (((bad,), "bad.csv, line 3: duration_s is 'long'"),
                                 ((self.folder / 'none.csv',), 'none.csv'),
                                 ((bad, '--limits', '0.5'), 'from 1 to 1000'),
                                 ((bad, '--policy', 'fairest'), 'fairest'),
                                 ((self.write('ok.csv', 'arrival_s,duration_s,gpus\n0,1,1\n'), '--nodes', '8'),
                                  'MACHINESxGPUS')):
            done = self.harmonics('sim', *arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)

    def test_fragmentation_gradient_descent(self):
        """A bag of shares and whole GPUs, on machines whose cores run out first where it is packed blindly."""
        nodes = 'sn,cpu_milli,memory_mib,gpu,model\n' + ''.join(
            f'n{i},{32000 if i % 2 else 96000},262144,{2 if i % 2 else 8},{"T4" if i % 2 else "G2"}\n' for i in range(24))
        chance = random.Random(3)
        kinds = [(4000, 1, 500), (8000, 1, 250), (12000, 1, 1000), (6000, 1, 700), (64000, 8, 1000), (10000, 0, 0)]
        pods = 'name,cpu_milli,memory_mib,num_gpu,gpu_milli\n' + ''.join(
            '{},{},1024,{},{}\n'.format(i, *chance.choice(kinds)) for i in range(400))
        files = self.write('pods.csv', pods), '--nodes', self.write('nodes.csv', nodes)

        def allocated(policy):
            return sum(self.sim(*files, '--load', '1.3', '--policy', policy, '--seed', seed)['allocated']
                       for seed in (1, 2, 3)) / 3

        self.assertGreater(allocated('fgd'), allocated('balanced') + 0.02)

    @unittest.skipUnless(TRACES, 'HARMONICS_TRACES names no folder with the traces')
    def test_published_workloads(self):
        published = {'default': 95.39, 'gpushare100': 86.90, 'multigpu50': 97.18, 'gpuspec33': 94.55, 'cpu050': 95.21}
        folder = pathlib.Path(TRACES) / 'fgd'
        for workload, bar in published.items():
            values = [100 * self.sim(folder / f'openb_pod_list_{workload}.csv', '--nodes',
                                     folder / 'openb_node_list_gpu_node.csv', '--policy', 'fgd', '--load', '1.3',
                                     '--seed', seed)['allocated'] for seed in range(1, 11)]
            print(workload, round(sum(values) / 10, 2), bar)
            with self.subTest(workload):
                self.assertGreaterEqual(sum(values) / 10, bar)

    @unittest.skipUnless(TRACES, 'HARMONICS_TRACES names no folder with the traces')
    def test_philly(self):
        trace = pathlib.Path(TRACES) / 'philly' / 'philly.csv'
        mean, p99 = {}, {}
        for policy in ('balanced', 'simple', 'las', 'srtf'):
            for limits in ((), ('--limits', 'exact')):
                every = self.sim(trace, '--policy', policy, *limits)['classes'][0]['completion_h']
                mean[policy, limits], p99[policy, limits] = every['mean'], every['p99']
            self.assertLessEqual(mean[policy, ('--limits', 'exact')], mean[policy, ()])
            self.assertLessEqual(p99[policy, ('--limits', 'exact')], p99[policy, ()])
        self.assertLessEqual(mean['las', ()], 15)
        self.assertLessEqual(p99['las', ()], 195)


if __name__ == '__main__':
    unittest.main()

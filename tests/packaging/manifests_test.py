"""The Kubernetes manifests are valid by the schema of Kubernetes, fit together, and name flags that there are."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE_DIR = pathlib.Path(os.environ['HARMONICS_SOURCE_DIR'])
BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])
sys.path.insert(0, str(SOURCE_DIR / 'tests'))
import packages  # noqa: E402

FOLDER = SOURCE_DIR / 'packaging' / 'kubernetes'
FILES = sorted(FOLDER.glob('*.yaml'))
VERSION = '1.31'
LOAD = 'import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))'
CHECK = '''
import json, sys, kubernetes_validate
for one in json.load(sys.stdin):
    kubernetes_validate.validate(one, sys.argv[1], strict=True)
'''


class ManifestsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.python = packages.interpreter('kubernetes', ['kubernetes-validate==1.31.0', 'PyYAML', 'setuptools<80'], 'kubernetes_validate, yaml')
        if cls.python is None:
            raise unittest.SkipTest('kubernetes-validate cannot be had from the package index')

    def documents(self, path):
        done = subprocess.run([self.python, '-c', LOAD, path], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def validate(self, documents):
        return subprocess.run([self.python, '-c', CHECK, VERSION], input=json.dumps(documents), capture_output=True, text=True, timeout=120)

    def test_all_are_valid(self):
        self.assertEqual([path.name for path in FILES],
                         ['autoscale.yaml', 'namespace.yaml', 'postgres.yaml', 'server.yaml', 'worker.yaml'])
        for path in FILES:
            with self.subTest(path.name):
                done = self.validate(self.documents(path))
                self.assertEqual(done.returncode, 0, done.stderr[-1500:])

    def test_the_validator_sees_what_is_wrong(self):
        server = self.documents(FOLDER / 'server.yaml')
        server[1]['spec']['replica'] = 2
        self.assertNotEqual(self.validate(server).returncode, 0)

    def test_they_fit_together(self):
        found = {(one['kind'], one['metadata']['name']): one for path in FILES for one in self.documents(path)}
        for (kind, name), one in found.items():
            if kind != 'Namespace':
                self.assertEqual(one['metadata']['namespace'], 'harmonics', name)
            if kind in ('StatefulSet', 'Deployment'):
                labels = one['spec']['template']['metadata']['labels']
                self.assertEqual(one['spec']['selector']['matchLabels'], labels)
                mounted = {mount['name'] for part in ('containers', 'initContainers')
                           for container in one['spec']['template']['spec'].get(part, []) for mount in container.get('volumeMounts', [])}
                volumes = {volume['name'] for volume in one['spec']['template']['spec'].get('volumes', [])} | {
                    claim['metadata']['name'] for claim in one['spec'].get('volumeClaimTemplates', [])}
                self.assertEqual(mounted, volumes, name)
                self.assertTrue(one['spec']['template']['spec']['securityContext']['runAsNonRoot'])
        scaled = found['HorizontalPodAutoscaler', 'harmonics-worker']['spec']
        self.assertIn((scaled['scaleTargetRef']['kind'], scaled['scaleTargetRef']['name']), found)
        described = scaled['metrics'][0]['object']['describedObject']
        self.assertIn((described['kind'], described['name']), found)
        worker = found['Deployment', 'harmonics-worker']['spec']['template']['spec']['containers'][0]
        self.assertEqual(worker['resources']['limits']['nvidia.com/gpu'], '1')
        self.assertIn('harmonics-workers.harmonics.svc', worker['args'][0])
        self.assertIn(('Service', 'harmonics-workers'), found)
        rule = found['ConfigMap', 'harmonics-metrics']['data']['adapter-rule.yaml']
        self.assertIn(scaled['metrics'][0]['object']['metric']['name'], rule)
        self.assertIn('"harmonics_tasks"', (SOURCE_DIR / 'src/server/metrics.cc').read_text())

    def test_their_flags_are_there(self):
        found = {(one['kind'], one['metadata']['name']): one for path in FILES for one in self.documents(path)}
        for kind, command in (('StatefulSet', 'server'), ('Deployment', 'worker')):
            words = ' '.join(found[kind, f'harmonics-{command}']['spec']['template']['spec']['containers'][0]['args'])
            help_text = subprocess.run([BINARY_DIR / 'harmonics', command, '--help'], capture_output=True, text=True,
                                       timeout=60, check=True).stdout
            flags = re.findall(r'(?<= )--[a-z-]+', words)
            self.assertGreater(len(flags), 4)
            for flag in flags:
                self.assertIn(f'  {flag} ', help_text)


if __name__ == '__main__':
    unittest.main()

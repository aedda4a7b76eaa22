"""The front: help, wrong usage, exit codes, doctor, completion, and no libtorch."""

import json
import re
import shutil
import subprocess
import unittest

import program

COMMANDS = ['', 'graph', 'graph show', 'graph check', 'graph parts', 'graph dot', 'graph svg', 'graph zoo', 'import',
            'export', 'train', 'stage', 'run', 'profile', 'plan', 'quantize', 'dispatch-sweep', 'dispatch-trace', 'trace', 'keys',
            'keys new', 'keys show', 'verify', 'tokens', 'server', 'worker', 'submit',
            'monitor', 'tasks', 'task', 'why', 'logs', 'artifacts', 'cancel', 'wait', 'workers', 'drain', 'quota', 'alloc',
            'alloc slurm', 'alloc pbs', 'up', 'sim', 'devices', 'doctor', 'completion']
TRAIN_FLAGS = ('bind epochs batch-size micro-batches threads seed parts pipeline checkpoint checkpoint-every '
               'resume lr optimizer momentum weight-decay decay beta1 beta2 epsilon clip precision test-split schedule warmup '
               'patience metrics weights deploy shuffle no-shuffle output').split()


class FrontTest(program.CliTest):
    def test_front_does_not_load_torch(self):
        libraries = subprocess.run(['ldd', program.HARMONICS], capture_output=True, text=True,
                                   check=True, timeout=program.TIMEOUT_S).stdout
        self.assertIn('libc.so', libraries)
        for name in ('torch', 'libc10', 'blas'):
            self.assertNotIn(name, libraries)

    def test_every_command_has_help_with_an_example(self):
        for command in COMMANDS:
            with self.subTest(command):
                text = self.done(*command.split(), '--help')
                self.assertIn(f'Usage: harmonics {command}'.strip(), text)
                self.assertIn('Example:\n', text)

    def test_version(self):
        self.assertRegex(self.done('--version'), r'^harmonics \d+\.\d+\.\d+\n$')

    def test_train_has_every_flag(self):
        text = self.done('train', '--help')
        for flag in TRAIN_FLAGS:
            self.assertIn(f'--{flag} ', text)

    def test_wrong_usage(self):
        cases = {
            '': 'needs a command: graph, import, export, train, stage, run, profile, plan, quantize, dispatch-sweep, '
                'dispatch-trace, trace, keys, sign, verify, custody, tokens, generate, serve, server, worker, submit, '
                'monitor, tasks, task, why, logs, artifacts, report, cancel, priority, wait, workers, drain, quota, alloc, up, sim, devices, doctor, '
                'completion',
            'graph': "needs a command: show, check, parts, dot, svg, zoo",
            'trian net.harp': "did you mean 'train'?",
            'graph shwo net.harp': "did you mean 'show'?",
            'polish': "'polish' is no command",
            'train': 'FILE is required',
            'train net.harp more.harp': "no further argument 'more.harp'",
            'train net.harp --epoch 3': "did you mean '--epochs'?",
            'train net.harp --frobnicate': "has no flag '--frobnicate'",
            'train net.harp --epochs': '--epochs needs a value',
            'train net.harp --epochs 0': "'0' is not a whole number from 1",
            'train net.harp --epochs 2.5': "'2.5' is not a whole number",
            'train net.harp --epochs 1 --epochs 2': '--epochs is given more than once',
            'train net.harp --epochs 1000000001': 'from 1 to 1000000000',
            'train net.harp --batch-size 16777217': 'from 1 to 16777216',
            'train net.harp --micro-batches 65537': 'from 1 to 65536',
            'train net.harp --recompute 0': "'0' is not a whole number from 1 to 65536",
            'train net.harp --threads 4097': 'from 0 to 4096',
            'train net.harp --parts 100001': 'from 1 to 100000',
            'train net.harp --replicas 1025': 'from 1 to 1024',
            'train net.harp --reduction star': "'star' is none of chain|tree|ring",
            'train net.harp --seed -1': "'-1' is not a whole number of at least 0",
            'train net.harp --lr fast': "'fast' is not a number",
            'train net.harp --lr inf': "'inf' is not a number",
            'train net.harp --test-split 1': 'at least 0 and below 1',
            'train net.harp --optimizer lbfgs': "'lbfgs' is none of sgd|adam|adamw",
            'train net.harp --optimizer sgd|adam': "'sgd|adam' is none of",
            'train net.harp --bind point': "'point' is not of the form NAME=csv:PATH",
            'train net.harp --bind a=csv:b --bind a=csv:c': "'a' is given twice",
            'train net.harp --resume': '--resume requires --checkpoint',
            'train net.harp --checkpoint-every 3': '--checkpoint-every requires --checkpoint',
            'train net.harp --shuffle --no-shuffle': 'excludes',
            'train net.harp --output xml': "'xml' is none of table|json|quiet",
            'graph zoo unicorn': "there is no 'unicorn' in the zoo",
            'completion tcsh': "'tcsh' is none of bash|zsh|fish",
        }
        for line, text in cases.items():
            with self.subTest(line):
                result = self.call(*line.split())
                self.assert_fails(result, text, "\ntry 'harmonics", "--help'\n", code=2)

    def test_run_asks_for_weights_that_no_one_names(self):
        self.assert_fails(self.call('run', self.net), 'names no weights: give --weights FILE')
        self.assert_fails(self.call('run', 'lenet'), "producer 'image' of graph 'lenet' has no data")
        named = self.write('named.harp', self.net.read_text() + '\nweights { file = "none.safetensors"; }\n')
        self.assert_fails(self.call('run', named), 'none.safetensors')
        wrong = self.write('wrong.harp', self.net.read_text() + '\nweights { flie = "x"; }\n')
        self.assert_fails(self.call('run', wrong), "the weights section has no setting 'flie'")

    def copy_front(self):
        """The front in a folder of its own, without harmonics-torch beside it."""
        front = self.folder / 'bin' / 'harmonics'
        front.parent.mkdir()
        shutil.copy(program.HARMONICS, front)
        return front

    def test_doctor_bounds_what_it_reads(self):
        front = self.copy_front()
        for answer, text in (('head -c 65536 /dev/zero | tr "\\0" " "; echo {', 'failed'),
                             ('exit 3', 'failed'), ('echo nonsense', 'answer of harmonics-torch')):
            fake = self.write('bin/harmonics-torch', f'#!/bin/sh\n{answer}\n')
            fake.chmod(0o755)
            result = subprocess.run([front, 'doctor', '--output', 'json'], capture_output=True,
                                    text=True, timeout=program.TIMEOUT_S)
            torch = json.loads(result.stdout)['parts'][0]
            self.assertFalse(torch['built'])
            self.assertIn(text, torch['note'])

    def test_missing_torch_program_is_named(self):
        front = self.copy_front()
        for line in (['train', self.net], ['run', self.net, '--weights', 'w']):
            result = subprocess.run([front, *line], capture_output=True, text=True,
                                    timeout=program.TIMEOUT_S)
            self.assert_fails(result, 'harmonics-torch', 'HARMONICS_WITH_TORCH')
        # The doctor still answers, and says what is missing.
        result = subprocess.run([front, 'doctor', '--output', 'json'], capture_output=True, text=True,
                                timeout=program.TIMEOUT_S, check=True)
        report = json.loads(result.stdout)
        self.assertIsNone(report['torch'])
        # What lies in other programs and libraries is not there either, whatever could be built.
        for part in report['parts']:
            if part['name'] not in ('zk', 'text'):  # the front has these itself
                self.assertFalse(part['built'], part)

    def test_doctor(self):
        report = json.loads(self.done('doctor', '--output', 'json'))
        parts = {part['name']: part for part in report['parts']}
        self.assertTrue(parts['torch']['built'])
        self.assertIn('libtorch ' + report['torch']['version'], parts['torch']['note'])
        for name in ('text-gpu', 'grpc', 'flight', 'arrow', 'mpi', 'opencl', 'store', 'zk', 'text', 'images', 'jvm'):
            self.assertIn(parts[name]['built'], (True, False))
            self.assertEqual('left out' in parts[name]['note'], not parts[name]['built'], name)
            # The tests need the whole tree, so what could be built has been.
            self.assertNotIn('though its libraries are there', parts[name]['note'], name)
        self.assertGreater(report['processors'], 0)
        table = self.done('doctor')
        for word in ('compiler', 'build type', 'SIMD', 'torch', 'opencl'):
            self.assertIn(word, table)
        built = [part['name'] for part in report['parts'] if part['built']]
        self.assertEqual(self.done('doctor', '--output', 'quiet').split(), built)

    def test_output_that_cannot_be_written(self):
        with open('/dev/full', 'w') as full:
            process = self.start('graph', 'show', self.net, stdout=full)
            _, error = process.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(process.returncode, 1)
        self.assertIn('cannot write to standard output', error)


class CompletionTest(program.CliTest):
    def complete(self, *words):
        """What bash offers for a command line whose last word is being typed."""
        script = ('source <("$0" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  '_harmonics; printf "%s\\n" "${COMPREPLY[@]}"')
        result = subprocess.run(['bash', '-c', script, program.HARMONICS, *words], cwd=self.folder,
                                capture_output=True, text=True, timeout=program.TIMEOUT_S)
        self.assertEqual(result.stderr, '')
        return result.stdout.split()

    def test_bash(self):
        self.assertEqual(self.complete('harmonics', 'tr'), ['train', 'trace'])
        self.assertEqual(self.complete('harmonics', 'graph', 's'), ['show', 'svg'])
        self.assertEqual(self.complete('harmonics', 'graph', 'zoo', 'vit'), ['vit-base', 'vit-large'])
        self.assertEqual(self.complete('harmonics', 'train', '--optimizer', 'a'), ['adam', 'adamw'])
        # What stands for something else in capitals is no choice.
        policies = re.search(r'--policy (\S+)\|PATH\.so', self.done('server', '--help')).group(1).split('|')
        self.assertEqual(policies[:2], ['balanced', 'simple'])
        self.assertEqual(self.complete('harmonics', 'server', '--policy', ''), policies)
        self.assertEqual(self.complete('harmonics', 'server', '--store', 'p'), [])
        self.assertEqual(self.complete('harmonics', 'train', 'ne'), ['net.harp'])
        self.assertEqual(self.complete('harmonics', 'train', 'net.harp', '--weights', 'po'),
                         ['points.csv'])
        self.assertEqual(self.complete('harmonics', 'train', 'net.harp', '--epochs', ''), [])
        offered = self.complete('harmonics', 'train', 'net.harp', '--')
        for flag in TRAIN_FLAGS:
            self.assertIn('--' + flag, offered)

    def test_every_shell_gets_every_flag(self):
        for shell, mark in (('bash', '--{}'), ('zsh', '--{}'), ('fish', '-l {}')):
            script = self.done('completion', shell)
            for flag in TRAIN_FLAGS:
                self.assertIn(mark.format(flag), script)
            for word in ('graph', 'doctor', 'completion', 'vit-large', 'adamw'):
                self.assertIn(word, script)

    def test_scripts_parse(self):
        for shell in ('bash', 'zsh', 'fish'):
            if shutil.which(shell) is None:
                continue
            path = self.write('script.' + shell, self.done('completion', shell))
            result = subprocess.run([shell, '-n', path], capture_output=True, text=True,
                                    timeout=program.TIMEOUT_S)
            self.assertEqual((result.returncode, result.stderr), (0, ''), shell)


if __name__ == '__main__':
    unittest.main()

"""from_torch and to_torch: the same numbers, the same training, the module's own memory."""

import copy
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy
import torch
from torch import nn

import harmonics as hm

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import torch_modules

BINARY_DIR = pathlib.Path(os.environ['HARMONICS_BINARY_DIR'])


def cases():
    torch.manual_seed(3)
    yield torch_modules.LeNet(), torch.rand(48, 1, 28, 28)
    yield torch_modules.Transformer(), torch.randint(0, 50, (48, 16))
    yield torch_modules.ResNet18(), torch.rand(24, 3, 32, 32)


class FromTorchTest(unittest.TestCase):
    def test_three_modules_compute_and_learn_as_in_torch(self):
        for module, inputs in cases():
            with self.subTest(type(module).__name__):
                name = 'ids' if inputs.dtype == torch.int64 else 'image'
                labels = torch.arange(len(inputs)) % 10
                graph = hm.from_torch(module, inputs[:2], loss='cross_entropy')
                self.assertEqual([node.name for node in graph.producers], [name, 'label'])
                self.assertEqual(graph.name, type(module).__name__)
                module.eval()
                with torch.no_grad():
                    wanted = module(inputs[:5])
                runtime = hm.Runtime(graph, optimizer='sgd', lr=0.05, batch_size=8, shuffle=False, threads=1)
                torch.testing.assert_close(runtime.infer({name: inputs[:5]})['output'], wanted, rtol=1e-5, atol=1e-5)
                steps = []
                runtime.fit({name: inputs, 'label': labels}, epochs=2, on_step=lambda one: steps.append(one.loss))
                twin = copy.deepcopy(module)
                wanted = torch_modules.losses_in_torch(twin, inputs, labels, 2)
                self.assertEqual(len(steps), len(wanted))
                numpy.testing.assert_allclose(steps, wanted, rtol=0, atol=1e-5)
                hm.to_torch(runtime, module)
                for key, value in module.state_dict().items():
                    if not key.endswith('num_batches_tracked'):
                        torch.testing.assert_close(value, twin.state_dict()[key], rtol=1e-4, atol=1e-4)

    def test_three_processes_learn_what_the_command_line_learns(self):
        for module, inputs in cases():
            with self.subTest(type(module).__name__), tempfile.TemporaryDirectory() as folder:
                # Twelve lines from a module to a trained one:
                inputs, labels = inputs[:16], torch.arange(16) % 10
                name = 'ids' if inputs.dtype == torch.int64 else 'image'
                graph = hm.from_torch(module, inputs[:2], loss='cross_entropy')
                report = hm.train_distributed(graph, {name: inputs, 'label': labels}, parts=3, processes=True,
                                              transport='tcp', epochs=1, batch_size=8, optimizer='sgd', lr=0.05,
                                              shuffle=False, threads=1)
                state = hm.to_torch(report.graph)

                graph.save(f'{folder}/model.harp')
                numpy.save(f'{folder}/x.npy', inputs.numpy())
                numpy.save(f'{folder}/label.npy', labels.numpy())
                said = subprocess.run(
                    [BINARY_DIR / 'harmonics', 'train', f'{folder}/model.harp', '--bind', f'{name}=npy:{folder}/x.npy',
                     '--bind', f'label=npy:{folder}/label.npy', '--epochs', '1', '--batch-size', '8', '--optimizer', 'sgd',
                     '--lr', '0.05', '--no-shuffle', '--threads', '1', '--output', 'quiet'],
                    capture_output=True, text=True, timeout=300, check=True).stdout.strip()
                self.assertEqual(report.digest, said)
                runtime = hm.Runtime(graph, optimizer='sgd', lr=0.05, batch_size=8, shuffle=False, threads=1)
                runtime.fit({name: inputs, 'label': labels}, epochs=1)
                self.assertEqual(runtime.digest(), said)
                self.assertEqual(len(report.steps), 2)
                for key, value in hm.to_torch(runtime).items():
                    self.assertTrue(torch.equal(value, state[key]), key)

    def test_weights_are_shared_both_ways(self):
        module = torch_modules.LeNet()
        graph = hm.from_torch(module, torch.rand(1, 1, 28, 28), loss='cross_entropy')
        weights = graph.weights()
        for name, parameter in module.named_parameters():
            self.assertEqual(weights[name].__array_interface__['data'][0], parameter.data_ptr(), name)
        runtime = hm.Runtime(graph)
        x = torch.rand(3, 1, 28, 28)
        before = runtime.infer({'image': x})['output'].clone()
        with torch.no_grad():
            module.fc3.bias += 1
        torch.testing.assert_close(runtime.infer({'image': x})['output'], before + 1)
        state = hm.to_torch(runtime)
        runtime.fit({'image': x, 'label': torch.tensor([1, 2, 3])}, epochs=1)
        self.assertFalse(torch.equal(module.fc3.bias, hm.to_torch(runtime)['fc3.bias']), 'learning must not touch it')
        self.assertEqual(set(state), {name for name, _ in module.named_parameters()})

    def test_frozen_tied_and_named(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(11, 6)
                self.body = nn.Linear(6, 6)
                self.head = nn.Linear(6, 11, bias=False)
                self.head.weight = self.table.weight
                self.body.bias.requires_grad_(False)
                self.body.weight.requires_grad_(False)

            def forward(self, ids, scale):
                return {'logits': self.head(torch.tanh(self.body(self.table(ids))) * scale), 'scale': scale * 2}

        module = Tied()
        ids, scale = torch.randint(0, 11, (12, 4)), torch.rand(12, 4, 6)
        graph = hm.from_torch(module, (ids, scale)).with_loss('cross_entropy', prediction='logits')
        self.assertEqual([node.name for node in graph.consumers], ['logits', 'scale_output'])
        self.assertEqual(graph.parameter_count, 66)
        runtime = hm.Runtime(graph, optimizer='sgd', lr=0.1, batch_size=4, shuffle=False)
        labels = torch.randint(0, 11, (12, 4))
        runtime.fit({'ids': ids, 'scale': scale, 'label': labels}, epochs=2)
        twin = copy.deepcopy(module)
        optimizer = torch.optim.SGD([one for one in twin.parameters() if one.requires_grad], lr=0.1)
        for _ in range(2):
            for start in range(0, 12, 4):
                optimizer.zero_grad()
                out = twin(ids[start:start + 4], scale[start:start + 4])['logits']
                loss = nn.functional.cross_entropy(out.reshape(-1, 11), labels[start:start + 4].reshape(-1))
                loss.backward()
                optimizer.step()
        hm.to_torch(runtime, module)
        torch.testing.assert_close(module.table.weight, twin.table.weight, rtol=1e-4, atol=1e-5)

    def test_what_cannot_be_taken_over_is_named_with_its_line(self):
        class Sorts(nn.Module):
            def forward(self, x):
                x = x * 2
                return torch.sort(x)[0]

        class Decomposes(nn.Module):
            def forward(self, x):
                return torch.linalg.eigh(x @ x.transpose(-1, -2))[0]

        for module, shape, operator, offset in ((Sorts(), (2, 4), 'TopK', 2), (Decomposes(), (2, 3, 3), 'linalg_eigh', 1)):
            line = type(module).forward.__code__.co_firstlineno + offset
            with self.assertRaises(hm.errors.Unimplemented) as caught:
                hm.from_torch(module, torch.rand(shape))
            self.assertIn(operator, str(caught.exception))
            self.assertRegex(str(caught.exception), re.escape(f'torch_test.py:{line}'))
        with self.assertRaisesRegex(TypeError, 'torch.nn.Module, not a int'):
            hm.from_torch(3, torch.rand(2))

    def test_dropout_that_is_left_out_is_said(self):
        module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1), nn.Linear(4, 2))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter('always')
            hm.from_torch(module, torch.rand(2, 4))
        self.assertIn('1 drops 0.1 of its inputs', ' '.join(str(one.message) for one in said))
        self.assertTrue(module.training and module[1].training)


if __name__ == '__main__':
    unittest.main()

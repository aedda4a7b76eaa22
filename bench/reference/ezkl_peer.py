"""EZKL proves a dense network of int8 numbers: prints what it took as JSON.

Run in an environment that has `ezkl` and `onnx`. Weights are random numbers on the grid that int8 has; EZKL rounds
them and the activations to 2^-7, which is about as fine. Keys and the structured reference string (a test one, made
here: nothing is fetched) are not counted.
"""

import argparse
import inspect
import json
import os
import pathlib
import resource
import time

import ezkl
import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


def network(widths, batch, seed=1):
    chance = numpy.random.default_rng(seed)
    nodes, weights, last = [], [], 'x'
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        matrix = chance.integers(-127, 128, (inputs, outputs)) / 128 / inputs ** 0.5
        weights += [numpy_helper.from_array(matrix.astype(numpy.float32), f'w{i}'),
                    numpy_helper.from_array(numpy.zeros(outputs, numpy.float32), f'b{i}')]
        nodes.append(helper.make_node('Gemm', [last, f'w{i}', f'b{i}'], [f'y{i}']))
        last = f'y{i}'
        if i + 2 < len(widths):
            nodes.append(helper.make_node('Relu', [last], [f'r{i}']))
            last = f'r{i}'
    graph = helper.make_graph(
        nodes, 'digits', [helper.make_tensor_value_info('x', TensorProto.FLOAT, [batch, widths[0]])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, [batch, widths[-1]])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 13)])
    model.ir_version = 8
    return model, chance.random((batch, widths[0]))


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measured(work):
    begin, wall = cpu_seconds(), time.monotonic()
    work()
    return {'cpu': cpu_seconds() - begin, 'wall': time.monotonic() - wall}


def done(result):
    """Some of EZKL's calls are awaited in some versions."""
    if inspect.isawaitable(result):
        import asyncio

        async def wait():
            return await result
        return asyncio.run(wait())
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--folder', required=True)
    parser.add_argument('--batch', type=int, default=16)
    parser.add_argument('--widths', default='64,256,128,10')
    arguments = parser.parse_args()
    os.chdir(pathlib.Path(arguments.folder))
    model, rows = network([int(width) for width in arguments.widths.split(',')], arguments.batch)
    onnx.save(model, 'network.onnx')
    pathlib.Path('input.json').write_text(json.dumps({'input_data': [rows.flatten().tolist()]}))

    options = ezkl.PyRunArgs()
    options.input_visibility = 'private'
    options.param_visibility = 'private'
    options.output_visibility = 'public'
    options.input_scale = 7
    options.param_scale = 7
    done(ezkl.gen_settings('network.onnx', 'settings.json', py_run_args=options))
    done(ezkl.calibrate_settings('input.json', 'network.onnx', 'settings.json', 'resources', scales=[7]))
    done(ezkl.compile_circuit('network.onnx', 'network.ezkl', 'settings.json'))
    settings = json.loads(pathlib.Path('settings.json').read_text())
    ezkl.gen_srs('kzg.srs', settings['run_args']['logrows'])
    setup = measured(lambda: done(ezkl.setup('network.ezkl', 'vk.key', 'pk.key', 'kzg.srs')))
    done(ezkl.gen_witness('input.json', 'network.ezkl', 'witness.json'))
    prove = measured(lambda: done(ezkl.prove('witness.json', 'network.ezkl', 'pk.key', 'proof.json', 'kzg.srs')))
    verify = measured(lambda: done(ezkl.verify('proof.json', 'settings.json', 'vk.key', 'kzg.srs')))
    proof = json.loads(pathlib.Path('proof.json').read_text())
    print(json.dumps({'version': getattr(ezkl, '__version__', '23'), 'logrows': settings['run_args']['logrows'],
                      'setup': setup, 'prove': prove, 'verify': verify, 'bytes': len(proof['proof'])}))


if __name__ == '__main__':
    main()

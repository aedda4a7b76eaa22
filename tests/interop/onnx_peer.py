"""Compares imported ONNX files with what they should compute: onnx_peer.py HARMONICS FOLDERS FOLDER.

The nine light models of the onnx package against the outputs that come with it, and trained files against onnxruntime,
each whole and cut in three; outputs within 1e-4 of the largest number. Prints a line per file; exits with 1 where one
does not agree.
"""

import os
import pathlib
import re
import subprocess
import sys

import numpy
import onnx
import onnx.numpy_helper
import onnxruntime

TOLERANCE = 1e-4
# What is to be said of a trained file: the shape of a sample, inputs that become constants, that a whole tensor is one sample.
TRAINED = {
    'model.onnx': [],
    '320n.onnx': ['--shape', 'images=3,320,320'],
    'layout_cdla.onnx': [],
    'ch_PP-OCRv4_det_infer.onnx': ['--shape', 'x=3,160,160'],
    'ch_PP-OCRv4_rec_infer.onnx': ['--shape', 'x=3,48,160'],
    'ch_ppocr_mobile_v2.0_cls_infer.onnx': ['--shape', 'x=3,48,192'],
    'silero_vad.onnx': ['--shape', 'input=576', '--value', 'sr=16000'],
    'silero_vad_16k_op15.onnx': ['--shape', 'input=576', '--value', 'sr=16000'],
    'silero_vad_half.onnx': ['--shape', 'input=576'],
    'silero_vad_op18_ifless.onnx': ['--shape', 'input=576', '--value', 'sr=16000'],
    'silero_vad_openvino_16k.onnx': [],
    'silero_vad_16k_sequence.onnx': ['--shape', 'input=70,576', '--batch', 'none'],
}


def user_name(name):
    """A name of the file as the graph spells it."""
    name = re.sub(r'[^A-Za-z0-9_.]', '_', name[:100]).lstrip('.')
    return 'n' + name if not name or name[0].isdigit() else name


def harmonics(*words):
    return subprocess.run([sys.argv[1], *map(str, words)], capture_output=True, text=True, timeout=600)


def computed(graph, folder, inputs, outputs, parts):
    """What `harmonics run` makes of one sample, by output."""
    words = []
    for name, value in inputs.items():
        numpy.save(folder / f'{user_name(name)}.npy', value)
        words += ['--bind', f'{user_name(name)}=npy:{folder / user_name(name)}.npy']
    for name in outputs:
        words += ['--out', f'{user_name(name)}=csv:{folder / user_name(name)}.csv']
    done = harmonics('run', graph, *words, '--threads', 1, '--parts', parts, '--output', 'quiet')
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    rows = {}
    for name in outputs:
        text = (folder / f'{user_name(name)}.csv').read_text().splitlines()
        rows[name] = numpy.array([float(x) for x in text[-1].split(',')])
    return rows


def compare(file, folder, inputs, expected, words=()):
    """Imports, runs whole and in three parts, and says how far off it is."""
    graph = folder / 'model.harp'
    done = harmonics('import', file, '-o', graph, *words)
    if done.returncode != 0:
        return f'not imported: {done.stderr.strip()}'
    whole = computed(graph, folder, inputs, expected, 1)
    cut = computed(graph, folder, inputs, expected, 3)
    worst = 0
    for name, value in expected.items():
        if not numpy.array_equal(whole[name], cut[name]):
            return f'{name} differs when it is cut in three'
        value = numpy.asarray(value, numpy.float64).ravel()
        if value.shape != whole[name].shape:
            return f'{name} has {whole[name].size} numbers, not {value.size}'
        worst = max(worst, numpy.abs(whole[name] - value).max() / max(1, numpy.abs(value).max()))
    print(f'{file.name}: {worst:.1e}', flush=True)
    return None if worst <= TOLERANCE else f'off by {worst:.1e}'


def light_models():
    folder = pathlib.Path(onnx.__file__).parent / 'backend/test/data/light'
    for file in sorted(folder.glob('*.onnx')):
        graph = onnx.load(file).graph
        known = {one.name for one in graph.initializer}
        inputs = {}
        for one in graph.input:
            if one.name not in known:
                shape = [axis.dim_value for axis in one.type.tensor_type.shape.dim]
                count = numpy.prod(shape)
                inputs[one.name] = (numpy.arange(count).reshape(shape) / count).astype(numpy.float32)
        if file.name == 'light_squeezenet.onnx':
            yield without_softmax(file, inputs)
            continue
        tensor = onnx.TensorProto()
        tensor.ParseFromString((folder / f'{file.stem}_output_0.pb').read_bytes())
        yield file, inputs, {graph.output[0].name: onnx.numpy_helper.to_array(tensor)}, ()


def without_softmax(file, inputs):
    """Its weights are all one number, so that a thousand logits of some 1e10 are equal but for the last bit, which its
    softmax makes visible: what goes into it is compared instead, with onnxruntime's."""
    model = onnx.load(file)
    last = model.graph.node.pop()
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info(last.input[0], onnx.TensorProto.FLOAT, None))
    cut = pathlib.Path(sys.argv[3]) / file.name
    onnx.save(model, cut)
    session = onnxruntime.InferenceSession(cut, providers=['CPUExecutionProvider'])
    return cut, inputs, {last.input[0]: session.run(None, inputs)[0]}, ()


def batch_axis(shape):
    """The first axis that is open, else the first of one."""
    if not shape or shape[0] == 1 or not isinstance(shape[0], int) or shape[0] <= 0:
        return 0
    opened = [i for i, axis in enumerate(shape) if not isinstance(axis, int) or axis <= 0]
    return opened[0] if opened else shape.index(1)


def trained_models(files):
    chance = numpy.random.default_rng(7)
    for file in files:
        words = TRAINED.get(file.name)
        if words is None:
            continue
        said = dict(word.split('=') for word in words[1::2] if '=' in word)
        whole = 'none' in words
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(file, options, providers=['CPUExecutionProvider'])
        given, bound = {}, {}
        for one in session.get_inputs():
            if one.name in said and not one.shape:
                given[one.name] = numpy.array(int(said[one.name]), numpy.int64)
                continue
            shape, at = list(one.shape), batch_axis(one.shape)
            if one.name in said:
                shape = [int(x) for x in said[one.name].split(',')]
                if not whole:
                    shape.insert(at, 1)
            if not whole:
                shape[at] = 1
            value = (chance.integers(0, 256, shape).astype(numpy.int32) if one.type == 'tensor(int32)'
                     else chance.random(shape, numpy.float32))
            given[one.name] = value
            bound[one.name] = value[None] if whole else numpy.moveaxis(value, at, 0)
        names = [one.name for one in session.get_outputs()]
        yield file, bound, dict(zip(names, session.run(names, given))), words


def main():
    folder = pathlib.Path(sys.argv[3])
    files = sorted(file for one in sys.argv[2].split(os.pathsep) if one for file in pathlib.Path(one).rglob('*.onnx'))
    wrong = []
    for file, inputs, expected, words in [*light_models(), *trained_models(files)]:
        problem = compare(file, folder, inputs, expected, words)
        if problem:
            wrong.append(f'{file.name}: {problem}')
    print('\n'.join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())

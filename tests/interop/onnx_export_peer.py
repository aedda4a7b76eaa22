"""Runs exported ONNX files in onnxruntime: onnx_export_peer.py FOLDER HARMONICS MINILM TRAINED.

FOLDER is what onnx_export_cases.cc wrote. MINILM (its folder) goes through `harmonics import`, `export` and `run`, TRAINED
(an ONNX file) through import and export; either may be left empty. Outputs must be within 1e-4 of the largest number,
for a batch and for its first sample alone. Prints what is wrong and exits with 1.
"""

import pathlib
import subprocess
import sys

import numpy
import onnx
import onnxruntime

TOLERANCE = 1e-4
NAMES = {'float32': numpy.float32, 'int64': numpy.int64, 'bool': numpy.bool_, 'float64': numpy.float64}


def session_of(file):
    onnx.checker.check_model(str(file), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(file, options, providers=['CPUExecutionProvider'])


def off_by(got, want):
    if got.shape != want.shape:
        return f'shape {got.shape}, not {want.shape}'
    got, want = got.astype(numpy.float64), want.astype(numpy.float64)
    same = (got == want) | (numpy.isnan(got) & numpy.isnan(want))
    worst = numpy.abs(numpy.where(same, 0, got - want)).max(initial=0) / max(1, numpy.abs(want[numpy.isfinite(want)]).max(initial=0))
    return f'off by {worst:.1e}' if not worst <= TOLERANCE else None


def check(file, inputs, outputs):
    session = session_of(file)
    inputs = {one.name: inputs[one.name] for one in session.get_inputs()}
    for count in {len(next(iter(inputs.values()))), 1}:
        answers = session.run(list(outputs), {name: value[:count] for name, value in inputs.items()})
        for (name, want), got in zip(outputs.items(), answers):
            problem = off_by(got, want[:count])
            if problem:
                return f'{file.stem}: {name} of {count} samples: {problem}'
    return None


def harmonics(*words):
    subprocess.run([sys.argv[2], *map(str, words)], check=True, timeout=300, stdout=subprocess.DEVNULL)


def imported_minilm(folder):
    """A model of Hugging Face: what `harmonics run` computes of unequal sentences."""
    harp, length, width = folder / 'minilm.harp', 12, 384
    harmonics('import', sys.argv[3], '-o', harp, '--weights', 'link', '--length', 64)
    chance = numpy.random.default_rng(3)
    mask = (numpy.arange(length)[None] < numpy.array([[12], [7], [3]])).astype(numpy.int64)
    inputs = {'input_ids': chance.integers(1000, 20000, mask.shape) * mask, 'attention_mask': mask,
              'token_type_ids': numpy.zeros_like(mask)}
    binds = []
    for name, value in inputs.items():
        numpy.save(folder / f'{name}.npy', value)
        binds += ['--bind', f'{name}=npy:{folder / name}.npy']
    out = folder / 'hidden.csv'
    harmonics('run', harp, *binds, '--out', f'last_hidden_state=csv:{out}', '--threads', 1, '--output', 'quiet')
    rows = [line.split(',') for line in out.read_text().splitlines()[-len(mask):]]
    hidden = numpy.array(rows, numpy.float32).reshape(len(mask), length, width)
    file = folder / 'minilm.onnx'
    harmonics('export', harp, '--format', 'onnx', file)
    return check(file, inputs, {'last_hidden_state': hidden})


def reexported(folder):
    """A trained ONNX file that came in and went out: what onnxruntime computes of it as it was."""
    harp, file = folder / 'trained.harp', folder / 'trained.onnx'
    harmonics('import', sys.argv[4], '-o', harp, '--shape', 'x=3,48,192')
    harmonics('export', harp, '--format', 'onnx', file)
    session = onnxruntime.InferenceSession(sys.argv[4], providers=['CPUExecutionProvider'])
    x = numpy.random.default_rng(5).random((2, 3, 48, 192), numpy.float32)
    theirs = session.run(None, {'x': x})
    names = [one.name for one in session_of(file).get_outputs()]
    return check(file, {'x': x}, dict(zip(names, theirs)))


def main():
    folder = pathlib.Path(sys.argv[1])
    cases = {}
    for line in (folder / 'cases').read_text().splitlines():
        case, kind, name, dtype, extents, file = line.split(' ')
        shape = [int(x) for x in extents.split(',')]
        value = numpy.fromfile(folder / file, NAMES[dtype]).reshape(shape)
        cases.setdefault(case, {'input': {}, 'output': {}})[kind][name] = value
    wrong = []
    for case, tensors in cases.items():
        try:
            problem = check(folder / f'{case}.onnx', tensors['input'], tensors['output'])
        except Exception as error:  # what onnxruntime says of a file that it does not take
            problem = f'{case}: {str(error).splitlines()[0]}'
        if problem:
            wrong.append(problem)
    wrong += [problem for problem in (sys.argv[3] and imported_minilm(folder), sys.argv[4] and reexported(folder)) if problem]
    print(f'{len(cases)} files, {len(wrong)} wrong')
    print('\n'.join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())

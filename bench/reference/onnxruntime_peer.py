"""The other side of import_bench: makes its models, runs them in onnxruntime on one thread, and says what that took.

usage: onnxruntime_peer.py FOLDER

Models are made once, in FOLDER: a ResNet-50 and a ViT-Base with random weights and MiniLM with its own, as a source
that harmonics imports and as the ONNX file that PyTorch's exporter writes. Then each line that comes in is answered by
one that begins with "ok" or "failed":

  case NAME BATCH   opens the model, writes FOLDER/NAME.INPUT.npy for every input and FOLDER/NAME.npy, its first
                    output, and answers with the source
  round             runs it once and answers with the CPU seconds

Without the packages that it needs it says so and ends with 0.
"""

import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / 'tests'))
PACKAGES = ['transformers==4.44.2', 'numpy<2', 'onnx==1.23.2', 'onnxruntime==1.31.1']
MODULES = 'torch, transformers, onnx, onnxruntime'
OPSET = 14
LENGTH = 128
TOKENS = ('input_ids', 'attention_mask', 'token_type_ids')


def restart():
    """Goes on in an interpreter that has the packages."""
    import packages
    python = packages.interpreter('onnxruntime', PACKAGES, MODULES, on_system=True)
    if python is None:
        print('failed: the packages of the reference are not here', flush=True)
        sys.exit(0)
    environment = dict(os.environ, OMP_NUM_THREADS='1', TRANSFORMERS_OFFLINE='1', TRANSFORMERS_VERBOSITY='error',
                       HARMONICS_PEER='1', PYTHONWARNINGS='ignore')
    os.execve(python, [str(python), *sys.argv], environment)


class Models:
    """NAME to its source and its ONNX file, made where they are missing."""

    def __init__(self, folder):
        self.folder = folder

    def resnet50(self):
        import torch
        from resnet50 import resnet50, with_statistics
        torch.manual_seed(1)
        file = self.exported('resnet50', lambda: with_statistics(resnet50()), ['image'], self.image())
        return file, file

    def vit_base(self):
        import transformers
        import torch
        torch.manual_seed(1)
        source = self.folder / 'vit_base'

        def make():
            model = transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)).eval()
            model.save_pretrained(source, safe_serialization=True)
            model.config.return_dict = False
            return model
        return source, self.exported('vit_base', make, ['pixel_values'], self.image())

    def minilm(self):
        import packages
        import torch
        import transformers
        source = packages.minilm()
        if source is None:
            raise FileNotFoundError('the weights of MiniLM could not be fetched')

        def make():
            model = transformers.AutoModel.from_pretrained(source).eval()
            model.config.return_dict = False
            return model
        ones = torch.ones(1, LENGTH, dtype=torch.long)
        return source, self.exported('minilm', make, TOKENS, (ones, ones, 0 * ones))

    @staticmethod
    def image():
        import torch
        return (torch.randn(1, 3, 224, 224),)

    def exported(self, name, make, inputs, example):
        import torch
        file = self.folder / f'{name}.onnx'
        if not file.exists():
            unfinished = self.folder / f'{name}.part'
            torch.onnx.export(make(), example, unfinished, opset_version=OPSET, input_names=list(inputs),
                              output_names=['output'],
                              dynamic_axes={one: {0: 'batch'} for one in (*inputs, 'output')})
            unfinished.rename(file)
        return file


def inputs_of(session, batch):
    """Random images; random words, all of which count."""
    import numpy
    chance = numpy.random.default_rng(3)
    values = {}
    for one in session.get_inputs():
        shape = [batch, *one.shape[1:]]
        if one.name == 'input_ids':
            values[one.name] = chance.integers(1000, 30000, shape)
        elif one.type == 'tensor(int64)':
            values[one.name] = numpy.full(shape, int(one.name == 'attention_mask'), numpy.int64)
        else:
            values[one.name] = chance.standard_normal(shape, numpy.float32)
    return values


def opened(folder, name, batch):
    """The source, and a function that runs the model once."""
    import numpy
    import onnxruntime
    source, file = getattr(Models(folder), name)()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=['CPUExecutionProvider'])
    values = inputs_of(session, batch)
    for key, value in values.items():
        numpy.save(folder / f'{name}.{key}.npy', value)
    numpy.save(folder / f'{name}.npy', session.run(['output'], values)[0])
    return source, lambda: session.run(['output'], values)


def answered(folder, words, run):
    """What is said to a line, and what later rounds run."""
    if words[0] == 'case':
        source, run = opened(folder, words[1], int(words[2]))
        return f'ok {source}', run
    begin = time.process_time()
    run()
    return f'ok {time.process_time() - begin}', run


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    # What libraries print goes elsewhere: on standard output stand answers alone.
    answers = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    run = None
    for line in sys.stdin:
        try:
            text, run = answered(folder, line.split(), run)
        except Exception as error:  # the bench is told why, and leaves the case out
            text = 'failed: ' + ' '.join(str(error).split())
        print(text, file=answers, flush=True)


if __name__ == '__main__':
    if os.environ.get('HARMONICS_PEER') == '1':
        main()
    else:
        restart()

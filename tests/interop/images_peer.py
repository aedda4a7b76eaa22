"""Compares samples of `images:` with Pillow and transformers, bit for bit: images_peer.py HARMONICS FOLDER.

Pictures of every kind that Pillow writes as PNG and JPEG go through the processors of ViT, DeiT, CLIP and BiT, each
saved as preprocessor_config.json, and through every filter. Prints a line for what agrees; exits with 1 where a number
differs.
"""

import pathlib
import subprocess
import sys

import numpy
from PIL import Image
from transformers import BitImageProcessor, CLIPImageProcessor, DeiTImageProcessor, ViTImageProcessor

HARMONICS, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
PICTURES = FOLDER / 'pictures'
FILTERS = ['nearest', 'lanczos', 'bilinear', 'bicubic', 'box', 'hamming']


def picture(chance, width, height):
    """Colours that run smoothly, edges, and noise."""
    y, x = numpy.mgrid[0:height, 0:width]
    planes = numpy.stack([255 * x / width, 255 * y / height, 127 + 120 * numpy.sin(x * y / 60)], -1)
    planes[height // 3:height // 2, width // 4:width // 2] = (250, 10, 90)
    return Image.fromarray((planes + chance.normal(0, 9, planes.shape)).clip(0, 255).astype(numpy.uint8))


def write_pictures():
    """Files of many kinds and shapes, in the order in which they are read."""
    chance = numpy.random.default_rng(11)
    PICTURES.mkdir()
    sizes = [(97, 61), (61, 97), (40, 40), (33, 200), (211, 150)]
    for index, (width, height) in enumerate(sizes):
        image = picture(chance, width, height)
        name = PICTURES / f'{index}'
        image.save(f'{name}a.png')
        image.save(f'{name}b.jpg', quality=90)
        image.save(f'{name}c.jpg', quality=75, progressive=True, subsampling='4:2:0')
        image.save(f'{name}d.jpeg', quality=95, subsampling='4:4:4')
        image.convert('L').save(f'{name}e.png')
        image.convert('L').save(f'{name}f.jpg')
        image.convert('P').save(f'{name}g.png')
        image.convert('1').save(f'{name}h.png')
        image.convert('CMYK').save(f'{name}i.jpg')
        alpha = image.convert('RGBA')
        alpha.putalpha(image.convert('L'))
        alpha.save(f'{name}j.png')
        alpha.convert('LA').save(f'{name}k.png')
    return [Image.open(file).convert('RGB') for file in sorted(PICTURES.iterdir())]


def ours(settings, height, width):
    """Every sample, as `harmonics run` hands it through a graph that changes nothing."""
    graph, out = FOLDER / 'same.harp', FOLDER / 'out.csv'
    (FOLDER / 'none.safetensors').write_bytes(b'\x02' + 7 * b'\x00' + b'{}')  # it has no parameters
    graph.write_text(f'harmonic same {{\n  producer pixel_values {{3, {height}, {width}}};\n  layer same identity;\n'
                     f'  consumer out {{3, {height}, {width}}};\n  cycle {{ pixel_values -> same -> out; }}\n}}\n')
    done = subprocess.run([HARMONICS, 'run', graph, '--bind', f'pixel_values=images:{PICTURES}?{settings}', '--out',
                           f'out=csv:{out}', '--threads', '1', '--output', 'quiet', '--weights',
                           FOLDER / 'none.safetensors'], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit(f'{settings}: {done.stderr}')
    rows = out.read_text().splitlines()
    first = 0 if rows[0][0] in '-0123456789' else 1
    return numpy.array([row.split(',') for row in rows[first:]], numpy.float32).reshape(-1, 3, height, width)


def check(name, got, expected):
    if got.shape != expected.shape:
        sys.exit(f'{name}: {got.shape} samples, {expected.shape} expected')
    off = numpy.abs(got - expected).reshape(len(got), -1).max(1)
    if off.max() > 0:
        sys.exit(f'{name}: differs by up to {off.max()} in {(off > 0).sum()} of {len(off)} pictures: '
                 f'{[sorted(PICTURES.iterdir())[i].name for i in numpy.nonzero(off)[0]][:12]}')


def processors():
    yield ViTImageProcessor(size={'height': 56, 'width': 56}), 56
    yield DeiTImageProcessor(size={'height': 64, 'width': 64}, crop_size={'height': 48, 'width': 48}), 48
    yield CLIPImageProcessor(size={'shortest_edge': 40}, crop_size={'height': 40, 'width': 40}), 40
    yield BitImageProcessor(size={'shortest_edge': 50}, crop_size={'height': 45, 'width': 45}), 45
    # Without resizing, most pictures are cut and some are filled up with black.
    yield CLIPImageProcessor(do_resize=False, crop_size={'height': 52, 'width': 52}), 52


def main():
    images = write_pictures()
    agreed = 0
    for index, (processor, side) in enumerate(processors()):
        folder = FOLDER / f'model{index}'
        processor.save_pretrained(folder)
        expected = numpy.stack(processor(images, return_tensors='np')['pixel_values']).astype(numpy.float32)
        check(f'{type(processor).__name__} {index}', ours(f'preprocessor={folder}', side, side), expected)
        agreed += 1
    print(f'processors: {agreed} of {index + 1} equal over {len(images)} pictures')
    # One of a kind, in an order of its own.
    table, files = FOLDER / 'some.csv', sorted(PICTURES.glob('*a.png'), reverse=True)
    table.write_text('file\n' + ''.join(f'{file.name}\n' for file in files))
    images = [Image.open(file) for file in files]
    for number, name in enumerate(FILTERS):
        for height, width in ((30, 44), (120, 90)):
            expected = numpy.stack([numpy.asarray(image.resize((width, height), number)) for image in images])
            got = ours(f'size={height}x{width}&resample={name}&scale=1&labels={table}', height, width)
            check(f'{name} {height}x{width}', got, expected.transpose(0, 3, 1, 2).astype(numpy.float32))
    print(f'filters: {len(FILTERS)} equal')


if __name__ == '__main__':
    main()

"""Half of a network is an unmodified pyarrow client: it learns together with `harmonics stage`.

The first part (a hidden layer) trains in a process of ours and listens at its boundary over Flight. The
second part (the output layer, its loss and its optimiser) is numpy below: it reads activations from the
boundary, writes gradients back, and takes part in what the parts of a run say to each other
(docs/guides/two-machines.md). Both must learn what one process learns.
"""

import contextlib
import json
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

from flight_test import BINARY_DIR, pyarrow

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from reserved_port import reserved_port

HARMONICS = BINARY_DIR / "harmonics"
TIMEOUT_S = 120
INPUTS, HIDDEN, CLASSES, ROWS, BATCH, EPOCHS, RATE = 4, 16, 4, 48, 12, 4, 0.5
BOUNDARY = "wide@1"
TOPIC_MEETING, TOPIC_TERMS, TOPIC_TAPS, TOPIC_RESUME = 0, 1, 3, 6
NO_END = 2**64 - 1

GRAPH = f"""
harmonic quadrant {{
  producer point {{{INPUTS}}};
  producer label {{1}} int64 1/1 point;
  layer wide linear({HIDDEN});
  layer output linear({CLASSES});
  consumer prediction {{{CLASSES}}};
  cycle {{
    point -(relu)-> wide -> output;
    output -(softmax)-> prediction;
    output <-(cross_entropy)- label;
  }}
}}
data {{
  point = "csv:points.csv?columns=0-{INPUTS - 1}";
  label = "csv:points.csv?columns={INPUTS}&dtype=int64";
}}
"""
SETTINGS = ["--epochs", str(EPOCHS), "--batch-size", str(BATCH), "--optimizer", "sgd", "--lr", str(RATE),
            "--no-shuffle", "--threads", "1", "--output", "json"]


def text(value):
    return struct.pack("<I", len(value)) + value


class Bytes:
    """Reads what `text` and struct write."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        length = self.take("I")
        self.at += length
        return self.data[self.at - length:self.at]

    def rest(self):
        return self.data[self.at:]


def read_notice(data):
    source = Bytes(data)
    return {source.text(): source.text() for _ in range(source.take("I"))}


def notice(entries):
    return struct.pack("<I", len(entries)) + b"".join(text(k) + text(v) for k, v in sorted(entries.items()))


def metadata(kind, step, micro_batch, **hexes):
    words = [f"kind={kind}", f"step={step}", f"micro_batch={micro_batch}"]
    return " ".join(words + [f"{key}={value.hex()}" for key, value in hexes.items()]).encode()


class OutputLayer:
    """The second part: a linear layer, softmax and cross entropy, and gradient descent."""

    def __init__(self, numpy, weight, bias, labels):
        self.numpy, self.weight, self.bias, self.labels = numpy, weight, bias, labels
        self.seen = 0
        self.forget()

    def forget(self):
        self.loss_sum, self.judged, self.correct = 0.0, 0, 0

    def learn(self, hidden):
        """Takes a step with the next batch; the gradient of its loss by `hidden`."""
        numpy = self.numpy
        rows = numpy.arange(len(hidden))
        labels = self.labels[self.seen % ROWS:][:len(hidden)]
        self.seen += len(hidden)
        logits = hidden @ self.weight.T + self.bias
        shares = numpy.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        self.loss_sum += float(-numpy.log(shares[rows, labels]).sum())
        self.judged += len(hidden)
        self.correct += int((shares.argmax(axis=1) == labels).sum())
        shares[rows, labels] -= 1
        by_logits = shares / len(hidden)
        by_hidden = by_logits @ self.weight
        self.weight -= RATE * (by_logits.T @ hidden)
        self.bias -= RATE * by_logits.sum(axis=0)
        return by_hidden.astype(numpy.float32)


class ArrowPart:
    """Speaks for a part at its only boundary, over one exchange."""

    def __init__(self, arrow, layer, writer, reader):
        self.arrow, self.layer, self.writer, self.reader = arrow, layer, writer, reader
        self.home = b""
        self.tensors = 0

    def run(self):
        """Answers until the boundary closes."""
        kind = self.arrow.fixed_shape_tensor(self.arrow.float32(), [BATCH, HIDDEN])
        self.writer.begin(self.arrow.schema([self.arrow.field("tensor", kind)]))
        while True:
            chunk = self.reader.read_chunk()
            words = dict(word.split("=", 1) for word in chunk.app_metadata.to_pybytes().decode().split(" "))
            if words["kind"] == "end":
                break
            if words["kind"] == "control":
                self.answer_notice(words)
            elif words["kind"] == "activation":
                self.answer_activation(words, chunk.data)
            elif words["kind"] != "epoch_end":
                raise RuntimeError(f"the boundary said {words}")
        self.writer.done_writing()

    def answer_activation(self, words, batch):
        hidden = batch.column(0).to_numpy_ndarray()
        samples, micro_batches, ends_after = struct.unpack("<qIQ", bytes.fromhex(words["attachment"]))
        assert (samples, micro_batches, ends_after) == (len(hidden), 1, NO_END), words
        # One gradient for each layer here that uses the tensor: there is one.
        gradients = self.layer.numpy.stack([self.layer.learn(hidden)])
        gradient = self.arrow.FixedShapeTensorArray.from_numpy_ndarray(gradients)
        self.writer.write_with_metadata(
            self.arrow.record_batch([gradient], ["tensor"]),
            metadata("gradient", words["step"], words["micro_batch"], attachment=struct.pack("<Q", NO_END)))
        self.tensors += 1

    def answer_notice(self, words):
        theirs = read_notice(bytes.fromhex(words["bytes"]))
        topic = int(words["micro_batch"]) >> 24
        (their_text,) = theirs.values()
        if topic == TOPIC_MEETING:
            own = self.record(their_text)
        elif topic in (TOPIC_TERMS, TOPIC_RESUME):
            own = their_text  # whatever it fits by and begins from, this part does too
        elif topic == TOPIC_TAPS:
            own = struct.pack("<dqq", self.layer.loss_sum, self.layer.judged, self.layer.correct)
            self.layer.forget()
        else:
            raise RuntimeError(f"topic {topic} is not known here")
        self.writer.write_metadata(
            metadata("control", words["step"], words["micro_batch"], bytes=notice({self.home: own})))

    def record(self, theirs):
        """Own record of the meeting: one boundary that enters, the run's settings as the others have them."""
        source = Bytes(theirs)
        source.text(), source.text()
        for _ in range(2):
            for _ in range(source.take("I")):
                source.text(), source.take("I")
        learns = source.take("B")
        self.home = b"numpy\n<" + BOUNDARY.encode()
        return (text(b"numpy") + text(self.home) + struct.pack("<I", 1) + text(BOUNDARY.encode()) +
                struct.pack("<I", 1) + struct.pack("<I", 0) + struct.pack("<B", 1 | learns) + source.rest())


def await_listener(port, process):
    """Returns once somebody listens there, or the process has ended. (Flight's own wait looks every 5 s.)"""
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.01)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        end = len(data) + array.nbytes
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), end]}
        data += array.tobytes()
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + data)


def read_safetensors(numpy, path, name):
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    about = json.loads(content[8:8 + length])[name]
    begin, end = (8 + length + offset for offset in about["data_offsets"])
    return numpy.frombuffer(content[begin:end], numpy.float32).reshape(about["shape"])


class FlightRunTest(unittest.TestCase):
    def setUp(self):
        modules = pyarrow()
        if modules is None:
            self.skipTest("pyarrow is not for this interpreter")
        self.numpy, self.arrow, self.flight = modules
        scratch = tempfile.TemporaryDirectory(prefix="harmonics-flight-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        chance = random.Random(5)
        points = [[round(chance.random(), 3) for _ in range(INPUTS)] for _ in range(ROWS)]
        self.labels = self.numpy.array([point.index(max(point)) for point in points])
        lines = [",".join(map(str, point + [label])) for point, label in zip(points, self.labels)]
        (self.folder / "points.csv").write_text("\n".join(lines) + "\n")
        (self.folder / "net.harp").write_text(GRAPH)
        normal = self.numpy.random.default_rng(3).standard_normal
        self.start = {name: (0.3 * normal(shape)).astype(self.numpy.float32) for name, shape in (
            ("wide.weight", (HIDDEN, INPUTS)), ("wide.bias", (HIDDEN,)),
            ("output.weight", (CLASSES, HIDDEN)), ("output.bias", (CLASSES,)))}
        write_safetensors(self.folder / "start.safetensors", self.start)

    def command(self, name, *arguments):
        return [HARMONICS, name, "net.harp", "--weights", "start.safetensors", *SETTINGS, *arguments]

    def test_learns_what_one_process_learns(self):
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        alone = subprocess.run(self.command("train", "--checkpoint", "alone"), cwd=self.folder, env=environment, text=True,
                               capture_output=True, timeout=TIMEOUT_S)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        expected = json.loads(alone.stdout)

        port = reserved_port()
        stage = subprocess.Popen(
            self.command("stage", "--parts", "2", "--part", "0", "--run", "mixed", "--restarts", "0",
                         "--boundary", f"flight://127.0.0.1:{port}/{BOUNDARY}?listen=1"),
            cwd=self.folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(stage.communicate)
        self.addCleanup(stage.kill)
        await_listener(port, stage)
        client = self.flight.FlightClient(f"grpc://127.0.0.1:{port}")
        self.addCleanup(client.close)
        options = self.flight.FlightCallOptions(timeout=TIMEOUT_S, headers=[(b"harmonics-run", b"mixed")])
        exchange = client.do_exchange(self.flight.FlightDescriptor.for_path(BOUNDARY), options)
        layer = OutputLayer(self.numpy, self.start["output.weight"].copy(),
                            self.start["output.bias"].copy(), self.labels)
        part = ArrowPart(self.arrow, layer, *exchange)
        part.run()
        output, errors = stage.communicate(timeout=TIMEOUT_S)
        self.assertEqual(stage.returncode, 0, errors)
        self.assertEqual(part.tensors, EPOCHS * ROWS // BATCH)
        report = json.loads(output)
        self.assertAlmostEqual(report["train_loss"], expected["train_loss"], delta=1e-4)
        self.assertEqual(report["steps"], expected["steps"])
        weight = read_safetensors(self.numpy, self.folder / "alone", "model.output.weight")
        self.numpy.testing.assert_allclose(layer.weight, weight, atol=1e-4)


if __name__ == "__main__":
    unittest.main()

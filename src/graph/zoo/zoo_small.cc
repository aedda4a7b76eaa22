// The small classifiers: an MLP and two LeNets.
#include "zoo_models.h"

namespace harmonics::inline in_graph {
namespace {

Attribute integer(std::int64_t value) { return value; }

}  // namespace

HarmonicGraph make_digits_mlp() {
  GraphBuilder b("digits_mlp");
  b.producer("image", Shape{64});
  b.layer("fc1", "linear", {{"out", integer(128)}}, {"image"}, "relu");
  b.layer("fc2", "linear", {{"out", integer(64)}}, {"fc1"}, "relu");
  b.layer("fc3", "linear", {{"out", integer(10)}}, {"fc2"});
  return finish_classifier(b, "fc3");
}

// LeNet-5 as it is taught today: max pooling and relu, every map of conv2 sees every map of pool1.
HarmonicGraph make_lenet() {
  GraphBuilder b("lenet");
  b.producer("image", Shape{1, 28, 28});
  b.layer("conv1", "conv2d", {{"out", integer(6)}, {"kernel", integer(5)}, {"padding", integer(2)}},
          {"image"}, "relu");
  b.layer("pool1", "max_pool", {{"kernel", integer(2)}}, {"conv1"});
  b.layer("conv2", "conv2d", {{"out", integer(16)}, {"kernel", integer(5)}}, {"pool1"}, "relu");
  b.layer("pool2", "max_pool", {{"kernel", integer(2)}}, {"conv2"});
  b.layer("flat", "flatten", {}, {"pool2"});
  b.layer("fc1", "linear", {{"out", integer(120)}}, {"flat"}, "relu");
  b.layer("fc2", "linear", {{"out", integer(84)}}, {"fc1"}, "relu");
  b.layer("fc3", "linear", {{"out", integer(10)}}, {"fc2"});
  return finish_classifier(b, "fc3");
}

// The same idea for 8x8 images: two convolutions before the only pooling, since there is little to
// pool.
HarmonicGraph make_lenet_digits() {
  GraphBuilder b("lenet_digits");
  const Attributes narrow = {{"out", integer(32)}, {"kernel", integer(3)}, {"padding", integer(1)}};
  const Attributes wide = {{"out", integer(64)}, {"kernel", integer(3)}, {"padding", integer(1)}};
  b.producer("image", Shape{1, 8, 8});
  b.layer("conv1", "conv2d", narrow, {"image"});
  b.layer("norm1", "batch_norm", {}, {"conv1"}, "relu");
  b.layer("conv2", "conv2d", wide, {"norm1"});
  b.layer("norm2", "batch_norm", {}, {"conv2"}, "relu");
  b.layer("pool", "max_pool", {{"kernel", integer(2)}}, {"norm2"});
  b.layer("flat", "flatten", {}, {"pool"});
  b.layer("fc1", "linear", {{"out", integer(128)}}, {"flat"}, "relu");
  b.layer("drop", "dropout", {{"p", 0.3}}, {"fc1"});
  b.layer("fc2", "linear", {{"out", integer(10)}}, {"drop"});
  return finish_classifier(b, "fc2");
}

}  // namespace harmonics::inline in_graph

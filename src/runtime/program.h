// A graph turned into a list of calls (private to runtime).
//
// Every tensor has a slot: producers first, then layers in graph order. In training, a tensor that
// bears gradients has one alias per use ("use number"), so that gradient sums have a fixed order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/runtime/torch_layer.h>

namespace harmonics::inline in_runtime {

inline constexpr std::uint32_t kNoUse = 0xffffffff;

/// One reading of a tensor. `use` numbers the readings that send a gradient back; kNoUse for
/// others.
struct Use {
  std::uint32_t slot = 0;
  std::uint32_t use = kNoUse;
};

/// How the four axes of an image {batch, channels, height, width} lie in the memory of a GPU that
/// computes in 16 bits: there channels come last where convolutions work. Elsewhere all is plain.
enum class ImageLayout {
  kPlain,   // takes and gives row after row
  kKeep,    // gives what it takes: the numbers are the same either way
  kImages,  // takes and gives channels last
};

struct LayerStep {
  std::string name;
  LayerForward forward;
  LayerForward fused;                   // with its activation, on a GPU: see fused_layers.h
  TorchActivation activation;           // empty for none
  TorchActivation activation_in_place;  // the same on its argument; empty where there is none
  std::uint64_t key = 0;                // for chance
  std::vector<Use> inputs;
  std::uint32_t output = 0;
  Shape output_shape;
  /// Which extents of it follow a named axis.
  NamedExtents output_extents;
  /// A frozen layer computes in training as it does in inference.
  bool frozen = false;
  ImageLayout layout = ImageLayout::kPlain;
  /// The layer's parameters are [first, first + own + of_activation) of the stage's list.
  std::size_t first_parameter = 0;
  std::size_t own_parameters = 0;
  std::size_t activation_parameters = 0;
  /// Not -1: its last input is the parameter of this place among its own, which the list lacks.
  int given_weight = -1;
  /// Slots that nobody reads after this step in inference.
  std::vector<std::uint32_t> last_reads;
};

/// Steps one after another whose layers compute each sample alike, alone or in any batch: windows,
/// sums, norms by fixed numbers. Inference may take a few samples through all of them, then the
/// next, so that what passes between them stays in the cache.
struct SampleRun {
  std::size_t first = 0, end = 0;            // of the program's layers
  std::vector<std::uint32_t> entering = {};  // slots that are read here and made before
  std::vector<std::uint32_t> leaving = {};   // slots that are made here and read later
  /// Of the largest tensor between them, for one sample.
  std::size_t sample_bytes = 0;
};

struct ConsumerStep {
  std::string name;
  TorchActivation activation;  // empty for none
  std::uint32_t slot = 0;
  /// First of the `gradient_slots` use numbers of a boundary; kNoUse when none come back.
  std::uint32_t first_use = kNoUse;
  std::uint32_t gradient_slots = 0;
  /// It carries a parameter, which is sent when it has changed.
  bool weight = false;
};

struct TapStep {
  TorchLoss loss;
  Use prediction;
  std::uint32_t target = 0;
  double weight = 1;
  bool judges = false;  // counts right and wrong predictions
  std::string prediction_name;
  std::string loss_name;
};

/// Which ids stand for none.
enum class LeftOut { kNothing, kMark, kBelowZero };
inline constexpr std::int64_t kLeftOutMark = -100;  // libtorch's

/// Whole numbers that a layer or a loss looks something up by: what lies beyond would end a GPU's
/// work, not only this batch.
struct IdRange {
  std::size_t producer = 0;
  std::int64_t count = 0;  // ids are below it
  LeftOut left_out = LeftOut::kNothing;
  std::string reader;  // "layer 'embed'" or "the loss of 'prediction'"
};

struct Program {
  Program(const HarmonicGraph& graph, std::uint64_t seed);

  /// Chance of another seed from now on.
  void set_seed(std::uint64_t seed);

  std::vector<LayerStep> layers;
  std::vector<SampleRun> sample_runs;  // in order, apart from one another
  std::vector<ConsumerStep> consumers;
  std::vector<TapStep> taps;
  std::vector<IdRange> id_ranges;
  /// How many gradient-bearing uses each slot has.
  std::vector<std::uint32_t> use_counts;
  /// True for producers that something other than a tap's target reads.
  std::vector<bool> needed_for_inference;
  /// True for producers that bring a parameter of another part: one row, or none when the last one
  /// still holds.
  std::vector<bool> brings_weight;
  /// Nothing in it works by rules that only its author knows.
  bool builtin = true;
  std::size_t slot_count = 0;
};

}  // namespace harmonics::inline in_runtime

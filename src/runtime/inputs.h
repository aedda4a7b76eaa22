// What a stage is given, checked before anything computes (private to runtime).
#pragma once

#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_runtime {

struct Program;
struct IdRange;

/// One batch on its way into a stage.
struct TakenInputs {
  /// In the order of the graph's producers.
  std::vector<Tensor> tensors;
  /// What this batch gives to the graph's named axes.
  AxisValues axes;
};

/// The tensors of the graph's producers. Targets that only taps read are left undefined unless
/// `with_targets`. A missing tensor, another shape or kind of dtype than declared, a length beyond
/// its axis's ceiling, two lengths for one axis, or unequal numbers of rows are an Error that names
/// the producer.
[[nodiscard]] TakenInputs take_inputs(const HarmonicGraph& graph, const Program& program,
                                      const NamedTensors& inputs, bool with_targets);

/// An id that is not in the range is an Error that names its reader, its row and the producer.
/// Those in a GPU's memory are not looked at here; take_inputs looks at all others.
void check_ids(const IdRange& range, const ProducerNode& node, const Tensor& given);

/// True when the values must be converted to the producer's own dtype. Boundary tensors of a
/// mixed-precision run may stay narrower floats; whole numbers may be of any width.
[[nodiscard]] bool needs_widening(const ProducerNode& node, const Tensor& given);

/// True when every floating-point tensor of the graph is float32.
[[nodiscard]] bool computes_in_float32(const HarmonicGraph& graph);

/// The value of that name: a parameter, gradient or optimiser's slot of this shape. None is an
/// Error (kNotFound), another shape too (kInvalidArgument).
[[nodiscard]] const Tensor& fitting_value(const NamedTensors& values, const std::string& name,
                                          const Shape& shape);

}  // namespace harmonics::inline in_runtime

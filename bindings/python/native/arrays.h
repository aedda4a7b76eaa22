// Arrays of Python (numpy, torch, anything with DLPack or the buffer protocol) and tensors, over
// the same memory.
#pragma once

#include <optional>
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <harmonics/runtime/stage.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::python {

/// A tensor over the memory of an array, which lives as long as the tensor; whoever changes the
/// array changes the tensor. Copied are only arrays that are not contiguous in main memory, lists
/// and numbers, and, where `dtype` is given, arrays of another one. `what` names it in errors: a
/// TypeError for what is no array.
[[nodiscard]] Tensor tensor_of(nanobind::handle array, const std::string& what,
                               std::optional<DType> dtype = std::nullopt);

enum class ArrayKind { kNumpy, kTorch };
/// Torch for a tensor of torch, else numpy.
[[nodiscard]] ArrayKind kind_of(nanobind::handle array);

/// An array over the memory of a tensor, which lives as long as the array.
[[nodiscard]] nanobind::object array_of(const Tensor& tensor, ArrayKind kind);
/// The same for several, as a dict.
[[nodiscard]] nanobind::dict arrays_of(const NamedTensors& tensors, ArrayKind kind);

/// "float32" and its like; another name is an Error that lists them.
[[nodiscard]] DType dtype_named(const std::string& name);

}  // namespace harmonics::python

#include "arrays.h"

#include <memory>
#include <string_view>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

namespace nb = nanobind;

namespace harmonics::python {
namespace {

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

struct DTypeCode {
  DType dtype;
  nb::dlpack::dtype_code code;
};

constexpr DTypeCode kCodes[] = {{DType::kFloat32, nb::dlpack::dtype_code::Float},
                                {DType::kFloat64, nb::dlpack::dtype_code::Float},
                                {DType::kBFloat16, nb::dlpack::dtype_code::Bfloat},
                                {DType::kFloat16, nb::dlpack::dtype_code::Float},
                                {DType::kInt64, nb::dlpack::dtype_code::Int},
                                {DType::kInt32, nb::dlpack::dtype_code::Int},
                                {DType::kInt8, nb::dlpack::dtype_code::Int},
                                {DType::kUInt8, nb::dlpack::dtype_code::UInt},
                                {DType::kBool, nb::dlpack::dtype_code::Bool}};

nb::dlpack::dtype packed_dtype(DType dtype) {
  for (const DTypeCode& each : kCodes) {
    if (each.dtype != dtype) continue;
    return {static_cast<std::uint8_t>(each.code), static_cast<std::uint8_t>(8 * dtype_size(dtype)),
            1};
  }
  fail(ErrorCode::kInternal, "dtype {} has no code", dtype_name(dtype));
}

std::optional<DType> dtype_of(const nb::dlpack::dtype& packed) {
  for (const DTypeCode& each : kCodes) {
    if (packed_dtype(each.dtype) == packed) return each.dtype;
  }
  return std::nullopt;
}

std::string kind_name(nb::handle value) { return nb::type_name(value.type()).c_str(); }

nb::object numpy() { return nb::module_::import_("numpy"); }

// The array itself, without what keeps others from looking at its memory: gradients, or being a
// plain list.
nb::object plain(nb::handle array, std::optional<DType> dtype) {
  if (kind_of(array) == ArrayKind::kTorch) {
    return nb::cast<bool>(array.attr("requires_grad")) ? array.attr("detach")() : nb::borrow(array);
  }
  if (nb::ndarray_check(array)) return nb::borrow(array);
  if (nb::isinstance<nb::str>(array) || nb::isinstance<nb::dict>(array) || array.is_none())
    return {};
  nb::object made = numpy().attr("asarray")(array);
  if (nb::cast<std::string>(made.attr("dtype").attr("kind")).find_first_of("biuf") ==
      std::string::npos)
    return {};
  return dtype ? made.attr("astype")(std::string(dtype_name(*dtype)).c_str()) : made;
}

nb::object converted(const nb::object& array, DType dtype) {
  const std::string name(dtype_name(dtype));
  if (kind_of(array) == ArrayKind::kTorch) {
    return array.attr("to")(nb::module_::import_("torch").attr(name.c_str()));
  }
  return numpy().attr("asarray")(array).attr("astype")(name.c_str());
}

[[noreturn]] void refuse(const std::string& what, nb::handle array) {
  throw nb::type_error(format("{}: a {} is no array of numbers; give a numpy array, a torch tensor "
                              "in main memory, or anything with "
                              "DLPack",
                              what, kind_name(array))
                           .c_str());
}

}  // namespace

ArrayKind kind_of(nb::handle array) {
  const nb::handle module = nb::getattr(array.type(), "__module__", nb::none());
  if (!nb::isinstance<nb::str>(module)) return ArrayKind::kNumpy;
  const std::string_view name(nb::borrow<nb::str>(module).c_str());
  return name == "torch" || name.starts_with("torch.") ? ArrayKind::kTorch : ArrayKind::kNumpy;
}

Tensor tensor_of(nb::handle given, const std::string& what, std::optional<DType> dtype) {
  const nb::object array = plain(given, dtype);
  AnyArray seen;
  if (!array.is_valid() || !nb::try_cast(array, seen)) refuse(what, given);
  const std::optional<DType> own = dtype_of(seen.dtype());
  if (dtype && own != dtype) {
    if (!nb::try_cast(converted(array, *dtype), seen)) refuse(what, given);
  } else if (!own) {
    throw nb::type_error(
        format("{}: its numbers are of a type that tensors do not have; convert them to float32 or "
               "int64",
               what)
            .c_str());
  }
  Shape shape(seen.shape_ptr(), seen.shape_ptr() + seen.ndim());
  void* const data = const_cast<void*>(static_cast<const void*>(seen.data()));
  auto buffer = std::make_shared<Buffer>(data, seen.nbytes(), Device{}, [seen] {});
  return Tensor({std::move(shape), dtype.value_or(own.value_or(DType::kFloat32))},
                std::move(buffer));
}

nb::object array_of(const Tensor& tensor, ArrayKind kind) {
  if (!tensor.defined()) return nb::none();
  auto kept = std::make_unique<Tensor>(tensor);
  void* const data = kept->mutable_bytes().data();
  const std::vector<std::size_t> shape(tensor.shape().begin(), tensor.shape().end());
  const nb::capsule owner(kept.release(),
                          [](void* one) noexcept { delete static_cast<Tensor*>(one); });
  const nb::dlpack::dtype dtype = packed_dtype(tensor.dtype());
  if (kind == ArrayKind::kTorch) {
    return nb::cast(nb::ndarray<nb::pytorch, nb::device::cpu>(data, shape.size(), shape.data(),
                                                              owner, nullptr, dtype));
  }
  if (tensor.dtype() == DType::kBFloat16) {
    fail(ErrorCode::kUnimplemented,
         "numpy has no bfloat16: give torch tensors, and torch tensors come back");
  }
  return nb::cast(nb::ndarray<nb::numpy, nb::device::cpu>(data, shape.size(), shape.data(), owner,
                                                          nullptr, dtype));
}

nb::dict arrays_of(const NamedTensors& tensors, ArrayKind kind) {
  nb::dict made;
  for (const auto& [name, tensor] : tensors) made[name.c_str()] = array_of(tensor, kind);
  return made;
}

DType dtype_named(const std::string& name) {
  if (const std::optional<DType> found = dtype_from_name(name)) return *found;
  std::vector<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(dtype_name(static_cast<DType>(i)));
  fail(ErrorCode::kInvalidArgument, "there is no dtype '{}'; there are {}", name, listed(names));
}

}  // namespace harmonics::python

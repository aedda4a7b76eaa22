#include "oip_messages.h"

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>

#include "wire/oip_types.h"

namespace harmonics::inline in_serve {
namespace {

using inference::InferTensorContents;

template <typename T, typename List>
Tensor tensor_of_list(const std::string& input, Shape shape, const List& list) {
  if (element_count(shape) != list.size()) {
    fail(ErrorCode::kInvalidArgument,
         "input '{}': its shape takes {} numbers, its contents have {}", input,
         element_count(shape), list.size());
  }
  Tensor tensor = Tensor::empty(std::move(shape), DTypeOf<T>::value);
  const std::span<T> to = tensor.mutable_values<T>();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto value = list.Get(static_cast<int>(i));
    if constexpr (sizeof(T) < sizeof value) {
      if (!std::in_range<T>(value)) {
        fail(ErrorCode::kInvalidArgument, "input '{}': number {} does not fit its datatype", input,
             i);
      }
    }
    to[i] = static_cast<T>(value);
  }
  return tensor;
}

Tensor tensor_of_contents(const std::string& input, TensorSpec spec,
                          const InferTensorContents& from) {
  Shape shape = std::move(spec.shape);
  switch (spec.dtype) {
    case DType::kFloat32:
      return tensor_of_list<float>(input, std::move(shape), from.fp32_contents());
    case DType::kFloat64:
      return tensor_of_list<double>(input, std::move(shape), from.fp64_contents());
    case DType::kInt64:
      return tensor_of_list<std::int64_t>(input, std::move(shape), from.int64_contents());
    case DType::kInt32:
      return tensor_of_list<std::int32_t>(input, std::move(shape), from.int_contents());
    case DType::kInt8:
      return tensor_of_list<std::int8_t>(input, std::move(shape), from.int_contents());
    case DType::kUInt8:
      return tensor_of_list<std::uint8_t>(input, std::move(shape), from.uint_contents());
    case DType::kBool: return tensor_of_list<bool>(input, std::move(shape), from.bool_contents());
    default:
      fail(ErrorCode::kInvalidArgument, "input '{}': {} travels as raw contents only", input,
           datatype_name(spec.dtype));
  }
}

TensorSpec spec_of(const inference::ModelInferRequest::InferInputTensor& input) {
  if (input.parameters().contains("shared_memory_region")) {
    fail(ErrorCode::kInvalidArgument, "input '{}': shared memory is not offered here",
         input.name());
  }
  TensorSpec spec;
  spec.dtype = request_datatype(input.datatype(), input.name());
  spec.shape.assign(input.shape().begin(), input.shape().end());
  check_request_shape(spec.shape, input.name());
  return spec;
}

template <typename List>
void fill_cards(const std::vector<TensorCard>& cards, List& list) {
  for (const TensorCard& card : cards) {
    auto& tensor = *list.Add();
    tensor.set_name(card.name);
    tensor.set_datatype(std::string(datatype_name(card.sample.dtype)));
    for (const std::int64_t extent : advertised_shape(card)) tensor.add_shape(extent);
  }
}

}  // namespace

InferenceRequest request_of(const inference::ModelInferRequest& message) {
  InferenceRequest request;
  request.id = message.id();
  const bool raw = message.raw_input_contents_size() > 0;
  if (raw && message.raw_input_contents_size() != message.inputs_size()) {
    fail(ErrorCode::kInvalidArgument, "the request has {} inputs and {} raw contents",
         message.inputs_size(), message.raw_input_contents_size());
  }
  for (int i = 0; i < message.inputs_size(); ++i) {
    const auto& input = message.inputs(i);
    TensorSpec spec = spec_of(input);
    Tensor tensor = raw ? tensor_from_bytes(input.name(), std::move(spec),
                                            bytes_of(message.raw_input_contents(i)))
                        : tensor_of_contents(input.name(), std::move(spec), input.contents());
    if (!request.inputs.emplace(input.name(), std::move(tensor)).second) {
      fail(ErrorCode::kInvalidArgument, "input '{}' is given twice", input.name());
    }
  }
  for (const auto& output : message.outputs()) {
    if (output.parameters().contains("shared_memory_region") ||
        output.parameters().contains("classification")) {
      fail(ErrorCode::kInvalidArgument,
           "output '{}': shared memory and classification are not offered here", output.name());
    }
    request.outputs.push_back(output.name());
  }
  return request;
}

void fill_answer(const ModelCard& card, const InferenceRequest& request,
                 const TensorsByName& outputs, inference::ModelInferResponse& message) {
  message.set_model_name(card.name);
  message.set_model_version(kModelVersion);
  message.set_id(request.id);
  const auto add = [&](const std::string& name) {
    const Tensor& tensor = outputs.find(name)->second;
    auto& output = *message.add_outputs();
    output.set_name(name);
    output.set_datatype(std::string(datatype_name(tensor.dtype())));
    for (const std::int64_t extent : tensor.shape()) output.add_shape(extent);
    message.add_raw_output_contents(text_of(tensor.bytes()));
  };
  if (request.outputs.empty()) {
    for (const TensorCard& output : card.outputs) add(output.name);
  } else {
    for (const std::string& name : request.outputs) add(name);
  }
}

void fill_metadata(const ModelCard& card, inference::ModelMetadataResponse& message) {
  message.set_name(card.name);
  message.add_versions(std::string(kModelVersion));
  message.set_platform(kPlatform);
  fill_cards(card.inputs, *message.mutable_inputs());
  fill_cards(card.outputs, *message.mutable_outputs());
}

}  // namespace harmonics::inline in_serve

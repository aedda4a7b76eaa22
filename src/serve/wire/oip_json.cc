#include "oip_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include <harmonics/base/json.h>

#include "oip_types.h"

namespace harmonics::inline in_serve {
namespace {

// The most tensors of one request.
constexpr std::size_t kMaxRequestTensors = 1024;

/// Fills a tensor with the numbers of nested or flat arrays, in order.
template <typename T>
class NumberReader {
 public:
  NumberReader(std::string_view input, std::span<T> to) : input_(input), to_(to) {}

  void read(const Json& value) {
    if (value.is_array()) {
      for (const Json& item : value.as_array()) read(item);
      return;
    }
    if (at_ == to_.size()) wrong_count();
    to_[at_++] = number(value);
  }
  void finish() const {
    if (at_ != to_.size()) wrong_count();
  }

 private:
  [[noreturn]] void wrong_count() const {
    fail(ErrorCode::kInvalidArgument, "input '{}': its shape takes {} numbers, its data has {}{}",
         input_, to_.size(), at_, at_ == to_.size() ? " and more" : "");
  }
  [[noreturn]] void out_of_range() const {
    fail(ErrorCode::kInvalidArgument, "input '{}': number {} does not fit its datatype", input_,
         at_);
  }

  [[nodiscard]] T number(const Json& value) const {
    if constexpr (std::is_same_v<T, bool>) {
      return value.is_integer() ? value.as_integer() != 0 : value.as_bool();
    } else if constexpr (std::is_floating_point_v<T>) {
      const double wide = value.as_number();
      if (std::abs(wide) > static_cast<double>(std::numeric_limits<T>::max())) out_of_range();
      return static_cast<T>(wide);
    } else {
      const std::int64_t wide = value.as_integer();
      if (!std::in_range<T>(wide)) out_of_range();
      return static_cast<T>(wide);
    }
  }

  const std::string_view input_;
  const std::span<T> to_;
  std::size_t at_ = 0;
};

template <typename T>
Tensor read_numbers(std::string_view input, Shape shape, const Json& data) {
  Tensor tensor = Tensor::empty(std::move(shape), DTypeOf<T>::value);
  NumberReader<T> reader(input, tensor.mutable_values<T>());
  reader.read(data);
  reader.finish();
  return tensor;
}

Tensor tensor_from_json(std::string_view input, TensorSpec spec, const Json& data) {
  switch (spec.dtype) {
    case DType::kFloat32: return read_numbers<float>(input, std::move(spec.shape), data);
    case DType::kFloat64: return read_numbers<double>(input, std::move(spec.shape), data);
    case DType::kInt64: return read_numbers<std::int64_t>(input, std::move(spec.shape), data);
    case DType::kInt32: return read_numbers<std::int32_t>(input, std::move(spec.shape), data);
    case DType::kInt8: return read_numbers<std::int8_t>(input, std::move(spec.shape), data);
    case DType::kUInt8: return read_numbers<std::uint8_t>(input, std::move(spec.shape), data);
    case DType::kBool: return read_numbers<bool>(input, std::move(spec.shape), data);
    default:
      fail(ErrorCode::kInvalidArgument, "input '{}': {} travels as binary data, not as JSON", input,
           datatype_name(spec.dtype));
  }
}

/// What follows the JSON of a body.
class BinaryTail {
 public:
  explicit BinaryTail(ByteSpan bytes) : bytes_(bytes) {}

  ByteSpan take(std::string_view input, std::int64_t size) {
    if (size < 0 || static_cast<std::uint64_t>(size) > bytes_.size()) {
      fail(ErrorCode::kInvalidArgument,
           "input '{}': its binary_data_size is {}, {} bytes are left of the body", input, size,
           bytes_.size());
    }
    const ByteSpan taken = bytes_.first(static_cast<std::size_t>(size));
    bytes_ = bytes_.subspan(static_cast<std::size_t>(size));
    return taken;
  }
  void finish() const {
    if (bytes_.empty()) return;
    fail(ErrorCode::kInvalidArgument, "{} bytes of the body belong to no input", bytes_.size());
  }

 private:
  ByteSpan bytes_;
};

const Json* parameter(const Json& of, std::string_view key) {
  const Json* all = of.find("parameters");
  return all == nullptr ? nullptr : all->find(key);
}

void refuse_shared_memory(const Json& of, const std::string& name) {
  if (parameter(of, "shared_memory_region") == nullptr) return;
  fail(ErrorCode::kInvalidArgument, "'{}': shared memory is not offered here", name);
}

void read_input(const Json& from, BinaryTail& tail, InferenceRequest& request) {
  const std::string& name = from.at("name").as_string();
  refuse_shared_memory(from, name);
  TensorSpec spec;
  spec.dtype = request_datatype(from.at("datatype").as_string(), name);
  for (const Json& extent : from.at("shape").as_array()) spec.shape.push_back(extent.as_integer());
  check_request_shape(spec.shape, name);
  const Json* size = parameter(from, "binary_data_size");
  const Json* data = from.find("data");
  if ((size == nullptr) == (data == nullptr)) {
    fail(ErrorCode::kInvalidArgument, "input '{}' needs either data or binary_data_size", name);
  }
  Tensor tensor;
  if (size != nullptr) {
    tensor = tensor_from_bytes(name, std::move(spec), tail.take(name, size->as_integer()));
  } else {
    // Every number takes a byte at least: no tensor is larger than the text that says it.
    tensor = tensor_from_json(name, std::move(spec), *data);
  }
  if (!request.inputs.emplace(name, std::move(tensor)).second) {
    fail(ErrorCode::kInvalidArgument, "input '{}' is given twice", name);
  }
}

void read_output(const Json& from, InferCall& call) {
  const std::string& name = from.at("name").as_string();
  refuse_shared_memory(from, name);
  if (parameter(from, "classification") != nullptr) {
    fail(ErrorCode::kInvalidArgument, "output '{}': classification is not offered here", name);
  }
  call.request.outputs.push_back(name);
  if (const Json* binary = parameter(from, "binary_data")) {
    call.binary_by_output[name] = binary->as_bool();
  }
}

const Json::Array& tensors_of(const Json& list, std::string_view what) {
  const Json::Array& tensors = list.as_array();
  if (tensors.size() > kMaxRequestTensors) {
    fail(ErrorCode::kInvalidArgument, "a request has at most {} {}, this one has {}",
         kMaxRequestTensors, what, tensors.size());
  }
  return tensors;
}

// The shape may promise more than the text has: that is refused before anything is allocated.
void check_promise(const Json& input, std::size_t text_bytes) {
  const Json* shape = input.find("shape");
  if (shape == nullptr || input.find("data") == nullptr) return;
  Shape extents;
  for (const Json& extent : shape->as_array()) extents.push_back(extent.as_integer());
  check_request_shape(extents, input.at("name").as_string());
  if (static_cast<std::uint64_t>(element_count(extents)) > text_bytes) {
    fail(ErrorCode::kInvalidArgument, "input '{}': its shape takes {} numbers, its data has fewer",
         input.at("name").as_string(), element_count(extents));
  }
}

template <typename T>
void write_number(std::string& out, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) {
        out += "null";
        return;
      }
    }
    std::array<char, 32> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
    out.append(text.data(), end.ptr);
  }
}

template <typename T>
void write_numbers(std::string& out, const Tensor& tensor) {
  bool first = true;
  for (const T value : tensor.values<T>()) {
    if (!first) out += ',';
    first = false;
    write_number(out, value);
  }
}

void write_data(std::string& out, std::string_view name, const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32: return write_numbers<float>(out, tensor);
    case DType::kFloat64: return write_numbers<double>(out, tensor);
    case DType::kInt64: return write_numbers<std::int64_t>(out, tensor);
    case DType::kInt32: return write_numbers<std::int32_t>(out, tensor);
    case DType::kInt8: return write_numbers<std::int8_t>(out, tensor);
    case DType::kUInt8: return write_numbers<std::uint8_t>(out, tensor);
    case DType::kBool: return write_numbers<bool>(out, tensor);
    default:
      fail(ErrorCode::kInvalidArgument,
           "output '{}' is {}, which JSON cannot say: ask for it as binary data", name,
           datatype_name(tensor.dtype()));
  }
}

std::string shape_json(const Shape& shape) {
  Json list = Json::array();
  for (const std::int64_t extent : shape) list.push(extent);
  return list.dump();
}

Json tensor_card_json(const TensorCard& card) {
  Json shape = Json::array();
  for (const std::int64_t extent : advertised_shape(card)) shape.push(extent);
  return Json()
      .set("name", card.name)
      .set("datatype", datatype_name(card.sample.dtype))
      .set("shape", std::move(shape));
}

}  // namespace

InferCall decode_infer_call(std::string_view body, std::optional<std::size_t> json_bytes) {
  const std::size_t text_bytes = json_bytes.value_or(body.size());
  if (text_bytes > body.size()) {
    fail(ErrorCode::kInvalidArgument,
         "Inference-Header-Content-Length says {} bytes of JSON, the body has {}", text_bytes,
         body.size());
  }
  const Json json = Json::parse(body.substr(0, text_bytes), "the request");
  BinaryTail tail(bytes_of(body.substr(text_bytes)));
  InferCall call;
  if (const Json* id = json.find("id")) call.request.id = id->as_string();
  for (const Json& input : tensors_of(json.at("inputs"), "inputs")) {
    check_promise(input, text_bytes);
    read_input(input, tail, call.request);
  }
  tail.finish();
  if (const Json* outputs = json.find("outputs")) {
    for (const Json& output : tensors_of(*outputs, "outputs")) read_output(output, call);
  }
  if (const Json* binary = parameter(json, "binary_data_output")) {
    call.binary_outputs = binary->as_bool();
  }
  if (const Json* timeout = parameter(json, "timeout")) {
    const std::int64_t microseconds = timeout->as_integer();
    constexpr std::int64_t kLongest = std::int64_t{24} * 3600 * 1'000'000;
    if (microseconds > 0) {
      call.request.timeout = std::chrono::microseconds(std::min(microseconds, kLongest));
    }
  }
  return call;
}

InferBody encode_infer_answer(const ModelCard& card, const InferCall& call,
                              const TensorsByName& outputs) {
  std::string json = format("{{\"model_name\":{},\"model_version\":{}", json_quote(card.name),
                            json_quote(kModelVersion));
  if (!call.request.id.empty()) json += format(",\"id\":{}", json_quote(call.request.id));
  json += ",\"outputs\":[";
  std::string binary;
  bool first = true;
  bool any_binary = false;
  const auto write = [&](const std::string& name) {
    const Tensor& tensor = outputs.find(name)->second;
    const auto wished = call.binary_by_output.find(name);
    const bool as_bytes =
        wished == call.binary_by_output.end() ? call.binary_outputs : wished->second;
    if (!first) json += ',';
    first = false;
    json += format("{{\"name\":{},\"datatype\":\"{}\",\"shape\":{}", json_quote(name),
                   datatype_name(tensor.dtype()), shape_json(tensor.shape()));
    if (as_bytes) {
      any_binary = true;
      json += format(",\"parameters\":{{\"binary_data_size\":{}}}}}", tensor.byte_size());
      binary += text_of(tensor.bytes());
    } else {
      json += ",\"data\":[";
      write_data(json, name, tensor);
      json += "]}";
    }
  };
  if (call.request.outputs.empty()) {
    for (const TensorCard& output : card.outputs) write(output.name);
  } else {
    for (const std::string& name : call.request.outputs) write(name);
  }
  json += "]}";
  if (!any_binary) return {std::move(json)};
  const std::size_t json_bytes = json.size();
  return {std::move(json) + binary, json_bytes};
}

std::string server_metadata_json() {
  Json extensions = Json::array();
  extensions.push(kBinaryExtension);
  return Json()
      .set("name", kServerName)
      .set("version", server_version())
      .set("extensions", std::move(extensions))
      .dump();
}

std::string model_metadata_json(const ModelCard& card) {
  Json versions = Json::array();
  versions.push(kModelVersion);
  Json inputs = Json::array();
  for (const TensorCard& input : card.inputs) inputs.push(tensor_card_json(input));
  Json outputs = Json::array();
  for (const TensorCard& output : card.outputs) outputs.push(tensor_card_json(output));
  return Json()
      .set("name", card.name)
      .set("versions", std::move(versions))
      .set("platform", kPlatform)
      .set("inputs", std::move(inputs))
      .set("outputs", std::move(outputs))
      .dump();
}

std::string error_json(std::string_view what) { return Json().set("error", what).dump(); }

}  // namespace harmonics::inline in_serve

// Int8Network as a safetensors file.
#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/models/weight_source.h>
#include <harmonics/proven/int8_network.h>
#include <harmonics/runtime/safetensors.h>
#include <harmonics/schedule/manifest.h>

namespace harmonics::inline in_proven {
namespace {

constexpr const char* kMetadata = "harmonics.int8";

std::string tensor_name(std::size_t layer, const char* what) {
  return format("int8.{}.{}", layer, what);
}

Json layer_json(const Int8Layer& layer) {
  return Json()
      .set("name", layer.name)
      .set("kind", layer.shape.kind == LinearShape::Kind::kDense ? "dense" : "conv3x3")
      .set("inputs", static_cast<std::int64_t>(layer.shape.inputs))
      .set("outputs", static_cast<std::int64_t>(layer.shape.outputs))
      .set("height", static_cast<std::int64_t>(layer.shape.height))
      .set("width", static_cast<std::int64_t>(layer.shape.width))
      .set("bias_inputs", static_cast<std::int64_t>(layer.bias_inputs))
      .set("relu", layer.relu)
      .set("pool", layer.pool);
}

std::uint32_t extent(const Json& json, const char* key, std::int64_t least) {
  const std::int64_t value = json.at(key).as_integer();
  if (value < least || value > static_cast<std::int64_t>(kMaxProofRows)) {
    fail(ErrorCode::kDataLoss, "'{}' is {}, which is not from {} to {}", key, value, least,
         kMaxProofRows);
  }
  return static_cast<std::uint32_t>(value);
}

template <typename T>
std::vector<T> taken(const Safetensors& file, const std::string& name, std::size_t size) {
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end()) fail(ErrorCode::kDataLoss, "tensor '{}' is missing", name);
  const std::span<const T> values = found->second.values<T>();
  if (values.size() != size) {
    fail(ErrorCode::kDataLoss, "tensor '{}' has {} numbers, not {}", name, values.size(), size);
  }
  return {values.begin(), values.end()};
}

Int8Layer read_layer(const Safetensors& file, const Json& json, std::size_t index, bool last) {
  Int8Layer layer;
  layer.name = json.at("name").as_string();
  const std::string& kind = json.at("kind").as_string();
  if (kind != "dense" && kind != "conv3x3") {
    fail(ErrorCode::kDataLoss, "'{}' is no kind of layer", kind);
  }
  const bool dense = kind == "dense";
  layer.shape = {dense ? LinearShape::Kind::kDense : LinearShape::Kind::kConv3x3,
                 1,
                 extent(json, "inputs", 1),
                 extent(json, "outputs", 1),
                 extent(json, "height", 1),
                 extent(json, "width", 1)};
  layer.bias_inputs = extent(json, "bias_inputs", 0);
  layer.relu = json.at("relu").as_bool();
  // Files from before there were pools do not have it.
  if (const Json* pool = json.find("pool")) layer.pool = pool->as_bool();
  if (layer.bias_inputs >= layer.shape.inputs || layer.bias_inputs > kMaxBiasInputs ||
      layer.shape.pixels() > kMaxProofRows || layer.shape.weight_columns() > kMaxProofRows ||
      (dense && layer.shape.pixels() != 1) ||
      (layer.pool &&
       (dense || last || layer.shape.height % 2 != 0 || layer.shape.width % 2 != 0))) {
    fail(ErrorCode::kDataLoss, "the extents of layer '{}' make no sense", layer.name);
  }
  layer.weights = taken<std::int8_t>(file, tensor_name(index, "weights"),
                                     layer.shape.outputs * layer.shape.weight_columns());
  if (!last) {
    layer.factors = taken<std::int32_t>(file, tensor_name(index, "factors"), layer.shape.outputs);
  }
  return layer;
}

// Each layer must give what the next one takes.
void require_chain(const Int8Network& network) {
  for (std::size_t i = 0; i + 1 < network.layers.size(); ++i) {
    const Int8Layer& from = network.layers[i];
    const Int8Layer& to = network.layers[i + 1];
    if (from.data_outputs() == to.data_inputs()) continue;
    fail(ErrorCode::kDataLoss, "layer '{}' gives {} numbers and layer '{}' takes {}", from.name,
         from.data_outputs(), to.name, to.data_inputs());
  }
}

}  // namespace

void save_int8_network(const std::filesystem::path& path, const Int8Network& network) {
  Safetensors file;
  Json layers = Json::array();
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Int8Layer& layer = network.layers[i];
    layers.push(layer_json(layer));
    const Shape shape = {layer.shape.outputs,
                         static_cast<std::int64_t>(layer.shape.weight_columns())};
    file.tensors[tensor_name(i, "weights")] =
        Tensor::of<std::int8_t>(shape, std::span<const std::int8_t>(layer.weights));
    if (layer.factors.empty()) continue;
    file.tensors[tensor_name(i, "factors")] = Tensor::of<std::int32_t>(
        {layer.shape.outputs}, std::span<const std::int32_t>(layer.factors));
  }
  Json scales = Json::array();
  for (const double scale : network.output_scales) scales.push(scale);
  file.metadata[kMetadata] = Json()
                                 .set("graph", network.graph)
                                 .set("producer", network.producer)
                                 .set("consumer", network.consumer)
                                 .set("activation", network.activation)
                                 .set("input_factor", network.input_factor)
                                 .set("layers", std::move(layers))
                                 .set("output_scales", std::move(scales))
                                 .dump();
  write_safetensors(path, file, true);
}

bool is_int8_network(const std::filesystem::path& path) {
  return !is_manifest(path) && !is_mapped_source(path) &&
         read_safetensors_metadata(path).contains(kMetadata);
}

Int8Network load_int8_network(const std::filesystem::path& path) {
  const Safetensors file = read_safetensors(path);
  const auto found = file.metadata.find(kMetadata);
  if (found == file.metadata.end()) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' holds no int8 network: make one with 'harmonics quantize'", path.string());
  }
  try {
    const Json json = Json::parse(found->second, kMetadata);
    Int8Network network;
    network.graph = json.at("graph").as_string();
    network.producer = json.at("producer").as_string();
    network.consumer = json.at("consumer").as_string();
    network.activation = json.at("activation").as_string();
    network.input_factor = json.at("input_factor").as_number();
    const Json::Array& layers = json.at("layers").as_array();
    if (layers.empty() || layers.size() > kMaxInt8Layers) {
      fail(ErrorCode::kDataLoss, "{} layers, 1 to {} are possible", layers.size(), kMaxInt8Layers);
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      network.layers.push_back(read_layer(file, layers[i], i, i + 1 == layers.size()));
    }
    for (const Json& scale : json.at("output_scales").as_array()) {
      network.output_scales.push_back(scale.as_number());
    }
    if (network.output_scales.size() != network.layers.back().shape.outputs) {
      fail(ErrorCode::kDataLoss, "there is not one scale per output");
    }
    require_chain(network);
    return network;
  } catch (const Error& error) {
    fail(ErrorCode::kDataLoss, "'{}': {}", path.string(), error.what());
  }
}

}  // namespace harmonics::inline in_proven

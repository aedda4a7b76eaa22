// Layers that work on each row alone.
#include <algorithm>
#include <array>
#include <map>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "packed_products.h"
#include "row_kernels.h"
#include "token_pass.h"

namespace harmonics::inline in_runtime {
namespace {

// Rows of a matrix that are multiplied together: enough to share what is loaded, few enough to
// stay in the first cache once they are unpacked.
constexpr std::size_t kBlockOutputs = 16;

class EmbeddingLayer final : public TokenLayer {
 public:
  EmbeddingLayer(const TokenLayerRequest& request, WeightRows table)
      : name_(request.node().name),
        input_(request.inputs[0]),
        output_(request.output),
        table_(std::move(table)) {}

  void run(TokenPass& pass) override {
    TokenSlot& out = pass.room(output_);
    const std::vector<std::int64_t>& ids = pass.slots[input_].ids;
    for (std::size_t row = 0; row < pass.rows.size(); ++row) {
      const std::int64_t id = ids[row];
      if (id < 0 || id >= table_.rows()) {
        fail(ErrorCode::kOutOfRange, "layer '{}': id {} is no row of its table of {}", name_, id,
             table_.rows());
      }
      table_.unpack(id, {out.row(row), out.width});
    }
  }

 private:
  std::string name_;
  std::size_t input_, output_;
  WeightRows table_;
};

class PositionLayer final : public TokenLayer {
 public:
  PositionLayer(const TokenLayerRequest& request, WeightRows table, std::int64_t offset)
      : input_(request.inputs[0]),
        output_(request.output),
        table_(std::move(table)),
        offset_(offset) {}

  void run(TokenPass& pass) override {
    TokenSlot& out = pass.room(output_);
    TokenSlot& in = pass.slots[input_];
    for (std::size_t row = 0; row < pass.rows.size(); ++row) {
      table_.unpack(pass.rows[row].position + offset_, {out.row(row), out.width});
      const float* const x = in.row(row);
      float* const y = out.row(row);
      for (std::size_t i = 0; i < out.width; ++i) y[i] = x[i] + y[i];
    }
  }

 private:
  std::size_t input_, output_;
  WeightRows table_;
  std::int64_t offset_;
};

class NormLayer final : public TokenLayer {
 public:
  NormLayer(const TokenLayerRequest& request, double eps)
      : input_(request.inputs[0]),
        output_(request.output),
        weight_(request.numbers("weight")),
        bias_(request.numbers("bias")),
        eps_(static_cast<float>(eps)) {}

  void run(TokenPass& pass) override {
    TokenSlot& out = pass.room(output_);
    TokenSlot& in = pass.slots[input_];
    const NormWeights norm{weight_.data(), bias_.data(), eps_};
    for (std::size_t row = 0; row < pass.rows.size(); ++row) {
      (bias_.empty() ? rms_norm : layer_norm)(in.row(row), norm, out.width, out.row(row));
    }
  }

 private:
  std::size_t input_, output_;
  std::vector<float> weight_, bias_;
  float eps_;
};

class LinearLayer final : public TokenLayer {
 public:
  explicit LinearLayer(const TokenLayerRequest& request)
      : input_(request.inputs[0]),
        output_(request.output),
        product_(request.rows("weight"), request.numbers("bias")) {}

  void run(TokenPass& pass) override {
    TokenSlot& out = pass.room(output_);
    product_.run(pass, pass.slots[input_].numbers.data(), out.numbers.data());
  }

 private:
  std::size_t input_, output_;
  TokenProduct product_;
};

/// Sum or product of its inputs, in their order.
class ElementsLayer final : public TokenLayer {
 public:
  ElementsLayer(const TokenLayerRequest& request, bool multiplies)
      : inputs_(request.inputs), output_(request.output), multiplies_(multiplies) {}

  void run(TokenPass& pass) override {
    TokenSlot& out = pass.room(output_);
    const std::size_t count = out.width * pass.rows.size();
    float* const y = out.numbers.data();
    std::copy_n(pass.slots[inputs_[0]].numbers.data(), count, y);
    for (std::size_t input = 1; input < inputs_.size(); ++input) {
      const float* const x = pass.slots[inputs_[input]].numbers.data();
      if (multiplies_) {
        for (std::size_t i = 0; i < count; ++i) y[i] *= x[i];
      } else {
        for (std::size_t i = 0; i < count; ++i) y[i] += x[i];
      }
    }
  }

 private:
  std::vector<std::size_t> inputs_;
  std::size_t output_;
  bool multiplies_;
};

/// What another layer gives, made something of.
class ActivatedLayer final : public TokenLayer {
 public:
  ActivatedLayer(TokenLayerPtr inner, std::size_t output, RowFunction function)
      : inner_(std::move(inner)), output_(output), function_(function) {}

  void run(TokenPass& pass) override {
    inner_->run(pass);
    TokenSlot& out = pass.slots[output_];
    function_(out.numbers.data(), out.width * pass.rows.size());
  }

 private:
  TokenLayerPtr inner_;
  std::size_t output_;
  RowFunction function_;
};

TokenLayerPtr make_plain_layer(const TokenLayerRequest& request) {
  std::vector<TensorSpec> inputs;
  const LayerQuery query = request.query(inputs);
  const std::string& type = request.node().type;
  if (type == "embedding") {
    return std::make_unique<EmbeddingLayer>(request, request.rows("weight"));
  }
  if (type == "position") {
    const std::string name = request.graph.layer_shape(request.layer).parameters.at(0).name;
    return std::make_unique<PositionLayer>(request, request.rows(name),
                                           query.integer_or("offset", 0));
  }
  if (type == "rms_norm" || type == "layer_norm") {
    return std::make_unique<NormLayer>(request, query.number("eps"));
  }
  if (type == "linear") return std::make_unique<LinearLayer>(request);
  if (type == "add" || type == "mul") {
    return std::make_unique<ElementsLayer>(request, type == "mul");
  }
  if (type == "dropout") return std::make_unique<ElementsLayer>(request, false);
  if (type == "attention") return make_token_attention(request);
  refuse_token_layer(request.node());
}

}  // namespace

void TokenProduct::run(TokenPass& pass, const float* x, float* y) const {
  const std::size_t blocks = (outputs() + kBlockOutputs - 1) / kBlockOutputs;
  pass.team->run(blocks,
                 [&](int member, std::size_t block) { run_block(pass, member, block, x, y); });
}

void TokenProduct::run_block(TokenPass& pass, int member, std::size_t block, const float* x,
                             float* y) const {
  const std::size_t first = block * kBlockOutputs;
  const OutputRange range{first, std::min(kBlockOutputs, outputs() - first)};
  if (!multiply_packed(pass, range, x, y)) multiply_unpacked(pass, member, range, x, y);
  if (bias_.empty()) return;
  for (std::size_t row = 0; row < pass.rows.size(); ++row) {
    float* const to = y + row * outputs() + first;
    for (std::size_t i = 0; i < range.count; ++i) to[i] += bias_[first + i];
  }
}

bool TokenProduct::multiply_packed(const TokenPass& pass, OutputRange range, const float* x,
                                   float* y) const {
  const std::size_t rows = pass.rows.size();
  if (rows > kMostPackedRows) return false;
  std::array<const std::byte*, kBlockOutputs> stored;
  for (std::size_t i = 0; i < range.count; ++i) {
    stored[i] = weight_.stored(static_cast<std::int64_t>(range.first + i));
  }
  const auto columns = static_cast<std::size_t>(weight_.columns());
  return packed_products({x, rows, columns},
                         {weight_.packing(), weight_.dtype(), stored.data(), range.count,
                          static_cast<std::size_t>(weight_.row_bytes())},
                         columns, y + range.first, outputs());
}

void TokenProduct::multiply_unpacked(TokenPass& pass, int member, OutputRange range, const float* x,
                                     float* y) const {
  const auto columns = static_cast<std::size_t>(weight_.columns());
  const float* weights = weight_.all_plain();
  if (weights != nullptr) {
    weights += range.first * columns;
  } else {
    std::vector<float>& room = pass.unpacked[static_cast<std::size_t>(member)];
    if (room.size() < kBlockOutputs * columns) room.resize(kBlockOutputs * columns);
    for (std::size_t i = 0; i < range.count; ++i) {
      weight_.unpack(static_cast<std::int64_t>(range.first + i),
                     {room.data() + i * columns, columns});
    }
    weights = room.data();
  }
  products({x, pass.rows.size(), columns}, {weights, range.count, columns}, columns,
           y + range.first, outputs());
}

RowFunction row_activation(std::string_view name) {
  static const std::map<std::string_view, RowFunction> kKnown = {
      {"gelu", apply_gelu}, {"gelu_tanh", apply_gelu_tanh}, {"relu", apply_relu},
      {"silu", apply_silu}, {"sigmoid", apply_sigmoid},     {"tanh", apply_tanh}};
  const auto found = kKnown.find(name);
  return found == kKnown.end() ? nullptr : found->second;
}

LayerQuery TokenLayerRequest::query(std::vector<TensorSpec>& inputs_of) const {
  for (const std::string& input : node().inputs) inputs_of.push_back(graph.spec(input));
  return {node().name, node().type, inputs_of, graph.full_attributes(layer)};
}

WeightRows TokenLayerRequest::rows(std::string_view parameter) const {
  const std::vector<ParameterSpec>& all = graph.layer_shape(layer).parameters;
  const auto spec = std::ranges::find(all, parameter, &ParameterSpec::name);
  if (spec == all.end()) {
    fail(ErrorCode::kInternal, "layer '{}' has no parameter '{}'", node().name, parameter);
  }
  const std::string name = parameter_name(node(), *spec);
  if (weights.at(name).shape != spec->shape) {
    fail(ErrorCode::kInvalidArgument, "parameter '{}' is {} in the graph and {} among the weights",
         name, shape_text(spec->shape), shape_text(weights.at(name).shape));
  }
  WeightRows rows(weights, name);
  figures.weight_bytes += rows.stored_bytes();
  figures.copied_bytes += rows.copied_bytes();
  return rows;
}

std::vector<float> TokenLayerRequest::numbers(std::string_view parameter) const {
  const std::vector<ParameterSpec>& all = graph.layer_shape(layer).parameters;
  if (std::ranges::find(all, parameter, &ParameterSpec::name) == all.end()) return {};
  const WeightRows source = rows(parameter);
  std::vector<float> out(static_cast<std::size_t>(source.rows() * source.columns()));
  for (std::int64_t row = 0; row < source.rows(); ++row) {
    const auto columns = static_cast<std::size_t>(source.columns());
    source.unpack(row, std::span(out).subspan(static_cast<std::size_t>(row) * columns, columns));
  }
  return out;
}

void refuse_token_layer(const LayerNode& node) {
  fail(ErrorCode::kUnimplemented,
       "layer '{}' ({}) does not work token by token: generation knows add, attention, dropout, "
       "embedding, layer_norm, linear, mul, position and rms_norm",
       node.name, node.type);
}

void check_token_activation(const LayerNode& node) {
  if (node.activation.empty() || row_activation(node.activation) != nullptr) return;
  fail(ErrorCode::kUnimplemented,
       "layer '{}': generation does not know the activation '{}'; it knows gelu, gelu_tanh, "
       "relu, silu, sigmoid and tanh",
       node.name, node.activation);
}

TokenLayerPtr make_token_layer(const TokenLayerRequest& request) {
  TokenLayerPtr layer = make_plain_layer(request);
  check_token_activation(request.node());
  const std::string& activation = request.node().activation;
  if (activation.empty()) return layer;
  return std::make_unique<ActivatedLayer>(std::move(layer), request.output,
                                          row_activation(activation));
}

}  // namespace harmonics::inline in_runtime

// Layers of tokens as nodes of ONNX: embeddings, positions, attention.
#include <cmath>
#include <limits>
#include <numbers>

#include "onnx_exporter.h"

namespace harmonics::inline in_models {
namespace {

std::string as_bool(OnnxExporter& out, const std::string& mask, DType dtype) {
  return dtype == DType::kBool ? mask
                               : out.node("Cast", {mask}, {{"to", onnx_data_type(DType::kBool)}});
}

std::string write_embedding(OnnxExporter& out, const WrittenLayer& layer) {
  const DType own = layer.input().dtype;
  const bool is_index = own == DType::kInt64 || own == DType::kInt32;
  const std::string ids =
      is_index ? layer.inputs[0]
               : out.node("Cast", {layer.inputs[0]}, {{"to", onnx_data_type(DType::kInt64)}});
  return out.node("Gather", {out.parameter(layer, "weight", layer.shape.output.dtype), ids});
}

std::string write_tokens(OnnxExporter& out, const WrittenLayer& layer) {
  const std::string rows = out.node("Reshape", {layer.inputs[0], out.integers({0, 0, -1})});
  return out.node("Transpose", {rows}, {{"perm", Shape{0, 2, 1}}});
}

std::string write_class_token(OnnxExporter& out, const WrittenLayer& layer) {
  const std::int64_t width = layer.input().shape[1];
  const std::string shape =
      out.node("Concat", {out.extent(layer.inputs[0], 0), out.integers({1, width})},
               {{"axis", std::int64_t{0}}});
  const std::string token =
      out.node("Expand", {out.parameter(layer, "weight", layer.shape.output.dtype), shape});
  return out.node("Concat", {token, layer.inputs[0]}, {{"axis", std::int64_t{1}}});
}

// The length of a layer's first input: known, or asked of the value where it follows a named axis.
std::string length_of(OnnxExporter& out, const WrittenLayer& layer) {
  if (out.graph().named_extents(layer.node.inputs[0]).empty())
    return out.integers({layer.input().shape[0]});
  return out.extent(layer.inputs[0], 1);
}

// Rows `offset` … of a table, as many as the sequence is long.
std::string rows_for(OnnxExporter& out, const WrittenLayer& layer, const std::string& table,
                     std::int64_t offset) {
  std::string end = length_of(out, layer);
  if (offset != 0) end = out.node("Add", {end, out.integers({offset})});
  return out.node("Slice", {table, out.integers({offset}), end, out.integers({0})});
}

std::string write_position(OnnxExporter& out, const WrittenLayer& layer) {
  const std::string table = out.parameter(layer, "weight", layer.shape.output.dtype);
  const bool whole = !layer.query.has("rows");
  return out.node(
      "Add", {layer.inputs[0],
              whole ? table : rows_for(out, layer, table, layer.query.integer_or("offset", 0))});
}

std::string write_select(OnnxExporter& out, const WrittenLayer& layer) {
  const std::string index =
      out.number(static_cast<double>(layer.query.integer("index")), DType::kInt64);
  return out.node("Gather", {layer.inputs[0], index}, {{"axis", std::int64_t{1}}});
}

std::string write_mean(OnnxExporter& out, const WrittenLayer& layer) {
  const std::string& x = layer.inputs[0];
  if (layer.inputs.size() == 1)
    return out.node("ReduceMean", {x}, {{"axes", Shape{1}}, {"keepdims", std::int64_t{0}}});
  const std::string mask = as_bool(out, layer.inputs[1], layer.input(1).dtype);
  const std::string counts = out.node(
      "Unsqueeze",
      {out.node("Cast", {mask}, {{"to", onnx_data_type(layer.input().dtype)}}), out.integers({2})});
  const auto summed = [&](const std::string& value) {
    return out.node("ReduceSum", {value, out.integers({1})}, {{"keepdims", std::int64_t{0}}});
  };
  const std::string total = summed(out.node("Mul", {x, counts}));
  return out.node("Div", {total, out.node("Max", {summed(counts), out.number(1e-9)})});
}

/// Attention, written out step by step in the layer's order of operations.
class WrittenAttention {
 public:
  WrittenAttention(OnnxExporter& out, const WrittenLayer& layer)
      : out_(out),
        layer_(layer),
        q_(layer.query),
        dtype_(layer.shape.output.dtype),
        heads_(q_.integer("heads")),
        width_(layer.input().shape[1]),
        separate_(q_.integer_or("separate", 0) != 0),
        scales_query_(!separate_ && q_.text_or("scale", "query") == "query") {
    head_dim_ = q_.has("head_dim") ? q_.integer("head_dim") : width_ / heads_;
    groups_ = q_.has("kv_heads") ? q_.integer("kv_heads") : heads_;
  }

  std::string write() {
    std::string query, key, value;
    if (separate_) {
      query = heads(projected("q", layer_.inputs[0]), heads_);
      key = heads(projected("k", layer_.inputs[0]), groups_);
      value = heads(projected("v", layer_.inputs[0]), groups_);
    } else {
      const std::string all = projected("qkv", layer_.inputs[0]);
      query = heads(part(all, 0), heads_);
      key = heads(part(all, 1), heads_);
      value = heads(part(all, 2), heads_);
    }
    if (q_.text_or("rope", "none") != "none") {
      make_turns();
      query = rotated(query);
      key = rotated(key);
    }
    const std::string mixed = out_.node("MatMul", {weights(query, repeated(key)), repeated(value)});
    const std::string rows =
        out_.node("Reshape", {out_.node("Transpose", {mixed}, {{"perm", Shape{0, 2, 1, 3}}}),
                              out_.integers({0, 0, heads_ * head_dim_})});
    return q_.integer("project") != 0 ? projected("out", rows) : rows;
  }

 private:
  std::string projected(const std::string& name, const std::string& x) {
    const std::string weight = out_.node(
        "Transpose", {out_.parameter(layer_, name + ".weight", dtype_)}, {{"perm", Shape{1, 0}}});
    const std::string product = out_.node("MatMul", {x, weight});
    const std::string bias = name + ".bias";
    for (const ParameterSpec& one : layer_.shape.parameters)
      if (one.name == bias)
        return out_.node("Add", {product, out_.parameter(layer_, bias, dtype_)});
    return product;
  }

  std::string slice(const std::string& x, std::int64_t begin, std::int64_t end, std::int64_t axis) {
    return out_.node("Slice",
                     {x, out_.integers({begin}), out_.integers({end}), out_.integers({axis})});
  }

  std::string part(const std::string& all, std::int64_t index) {
    return slice(all, index * width_, (index + 1) * width_, 2);
  }

  // {batch, length, heads * head_dim} as {batch, heads, length, head_dim}
  std::string heads(const std::string& x, std::int64_t count) {
    const std::string seen = out_.node("Reshape", {x, out_.integers({0, 0, count, head_dim_})});
    return out_.node("Transpose", {seen}, {{"perm", Shape{0, 2, 1, 3}}});
  }

  // One copy of a key or value per query head of its group.
  std::string repeated(const std::string& shared) {
    const std::int64_t copies = heads_ / groups_;
    if (copies == 1) return shared;
    const std::string apart = out_.node("Unsqueeze", {shared, out_.integers({2})});
    const std::string wide = out_.node("Expand", {apart, out_.integers({1, 1, copies, 1, 1})});
    return out_.node("Reshape", {wide, out_.integers({0, heads_, -1, head_dim_})});
  }

  std::string weights(const std::string& query, const std::string& key) {
    const double scale = std::sqrt(static_cast<double>(head_dim_));
    const std::string left =
        scales_query_ ? out_.node("Mul", {query, out_.number(1 / scale)}) : query;
    const std::string turned = out_.node("Transpose", {key}, {{"perm", Shape{0, 1, 3, 2}}});
    std::string scores = out_.node("MatMul", {left, turned});
    if (!scales_query_) scores = out_.node("Div", {scores, out_.number(scale)});
    const double lowest = dtype_ == DType::kFloat64
                              ? std::numeric_limits<double>::lowest()
                              : static_cast<double>(std::numeric_limits<float>::lowest());
    for (const std::string& seen : visible())
      scores = out_.node("Where", {seen, scores, out_.number(lowest)});
    return out_.node("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  }

  // True where a query may look, as values that broadcast to {batch, heads, length, length}.
  std::vector<std::string> visible() {
    std::vector<std::string> all;
    if (q_.integer("causal") != 0) {
      const std::string zero = out_.number(0, DType::kInt64), one = out_.number(1, DType::kInt64);
      const std::string length =
          out_.node("Reshape", {length_of(out_, layer_), out_.integers(Shape{})});
      const std::string places = out_.node("Range", {zero, length, one});
      const std::string column = out_.node("Unsqueeze", {places, out_.integers({1})});
      const std::string row = out_.node("Unsqueeze", {places, out_.integers({0})});
      all.push_back(out_.node("GreaterOrEqual", {column, row}));
      if (const std::int64_t window = q_.integer_or("window", 0); window > 0)
        all.push_back(out_.node("Less", {out_.node("Sub", {column, row}),
                                         out_.number(static_cast<double>(window), DType::kInt64)}));
    }
    if (layer_.inputs.size() > 1) {
      const std::string mask = as_bool(out_, layer_.inputs[1], layer_.input(1).dtype);
      all.push_back(out_.node("Unsqueeze", {mask, out_.integers({1, 2})}));
    }
    return all;
  }

  // How far each pair of numbers turns from one place to the next.
  std::vector<float> frequencies() const {
    const auto dims = static_cast<std::int64_t>(static_cast<double>(head_dim_) *
                                                q_.number_or("rope_fraction", 1));
    std::vector<float> all;
    for (std::int64_t i = 0; i < dims; i += 2) {
      const float exponent = static_cast<float>(i) / static_cast<float>(dims);
      const auto base = static_cast<float>(q_.number_or("rope_theta", 10000));
      all.push_back(scaled(1 / std::pow(base, exponent)));
    }
    return all;
  }

  float scaled(float plain) const {
    const std::string scaling = q_.text_or("rope_scaling", "none");
    if (scaling == "none") return plain;
    const auto factor = static_cast<float>(q_.number("rope_factor"));
    if (scaling == "linear") return plain / factor;
    const auto original = static_cast<float>(q_.number("rope_original"));
    const auto low = static_cast<float>(q_.number("rope_low"));
    const auto high = static_cast<float>(q_.number("rope_high"));
    const float wave = 2 * std::numbers::pi_v<float> / plain;
    if (wave > original / low) return plain / factor;
    if (wave < original / high) return plain;
    const float smooth = (original / wave - low) / (high - low);
    return (1 - smooth) * plain / factor + smooth * plain;
  }

  // Tables of cosines and sines for every place that there may be.
  void make_turns() {
    const std::vector<float> pace = frequencies();
    turning_ = 2 * static_cast<std::int64_t>(pace.size());
    const std::int64_t length = layer_.input().shape[0];
    std::vector<double> cosines, sines;
    for (std::int64_t place = 0; place < length; ++place) {
      for (std::int64_t i = 0; i < turning_; ++i) {
        const float angle =
            static_cast<float>(place) * pace[static_cast<std::size_t>(i) % pace.size()];
        cosines.push_back(std::cos(angle));
        sines.push_back(std::sin(angle));
      }
    }
    const auto table = [&](const char* name, const std::vector<double>& numbers) {
      const std::string all = out_.constant(
          layer_.node.name + name, Constant::of_reals({length, turning_}, numbers, dtype_));
      return rows_for(out_, layer_, all, 0);
    };
    cosine_ = table(".cosine", cosines);
    sine_ = table(".sine", sines);
  }

  std::string rotated(const std::string& x) {
    const std::int64_t half = turning_ / 2;
    const std::string first = slice(x, 0, half, 3), second = slice(x, half, turning_, 3);
    const std::string own = turning_ == head_dim_ ? x : slice(x, 0, turning_, 3);
    const std::string other =
        out_.node("Concat", {out_.node("Neg", {second}), first}, {{"axis", std::int64_t{3}}});
    const std::string turned =
        out_.node("Add", {out_.node("Mul", {own, cosine_}), out_.node("Mul", {other, sine_})});
    if (turning_ == head_dim_) return turned;
    return out_.node("Concat", {turned, slice(x, turning_, head_dim_, 3)},
                     {{"axis", std::int64_t{3}}});
  }

  OnnxExporter& out_;
  const WrittenLayer& layer_;
  const LayerQuery& q_;
  DType dtype_;
  std::int64_t heads_, width_;
  bool separate_, scales_query_;
  std::int64_t head_dim_ = 0, groups_ = 0, turning_ = 0;
  std::string cosine_, sine_;
};

std::string write_attention(OnnxExporter& out, const WrittenLayer& layer) {
  return WrittenAttention(out, layer).write();
}

}  // namespace

OnnxLayerWriters onnx_token_writers() {
  return {{"embedding", write_embedding},     {"tokens", write_tokens},
          {"class_token", write_class_token}, {"position", write_position},
          {"select", write_select},           {"mean", write_mean},
          {"attention", write_attention}};
}

}  // namespace harmonics::inline in_models

#include "torch_tokens/token_steps.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include <harmonics/base/error.h>

#include "torch_tokens/torch_weights.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

class StepMaker {
 public:
  StepMaker(const TokenStepRequest& request, TokenKernels& kernels)
      : request_(request), kernels_(kernels), weights_(request.device, request.numbers) {}

  TokenSteps made() {
    for (const std::string& tensor : request_.borders.entering) (void)slot_of(tensor);
    find_users();
    choose_blocks();
    for (layer_ = request_.range.first; layer_ < request_.range.end; ++layer_) {
      check_token_activation(node());
      add_layer();
    }
    made_.weight_bytes = weights_.bytes();
    return std::move(made_);
  }

 private:
  /// A product that waits for the layer after it, to be one step with it.
  struct Waiting {
    ProductPlan plan;
    std::size_t input = 0;
  };

  const std::vector<LayerNode>& layers() const { return request_.graph.layers(); }
  const LayerNode& node() const { return layers()[layer_]; }

  std::size_t slot_of(const std::string& tensor) {
    return made_.slots.emplace(tensor, made_.slots.size()).first->second;
  }

  TokenLayerRequest layer_request(std::size_t layer) {
    return {request_.graph, layer, {}, 0, request_.weights, made_.shapes, figures_};
  }

  void find_users() {
    for (std::size_t i = request_.range.first; i < request_.range.end; ++i) {
      for (const std::string& input : layers()[i].inputs) users_[input].push_back(i);
    }
    for (const auto& output : request_.borders.outputs) users_[output.tensor].push_back(kNone);
    if (request_.borders.last) return;
    for (const std::string& tensor : request_.borders.leaving) users_[tensor].push_back(kNone);
  }

  // The only layer here that reads the tensor, or kNone.
  std::size_t sole_user(const std::string& tensor) const {
    const auto found = users_.find(tensor);
    return found == users_.end() || found->second.size() != 1 ? kNone : found->second.front();
  }

  // As many blocks as fit under the ceiling, and no more than the longest sequences fill.
  void choose_blocks() {
    std::vector<CacheShape> shapes;
    for (std::size_t i = request_.range.first; i < request_.range.end; ++i) {
      if (layers()[i].type == "attention") shapes.push_back(shape_of(i));
    }
    const std::size_t bytes = block_numbers(shapes) * c10::elementSize(request_.numbers);
    made_.blocks =
        std::min(most_blocks(bytes, request_.cache_bytes),
                 blocks_of(request_.max_length) * static_cast<std::int64_t>(kMaxSequences));
  }

  CacheShape shape_of(std::size_t layer) {
    std::vector<TensorSpec> inputs;
    const LayerQuery q = layer_request(layer).query(inputs);
    check_token_attention(q, false);
    const std::int64_t heads = q.integer("heads");
    return {q.has("kv_heads") ? q.integer("kv_heads") : heads,
            q.has("head_dim") ? q.integer("head_dim") : inputs[0].shape[1] / heads};
  }

  void add_layer() {
    const std::string& type = node().type;
    if (type == "attention") return add_attention();
    if (type == "linear") return add_linear();
    if (type == "embedding") return add_embedding();
    if (type == "position") return add_position();
    if (type == "rms_norm" || type == "layer_norm") return add_norm();
    if (type == "add" || type == "mul") return add_elements(type == "mul");
    if (type == "dropout") return add_elements(false);
    refuse_token_layer(node());
  }

  void emit(std::vector<std::size_t> inputs, std::function<void(TorchTokenPass&)> run) {
    made_.steps.push_back({std::move(inputs), slot_of(node().name), std::move(run)});
  }

  void add_embedding() {
    const std::size_t in = slot_of(node().inputs[0]), out = slot_of(node().name);
    const TokenLayerRequest request = layer_request(layer_);
    const at::Tensor table = weights_.matrix({{request, "weight"}});
    made_.tables.push_back({node().name, node().inputs[0], table.size(0)});
    emit({in}, [=, activation = node().activation](TorchTokenPass& pass) {
      pass.values[out] = activated(table.index_select(0, pass.values[in]), activation);
    });
  }

  void add_position() {
    const std::size_t in = slot_of(node().inputs[0]), out = slot_of(node().name);
    const TokenLayerRequest request = layer_request(layer_);
    std::vector<TensorSpec> inputs;
    const std::int64_t offset = request.query(inputs).integer_or("offset", 0);
    const std::string name = request_.graph.layer_shape(layer_).parameters.at(0).name;
    const at::Tensor table = weights_.matrix({{request, name}});
    const at::Tensor own = table.narrow(0, offset, table.size(0) - offset);
    emit({in}, [=, activation = node().activation](TorchTokenPass& pass) {
      const at::Tensor sum = pass.values[in] + own.index_select(0, pass.positions);
      pass.values[out] = activated(sum, activation);
    });
  }

  void add_norm() {
    const TokenLayerRequest request = layer_request(layer_);
    std::vector<TensorSpec> inputs;
    const double eps = request.query(inputs).number("eps");
    const at::Tensor weight = weights_.vector(request, "weight");
    const at::Tensor bias = weights_.vector(request, "bias");
    const std::size_t in = slot_of(node().inputs[0]), out = slot_of(node().name);
    if (!bias.defined() && !request_.steady && node().activation.empty() &&
        only_products_read(node().name)) {
      ProductPlan before;
      before.norm = weight;
      before.eps = eps;
      norms_[node().name] = {before, in};
      return;
    }
    emit({in}, [=, kernels = &kernels_, activation = node().activation](TorchTokenPass& pass) {
      const at::Tensor y = bias.defined() ? row_norm(pass.values[in], weight, bias, eps)
                                          : kernels->norm(pass.values[in], weight, eps);
      pass.values[out] = activated(y, activation);
    });
  }

  bool only_products_read(const std::string& tensor) const {
    const auto found = users_.find(tensor);
    return found != users_.end() && std::ranges::all_of(found->second, [&](std::size_t layer) {
             return layer != kNone &&
                    (layers()[layer].type == "linear" || layers()[layer].type == "attention");
           });
  }

  // What a product of this tensor begins with: a norm that waits, or nothing.
  Waiting begun(const std::string& input) {
    const auto norm = norms_.find(input);
    return norm == norms_.end() ? Waiting{{}, slot_of(input)} : norm->second;
  }

  void add_linear() {
    if (const std::size_t mul = gate_of(layer_); mul != kNone) return;  // in the step of `mul`
    const TokenLayerRequest request = layer_request(layer_);
    Waiting product = begun(node().inputs[0]);
    product.plan.weight = weights_.matrix({{request, "weight", "bias"}});
    product.plan.bias = weights_.bias({{request, "weight", "bias"}});
    product.plan.activation = node().activation;
    finish(std::move(product), node().name);
  }

  // The `mul` of two linear layers of one input, at most one of them activated, that is the only
  // one to read them.
  std::size_t gate_of(std::size_t layer) const {
    const std::size_t mul = sole_user(layers()[layer].name);
    if (mul == kNone || layers()[mul].type != "mul" || layers()[mul].inputs.size() != 2 ||
        !layers()[mul].activation.empty()) {
      return kNone;
    }
    const auto one = request_.graph.layer_index(layers()[mul].inputs[0]);
    const auto two = request_.graph.layer_index(layers()[mul].inputs[1]);
    if (!one || !two || one == two || !is_own_linear(*one) || !is_own_linear(*two)) return kNone;
    const LayerNode &a = layers()[*one], &b = layers()[*two];
    const bool fit = a.inputs == b.inputs && sole_user(a.name) == mul && sole_user(b.name) == mul &&
                     (a.activation.empty() || b.activation.empty());
    return fit ? mul : kNone;
  }

  bool is_own_linear(std::size_t layer) const {
    return layer >= request_.range.first && layer < request_.range.end &&
           layers()[layer].type == "linear" && layers()[layer].inputs.size() == 1;
  }

  void add_elements(bool multiplies) {
    if (multiplies && add_gated()) return;
    const LayerNode& own = node();
    for (std::size_t i = 0; i < own.inputs.size() && !multiplies; ++i) {
      const auto waits = waiting_.find(own.inputs[i]);
      if (waits == waiting_.end()) continue;
      return emit_product(waits->second, slot_of(own.inputs[1 - i]), own.name);
    }
    std::vector<std::size_t> in;
    for (const std::string& input : own.inputs) in.push_back(slot_of(input));
    const std::size_t out = slot_of(own.name);
    emit(in, [=, activation = own.activation](TorchTokenPass& pass) {
      at::Tensor y = pass.values[in[0]];
      for (std::size_t i = 1; i < in.size(); ++i) {
        y = multiplies ? y * pass.values[in[i]] : y + pass.values[in[i]];
      }
      pass.values[out] = activated(y, activation);
    });
  }

  bool add_gated() {
    const auto one = request_.graph.layer_index(node().inputs[0]);
    if (!one || !is_own_linear(*one) || gate_of(*one) != layer_) return false;
    std::size_t first = *one, second = *request_.graph.layer_index(node().inputs[1]);
    if (!layers()[second].activation.empty()) std::swap(first, second);
    const TokenLayerRequest active = layer_request(first), other = layer_request(second);
    const std::vector<WeightPart> parts{{active, "weight", "bias"}, {other, "weight", "bias"}};
    Waiting product = begun(layers()[first].inputs[0]);
    product.plan.weight = weights_.matrix(parts);
    product.plan.bias = weights_.bias(parts);
    product.plan.activation = layers()[first].activation;
    product.plan.gated = true;
    emit_product(product, kNone, node().name);
    return true;
  }

  // The product as a step, or left to the sum of two that follows.
  void finish(Waiting product, const std::string& name) {
    const std::size_t sum = sole_user(name);
    if (sum != kNone && layers()[sum].type == "add" && layers()[sum].inputs.size() == 2 &&
        layers()[sum].activation.empty() && !other_waits(sum, name)) {
      waiting_[name] = std::move(product);
      return;
    }
    emit_product(product, kNone, name);
  }

  bool other_waits(std::size_t sum, const std::string& name) const {
    return std::ranges::any_of(layers()[sum].inputs, [&](const std::string& input) {
      return input != name && (waiting_.contains(input) || norms_.contains(input));
    });
  }

  void emit_product(const Waiting& product, std::size_t summand, const std::string& name) {
    const std::size_t in = product.input, out = slot_of(name);
    std::vector<std::size_t> inputs{in};
    if (summand != kNone) inputs.push_back(summand);
    ProductPlan plan = product.plan;
    plan.wide = leaves(name);
    made_.steps.push_back(
        {inputs, out, [=, kernels = &kernels_, plan = std::move(plan)](TorchTokenPass& pass) {
           const at::Tensor added = summand == kNone ? at::Tensor() : pass.values[summand];
           pass.values[out] = kernels->product(plan, pass.values[in], added);
         }});
  }

  // Nobody here reads it.
  bool leaves(const std::string& tensor) const {
    const auto found = users_.find(tensor);
    return found != users_.end() &&
           std::ranges::all_of(found->second, [](std::size_t layer) { return layer == kNone; });
  }

  void add_attention() {
    const TokenLayerRequest request = layer_request(layer_);
    std::vector<TensorSpec> inputs;
    const LayerQuery q = request.query(inputs);
    const CacheShape shape = shape_of(layer_);
    AttentionPlan plan;
    plan.heads = q.integer("heads");
    plan.groups = shape.heads;
    plan.head_dim = shape.head_dim;
    plan.window = q.integer_or("window", 0);
    add_turns(plan, q);
    const Waiting before = begun(node().inputs[0]);
    plan.project = before.plan;
    const bool separate = q.integer_or("separate", 0) != 0;
    std::vector<WeightPart> parts;
    for (const std::string name : {"q", "k", "v"}) {
      if (separate) parts.push_back({request, name + ".weight", name + ".bias"});
    }
    if (!separate) parts.push_back({request, "qkv.weight", "qkv.bias"});
    plan.project.weight = weights_.matrix(parts);
    plan.project.bias = weights_.bias(parts);
    plan.cache = made_cache(shape);
    const bool projects = q.integer("project") != 0;
    const std::string mixed = projects ? node().name + "@mixed" : node().name;
    add_mixing(plan, before.input, mixed);
    if (!projects) return;
    Waiting out{{}, slot_of(mixed)};
    out.plan.weight = weights_.matrix({{request, "out.weight", "out.bias"}});
    out.plan.bias = weights_.bias({{request, "out.weight", "out.bias"}});
    out.plan.activation = node().activation;
    finish(std::move(out), node().name);
  }

  void add_mixing(const AttentionPlan& plan, std::size_t in, const std::string& name) {
    const std::size_t out = slot_of(name);
    const std::string activation = name == node().name ? node().activation : std::string();
    made_.steps.push_back({{in},
                           out,
                           [=, kernels = &kernels_](TorchTokenPass& pass) {
                             const at::Tensor queries =
                                 kernels->project(plan, pass.values[in], pass);
                             pass.values[out] =
                                 activated(kernels->mix(plan, queries, pass), activation);
                           },
                           true});
  }

  at::Tensor made_cache(const CacheShape& shape) {
    made_.shapes.push_back(shape);
    made_.caches.push_back(
        at::zeros({2, made_.blocks + 1, shape.heads, BlockTables::kTokens, shape.head_dim},
                  at::TensorOptions().dtype(request_.numbers).device(request_.device)));
    return made_.caches.back();
  }

  // Layers with the same frequencies share their tables.
  void add_turns(AttentionPlan& plan, const LayerQuery& q) {
    const std::vector<float> frequencies = turn_frequencies(q, plan.head_dim);
    if (frequencies.empty()) return;
    auto [found, fresh] = turns_.try_emplace(frequencies);
    if (fresh) {
      const auto half = static_cast<std::int64_t>(frequencies.size());
      std::vector<float> cosines, sines;
      for (std::int64_t position = 0; position < request_.max_length; ++position) {
        for (const float frequency : frequencies) {
          const float angle = static_cast<float>(position) * frequency;
          cosines.push_back(std::cos(angle));
          sines.push_back(std::sin(angle));
        }
      }
      found->second = {weights_.on_device(cosines, {request_.max_length, half}),
                       weights_.on_device(sines, {request_.max_length, half})};
    }
    plan.cosines = found->second.first;
    plan.sines = found->second.second;
  }

  const TokenStepRequest& request_;
  TokenKernels& kernels_;
  TorchWeights weights_;
  TokenSteps made_;
  TokenStageFigures figures_;
  std::size_t layer_ = 0;
  std::map<std::string, std::vector<std::size_t>, std::less<>> users_;
  std::map<std::string, Waiting, std::less<>> norms_, waiting_;
  std::map<std::vector<float>, std::pair<at::Tensor, at::Tensor>> turns_;
};

}  // namespace

TokenSteps make_token_steps(const TokenStepRequest& request, TokenKernels& kernels) {
  return StepMaker(request, kernels).made();
}

}  // namespace harmonics::inline in_runtime

// TorchScript modules under a dispatcher.
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>

#include <mutex>

#include <harmonics/base/error.h>
#include <harmonics/base/exception_text.h>

#include "torch_lane.h"

namespace harmonics::inline in_dispatch {
namespace {

using NamedTorch = std::map<std::string, at::Tensor, std::less<>>;

// One module per device, loaded by the first of its lanes.
class ScriptModules {
 public:
  explicit ScriptModules(ScriptModel model) : model_(std::move(model)) {}

  void load(const WorkDevice& device) {
    const std::lock_guard lock(mutex_);
    if (modules_.contains(device.name)) return;
    if (!std::filesystem::exists(model_.file)) {
      fail(ErrorCode::kInvalidArgument, "there is no file '{}'", model_.file.string());
    }
    try {
      torch::jit::Module module = torch::jit::load(model_.file.string(), torch_lane().device);
      module.eval();
      modules_.emplace(device.name, std::move(module));
    } catch (const c10::Error& error) {
      not_loaded(error.what_without_backtrace());
    } catch (const std::exception& error) {
      // A module of a newer release may use operators that this one lacks.
      not_loaded(exception_text(error));
    }
  }

  NamedTorch forward(const NamedTorch& inputs, const WorkDevice& device) {
    std::vector<c10::IValue> arguments;
    if (model_.inputs.empty()) {
      for (const auto& [name, tensor] : inputs) arguments.emplace_back(tensor);
    }
    for (const std::string& name : model_.inputs) {
      const auto found = inputs.find(name);
      if (found == inputs.end()) {
        fail(ErrorCode::kInvalidArgument, "the model takes '{}', which is not among the inputs",
             name);
      }
      arguments.emplace_back(found->second);
    }
    return named(module_of(device).forward(std::move(arguments)));
  }

 private:
  [[noreturn]] void not_loaded(const std::string& why) const {
    fail(ErrorCode::kInvalidArgument,
         "'{}' is no TorchScript module that can be loaded: {} (this program has libtorch {}: save "
         "the module with that release of PyTorch or an older one)",
         model_.file.string(), why, TORCH_VERSION);
  }

  torch::jit::Module& module_of(const WorkDevice& device) {
    const std::lock_guard lock(mutex_);
    return modules_.at(device.name);
  }

  [[nodiscard]] NamedTorch named(const c10::IValue& value) const {
    NamedTorch result;
    if (value.isTensor()) {
      result.emplace(model_.outputs.empty() ? "output" : model_.outputs.front(), value.toTensor());
      return result;
    }
    if (value.isGenericDict()) {
      for (const auto& entry : value.toGenericDict()) {
        result.emplace(entry.key().toStringRef(), entry.value().toTensor());
      }
      return result;
    }
    std::vector<at::Tensor> parts;
    if (value.isTuple()) {
      for (const c10::IValue& part : value.toTupleRef().elements())
        parts.push_back(part.toTensor());
    } else {
      parts = value.toTensorVector();
    }
    if (!model_.outputs.empty() && model_.outputs.size() != parts.size()) {
      fail(ErrorCode::kInvalidArgument, "the model returns {} tensors, {} names were given",
           parts.size(), model_.outputs.size());
    }
    for (std::size_t k = 0; k < parts.size(); ++k) {
      result.emplace(model_.outputs.empty() ? format("output{}", k) : model_.outputs[k], parts[k]);
    }
    return result;
  }

  ScriptModel model_;
  std::mutex mutex_;
  std::map<std::string, torch::jit::Module> modules_;
};

DeviceTensors held(NamedTorch tensors) {
  return {std::make_shared<DeviceTensors::Held>(DeviceTensors::Held{std::move(tensors)})};
}

// Inputs as leaves of a graph of their own, unbatched ones repeated so that rows stay apart.
NamedTorch as_leaves(const NamedTorch& inputs) {
  std::int64_t rows = 1;
  for (const auto& [name, tensor] : inputs) {
    if (tensor.dim() > 0) rows = std::max(rows, tensor.size(0));
  }
  NamedTorch leaves;
  for (const auto& [name, tensor] : inputs) {
    at::Tensor leaf = tensor.detach();
    if (leaf.dim() > 0 && leaf.size(0) == 1 && rows > 1) {
      std::vector<std::int64_t> shape = leaf.sizes().vec();
      shape[0] = rows;
      leaf = leaf.expand(shape).clone();
    }
    if (leaf.is_floating_point()) leaf.requires_grad_();
    leaves.emplace(name, std::move(leaf));
  }
  return leaves;
}

// All blocks of one output: its components one after the other, each summed over the rows, whose
// gradients do not mix.
NamedTorch derivatives_of(const std::string& name, const at::Tensor& output,
                          const NamedTorch& leaves) {
  std::vector<std::string> names;
  std::vector<at::Tensor> wanted;
  for (const auto& [input, leaf] : leaves) {
    if (!leaf.requires_grad()) continue;
    names.push_back(input);
    wanted.push_back(leaf);
  }
  const std::int64_t rows = output.size(0);
  const at::Tensor flat = output.reshape({rows, -1});
  if (flat.size(1) > kMaxDerivativeColumns) {
    fail(ErrorCode::kInvalidArgument,
         "output '{}' has {} numbers per row, derivatives are made of at most {}", name,
         flat.size(1), kMaxDerivativeColumns);
  }
  std::vector<std::vector<at::Tensor>> columns(wanted.size());
  for (std::int64_t j = 0; j < flat.size(1); ++j) {
    std::vector<at::Tensor> gradients(wanted.size());
    if (output.requires_grad()) {
      gradients = torch::autograd::grad({flat.select(1, j).sum()}, wanted, {},
                                        /*retain_graph=*/true, /*create_graph=*/false,
                                        /*allow_unused=*/true);
    }
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      columns[k].push_back(gradients[k].defined() ? gradients[k] : at::zeros_like(wanted[k]));
    }
  }
  NamedTorch blocks;
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    std::vector<std::int64_t> shape = output.sizes().vec();
    for (std::int64_t a = 1; a < wanted[k].dim(); ++a) shape.push_back(wanted[k].size(a));
    blocks.emplace(names[k], at::stack(columns[k], 1).reshape(shape));
  }
  return blocks;
}

}  // namespace

TorchFunctions script_functions(const ScriptModel& model) {
  const auto modules = std::make_shared<ScriptModules>(model);
  TorchFunctions functions;
  functions.run = [modules](DeviceTensors&& inputs, const WorkDevice& device) {
    NamedTorch outputs;
    compute_in_turn([&] {
      const c10::InferenceMode guard;
      outputs = modules->forward(inputs.held->tensors, device);
    });
    return held(std::move(outputs));
  };
  functions.preprocess = copy_in;
  functions.postprocess = copy_out;
  functions.init_thread = [modules](const WorkDevice& device) {
    init_torch_lane(device);
    modules->load(device);
  };
  functions.sink = std::make_shared<TensorMapSink>(model.axis);
  return functions;
}

namespace {

DeviceDerivatives with_derivatives(ScriptModules& modules, const NamedTorch& inputs,
                                   const WorkDevice& device) {
  const at::AutoGradMode gradients(true);
  DeviceDerivatives result;
  const NamedTorch leaves = as_leaves(inputs);
  NamedTorch outputs = modules.forward(leaves, device);
  for (auto& [name, output] : outputs) {
    if (output.dim() == 0) {
      fail(ErrorCode::kInvalidArgument, "output '{}' has no batch axis", name);
    }
    result.derivatives.emplace(name, held(derivatives_of(name, output, leaves)));
    output = output.detach();
  }
  result.values = held(std::move(outputs));
  return result;
}

}  // namespace

TorchDerivativeFunctions script_derivative_functions(const ScriptModel& model) {
  const auto modules = std::make_shared<ScriptModules>(model);
  TorchDerivativeFunctions functions;
  functions.run = [modules](DeviceTensors&& inputs, const WorkDevice& device) {
    DeviceDerivatives result;
    compute_in_turn([&] { result = with_derivatives(*modules, inputs.held->tensors, device); });
    return result;
  };
  functions.preprocess = copy_in;
  functions.postprocess = copy_derivatives_out;
  functions.init_thread = [modules](const WorkDevice& device) {
    init_torch_lane(device);
    modules->load(device);
  };
  functions.sink = std::make_shared<DerivativeSink>(0, DerivativeBlocks::kAllBatched);
  return functions;
}

}  // namespace harmonics::inline in_dispatch

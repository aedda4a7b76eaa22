#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "torch/fused_program.h"
#include "torch/fused_sources.h"
#include "torch_tokens/fused_token_sources.h"
#include "torch_tokens/token_kernels.h"

namespace harmonics::inline in_runtime {
namespace {

// Up to so many rows a product reads its weights at the speed of the memory; more are libtorch's.
constexpr std::int64_t kMostRows = 16;
constexpr std::int64_t kMostTile = 8;
constexpr unsigned kWarps = 2;        // of a product's block: WARPS in its source
constexpr unsigned kThreads = 256;    // of an attention block: THREADS in its source
constexpr unsigned kBlocksEach = 16;  // for each processor
constexpr std::int64_t kEight = 8;
constexpr std::int64_t kMostCopies = 8, kMostHead = 256;

// As the source declares them.
struct Rows {
  const void* x;
  const void* weight;
  const float* bias;
  const float* norm;
  float eps;
  int rows, inputs;
};
struct End {
  const void* summand;
  void* y;
  int outputs, activation, gated, wide;
};
struct Heads {
  const float* cosines;
  const float* sines;
  const long long* positions;
  const long long* slots;
  void* queries;
  void* keys;
  void* values;
  int heads, groups, head_dim;
};

const void* in(const at::Tensor& x) { return x.defined() ? x.const_data_ptr() : nullptr; }
const float* floats(const at::Tensor& x) { return static_cast<const float*>(in(x)); }
const long long* longs(const at::Tensor& x) { return static_cast<const long long*>(in(x)); }

bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

int activation_number(const std::string& name) {
  static constexpr std::array<std::string_view, 7> kNames = {"",     "silu",    "gelu", "gelu_tanh",
                                                             "relu", "sigmoid", "tanh"};
  return static_cast<int>(std::ranges::find(kNames, name) - kNames.begin());
}

std::vector<std::string> options_for(at::ScalarType numbers,
                                     std::vector<std::string> options = {}) {
  options.emplace_back("--fmad=false");
  if (numbers == at::kHalf) options.emplace_back("-DHALF");
  if (numbers == at::kFloat) options.emplace_back("-DWIDE");
  return options;
}

class FusedTokenKernels final : public TokenKernels {
 public:
  FusedTokenKernels(at::ScalarType numbers, bool steady, const FusedProgram& products)
      : numbers_(numbers),
        steady_(steady),
        products_(products),
        plain_(make_plain_token_kernels(steady)) {}

  at::Tensor product(const ProductPlan& plan, const at::Tensor& x,
                     const at::Tensor& summand) override {
    if (!takes(plan, x) || (summand.defined() && !summand.is_contiguous())) {
      return plain_->product(plan, x, summand);
    }
    const std::int64_t outputs = plan.weight.size(0) / (plan.gated ? 2 : 1);
    const at::Tensor y =
        at::empty({x.size(0), outputs}, x.options().dtype(plan.wide ? at::kFloat : numbers_));
    const End end{in(summand),
                  y.mutable_data_ptr(),
                  static_cast<int>(outputs),
                  activation_number(plan.activation),
                  plan.gated ? 1 : 0,
                  plan.wide ? 1 : 0};
    start("products_", plan, x, plan.gated ? outputs : (outputs + 1) / 2, end);
    return y;
  }

  at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, double eps) override {
    if (!suits(x)) return plain_->norm(x, weight, eps);
    const at::Tensor y = at::empty_like(x);
    const Rows rows{in(x),
                    nullptr,
                    nullptr,
                    floats(weight),
                    static_cast<float>(eps),
                    static_cast<int>(x.size(0)),
                    static_cast<int>(x.size(1))};
    products_.launch("normed",
                     LaunchShape{.blocks_x = static_cast<unsigned>(x.size(0)), .threads_x = 32},
                     rows, y.mutable_data_ptr());
    return y;
  }

  at::Tensor project(const AttentionPlan& plan, const at::Tensor& x,
                     const TorchTokenPass& pass) override {
    const bool whole_heads = !plan.cosines.defined() || 2 * plan.cosines.size(1) == plan.head_dim;
    if (!takes(plan.project, x) || !whole_heads || plan.head_dim % 2 != 0) {
      return plain_->project(plan, x, pass);
    }
    const at::Tensor queries = at::empty({x.size(0), plan.heads * plan.head_dim}, x.options());
    const Heads to{floats(plan.cosines),
                   floats(plan.sines),
                   longs(pass.positions),
                   longs(pass.slots),
                   queries.mutable_data_ptr(),
                   plan.cache.select(0, 0).mutable_data_ptr(),
                   plan.cache.select(0, 1).mutable_data_ptr(),
                   static_cast<int>(plan.heads),
                   static_cast<int>(plan.groups),
                   static_cast<int>(plan.head_dim)};
    start("projected_", plan.project, x, plan.project.weight.size(0) / 2, to);
    return queries;
  }

  at::Tensor mix(const AttentionPlan& plan, const at::Tensor& queries,
                 const TorchTokenPass& pass) override {
    const FusedProgram* const program = attention_for(plan);
    if (program == nullptr || !queries.is_contiguous()) return plain_->mix(plan, queries, pass);
    const at::Tensor out = at::empty_like(queries);
    const at::Tensor keys = plan.cache.select(0, 0), values = plan.cache.select(0, 1);
    program->launch("attention",
                    LaunchShape{.blocks_x = static_cast<unsigned>(queries.size(0)),
                                .blocks_y = static_cast<unsigned>(plan.groups),
                                .threads_x = kThreads},
                    in(queries), in(keys), in(values), longs(pass.blocks),
                    static_cast<int>(pass.blocks.size(1)), longs(pass.positions),
                    static_cast<int>(plan.window), out.mutable_data_ptr());
    return out;
  }

 private:
  bool suits(const at::Tensor& x) const {
    return x.size(0) > 0 && x.size(1) % kEight == 0 && x.scalar_type() == numbers_ &&
           x.is_contiguous() && is_aligned(x);
  }
  bool takes(const ProductPlan& plan, const at::Tensor& x) const {
    return suits(x) && (steady_ || x.size(0) <= kMostRows) && is_aligned(plan.weight) &&
           activation_number(plan.activation) < 7;
  }

  template <typename Last>
  void start(const char* kernel, const ProductPlan& plan, const at::Tensor& x, std::int64_t pairs,
             const Last& last) const {
    const Rows rows{in(x),
                    in(plan.weight),
                    floats(plan.bias),
                    floats(plan.norm),
                    static_cast<float>(plan.eps),
                    static_cast<int>(x.size(0)),
                    static_cast<int>(x.size(1))};
    std::int64_t tile = 1;
    while (tile < std::min(x.size(0), kMostTile)) tile *= 2;
    const auto processors =
        static_cast<unsigned>(at::cuda::getCurrentDeviceProperties()->multiProcessorCount);
    const unsigned wanted = (static_cast<unsigned>(pairs) + kWarps - 1) / kWarps;
    products_.launch((kernel + std::to_string(tile)).c_str(),
                     LaunchShape{.blocks_x = std::min(wanted, processors * kBlocksEach),
                                 .blocks_y = static_cast<unsigned>((x.size(0) + tile - 1) / tile),
                                 .threads_x = 32 * kWarps},
                     rows, last);
  }

  // One for each form of heads; null where there is none.
  const FusedProgram* attention_for(const AttentionPlan& plan) {
    const std::int64_t copies = plan.heads / plan.groups;
    if (plan.head_dim % kEight != 0 || plan.head_dim > kMostHead || copies > kMostCopies) {
      return nullptr;
    }
    const auto [found, fresh] = attentions_.try_emplace({plan.head_dim, copies}, nullptr);
    if (!fresh) return found->second;
    static const std::string source = std::string(kEightsSource) +
                                      std::string(kTokenNumbersSource) +
                                      std::string(kTokenAttentionSource);
    found->second = FusedProgram::find(
        source, options_for(numbers_, {"-DHEAD_DIM=" + std::to_string(plan.head_dim),
                                       "-DCOPIES=" + std::to_string(copies)}));
    return found->second;
  }

  at::ScalarType numbers_;
  bool steady_;
  const FusedProgram& products_;
  std::unique_ptr<TokenKernels> plain_;
  std::map<std::pair<std::int64_t, std::int64_t>, const FusedProgram*> attentions_;
};

}  // namespace

std::unique_ptr<TokenKernels> make_fused_token_kernels(at::Device device, at::ScalarType numbers,
                                                       bool steady) {
  // bf16 has conversions of its own from 8.0 on.
  if (!device.is_cuda() || at::cuda::getDeviceProperties(device.index())->major < 8) return nullptr;
  static const std::string source = std::string(kEightsSource) + std::string(kTokenNumbersSource) +
                                    std::string(kTokenProductSource);
  const FusedProgram* const products = FusedProgram::find(source, options_for(numbers));
  if (products == nullptr) return nullptr;
  return std::make_unique<FusedTokenKernels>(numbers, steady, *products);
}

}  // namespace harmonics::inline in_runtime

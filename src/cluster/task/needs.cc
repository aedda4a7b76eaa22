#include <harmonics/cluster/needs.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include <harmonics/base/error.h>
#include <harmonics/cluster/task.h>

namespace harmonics::inline in_cluster {
namespace {

bool is_word(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0; }

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

/// The task's terms with the resources of its variant.
MaybeTerms terms_with(const MaybeTerms& terms, const ResourceCounts& resources) {
  if ((terms ? terms->resources : ResourceCounts{}) == resources) return terms;
  TaskTerms own = terms ? *terms : TaskTerms{};
  own.resources = resources;
  return own;
}

std::uint64_t memory_of(std::uint32_t gpus, std::uint64_t memory_mb) {
  // Without devices the memory of devices does not matter; one spelling lets such tasks queue
  // together.
  return gpus == 0 ? 0 : memory_mb;
}

}  // namespace

std::uint64_t count_of(const ResourceCounts& counts, std::string_view name) {
  const auto found = std::ranges::find(counts, name, &ResourceCounts::value_type::first);
  return found == counts.end() ? 0 : found->second;
}

bool is_model(std::string_view model, std::string_view wanted) {
  if (wanted.empty()) return false;
  for (auto from = model.begin();;) {
    const auto at = std::search(from, model.end(), wanted.begin(), wanted.end(), same_letter);
    if (at == model.end()) return false;
    const auto end = at + static_cast<std::ptrdiff_t>(wanted.size());
    const bool starts = at == model.begin() || !is_word(*(at - 1));
    const bool ends = end == model.end() || !is_word(*end);
    if (starts && ends) return true;
    from = at + 1;
  }
}

std::string share_text(std::uint64_t units) {
  std::string text = format("{}.{:04}", units / kWholeDevice, units % kWholeDevice);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

Needs needs_of(const TaskSpec& spec) {
  return {spec.required_gpus, memory_of(spec.required_gpus, spec.min_gpu_memory_mb),
          spec.cpus,          spec.memory_mb,
          spec.gpu_share,     spec.terms};
}

Needs needs_of(const TaskSpec& spec, std::uint32_t variant) {
  if (variant == 0) return needs_of(spec);
  const std::span<const TaskVariant> variants = spec.variants.all();
  if (variant > variants.size()) {
    fail(ErrorCode::kDataLoss, "task '{}' has no variant {}", spec.name, variant);
  }
  const TaskVariant& one = variants[variant - 1];
  return {one.required_gpus, memory_of(one.required_gpus, one.min_gpu_memory_mb),
          one.cpus,          one.memory_mb,
          one.gpu_share,     terms_with(spec.terms, one.resources)};
}

std::vector<std::uint32_t> variant_order(const TaskSpec& spec) {
  const std::span<const TaskVariant> variants = spec.variants.all();
  std::vector<std::uint32_t> order(1 + variants.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::uint32_t variant) {
    return variant == 0 ? kWholeDevice : variants[variant - 1].weight;
  });
  return order;
}

TaskSpec with_variant(const TaskSpec& spec, std::uint32_t variant) {
  TaskSpec own = spec;
  own.variants = {};
  if (variant == 0) return own;
  const Needs needs = needs_of(spec, variant);
  const TaskVariant& one = spec.variants.all()[variant - 1];
  own.required_gpus = one.required_gpus;
  own.gpu_share = one.gpu_share;
  own.min_gpu_memory_mb = one.min_gpu_memory_mb;
  own.cpus = one.cpus;
  own.memory_mb = one.memory_mb;
  own.terms = needs.terms;
  return own;
}

}  // namespace harmonics::inline in_cluster

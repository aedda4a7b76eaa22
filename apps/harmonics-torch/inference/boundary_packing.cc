#include "boundary_packing.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

namespace harmonics::inline in_torch_program {
namespace {

std::vector<std::string> boundary_names(std::span<const HarmonicGraph> parts) {
  std::vector<std::string> names;
  for (const HarmonicGraph& part : parts) {
    for (const ConsumerNode& node : part.consumers()) {
      if (is_boundary_name(node.name)) names.push_back(node.name);
    }
  }
  return names;
}

}  // namespace

BoundaryPacking packing_of(const BoundaryBitsFlags& flags, std::span<const HarmonicGraph> parts) {
  BoundaryPacking packing;
  const std::vector<std::string> names = boundary_names(parts);
  const auto take = [&](const char* name, const std::vector<BitsFlag>& given,
                        int BoundaryBits::*to) {
    for (const BitsFlag& flag : given) {
      if (names.empty()) {
        fail(ErrorCode::kInvalidArgument,
             "{} is for what crosses from part to part, and there is one part only: add --parts or "
             "--plan",
             name);
      }
      if (flag.boundary.empty()) {
        packing.all.*to = flag.bits;
        continue;
      }
      if (std::ranges::find(names, flag.boundary) == names.end()) {
        fail(ErrorCode::kNotFound, "{} {}={}: there is no such boundary; there are: {}", name,
             flag.boundary, flag.bits, listed(names));
      }
      packing.named[flag.boundary].*to = flag.bits;
    }
  };
  take("--boundary-bits", flags.activations, &BoundaryBits::activations);
  take("--gradient-bits", flags.gradients, &BoundaryBits::gradients);
  return packing;
}

BoundaryPacking packing_of(const BoundaryBitsFlags& flags, std::span<const HarmonicGraph> parts,
                           std::span<const int> planned) {
  BoundaryPacking packing = packing_of(flags, parts);
  if (planned.empty() || packing.all.activations != 0) return packing;
  for (std::size_t from = 0; from < parts.size(); ++from) {
    for (const ConsumerNode& node : parts[from].consumers()) {
      std::size_t to = from;
      while (to < parts.size() && !parts[to].producer_index(node.name)) ++to;
      if (!is_boundary_name(node.name) || to == parts.size() || to == from) continue;
      int& bits = packing.named[node.name].activations;
      if (bits == 0) bits = std::ranges::min(planned.subspan(from, to - from));
    }
  }
  return packing;
}

std::vector<std::string> bits_words(const BoundaryBitsFlags& flags) {
  std::vector<std::string> words;
  const auto add = [&](const char* name, const std::vector<BitsFlag>& given) {
    for (const BitsFlag& flag : given) {
      words.insert(words.end(),
                   {name, flag.boundary.empty() ? std::to_string(flag.bits)
                                                : format("{}={}", flag.boundary, flag.bits)});
    }
  };
  add("--boundary-bits", flags.activations);
  add("--gradient-bits", flags.gradients);
  return words;
}

}  // namespace harmonics::inline in_torch_program

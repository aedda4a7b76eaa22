// The bytes of a task in a store (private to cluster): what `fact_codec.cc` says of facts, said of
// what users submit.
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/cluster/task_fields.h>

#include "fact_archive.h"

namespace harmonics::inline in_cluster {

// A record that was written before it had a field reads with that field's default: such fields
// stand behind a bit that says that they follow.

template <typename Archive, std::integral Number>
void fields(Archive& a, Number& number) {
  if constexpr (std::is_signed_v<Number>) {
    a.integer(number);
  } else {
    a.number(number);
  }
}

template <typename Archive>
void fields(Archive& a, Of<Archive, std::string>& text) {
  a.text(text);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, std::vector<std::string>>& texts) {
  a.list(texts, kMaxTaskEntries, [&](auto& value) { a.text(value); });
}

template <typename Archive>
void fields(Archive& a, Of<Archive, TextPairs>& pairs) {
  a.list(pairs, kMaxTaskEntries, [&](auto& pair) {
    a.text(pair.first);
    a.text(pair.second);
  });
}

template <typename Archive>
void fields(Archive& a, Of<Archive, std::vector<TaskId>>& tasks) {
  a.list(tasks, kMaxTaskDependencies, [&](auto& id) { a.number(id); });
}

/// The flags of a pipeline stand in one number behind what every pipeline has, the first in its
/// lowest bit; above them the bits of the fields that follow it.
template <typename Archive>
void fields(Archive& a, Of<Archive, PipelineSpec>& pipeline) {
  static const PipelineSpec defaults;
  constexpr auto is_flag = []<typename Member>(Member) {
    return std::is_same_v<Member, bool PipelineSpec::*>;
  };
  std::uint64_t bits = 0;
  std::uint64_t known = 0;
  std::uint64_t next = 1;
  visit_fields(std::type_identity<PipelineSpec>(), [&](const TaskField& field, auto member) {
    if constexpr (is_flag(decltype(member){})) {
      bits |= pipeline.*member ? next : 0;
      known |= std::exchange(next, next << 1);
    } else if (field.bit == 0) {
      fields(a, pipeline.*member);
    } else {
      known |= field.bit;
      if (pipeline.*member != defaults.*member) bits |= field.bit;
    }
  });
  a.word(bits);
  if constexpr (Archive::kReads) {
    if ((bits & ~known) != 0) a.broken("a pipeline with a field of a later version");
  }
  std::uint64_t flags = bits;
  visit_fields(std::type_identity<PipelineSpec>(), [&](const TaskField& field, auto member) {
    if constexpr (!is_flag(decltype(member){})) {
      if ((bits & field.bit) != 0) fields(a, pipeline.*member);
    } else if constexpr (Archive::kReads) {
      pipeline.*member = (flags & 1) != 0;
      flags >>= 1;
    }
  });
  if constexpr (Archive::kReads) lift_old_settings(pipeline);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, MaybePipeline>& pipeline) {
  if constexpr (Archive::kReads) {
    PipelineSpec spec;
    fields(a, spec);
    pipeline = std::move(spec);
  } else {
    fields(a, *pipeline);
  }
}

template <typename Archive>
void fields(Archive& a, Of<Archive, TaskFiles>& files) {
  const auto each = [&](auto& file) {
    a.text(file.path);
    a.text(file.data, kMaxTaskFileBytes);
    a.flag(file.executable);
  };
  if constexpr (Archive::kReads) {
    std::vector<TaskFile> read;
    a.list(read, kMaxTaskFiles, each);
    files = std::move(read);
  } else {
    a.list(files.all(), kMaxTaskFiles, each);
  }
}

template <typename Archive>
void fields(Archive& a, Of<Archive, ResourceCounts>& counts) {
  a.list(counts, kMaxResources, [&](auto& one) {
    a.text(one.first);
    a.number(one.second);
  });
}

/// Every field of a record, in the order of its lines.
template <typename Record, typename Archive>
void all_fields(Archive& a, Of<Archive, Record>& record) {
  visit_fields(std::type_identity<Record>(),
               [&](const TaskField&, auto member) { fields(a, record.*member); });
}

template <typename Archive>
void fields(Archive& a, Of<Archive, MaybeTerms>& terms) {
  if constexpr (Archive::kReads) {
    TaskTerms read;
    all_fields<TaskTerms>(a, read);
    terms = std::move(read);
  } else {
    all_fields<TaskTerms>(a, *terms);
  }
}

template <typename Archive>
void fields(Archive& a, Of<Archive, TaskVariants>& variants) {
  const auto each = [&](auto& variant) { all_fields<TaskVariant>(a, variant); };
  if constexpr (Archive::kReads) {
    std::vector<TaskVariant> read;
    a.list(read, kMaxVariants, each);
    variants = std::move(read);
  } else {
    a.list(variants.all(), kMaxVariants, each);
  }
}

// What a worker does without the server stands among the bits of the fields that may follow.
inline constexpr std::uint64_t kStaysForever = 1;
inline constexpr std::uint64_t kContinues = 8;

inline std::uint64_t wish_bits(OnDisconnect wish) {
  return wish == OnDisconnect::kForever    ? kStaysForever
         : wish == OnDisconnect::kContinue ? kContinues
                                           : 0;
}

inline OnDisconnect wish_of(const FactInput& in, std::uint64_t bits) {
  if ((bits & kStaysForever) != 0 && (bits & kContinues) != 0) {
    in.broken("a task that continues in two ways");
  }
  if ((bits & kStaysForever) != 0) return OnDisconnect::kForever;
  return (bits & kContinues) != 0 ? OnDisconnect::kContinue : OnDisconnect::kStop;
}

/// First what every task has, then a number with the bits of the rest, then the fields of those
/// that are set, from the lowest bit on. A field that is not there keeps its default.
template <typename Archive>
void fields(Archive& a, Of<Archive, TaskSpec>& spec) {
  static const TaskSpec defaults;
  std::uint64_t known = kStaysForever | kContinues;
  std::uint64_t bits = wish_bits(spec.on_disconnect);
  const auto in_every_task = [&](const TaskField& field, auto member) HARMONICS_WITH_ITS_FIELD {
    if constexpr (!std::is_same_v<decltype(member), OnDisconnect TaskSpec::*>) {
      known |= field.bit;
      if (field.bit == 0) {
        fields(a, spec.*member);
      } else if (!Archive::kReads && spec.*member != defaults.*member) {
        bits |= field.bit;
      }
    }
  };
  visit_fields(std::type_identity<TaskSpec>(), in_every_task);
  a.word(bits);
  if constexpr (Archive::kReads) {
    if ((bits & ~known) != 0) a.broken("a task with a field of a later version");
    spec.on_disconnect = wish_of(a, bits);
  }
  const std::uint64_t follow = bits & ~(kStaysForever | kContinues);
  for (std::uint64_t bit = 1; bit != 0 && bit <= follow; bit <<= 1) {
    if ((follow & bit) == 0) continue;
    visit_fields(std::type_identity<TaskSpec>(), [&](const TaskField& field, auto member) {
      if constexpr (!std::is_same_v<decltype(member), OnDisconnect TaskSpec::*>) {
        if (field.bit == bit) fields(a, spec.*member);
      }
    });
  }
}

}  // namespace harmonics::inline in_cluster

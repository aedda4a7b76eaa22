#include "wire.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include <harmonics/base/byte_fields.h>
#include <harmonics/base/check.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::array<std::string_view, 10> kTopicNames = {
    "meeting",         "terms",  "square sums", "taps",   "checkpoint",
    "checkpoint done", "resume", "stream",      "credit", "batch",
};
constexpr int kRoundBits = 24;

constexpr std::size_t kMaxFileText = 4096;
constexpr std::size_t kMaxUsableSteps = 2;
constexpr std::size_t kMaxOutputs = std::size_t{1} << 16;
constexpr std::size_t kEndBytes = 2 * sizeof(std::uint32_t);
constexpr std::size_t kEntryBytes = 2 * sizeof(std::uint32_t);

constexpr auto kHeadFields = [](auto& a, auto& head) {
  a.number(head.batch_samples);
  a.number(head.micro_batches);
  a.number(head.ends_after);
  a.check(head.batch_samples >= 1 && head.micro_batches >= 1 &&
              head.micro_batches <= head.batch_samples,
          "a batch has at least one row, and no more micro-batches than rows");
};

constexpr auto kRunEndFields = [](auto& a, auto& ends_after) { a.number(ends_after); };

constexpr auto kNoticeFields = [](auto& a, auto& entries) {
  a.list(entries, kMaxNoticeEntries, kEntryBytes, [&](auto& entry) {
    a.text(entry.first, kMaxNoticeText);
    a.text(entry.second, kMaxNoticeText);
  });
};

// Gradients in the lower half, then the bits of activations and of gradients: an exact boundary is
// told as it was before there were others.
std::uint32_t end_number(const BoundaryEnd& end) {
  HARMONICS_CHECK(end.gradients < 1u << 16, "a boundary has few gradients");
  return end.gradients | static_cast<std::uint32_t>(end.bits.activations) << 16 |
         static_cast<std::uint32_t>(end.bits.gradients) << 24;
}
void take_end_number(std::uint32_t number, BoundaryEnd& end) {
  end.gradients = number & 0xffff;
  end.bits = {static_cast<int>(number >> 16 & 0xff), static_cast<int>(number >> 24)};
}
bool known_bits(int bits) {
  return bits == 0 || std::ranges::find(kBoundaryBits, bits) != kBoundaryBits.end();
}

constexpr auto kPartFields = [](auto& a, auto& record) {
  const auto end = [&](auto& boundary) {
    a.text(boundary.name, kMaxNoticeText);
    std::uint32_t told = end_number(boundary);
    a.number(told);
    if constexpr (std::decay_t<decltype(a)>::kReads) take_end_number(told, boundary);
    a.check(known_bits(boundary.bits.activations) && known_bits(boundary.bits.gradients),
            "bits that no boundary has");
  };
  a.text(record.name, kMaxNoticeText);
  a.text(record.home, kMaxNoticeText);
  a.list(record.entering, kMaxNoticeEntries, kEndBytes, end);
  a.list(record.leaving, kMaxNoticeEntries, kEndBytes, end);
  a.flag(record.learns);
  a.number(record.seed);
  a.number(record.micro_batches);
  a.number(record.clip_norm);
  a.text(record.precision, kMaxNoticeText);
  a.text(record.order, kMaxNoticeText);
  a.number(record.steps);
  a.text(record.custody, kMaxNoticeText);
};

constexpr auto kTermFields = [](auto& a, auto& terms) {
  a.number(terms.last_epoch);
  a.flag(terms.epochs_are_steps);
  a.flag(terms.evaluates);
  a.number(terms.patience);
  a.flag(terms.saves);
  a.number(terms.save_every_steps);
  a.number(terms.save_every_epochs);
};

constexpr auto kStreamFields = [](auto& a, auto& terms) {
  a.number(terms.delivered);
  a.number(terms.in_flight);
  a.number(terms.parts);
  a.check(terms.delivered >= 0 && terms.in_flight <= kMaxBatchesInFlight && terms.parts >= 1 &&
              terms.parts <= kMaxRemoteParts,
          "a stream has parts, begins with one of its batches and bounds those in flight");
};

constexpr auto kTapFields = [](auto& a, auto& taps) {
  a.number(taps.loss_sum);
  a.number(taps.judged);
  a.number(taps.correct);
};

constexpr auto kStageFileFields = [](auto& a, auto& file) {
  a.text(file.stage, kMaxFileText);
  a.text(file.file, kMaxFileText);
  a.text(file.sha256, kMaxFileText);
};

constexpr auto kIdFields = [](auto& a, auto& ids) {
  a.list(ids, kMaxUsableSteps, sizeof(std::uint32_t), [&](auto& id) { a.text(id, kMaxFileText); });
};

constexpr auto kClaimFields = [](auto& a, auto& claim) {
  a.text(claim.part.stage, kMaxCustodyName);
  a.text(claim.part.signer, kMaxCustodyName);
  a.raw(claim.part.key);
  a.raw(claim.part.graph);
  a.list(claim.part.outputs, kMaxOutputs, sizeof(std::uint32_t),
         [&](auto& name) { a.text(name, kMaxCustodyName); });
  a.raw(claim.nonce);
};

}  // namespace

Bytes encode(const BatchHead& head) { return write_fields(head, kHeadFields); }

BatchHead decode_batch_head(ByteSpan bytes) {
  return read_fields<BatchHead>(bytes, "batch head", kHeadFields);
}

Bytes encode_run_end(std::uint64_t ends_after) { return write_fields(ends_after, kRunEndFields); }

std::uint64_t decode_run_end(ByteSpan bytes) {
  return read_fields<std::uint64_t>(bytes, "end of the run", kRunEndFields);
}

std::string_view topic_name(Topic topic) {
  const auto index = static_cast<std::size_t>(topic);
  return index < kTopicNames.size() ? kTopicNames[index] : "unknown";
}

Message notice_message(const Notice& notice, const NoticeTag& tag) {
  const Bytes bytes = write_fields(notice, kNoticeFields);
  Tensor tensor = Tensor::empty({static_cast<std::int64_t>(bytes.size())}, DType::kUInt8);
  std::memcpy(tensor.mutable_values<std::uint8_t>().data(), bytes.data(), bytes.size());
  const std::uint32_t number = static_cast<std::uint32_t>(tag.topic) << kRoundBits | tag.round;
  return {MessageKind::kControl, tag.step, number, std::move(tensor), {}};
}

Message credit_message(std::uint64_t step) {
  return {MessageKind::kControl,
          step,
          static_cast<std::uint32_t>(Topic::kCredit) << kRoundBits,
          {},
          {}};
}

Message batch_message(std::uint64_t step, const Bytes& head) {
  return {MessageKind::kControl,
          step,
          static_cast<std::uint32_t>(Topic::kBatch) << kRoundBits,
          {},
          head};
}

NoticeTag tag_of(const Message& message) {
  return {static_cast<Topic>(message.micro_batch >> kRoundBits), message.step,
          message.micro_batch & ((1u << kRoundBits) - 1)};
}

Notice decode_notice(const Message& message) {
  const auto entries = read_fields<std::vector<std::pair<std::string, std::string>>>(
      message.tensor.bytes(), "notice", kNoticeFields);
  Notice notice;
  for (const auto& [name, text] : entries) notice.insert_or_assign(name, text);
  return notice;
}

std::string encode(const PartRecord& record) { return text_of(write_fields(record, kPartFields)); }

PartRecord decode_part_record(std::string_view text) {
  return read_fields<PartRecord>(bytes_of(text), "part record", kPartFields);
}

std::string encode(const FitTerms& terms) { return text_of(write_fields(terms, kTermFields)); }

FitTerms decode_fit_terms(std::string_view text) {
  return read_fields<FitTerms>(bytes_of(text), "terms of a fit", kTermFields);
}

std::string encode(const StreamTerms& terms) { return text_of(write_fields(terms, kStreamFields)); }

StreamTerms decode_stream_terms(std::string_view text) {
  return read_fields<StreamTerms>(bytes_of(text), "terms of a stream", kStreamFields);
}

std::string encode(const TapReport& taps) { return text_of(write_fields(taps, kTapFields)); }

TapReport decode_tap_report(std::string_view text) {
  return read_fields<TapReport>(bytes_of(text), "report of taps", kTapFields);
}

std::string encode(const StageFile& file) { return text_of(write_fields(file, kStageFileFields)); }

StageFile decode_stage_file(std::string_view text) {
  return read_fields<StageFile>(bytes_of(text), "file of a stage", kStageFileFields);
}

std::string encode_ids(const std::vector<std::string>& ids) {
  return text_of(write_fields(ids, kIdFields));
}

std::vector<std::string> decode_ids(std::string_view text) {
  return read_fields<std::vector<std::string>>(bytes_of(text), "saved steps", kIdFields);
}

std::string encode(const CustodyClaim& claim) { return text_of(write_fields(claim, kClaimFields)); }

CustodyClaim decode_custody_claim(std::string_view text) {
  return read_fields<CustodyClaim>(bytes_of(text), "custody claim", kClaimFields);
}

bool is_first_copy(std::string_view name) {
  const std::size_t mark = name.find(kCopyTitle);
  return mark == std::string_view::npos ||
         name.substr(mark + kCopyTitle.size()).starts_with("0 of ");
}

std::string part_key(const PartRecord& record) {
  std::string text = record.name;
  for (const BoundaryEnd& end : record.leaving) text += "\n>" + end.name;
  for (const BoundaryEnd& end : record.entering) text += "\n<" + end.name;
  return text;
}

}  // namespace harmonics::inline in_schedule

#include "wire.h"

#include <array>
#include <cstring>
#include <utility>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::array<std::string_view, 7> kTopicNames = {
    "meeting", "terms", "square sums", "taps", "checkpoint", "checkpoint done", "resume",
};
constexpr int kRoundBits = 24;

void write_ends(ByteWriter& out, const std::vector<BoundaryEnd>& ends) {
  out.number(static_cast<std::uint32_t>(ends.size()));
  for (const BoundaryEnd& end : ends) {
    out.text(end.name);
    out.number(end.gradients);
  }
}

std::vector<BoundaryEnd> read_ends(ByteReader& in) {
  std::vector<BoundaryEnd> ends(in.count(kMaxNoticeEntries, 2 * sizeof(std::uint32_t)));
  for (BoundaryEnd& end : ends) {
    end.name = in.text(kMaxNoticeText);
    end.gradients = in.number<std::uint32_t>();
  }
  return ends;
}

}  // namespace

Bytes encode(const BatchHead& head) {
  ByteWriter out;
  out.number(head.batch_samples);
  out.number(head.micro_batches);
  out.number(head.ends_after);
  return out.take();
}

Bytes encode_run_end(std::uint64_t ends_after) {
  ByteWriter out;
  out.number(ends_after);
  return out.take();
}

std::uint64_t decode_run_end(ByteSpan bytes) {
  ByteReader in(bytes, "end of the run");
  const auto ends_after = in.number<std::uint64_t>();
  if (in.left() != 0) in.broken("bytes after the end");
  return ends_after;
}

std::string_view topic_name(Topic topic) {
  const auto index = static_cast<std::size_t>(topic);
  return index < kTopicNames.size() ? kTopicNames[index] : "unknown";
}

BatchHead decode_batch_head(ByteSpan bytes) {
  ByteReader in(bytes, "batch head");
  BatchHead head;
  head.batch_samples = in.number<std::int64_t>();
  head.micro_batches = in.number<std::uint32_t>();
  head.ends_after = in.number<std::uint64_t>();
  if (in.left() != 0) in.broken("bytes after the end");
  if (head.batch_samples < 1 || head.micro_batches < 1 || head.micro_batches > head.batch_samples) {
    in.broken("a batch has at least one row, and no more micro-batches than rows");
  }
  return head;
}

Message notice_message(const Notice& notice, const NoticeTag& tag) {
  ByteWriter out;
  out.number(static_cast<std::uint32_t>(notice.size()));
  for (const auto& [name, text] : notice) {
    out.text(name);
    out.text(text);
  }
  const Bytes bytes = out.take();
  Tensor tensor = Tensor::empty({static_cast<std::int64_t>(bytes.size())}, DType::kUInt8);
  std::memcpy(tensor.mutable_values<std::uint8_t>().data(), bytes.data(), bytes.size());
  const std::uint32_t number = static_cast<std::uint32_t>(tag.topic) << kRoundBits | tag.round;
  return {MessageKind::kControl, tag.step, number, std::move(tensor), {}};
}

NoticeTag tag_of(const Message& message) {
  return {static_cast<Topic>(message.micro_batch >> kRoundBits), message.step,
          message.micro_batch & ((1u << kRoundBits) - 1)};
}

Notice decode_notice(const Message& message) {
  ByteReader in(message.tensor.bytes(), "notice");
  const std::uint32_t count = in.count(kMaxNoticeEntries, 2 * sizeof(std::uint32_t));
  Notice notice;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::string name = in.text(kMaxNoticeText);
    notice.insert_or_assign(std::move(name), in.text(kMaxNoticeText));
  }
  if (in.left() != 0) in.broken("bytes after the end");
  return notice;
}

std::string encode(const PartRecord& record) {
  ByteWriter out;
  out.text(record.name);
  out.text(record.home);
  write_ends(out, record.entering);
  write_ends(out, record.leaving);
  out.number(static_cast<std::uint8_t>(record.learns));
  out.number(record.seed);
  out.number(record.micro_batches);
  out.number(record.clip_norm);
  out.text(record.precision);
  out.text(record.order);
  out.number(record.steps);
  out.text(record.custody);
  return text_of(out.bytes());
}

PartRecord decode_part_record(std::string_view text) {
  ByteReader in(bytes_of(text), "part record");
  PartRecord record;
  record.name = in.text(kMaxNoticeText);
  record.home = in.text(kMaxNoticeText);
  record.entering = read_ends(in);
  record.leaving = read_ends(in);
  record.learns = in.number<std::uint8_t>() != 0;
  record.seed = in.number<std::uint64_t>();
  record.micro_batches = in.number<std::int64_t>();
  record.clip_norm = in.number<double>();
  record.precision = in.text(kMaxNoticeText);
  record.order = in.text(kMaxNoticeText);
  record.steps = in.number<std::int64_t>();
  record.custody = in.text(kMaxNoticeText);
  if (in.left() != 0) in.broken("bytes after the end");
  return record;
}

std::string part_key(const PartRecord& record) {
  std::string text = record.name;
  for (const BoundaryEnd& end : record.leaving) text += "\n>" + end.name;
  for (const BoundaryEnd& end : record.entering) text += "\n<" + end.name;
  return text;
}

}  // namespace harmonics::inline in_schedule

#include "wire.h"

#include <cstring>
#include <utility>

namespace harmonics {
namespace {

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
  return out.take();
}

BatchHead decode_batch_head(ByteSpan bytes) {
  ByteReader in(bytes, "batch head");
  BatchHead head;
  head.batch_samples = in.number<std::int64_t>();
  head.micro_batches = in.number<std::uint32_t>();
  if (in.left() != 0) in.broken("bytes after the end");
  if (head.batch_samples < 1 || head.micro_batches < 1 || head.micro_batches > head.batch_samples) {
    in.broken("a batch has at least one row, and no more micro-batches than rows");
  }
  return head;
}

Message notice_message(const Notice& notice, std::uint64_t step, std::uint32_t round) {
  ByteWriter out;
  out.number(static_cast<std::uint32_t>(notice.size()));
  for (const auto& [name, text] : notice) {
    out.text(name);
    out.text(text);
  }
  const Bytes bytes = out.take();
  Tensor tensor = Tensor::empty({static_cast<std::int64_t>(bytes.size())}, DType::kUInt8);
  std::memcpy(tensor.mutable_values<std::uint8_t>().data(), bytes.data(), bytes.size());
  return {MessageKind::kControl, step, round, std::move(tensor), {}};
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
  write_ends(out, record.entering);
  write_ends(out, record.leaving);
  out.number(static_cast<std::uint8_t>(record.learns));
  out.number(record.seed);
  out.number(record.micro_batches);
  out.number(record.clip_norm);
  out.text(record.precision);
  out.text(record.order);
  out.number(record.steps);
  const Bytes bytes = out.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

PartRecord decode_part_record(std::string_view text) {
  ByteReader in(bytes_of(text), "part record");
  PartRecord record;
  record.name = in.text(kMaxNoticeText);
  record.entering = read_ends(in);
  record.leaving = read_ends(in);
  record.learns = in.number<std::uint8_t>() != 0;
  record.seed = in.number<std::uint64_t>();
  record.micro_batches = in.number<std::int64_t>();
  record.clip_norm = in.number<double>();
  record.precision = in.text(kMaxNoticeText);
  record.order = in.text(kMaxNoticeText);
  record.steps = in.number<std::int64_t>();
  if (in.left() != 0) in.broken("bytes after the end");
  return record;
}

}  // namespace harmonics

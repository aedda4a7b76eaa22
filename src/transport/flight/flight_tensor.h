// Messages as Arrow sees them: what an unmodified Flight client reads and writes. Only the
// flight_*.cc files include this. The rules are in docs/guides/transports.md.
#pragma once

#include <arrow/api.h>

#include <memory>
#include <string>

#include <harmonics/transport/message.h>

namespace harmonics::inline in_transport {

/// A message as a record batch (null when it has no tensor, or has it in the metadata) and its
/// application metadata.
struct ArrowMessage {
  std::shared_ptr<arrow::RecordBatch> batch;
  std::string metadata;
};

/// The first axis of the tensor becomes rows, the rest the shape of a fixed-shape tensor; a tensor
/// of one axis is a plain column, one without axes has one row. Shares the tensor's bytes. bfloat16
/// has no Arrow type and is an Error (kInvalidArgument); bool travels as uint8.
[[nodiscard]] ArrowMessage arrow_message(const Message& message);

/// The message in a batch (may be null) and metadata (may be empty) that a client sent as its
/// `number`-th, counted from 0, which is its step unless the metadata says otherwise. Copies the
/// tensor once. What is wrong, or more than `limit` bytes, is an Error (kInvalidArgument,
/// kResourceExhausted).
[[nodiscard]] Message message_from_arrow(const arrow::RecordBatch* batch, std::string_view metadata,
                                         std::uint64_t number, std::uint64_t limit);

}  // namespace harmonics::inline in_transport

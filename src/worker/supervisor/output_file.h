// A stream of bytes kept in files of bounded size: the newest part of what a task prints.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include <harmonics/base/descriptor.h>

namespace harmonics::inline in_worker {

/// Appends to `<path>.<N>`, N being the number of bytes of the stream before that file, and starts
/// the next file after `segment_bytes`. When more than `stream_bytes` are kept the oldest file
/// goes. No file appears before the first byte. Output that cannot be written (a full disk) is
/// counted and dropped: a task does not stop for its log. One thread.
class OutputFile {
 public:
  OutputFile(std::string path, std::uint64_t segment_bytes, std::uint64_t stream_bytes);

  void append(std::string_view bytes);
  [[nodiscard]] std::uint64_t dropped_bytes() const { return dropped_; }

 private:
  bool open_segment();

  std::string path_;
  std::uint64_t segment_bytes_;
  std::uint64_t stream_bytes_;
  Descriptor descriptor_;
  std::uint64_t written_ = 0;        ///< Of the whole stream.
  std::uint64_t segment_start_ = 0;  ///< Of the open file.
  std::deque<std::uint64_t> kept_;   ///< Where the files that are there begin.
  std::uint64_t dropped_ = 0;
};

}  // namespace harmonics::inline in_worker

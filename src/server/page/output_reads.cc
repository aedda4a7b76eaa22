#include "output_reads.h"

#include <thread>
#include <vector>

#include <harmonics/base/channel.h>
#include <harmonics/base/error.h>
#include <harmonics/rpc/output_fetch.h>

namespace harmonics::inline in_server {
namespace {

constexpr int kReaders = 4;
constexpr std::chrono::milliseconds kReadPatience(5000);

OutputAnswer read_now(const OutputReads::Read& read, const std::optional<TlsFiles>& tls) {
  OutputAnswer answer{read.query.offset, {}, {}};
  bool first = true;
  const auto take = [&](const OutputPiece& piece) {
    if (std::exchange(first, false)) answer.offset = piece.offset;
    answer.bytes += piece.data;
    if (answer.bytes.size() <= read.most) return true;
    if (!read.tail) {
      answer.bytes.resize(read.most);
      return false;
    }
    // Half of what is too much at least, so that long outputs are not moved over and over.
    if (answer.bytes.size() < 2 * read.most) return true;
    const std::size_t surplus = answer.bytes.size() - read.most;
    answer.bytes.erase(0, surplus);
    answer.offset += surplus;
    return true;
  };
  try {
    fetch_output(read.place, read.query, tls, kReadPatience, take);
  } catch (const Error& error) {
    if (answer.bytes.empty()) answer.problem = error.what();
  }
  if (answer.bytes.size() > read.most) {
    const std::size_t surplus = answer.bytes.size() - read.most;
    answer.bytes.erase(0, surplus);
    answer.offset += surplus;
  }
  return answer;
}

}  // namespace

struct OutputReads::Parts {
  std::optional<TlsFiles> tls;
  Channel<Read> waiting{kMaxWaitingReads};
  std::vector<std::thread> readers;
};

OutputReads::OutputReads(std::optional<TlsFiles> tls) : parts_(std::make_unique<Parts>()) {
  parts_->tls = std::move(tls);
  for (int i = 0; i < kReaders; ++i) {
    parts_->readers.emplace_back([this] {
      while (auto read = parts_->waiting.pop(Channel<Read>::kForever)) {
        if (parts_->waiting.closed()) return;
        read->done(read_now(*read, parts_->tls));
      }
    });
  }
}

OutputReads::~OutputReads() {
  parts_->waiting.close();
  for (std::thread& reader : parts_->readers) reader.join();
}

bool OutputReads::start(Read read) {
  // Nobody else puts anything in, so that a place which is free now stays so.
  if (parts_->waiting.size() >= kMaxWaitingReads) return false;
  return parts_->waiting.push(std::move(read));
}

}  // namespace harmonics::inline in_server

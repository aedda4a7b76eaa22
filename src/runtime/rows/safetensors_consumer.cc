#include <harmonics/runtime/safetensors_consumer.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/log.h>
#include <harmonics/models/safetensors_header.h>

namespace harmonics::inline in_runtime {
namespace {

// What the rows and the two places of a header grow by at most, in digits.
constexpr std::size_t kGrowingDigits = std::size_t{3} * 20;

}  // namespace

struct SafetensorsConsumer::Output {
  explicit Output(const std::filesystem::path& path) : file(path) {}
  AtomicFile file;
  std::size_t header_room = 0;  // bytes between the length and the data; 0: nothing is written yet
};

SafetensorsConsumer::SafetensorsConsumer(const std::filesystem::path& path, std::string name)
    : output_(std::make_unique<Output>(path)), path_(path.string()), name_(std::move(name)) {}

SafetensorsConsumer::~SafetensorsConsumer() {
  if (output_ != nullptr && rows_ > 0) {
    log_warn("runtime", "{} rows for '{}' are dropped: finish() was not called", rows_, path_);
  }
}

std::string SafetensorsConsumer::header() const {
  return safetensors_header_text({{name_, spec_}}, Json::object());
}

// Leaves room for the header, which is known at the end.
void SafetensorsConsumer::begin(const TensorSpec& first) {
  spec_ = first;
  spec_.shape[0] = 0;
  const std::size_t least = header().size() + kGrowingDigits;
  output_->header_room = (least + 7) / 8 * 8;
  output_->file.write(Bytes(kSafetensorsPrefix + output_->header_room));
}

void SafetensorsConsumer::push(const Tensor& batch) {
  if (output_ == nullptr) {
    fail(ErrorCode::kFailedPrecondition, "'{}' is finished: no more rows can be added", path_);
  }
  if (!batch.defined() || batch.shape().empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' takes batches, with a leading batch axis", path_);
  }
  if (batch.shape()[0] == 0) return;
  if (output_->header_room == 0) begin(batch.spec());
  const bool fits =
      batch.dtype() == spec_.dtype &&
      std::ranges::equal(batch.shape() | std::views::drop(1), spec_.shape | std::views::drop(1));
  if (!fits) {
    fail(ErrorCode::kInvalidArgument,
         "'{}': a batch of {} after rows of {}: one tensor holds rows of one shape, write these to "
         "a CSV file",
         path_, spec_text(batch.spec()), spec_text(spec_));
  }
  output_->file.write(batch.bytes());
  rows_ += batch.shape()[0];
  spec_.shape[0] = rows_;
}

void SafetensorsConsumer::finish() {
  if (output_ == nullptr) return;
  if (output_->header_room == 0) begin(spec_);
  std::string text = header();
  HARMONICS_CHECK(text.size() <= output_->header_room, "a header has outgrown its room");
  text.append(output_->header_room - text.size(), ' ');
  const std::uint64_t length = text.size();
  output_->file.write_at(0, std::as_bytes(std::span(&length, 1)));
  output_->file.write_at(kSafetensorsPrefix, bytes_of(text));
  output_->file.commit();
  output_.reset();
}

}  // namespace harmonics::inline in_runtime

#include "piped_company.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_torch_program {
namespace {

/// How long the keeper may take to bring replicas together.
constexpr std::chrono::minutes kForTheKeeper(30);
/// The longest order.
constexpr std::size_t kMaxOrderLine = std::size_t{256} << 10;
constexpr const char* kLostOne = "another replica went away";

}  // namespace

bool has_keeper() { return environment_value(kOrdersVariable).has_value(); }

PipedCompany::PipedCompany(CompanyTerms terms, StageEvents& events)
    : terms_(std::move(terms)), events_(events) {
  const std::string text = environment_text(kOrdersVariable);
  orders_ = number_from<int>(text).value_or(-1);
  std::array<int, 2> ends{};
  if (orders_ < 0 || ::pipe2(ends.data(), O_CLOEXEC) != 0) {
    fail(ErrorCode::kInvalidArgument, "{}='{}' is no descriptor: unset it", kOrdersVariable, text);
  }
  woken_.reset(ends[0]);
  wake_.reset(ends[1]);
  reader_ = std::thread([this] { read_orders(); });
}

PipedCompany::~PipedCompany() {
  wake_.reset();
  reader_.join();
}

void PipedCompany::read_orders() {
  try {
    read_until_gone();
  } catch (const std::exception& error) {
    log_warn("stage", "replica {}: {}", terms_.number, error.what());
  }
  const std::lock_guard lock(mutex_);
  keeper_is_gone_ = true;
  came_.notify_all();
}

void PipedCompany::read_until_gone() {
  std::string text;
  std::array<char, 4096> chunk;
  for (;;) {
    std::array<pollfd, 2> watched = {pollfd{orders_, POLLIN, 0}, pollfd{woken_.get(), POLLIN, 0}};
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno == EINTR) continue;
    if (watched[1].revents != 0) return;
    const ssize_t got = ::read(orders_, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || text.size() > kMaxOrderLine) return;
    text.append(chunk.data(), static_cast<std::size_t>(got));
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      take(decode_order(text.substr(0, end)));
      text.erase(0, end + 1);
    }
  }
}

void PipedCompany::take(KeeperOrder order) {
  const std::lock_guard lock(mutex_);
  switch (order.kind) {
    case KeeperOrder::Kind::kRegroup:
      broken_generation_ = std::max(broken_generation_, order.generation);
      if (stop_ != nullptr && generation_ <= broken_generation_) stop_->ask(kLostOne);
      break;
    case KeeperOrder::Kind::kNewcomer:
      newcomer_generation_ = std::max(newcomer_generation_, order.generation);
      break;
    case KeeperOrder::Kind::kSave:
    case KeeperOrder::Kind::kGroup: waiting_.push_back(std::move(order)); break;
  }
  came_.notify_all();
}

bool PipedCompany::newcomer_waits() const {
  const std::lock_guard lock(mutex_);
  return generation_ > 0 && newcomer_generation_ == generation_;
}

KeeperOrder PipedCompany::next_order() {
  std::unique_lock lock(mutex_);
  const bool came =
      came_.wait_for(lock, kForTheKeeper, [&] { return keeper_is_gone_ || !waiting_.empty(); });
  if (!came || waiting_.empty()) {
    fail(ErrorCode::kInternal, "replica {} waits for its keeper, which {}", terms_.number,
         came ? "is gone" : "says nothing");
  }
  KeeperOrder order = std::move(waiting_.front());
  waiting_.pop_front();
  return order;
}

KeeperOrder PipedCompany::await_group(
    const ReplicaStanding& standing,
    const std::function<void(const std::filesystem::path&)>& hand_on) {
  events_.tell_line(encode_news({KeeperNews::Kind::kStands, standing}));
  for (;;) {
    KeeperOrder order = next_order();
    if (order.kind == KeeperOrder::Kind::kGroup) return order;
    hand_on(order.file);
    events_.tell_line(encode_news({KeeperNews::Kind::kSaved, {}}));
  }
}

std::filesystem::path PipedCompany::introduce(std::uint64_t steps) {
  first_ = await_group({steps, false, true, "equal"}, [](const std::filesystem::path&) {});
  return first_->file;
}

ReplicaGroup PipedCompany::regroup(
    const ReplicaStanding& standing,
    const std::function<void(const std::filesystem::path&)>& hand_on) {
  if (first_) return group_of(*std::exchange(first_, std::nullopt));
  return group_of(await_group(standing, hand_on));
}

ReplicaGroup PipedCompany::group_of(const KeeperOrder& order) {
  const auto own = std::ranges::find(order.members, terms_.number);
  if (own == order.members.end() || order.places.size() != order.members.size()) {
    fail(ErrorCode::kInternal, "the keeper made a group without replica {}", terms_.number);
  }
  TransportOptions transport = terms_.transport;
  transport.stop = std::make_shared<StopRequest>();
  {
    const std::lock_guard lock(mutex_);
    generation_ = order.generation;
    stop_ = transport.stop;
    if (broken_generation_ >= generation_) stop_->ask(kLostOne);
  }
  std::vector<RemoteBinding> places;
  for (const std::string& url : order.places) places.push_back(parse_binding(url));
  ReplicaGroup group;
  group.members = order.members;
  group.shares = order.shares;
  group.take_over = order.take_over;
  group.ends = make_remote_ends(terms_.order, static_cast<std::size_t>(own - order.members.begin()),
                                places, terms_.name, transport);
  return group;
}

}  // namespace harmonics::inline in_torch_program

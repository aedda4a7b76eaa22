// What replicas and their keeper say to each other, a line of JSON each.
#include <algorithm>
#include <array>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>

#include "replica_keeper.h"

namespace harmonics::inline in_torch_program {
namespace {

constexpr std::array<std::string_view, 4> kOrderNames = {"regroup", "newcomer", "save", "group"};

}  // namespace

std::string encode_order(const KeeperOrder& order) {
  Json json;
  json.set("order", kOrderNames.at(static_cast<std::size_t>(order.kind)));
  json.set("generation", order.generation).set("shares", order.shares);
  json.set("take_over", order.take_over).set("file", order.file.string());
  std::vector<Json> members, places;
  for (const std::size_t member : order.members) members.emplace_back(std::uint64_t{member});
  for (const std::string& place : order.places) places.emplace_back(place);
  return json.set("members", Json(members)).set("places", Json(places)).dump();
}

KeeperOrder decode_order(const std::string& line) {
  const Json json = Json::parse(line, "order of the keeper");
  KeeperOrder order;
  const std::string& name = json.at("order").as_string();
  const auto found = std::find(kOrderNames.begin(), kOrderNames.end(), name);
  if (found == kOrderNames.end()) {
    fail(ErrorCode::kInvalidArgument, "the keeper of the replicas gave an unknown order '{}'",
         name);
  }
  order.kind = static_cast<KeeperOrder::Kind>(found - kOrderNames.begin());
  order.generation = static_cast<std::uint64_t>(json.at("generation").as_integer());
  order.shares = json.at("shares").as_string();
  order.take_over = json.at("take_over").as_bool();
  order.file = json.at("file").as_string();
  for (const Json& member : json.at("members").as_array()) {
    order.members.push_back(static_cast<std::size_t>(member.as_integer()));
  }
  for (const Json& place : json.at("places").as_array()) order.places.push_back(place.as_string());
  return order;
}

std::string encode_news(const KeeperNews& news) {
  Json json;
  json.set("event", news.kind == KeeperNews::Kind::kSaved ? "saved" : "stands");
  json.set("steps", news.standing.steps).set("holds_sums", news.standing.holds_sums);
  json.set("between_steps", news.standing.between_steps);
  return json.set("shares", news.standing.shares).dump();
}

std::optional<KeeperNews> decode_news(const std::string& line) {
  const Json json = Json::parse(line, "event of a replica");
  const std::string& kind = json.at("event").as_string();
  if (kind == "saved") return KeeperNews{KeeperNews::Kind::kSaved, {}};
  if (kind != "stands") return std::nullopt;
  ReplicaStanding standing;
  standing.steps = static_cast<std::uint64_t>(json.at("steps").as_integer());
  standing.holds_sums = json.at("holds_sums").as_bool();
  standing.between_steps = json.at("between_steps").as_bool();
  standing.shares = json.at("shares").as_string();
  return KeeperNews{KeeperNews::Kind::kStands, standing};
}

}  // namespace harmonics::inline in_torch_program

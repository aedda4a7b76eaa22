// Tasks to and from their messages, by reflection: a field of a task is the field of the message
// that has its name (cluster/task_fields.h).
#include <google/protobuf/reflection.h>

#include <harmonics/base/error.h>
#include <harmonics/cluster/task_fields.h>

#include "conversion.h"

namespace harmonics::inline in_rpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// A field of a message that is written or read. Another type than the member's ends the program.
template <typename Whole>
struct Slot {
  Whole& message;
  const FieldDescriptor* field;
  const google::protobuf::Reflection* how;
};
using Filled = Slot<Message>;
using Held = Slot<const Message>;

/// The fields of a message in the order in which those of the record are shown.
template <typename Record>
std::vector<const FieldDescriptor*> fields_named(const Descriptor& type) {
  std::vector<const FieldDescriptor*> fields;
  visit_fields(std::type_identity<Record>(), [&](const TaskField& field, auto) {
    fields.push_back(type.FindFieldByName(std::string(field.wire)));
    if (fields.back() != nullptr) return;
    fail(ErrorCode::kInternal, "{} of cluster.proto has no field '{}': add it", type.full_name(),
         field.wire);
  });
  return fields;
}

/// Calls `visit(TaskField, pointer to member, Slot)` for each field of a record.
template <typename Record, typename Whole, typename Visit>
void visit_slots(Whole& message, Visit&& visit) {
  static const std::vector<const FieldDescriptor*> fields =
      fields_named<Record>(*message.GetDescriptor());
  auto next = fields.begin();
  visit_fields(std::type_identity<Record>(), [&](const TaskField& field, auto member) {
    visit(field, member, Slot<Whole>{message, *next++, message.GetReflection()});
  });
}

void fill(const std::string& text, Filled to) { to.how->SetString(&to.message, to.field, text); }
void fill(std::uint32_t number, Filled to) { to.how->SetUInt32(&to.message, to.field, number); }
void fill(std::uint64_t number, Filled to) { to.how->SetUInt64(&to.message, to.field, number); }
void fill(std::int32_t number, Filled to) { to.how->SetInt32(&to.message, to.field, number); }
void fill(bool flag, Filled to) { to.how->SetBool(&to.message, to.field, flag); }

void fill(OnDisconnect wish, Filled to) {
  static_assert(static_cast<int>(OnDisconnect::kForever) == wire::ON_DISCONNECT_CONTINUE &&
                static_cast<int>(OnDisconnect::kContinue) == wire::ON_DISCONNECT_HOLD);
  to.how->SetEnumValue(&to.message, to.field, static_cast<int>(wish));
}

void fill(const TextPairs& pairs, Filled to) {
  for (const auto& [key, value] : pairs) {
    auto& pair = static_cast<wire::Pair&>(*to.how->AddMessage(&to.message, to.field));
    pair.set_key(key);
    pair.set_value(value);
  }
}

void fill(const std::vector<std::string>& texts, Filled to) {
  for (const std::string& text : texts) to.how->AddString(&to.message, to.field, text);
}

void fill(const std::vector<TaskId>& tasks, Filled to) {
  for (const TaskId id : tasks) to.how->AddUInt64(&to.message, to.field, id.value);
}

void fill(const ResourceCounts& counts, Filled to) {
  for (const auto& [name, count] : counts) {
    auto& resource = static_cast<wire::Resource&>(*to.how->AddMessage(&to.message, to.field));
    resource.set_name(name);
    resource.set_count(count);
  }
}

template <typename Record>
void fill_record(const Record& from, Message& to);

void fill(const MaybeTerms& terms, Filled to) {
  if (terms) fill_record(*terms, *to.how->MutableMessage(&to.message, to.field));
}

void fill(const TaskVariants& variants, Filled to) {
  for (const TaskVariant& variant : variants.all()) {
    fill_record(variant, *to.how->AddMessage(&to.message, to.field));
  }
}

void fill(const MaybePipeline& pipeline, Filled to) {
  if (pipeline) fill_record(*pipeline, *to.how->MutableMessage(&to.message, to.field));
}

void fill(const TaskFiles& files, Filled to) {
  for (const TaskFile& file : files.all()) {
    fill_record(file, *to.how->AddMessage(&to.message, to.field));
  }
}

template <typename Record>
void fill_record(const Record& from, Message& to) {
  static const Record standard;
  visit_slots<Record>(to, [&](const TaskField& field, auto member, Filled slot) {
    // Peers from before the field mean the default: it goes without saying.
    if (field.unset_if_zero && from.*member == standard.*member) return;
    fill(from.*member, slot);
  });
}

void read_slot(Held from, std::string& text) {
  text = from.how->GetString(from.message, from.field);
}
void read_slot(Held from, std::uint32_t& number) {
  number = from.how->GetUInt32(from.message, from.field);
}
void read_slot(Held from, std::uint64_t& number) {
  number = from.how->GetUInt64(from.message, from.field);
}
void read_slot(Held from, std::int32_t& number) {
  number = from.how->GetInt32(from.message, from.field);
}
void read_slot(Held from, bool& flag) { flag = from.how->GetBool(from.message, from.field); }

/// What a later peer may wish for beyond these is safest stopped.
void read_slot(Held from, OnDisconnect& wish) {
  const int said = from.how->GetEnumValue(from.message, from.field);
  wish = said == wire::ON_DISCONNECT_CONTINUE ? OnDisconnect::kForever
         : said == wire::ON_DISCONNECT_HOLD   ? OnDisconnect::kContinue
                                              : OnDisconnect::kStop;
}

void read_slot(Held from, TextPairs& pairs) {
  const auto all = from.how->GetRepeatedFieldRef<Message>(from.message, from.field);
  for (const Message& one : all) {
    const auto& pair = static_cast<const wire::Pair&>(one);
    pairs.emplace_back(pair.key(), pair.value());
  }
}

void read_slot(Held from, std::vector<std::string>& texts) {
  const auto all = from.how->GetRepeatedFieldRef<std::string>(from.message, from.field);
  texts.assign(all.begin(), all.end());
}

void read_slot(Held from, std::vector<TaskId>& tasks) {
  for (const std::uint64_t id :
       from.how->GetRepeatedFieldRef<std::uint64_t>(from.message, from.field)) {
    tasks.push_back(TaskId{id});
  }
}

void read_slot(Held from, ResourceCounts& counts) {
  for (const Message& one : from.how->GetRepeatedFieldRef<Message>(from.message, from.field)) {
    const auto& resource = static_cast<const wire::Resource&>(one);
    counts.emplace_back(resource.name(), resource.count());
  }
}

template <typename Record>
Record read_record(const Message& from);

void read_slot(Held from, MaybeTerms& terms) {
  if (!from.how->HasField(from.message, from.field)) return;
  terms = read_record<TaskTerms>(from.how->GetMessage(from.message, from.field));
}

void read_slot(Held from, TaskVariants& variants) {
  std::vector<TaskVariant> list;
  for (const Message& one : from.how->GetRepeatedFieldRef<Message>(from.message, from.field)) {
    list.push_back(read_record<TaskVariant>(one));
  }
  variants = std::move(list);
}

void read_slot(Held from, MaybePipeline& pipeline) {
  if (!from.how->HasField(from.message, from.field)) return;
  auto spec = read_record<PipelineSpec>(from.how->GetMessage(from.message, from.field));
  lift_old_settings(spec);
  pipeline = std::move(spec);
}

void read_slot(Held from, TaskFiles& files) {
  std::vector<TaskFile> list;
  for (const Message& file : from.how->GetRepeatedFieldRef<Message>(from.message, from.field)) {
    list.push_back(read_record<TaskFile>(file));
  }
  files = std::move(list);
}

template <typename Record>
Record read_record(const Message& from) {
  Record record;
  visit_slots<Record>(from, [&](const TaskField& field, auto member, Held slot) {
    const bool said = !field.unset_if_zero || slot.how->HasField(slot.message, slot.field);
    if (said) read_slot(slot, record.*member);
  });
  return record;
}

}  // namespace

void encode(const TaskSpec& from, wire::TaskSpec& to) { fill_record(from, to); }

TaskSpec decode(const wire::TaskSpec& from) { return read_record<TaskSpec>(from); }

}  // namespace harmonics::inline in_rpc

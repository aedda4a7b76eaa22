// What a page may ask and what it may change, and who may (private to server). Pure.
#pragma once

#include <string>
#include <string_view>

#include <harmonics/base/json.h>
#include <harmonics/rpc/rights.h>
#include <harmonics/rpc/views.h>

#include "page_reply.h"

namespace harmonics::inline in_server {

/// Makes a request to the loop of the arguments behind a path; what is wrong with them is an Error.
struct PageQuestion {
  std::string_view path;
  ClientRequest (*ask)(const PageArguments& arguments, const Viewer& viewer);
};
/// Null: there is no such question.
[[nodiscard]] const PageQuestion* find_question(std::string_view path);

/// What the highest priority of somebody who is no admin may be.
struct PageLimits {
  std::int32_t max_priority = 0;
};
/// Makes a change of the JSON that was sent.
struct PageAction {
  std::string_view path;
  Right right;
  ClientRequest (*change)(const Json& body, const Identity& who, const PageLimits& limits);
};
/// Null: there is no such action.
[[nodiscard]] const PageAction* find_action(std::string_view path);

/// The loop's answer as `--output json` shows it, without what is not this one's to know.
[[nodiscard]] HttpReply reply_of(const Identity& who, ClientReply reply);

/// The graph of a pipeline as `to_json` writes it. An Error for a task that is none.
[[nodiscard]] Json graph_json(const TaskSpec& spec);

/// What a submission of the same once more asks for. An Error for one of an array but the first.
[[nodiscard]] SubmitRequest submitted_again(const TaskView& task, TaskSpec spec,
                                            const Identity& who);

}  // namespace harmonics::inline in_server

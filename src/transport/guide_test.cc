// The example of docs/guides/transports.md, run.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include <harmonics/transport/transport.h>

namespace harmonics::inline in_transport {
namespace {

// One end: sends every activation back as a gradient, until the other end closes.
void answer(const std::string& url) {
  TransportOptions options;
  options.run = "tuesday-1";
  const TransportPtr end = make_transport(parse_binding(url), options);
  const auto soon = [] { return deadline_in(std::chrono::seconds(30)); };
  while (std::optional<Message> message = end->receive(soon())) {
    message->kind = MessageKind::kGradient;
    end->send(*message, soon());
  }
  end->close(soon());
}

TEST(Guide, TheExampleAnswers) {
  TransportOptions options;
  options.run = "tuesday-1";
  const TransportPtr end =
      make_transport(parse_binding("tcp://127.0.0.1:0/hidden@1?compress=1"), options);
  std::thread other([&] { answer(binding_url(end->binding())); });
  const auto patient = [] { return deadline_in(std::chrono::minutes(2)); };
  Message message;
  message.tensor = Tensor::zeros({100});
  end->send(message, patient());
  const std::optional<Message> back = end->receive(patient());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, MessageKind::kGradient);
  EXPECT_EQ(back->tensor.shape(), (Shape{100}));
  end->close(patient());
  other.join();
}

}  // namespace
}  // namespace harmonics::inline in_transport

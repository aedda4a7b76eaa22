// The bytes that parts of a run say to each other, as version 0.1.0 said them: parts of two
// versions still understand each other.
#include "wire.h"

#include <gtest/gtest.h>

#include <functional>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>

#include "parameters/parameter_wire.h"
#include "secure/proof_parcel.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_schedule {
namespace {

PartRecord sample_part() {
  PartRecord part;
  part.name = "net_1";
  part.home = "host-a\nnet_0";
  part.entering = {{"hidden", 1}, {"skip", 2}};
  part.leaving = {{"logits", 0}};
  part.learns = true;
  part.seed = 0x1122334455667788;
  part.micro_batches = 4;
  part.clip_norm = 0.5;
  part.precision = "mixed";
  part.order = "one_f_one_b";
  part.steps = 1350;
  part.custody = "claim";
  return part;
}

CustodyClaim sample_claim() {
  CustodyClaim claim;
  claim.part.stage = "net_1";
  claim.part.signer = "board-2";
  claim.part.key.fill(std::byte{0x11});
  claim.part.graph.fill(std::byte{0x22});
  claim.part.outputs = {"logits", "taps"};
  claim.nonce.fill(std::byte{0x33});
  return claim;
}

ParameterLayout sample_layout() {
  return {ParameterMode::BoundedStaleness,
          3,
          1,
          2,
          {{"fc1.bias", {{32}, DType::kFloat32}}, {"fc1.weight", {{32, 64}, DType::kFloat64}}}};
}

Bytes from_hex(std::string_view text) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

template <typename Record, typename Decode>
void expect_bytes(const Record& record, std::string_view hex, Decode&& decode) {
  const auto written = encode(record);
  EXPECT_EQ(to_hex(std::as_bytes(std::span(written))), hex);
  EXPECT_TRUE(decode(from_hex(hex)) == record) << hex;
  Bytes longer = from_hex(hex);
  longer.push_back(std::byte{0});
  EXPECT_THROW((void)decode(longer), Error);
}

template <typename Record>
auto from_text(Record (*decode)(std::string_view)) {
  return [decode](const Bytes& bytes) { return decode(text_of(bytes)); };
}

TEST(PartRecordBits, TravelAndAreBounded) {
  PartRecord part = sample_part();
  const std::string exact = encode(part);
  part.leaving = {{"logits", 3, {8, 16}}};
  EXPECT_EQ(decode_part_record(encode(part)), part);
  EXPECT_EQ(encode(part).size(), exact.size());
  part.leaving = {{"logits", 3, {9, 0}}};
  EXPECT_THROW(static_cast<void>(decode_part_record(encode(part))), Error);
}

TEST(Wire, BatchHeads) {
  expect_bytes(BatchHead{64, 4, 1350}, "4000000000000000040000004605000000000000",
               decode_batch_head);
}

TEST(Wire, EndsOfARun) {
  EXPECT_EQ(to_hex(encode_run_end(7)), "0700000000000000");
  EXPECT_EQ(decode_run_end(from_hex("0700000000000000")), 7U);
}

TEST(Wire, Parts) {
  expect_bytes(sample_part(),
               "050000006e65745f310c000000686f73742d610a6e65745f30020000000600000068696464656e01"
               "00000004000000736b69700200000001000000060000006c6f676974730000000001887766554433"
               "22110400000000000000000000000000e03f050000006d697865640b0000006f6e655f665f6f6e65"
               "5f62460500000000000005000000636c61696d",
               from_text(decode_part_record));
}

TEST(Wire, Notices) {
  const Notice notice = {{"a", "1"}, {"b", ""}};
  const Message message = notice_message(notice, {Topic::kTaps, 9, 3});
  EXPECT_EQ(to_hex(message.tensor.bytes()), "0200000001000000610100000031010000006200000000");
  EXPECT_EQ(decode_notice(message), notice);
}

TEST(Wire, Terms) {
  FitTerms terms;
  terms.last_epoch = 30;
  terms.epochs_are_steps = false;
  terms.evaluates = true;
  terms.patience = -1;
  terms.saves = true;
  terms.save_every_steps = 100;
  terms.save_every_epochs = 2;
  EXPECT_EQ(to_hex(bytes_of(encode(terms))),
            "1e000000000000000001ffffffff0164000000000000000200000000000000");
  EXPECT_EQ(encode(decode_fit_terms(encode(terms))), encode(terms));
}

TEST(Wire, Taps) {
  TapReport taps;
  taps.loss_sum = 1.25;
  taps.judged = 100;
  taps.correct = 97;
  EXPECT_EQ(to_hex(bytes_of(encode(taps))), "000000000000f43f64000000000000006100000000000000");
  EXPECT_EQ(encode(decode_tap_report(encode(taps))), encode(taps));
}

TEST(Wire, FilesOfStages) {
  expect_bytes(StageFile{"net_1", "net.step-20", "ab"},
               "050000006e65745f310b0000006e65742e737465702d3230020000006162",
               from_text(decode_stage_file));
  const std::string ids = encode_ids({"step 20", "the beginning"});
  EXPECT_EQ(to_hex(bytes_of(ids)),
            "0200000007000000737465702032300d00000074686520626567696e6e696e67");
  EXPECT_EQ(decode_ids(ids), (std::vector<std::string>{"step 20", "the beginning"}));
}

TEST(Wire, ClaimsOfCustody) {
  const std::string claim = encode(sample_claim());
  EXPECT_EQ(to_hex(bytes_of(claim)),
            "050000006e65745f3107000000626f6172642d321111111111111111111111111111111111111111"
            "11111111111111111111111122222222222222222222222222222222222222222222222222222222"
            "2222222202000000060000006c6f6769747304000000746170733333333333333333333333333333"
            "3333");
  EXPECT_EQ(encode(decode_custody_claim(claim)), claim);
}

TEST(Wire, ProofParcels) {
  const ProofParcel parcel{Tensor::of<std::int32_t>({2, 1}, {7, -1}),
                           {Bytes(3, std::byte{0xaa}), Bytes(2, std::byte{0xbb}), {}}};
  const std::string hex =
      "010200000002000000000000000100000000000000030000000200000000000000aaaaaabbbb"
      "07000000ffffffff";
  const Bytes bytes = encode(parcel);
  EXPECT_EQ(to_hex(bytes), hex);
  EXPECT_EQ(encode(decode_proof_parcel(bytes)), bytes);
  const auto broken = [](Bytes changed) {
    EXPECT_THROW(static_cast<void>(decode_proof_parcel(changed)), Error);
  };
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    broken(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)));
  }
  // A shape whose numbers would overflow, and lengths beyond their limits.
  for (const std::size_t at : {std::size_t{12}, std::size_t{24}, std::size_t{28}}) {
    Bytes changed = bytes;
    changed[at] = std::byte{0x7f};
    broken(changed);
  }
}

TEST(Wire, ParameterServers) {
  expect_bytes(sample_layout(),
               "0100000003000000010000000200000002000000080000006663312e626961730001000000200000"
               "00000000000a0000006663312e776569676874010200000020000000000000004000000000000000",
               decode_parameter_layout);
  expect_bytes(GradientWeight{16, 64}, "10000000000000004000000000000000", decode_gradient_weight);
}

TEST(Wire, DamagedBytesNeverCrash) {
  Random random(1, "wire");
  const std::vector<std::string> seeds = {
      encode(sample_part()), encode(sample_claim()), text_of(encode(sample_layout())),
      text_of(encode(
          ProofParcel{Tensor::of<std::int32_t>({2, 1}, {7, -1}), {Bytes(3), Bytes(2), Bytes(1)}}))};
  for (int round = 0; round < 5000; ++round) {
    std::string input = seeds[random.below(seeds.size())];
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
      input[random.below(input.size())] = static_cast<char>(random.below(256));
    }
    input.resize(random.below(4) == 0 ? random.below(input.size()) : input.size());
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_schedule

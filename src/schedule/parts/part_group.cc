#include "part_group.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "copy_gradients.h"
#include "part_options.h"
#include "pipeline_runner.h"
#include "remote/remote_runner.h"
#include "replicas/elastic_agreement.h"
#include "replicas/replica_runner.h"
#include "secure/secure_meeting.h"

namespace harmonics::inline in_schedule {

PartGroup::PartGroup(std::vector<HarmonicGraph> parts, const DeploymentDescriptor& deploy,
                     const RemoteOptions& options)
    : parts_(std::move(parts)),
      options_(options),
      part_runtimes_(part_options(parts_.size(), deploy, options.runtime)),
      targets_(parts_.size()),
      peers_(std::make_unique<Peers>(options.transport)) {
  for (std::size_t i = 0; i < deploy.partitions.size(); ++i) {
    targets_[i] = deploy.partitions[i].target;
    if (!targets_[i].empty()) static_cast<void>(parse_target(targets_[i], "any"));
  }
  const SecureOptions& secure = options_.runtime.secure;
  check_proofs(deploy, secure);
  if (deploy.secure || secure.is_on()) key_ = signing_key(secure);
  check_copies();
  std::set<std::string, std::less<>> sent;
  std::set<std::string, std::less<>> joined;
  for (const HarmonicGraph& part : parts_) {
    for (const ProducerNode& node : part.producers()) {
      for (const std::string& name : names_of(node)) {
        if (!sent.contains(name)) producer_names_.all.push_back(name);
        if (sent.contains(name)) joined.insert(name);
      }
    }
    for (const ConsumerNode& node : part.consumers()) {
      for (const std::string& name : names_of(node)) sent.insert(name);
    }
  }
  for (const std::string& name : link_names()) producer_names_.all.push_back(name);
  std::ranges::set_difference(sent, joined, std::back_inserter(consumer_names_.all));
}

std::vector<std::string> PartGroup::link_names() const {
  return copy_links(options_.copies, parts_.front().name());
}

bool PartGroup::is_link(const std::string& name) const {
  const std::vector<std::string> links = link_names();
  return std::ranges::find(links, name) != links.end();
}

void PartGroup::check_copies() const {
  const PartCopies& copies = options_.copies;
  if (copies.copy >= copies.turns.copies()) {
    fail(ErrorCode::kInvalidArgument, "{} has {} copies, the first is 0: there is no copy {}",
         title(), copies.turns.copies(), copies.copy);
  }
  if (!copies.any()) return;
  if (parts_.size() > 1) {
    fail(ErrorCode::kInvalidArgument, "{}: parts with copies have a scheduler each", title());
  }
  if (key_) {
    fail(ErrorCode::kUnimplemented,
         "parts with copies cannot be secure: a chain follows every batch through one part after "
         "another; leave secure off, or give each part one host");
  }
}

std::vector<std::string> PartGroup::names_of(const ProducerNode& node) const {
  if (!is_boundary_name(node.name)) return {node.name};
  return entering_channels(options_.copies, node.name);
}

std::vector<std::string> PartGroup::names_of(const ConsumerNode& node) const {
  if (!is_boundary_name(node.name)) return {node.name};
  return leaving_channels(options_.copies, node.name);
}

PartGroup::~PartGroup() {
  if (row_) close_quietly(*row_);
}

std::string PartGroup::title() const {
  if (parts_.size() == 1) return format("part '{}'", parts_.front().name());
  return format("the parts {}", listed(parts_, &HarmonicGraph::name));
}

void PartGroup::claim(Names& names, const std::string& name) const {
  if (std::ranges::find(names.all, name) == names.all.end()) {
    fail(ErrorCode::kNotFound, "{} has no {} '{}'; it has: {}", title(), names.kind, name,
         listed(names.all));
  }
  if (!names.bound.insert(name).second) {
    fail(ErrorCode::kAlreadyExists, "{} '{}' of {} is bound already; bound are: {}", names.kind,
         name, title(), listed(names.bound, std::identity()));
  }
}

void PartGroup::check_not_started(const std::string& name) const {
  if (!row_) return;
  fail(ErrorCode::kFailedPrecondition,
       "boundary '{}' comes too late: bind all boundaries of {} before its first step", name,
       title());
}

void PartGroup::bind_producer(const std::string& name, ProducerPtr producer) {
  if (producer == nullptr)
    fail(ErrorCode::kInvalidArgument, "producer '{}' is bound to nothing", name);
  claim(producer_names_, name);
  if (trainer_) {
    trainer_->bind_producer(name, std::move(producer));
  } else {
    producers_.emplace(name, std::move(producer));
  }
}

void PartGroup::bind_consumer(const std::string& name, ConsumerPtr consumer) {
  if (consumer == nullptr)
    fail(ErrorCode::kInvalidArgument, "consumer '{}' is bound to nothing", name);
  claim(consumer_names_, name);
  if (trainer_) {
    trainer_->bind_consumer(name, std::move(consumer));
  } else {
    consumers_.emplace(name, std::move(consumer));
  }
}

void PartGroup::bind_producer(const RemoteBinding& binding) {
  check_not_started(binding.name);
  bind_producer(binding.name, peers_->make_end(binding));
}

void PartGroup::bind_consumer(const RemoteBinding& binding) {
  check_not_started(binding.name);
  claim(consumer_names_, binding.name);
  note_bits(binding.name, binding);
  peers_->bind(binding.name, peers_->make_end(binding));
  open_.leaving.emplace(boundary_of(binding.name));
}

void PartGroup::bind_producer(const std::string& boundary, TransportPtr end) {
  check_not_started(boundary);
  claim(producer_names_, boundary);
  if (is_link(boundary)) {
    peers_->bind_link(boundary, std::move(end));
    return;
  }
  note_bits(boundary, end->binding());
  peers_->bind(boundary, std::move(end));
  open_.entering.emplace(boundary_of(boundary));
}

void PartGroup::bind_consumer(const std::string& boundary, TransportPtr end) {
  check_not_started(boundary);
  claim(consumer_names_, boundary);
  note_bits(boundary, end->binding());
  peers_->bind(boundary, std::move(end));
  open_.leaving.emplace(boundary_of(boundary));
}

void PartGroup::note_bits(const std::string& channel, const RemoteBinding& binding) {
  if (binding.bits == 0 && binding.gradient_bits == 0) return;
  BoundaryBits& bits = options_.pipeline.packing.named[std::string(boundary_of(channel))];
  if (binding.bits != 0) bits.activations = binding.bits;
  if (binding.gradient_bits != 0) bits.gradients = binding.gradient_bits;
}

// What parts tell each other: exact is said in one way.
BoundaryBits PartGroup::told_bits(const std::string& boundary) const {
  const BoundaryBits bits = options_.pipeline.packing.of(boundary);
  return {bits.packs_activations() ? bits.activations : 0,
          bits.packs_gradients() ? bits.gradients : 0};
}

// Where all parts are here, every boundary that is named must be one of theirs.
void PartGroup::check_packing() const {
  const BoundaryPacking& packing = options_.pipeline.packing;
  if (packing.packs() && options_.runtime.secure.proofs != nullptr) {
    fail(ErrorCode::kUnimplemented,
         "{} prove what they compute, and a proof is about exact numbers: give the boundaries no "
         "bits",
         title());
  }
  const auto check = [](const BoundaryBits& bits, const std::string& whose) {
    for (const int one : {bits.activations, bits.gradients}) {
      if (one != 0) check_bits(one, whose);
    }
  };
  check(packing.all, "the boundaries");
  for (const auto& [name, bits] : packing.named) {
    check(bits, format("boundary '{}'", name));
    const bool is_here =
        std::ranges::find(row_->boundaries(), name, &RowBoundary::name) != row_->boundaries().end();
    if (is_here || row_->is_partial()) continue;
    fail(ErrorCode::kNotFound,
         "bits are given for boundary '{}', which {} do not have; they have: {}", name, title(),
         listed(row_->boundaries(), &RowBoundary::name));
  }
}

void PartGroup::bind_targets() {
  const auto is_open = [](const Names& names, const std::string& name) {
    return is_boundary_name(boundary_of(name)) && !names.bound.contains(name) &&
           std::ranges::find(names.all, name) != names.all.end();
  };
  for (const std::string& name : link_names()) {
    if (targets_.front().empty() || producer_names_.bound.contains(name)) continue;
    bind_producer(parse_target(targets_.front(), name));
  }
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (targets_[part].empty()) continue;
    for (const ProducerNode& node : parts_[part].producers()) {
      for (const std::string& name : names_of(node)) {
        if (is_open(producer_names_, name)) bind_producer(parse_target(targets_[part], name));
      }
    }
    for (const ConsumerNode& node : parts_[part].consumers()) {
      for (const std::string& name : names_of(node)) {
        if (is_open(consumer_names_, name)) bind_consumer(parse_target(targets_[part], name));
      }
    }
  }
}

std::vector<std::string> PartGroup::open_boundaries() const {
  std::vector<std::string> open;
  for (const Names* names : {&producer_names_, &consumer_names_}) {
    for (const std::string& name : names->all) {
      if (is_boundary_name(boundary_of(name)) && !names->bound.contains(name)) {
        open.push_back(name);
      }
    }
  }
  return open;
}

bool PartGroup::is_whole() const { return open_boundaries().empty(); }

std::vector<PartRecord> PartGroup::records() const {
  std::vector<PartRecord> records;
  std::set<std::string, std::less<>> between;
  for (const RowBoundary& boundary : row_->boundaries()) between.insert(boundary.name);
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const HarmonicGraph& graph = parts_[part];
    PartRecord& own = records.emplace_back();
    own.name = graph.name();
    const std::size_t copies = options_.copies.turns.copies();
    if (copies > 1) own.name += format("{}{} of {})", kCopyTitle, options_.copies.copy, copies);
    for (const ProducerNode& node : graph.producers()) {
      if (!open_.entering.contains(node.name) && !between.contains(node.name)) continue;
      for (const std::string& name : names_of(node)) {
        own.entering.push_back({name, node.gradient_slots, told_bits(node.name)});
      }
    }
    for (const ConsumerNode& node : graph.consumers()) {
      if (!open_.leaving.contains(node.name) && !between.contains(node.name)) continue;
      for (const std::string& name : names_of(node)) {
        own.leaving.push_back({name, node.gradient_slots, told_bits(node.name)});
      }
    }
    own.learns = row_->learns();
    own.seed = part_runtimes_[part].seed;
    own.micro_batches = part_runtimes_[part].micro_batches;
    own.clip_norm = part_runtimes_[part].clip_norm;
    own.precision = precision_name(row_->stages()[part]->precision());
    if (part_runtimes_[part].reproducible) own.precision += kReproducibly;
    if (row_->stages()[part]->prover() != nullptr) own.precision += kProvably;
    own.order = pipeline_order_name(options_.pipeline.order);
    if (row_->custody() != nullptr) {
      own.custody = encode(CustodyClaim{row_->custody()->parts()[part], new_run_nonce()});
    }
  }
  return records;
}

void PartGroup::build_row() {
  bind_targets();
  if (const auto open = open_boundaries(); !open.empty()) {
    fail(ErrorCode::kFailedPrecondition,
         "the other end of boundary {} is not among {}: bind it with bindProducer or bindConsumer "
         "of a RemoteBinding, or give its part a target",
         listed(open), title());
  }
  row_.emplace(parts_, part_runtimes_, open_);
  check_packing();
  if (key_) row_->set_custody(make_custody(*row_, options_.runtime.secure, *key_));
  choose_runner();
}

void PartGroup::choose_runner() {
  if (!link_names().empty()) CopyGradients::check(parts_.front());
  if (!link_names().empty() && open_.entering.empty() && open_.leaving.empty()) {
    fail(ErrorCode::kUnimplemented,
         "{} is the whole graph: copies of that learn together as replicas, which share each batch",
         title());
  }
  if (!open_.entering.empty() || !open_.leaving.empty()) {
    auto made = std::make_unique<RemoteAgreement>(*row_, std::move(*peers_), records(), options_);
    others_ = made.get();
    row_->set_agreement(std::move(made));
    row_->set_runner(std::make_unique<RemoteRunner>(*others_));
  } else if (key_ || options_.copies.any() ||
             (parts_.size() > 1 && (options_.pipeline.order != PipelineOrder::Sequential ||
                                    options_.pipeline.packing.packs()))) {
    row_->set_runner(
        make_pipeline_runner(*row_, options_.pipeline, options_.runtime.threads, options_.copies));
  }
}

// Data that does not fit is an Error every time.
Trainer& PartGroup::ready() {
  if (trainer_) return *trainer_;
  if (!row_) build_row();
  Trainer made(*row_, options_.runtime.seed);
  for (auto& [name, producer] : producers_) made.bind_producer(name, producer);
  for (auto& [name, consumer] : consumers_) made.bind_consumer(name, consumer);
  return trainer_.emplace(std::move(made));
}

void PartGroup::check_may_join() const {
  if (is_replica_) fail(ErrorCode::kFailedPrecondition, "this scheduler is a replica already");
  if (options_.runtime.secure.proofs != nullptr) {
    fail(ErrorCode::kUnimplemented, "replicas learn, which cannot be proven: leave proofs out");
  }
  if (row_ && row_->custody() != nullptr && row_->custody()->has_begun()) {
    fail(ErrorCode::kFailedPrecondition,
         "a secure run has begun: its replicas join before their first batch");
  }
}

void PartGroup::join_company(std::unique_ptr<ReplicaCompany> company,
                             const ReductionOptions& reduction) {
  check_may_join();
  if (key_) {
    fail(ErrorCode::kUnimplemented,
         "replicas that come and go cannot be secure: whoever takes part in a chain stays to its "
         "end; leave secure off, or keep the same replicas");
  }
  reduction.check();
  StageRow& own = ready().row();
  if (others_ != nullptr) {
    fail(ErrorCode::kUnimplemented,
         "replicas that may go away must be whole in one process: leave the graph in one part");
  }
  auto runner = std::make_unique<ReplicaRunner>(own.take_runner(), std::move(company),
                                                options_.runtime, reduction);
  own.set_agreement(std::make_unique<ElasticAgreement>(
      *runner,
      [this](const std::filesystem::path& file) { static_cast<void>(ready().save(file)); }));
  own.set_runner(std::move(runner));
  is_replica_ = true;
}

void PartGroup::join_replicas(ReductionEnds ends, const ReductionOptions& reduction) {
  check_may_join();
  Reducer reducer(std::move(ends), reduction);
  StageRow& own = ready().row();
  if (key_) {
    own.set_custody(make_replica_custody(own, options_.runtime.secure, *key_, reducer.rank()));
    choose_runner();
  }
  if (others_ != nullptr && options_.runtime.shares.are_measured()) {
    fail(ErrorCode::kUnimplemented,
         "shares that follow measured rates take replicas that are whole in one process, since all "
         "parts of a replica must change them in the same step: give shares such as 3,1");
  }
  own.set_runner(std::make_unique<ReplicaRunner>(own.take_runner(), std::move(reducer),
                                                 options_.runtime, own.custody()));
  is_replica_ = true;
}

std::string PartGroup::proof() const {
  if (!row_ || row_->custody() == nullptr) return {};
  return row_->custody()->proof();
}

}  // namespace harmonics::inline in_schedule

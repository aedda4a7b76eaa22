// The numbers that stand for kinds of facts in a store. Never reuse one.
#pragma once

#include <cstdint>

#include <harmonics/cluster/fact.h>

namespace harmonics::inline in_cluster {

template <typename Kind>
inline constexpr std::uint8_t kFactTag = 0;
template <>
inline constexpr std::uint8_t kFactTag<TermStarted> = 1;
template <>
inline constexpr std::uint8_t kFactTag<TasksSubmitted> = 2;
template <>
inline constexpr std::uint8_t kFactTag<AttemptStarted> = 3;
template <>
inline constexpr std::uint8_t kFactTag<MemberLaunched> = 4;
template <>
inline constexpr std::uint8_t kFactTag<MemberEnded> = 5;
template <>
inline constexpr std::uint8_t kFactTag<AttemptStopping> = 6;
template <>
inline constexpr std::uint8_t kFactTag<AttemptRequeued> = 7;
template <>
inline constexpr std::uint8_t kFactTag<TaskReady> = 8;
template <>
inline constexpr std::uint8_t kFactTag<CancelRequested> = 9;
template <>
inline constexpr std::uint8_t kFactTag<TaskEnded> = 10;
template <>
inline constexpr std::uint8_t kFactTag<TasksForgotten> = 11;
template <>
inline constexpr std::uint8_t kFactTag<WorkerRegistered> = 12;
template <>
inline constexpr std::uint8_t kFactTag<WorkerDraining> = 13;
template <>
inline constexpr std::uint8_t kFactTag<WorkerForgotten> = 14;
template <>
inline constexpr std::uint8_t kFactTag<QuotaSet> = 15;
template <>
inline constexpr std::uint8_t kFactTag<CountersKept> = 16;
template <>
inline constexpr std::uint8_t kFactTag<TaskKept> = 17;
template <>
inline constexpr std::uint8_t kFactTag<PlacesKept> = 18;
template <>
inline constexpr std::uint8_t kFactTag<AttemptPlanned> = 19;
template <>
inline constexpr std::uint8_t kFactTag<PastPlacesKept> = 20;
template <>
inline constexpr std::uint8_t kFactTag<LeasesPromised> = 21;

}  // namespace harmonics::inline in_cluster

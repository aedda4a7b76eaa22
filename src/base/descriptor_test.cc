#include <harmonics/base/descriptor.h>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

namespace harmonics::inline in_base {
namespace {

int opened() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(Descriptor, ClosesWhatItOwns) {
  int fd = -1;
  {
    const Descriptor owner(opened());
    fd = owner.get();
    EXPECT_TRUE(owner);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(Descriptor, OwnsNoneAfterAFailedCall) {
  EXPECT_FALSE(Descriptor());
  EXPECT_FALSE(Descriptor(::open("/does/not/exist", O_RDONLY | O_CLOEXEC)));
}

TEST(Descriptor, MovesItsDescriptor) {
  Descriptor first(opened());
  const Descriptor& left = first;
  const int fd = first.get();
  Descriptor second = std::move(first);
  EXPECT_FALSE(left);
  EXPECT_EQ(second.get(), fd);
  Descriptor third(opened());
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_EQ(third.get(), fd);
  EXPECT_TRUE(is_open(fd));
  EXPECT_FALSE(is_open(replaced));
  Descriptor& itself = third;
  third = std::move(itself);
  EXPECT_EQ(third.get(), fd);
  EXPECT_TRUE(is_open(fd));
}

TEST(Descriptor, GivesItsDescriptorAway) {
  Descriptor owner(opened());
  const int fd = owner.release();
  EXPECT_FALSE(owner);
  EXPECT_TRUE(is_open(fd));
  owner.reset(fd);
  owner.reset();
  EXPECT_FALSE(owner);
  EXPECT_FALSE(is_open(fd));
}

TEST(Descriptor, ClosingLeavesErrnoAlone) {
  Descriptor closed_already(opened());
  ::close(closed_already.get());
  errno = ENOSPC;
  closed_already.reset();
  EXPECT_EQ(errno, ENOSPC);
}

}  // namespace
}  // namespace harmonics::inline in_base

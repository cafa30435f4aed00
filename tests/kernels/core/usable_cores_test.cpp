// Quotas of made-up control groups, and of a real one where this process may make it.
#include "kernels/usable_cores.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

namespace penstock {
namespace {

using testing_support::temporary_folder;
using testing_support::write_file;

class Quota : public testing::Test {
protected:
  void is_in(const std::string& groups) { write_file(root_ / "proc/self/cgroup", groups); }
  void put(const std::string& file, const std::string& text) {
    write_file(root_.path() / "sys/fs/cgroup" / file, text + "\n");
  }
  void limit_version_1(const std::string& group, const std::string& quota) {
    put(group + "/cpu.cfs_quota_us", quota);
    put(group + "/cpu.cfs_period_us", "100000");
  }
  double found() const { return cpu_quota(root_.path()).value_or(0); }

  temporary_folder root_;
};

TEST_F(Quota, IsNotThereWhereTheSystemDoesNotSay) {
  EXPECT_FALSE(cpu_quota(root_.path()));
  is_in("");
  EXPECT_FALSE(cpu_quota(root_.path()));
  is_in("0::/\n");
  EXPECT_FALSE(cpu_quota(root_.path())) << "the root group has no cpu.max";
}

TEST_F(Quota, OfVersion2IsTheLeastOnTheWayToTheRoot) {
  is_in("0::/system.slice/run.service\n");
  put("system.slice/run.service/cpu.max", "max 100000");
  EXPECT_FALSE(cpu_quota(root_.path()));
  put("system.slice/run.service/cpu.max", "350000 100000");
  EXPECT_DOUBLE_EQ(found(), 3.5);
  put("system.slice/cpu.max", "50000 25000");
  EXPECT_DOUBLE_EQ(found(), 2) << "the group above is tighter";
  put("cpu.max", "150000 100000");
  EXPECT_DOUBLE_EQ(found(), 1.5) << "a container's root group has a limit too";
  put("other.slice/cpu.max", "10000 100000");
  EXPECT_DOUBLE_EQ(found(), 1.5) << "another's limit is not ours";
}

TEST_F(Quota, OfVersion1IsReadWhateverTheFolderIsCalled) {
  is_in("7:memory:/a\n4:cpu,cpuacct:/a/b\n3:cpuset:/c\n");
  limit_version_1("cpu,cpuacct/a/b", "-1");
  EXPECT_FALSE(cpu_quota(root_.path()));
  limit_version_1("cpu,cpuacct/a", "250000");
  EXPECT_DOUBLE_EQ(found(), 2.5);
  limit_version_1("memory/a", "1000");
  EXPECT_DOUBLE_EQ(found(), 2.5);
  is_in("1:cpu:/x\n");
  limit_version_1("cpu/x", "30000");
  EXPECT_DOUBLE_EQ(found(), 0.3);
}

TEST_F(Quota, OfBothVersionsIsTheTighter) {
  is_in("5:cpuacct:/\n1:cpu:/x\n0::/y\n");
  limit_version_1("cpu/x", "200000");
  put("unified/y/cpu.max", "100000 100000");
  EXPECT_DOUBLE_EQ(found(), 1);
}

TEST_F(Quota, InAContainerIsThatOfWhatIsMounted) {
  is_in("0::/docker/0123abcd\n"); // as the host calls it
  put("cpu.max", "200000 100000");
  EXPECT_DOUBLE_EQ(found(), 2);
  is_in("0::/docker/0123abcd/job\n");
  put("job/cpu.max", "100000 100000");
  EXPECT_DOUBLE_EQ(found(), 1) << "a group that was made inside";
  is_in("0::/../../outside\n");
  EXPECT_DOUBLE_EQ(found(), 2);
}

TEST_F(Quota, ThatMakesNoSenseDoesNotLimit) {
  is_in("0::/a\n:::\nnonsense\n1:cpu\n");
  for (const auto* text : {"", "max", "-5 100000", "100000", "100000 0", "0 100000", "nan 100000", "many 100000"}) {
    put("a/cpu.max", text);
    EXPECT_FALSE(cpu_quota(root_.path())) << text;
  }
}

TEST(UsableCores, AreAtLeastOneAndAtMostThoseBoundTo) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), bound_cores());
  share_quota(1000); // an equal part of any quota is then less than one CPU's worth
  EXPECT_GE(usable_cores(), 1);
  share_quota(1);
}

// A group of this test's own, gone when it is.
class real_group {
public:
  real_group() {
    for (const auto* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"}) {
      const auto folder = std::filesystem::path(mount) / ("penstock-test-" + std::to_string(::getpid()));
      const bool first = std::filesystem::exists(std::filesystem::path(mount) / "cpu.shares");
      if (!first && !std::filesystem::exists(std::filesystem::path(mount) / "cgroup.controllers")) continue;
      std::error_code fault;
      if (!std::filesystem::create_directory(folder, fault)) continue;
      path = folder;
      limits = first ? write("cpu.cfs_period_us", "100000") && write("cpu.cfs_quota_us", "150000")
                     : write("cpu.max", "150000 100000");
      if (limits) return;
      ::rmdir(path.c_str());
    }
  }
  ~real_group() {
    if (limits) ::rmdir(path.c_str());
  }
  bool write(const char* file, const std::string& text) const {
    std::ofstream out(path / file);
    return static_cast<bool>(out << text << std::flush);
  }
  std::filesystem::path path;
  bool limits = false;
};

TEST(UsableCores, AreThoseThatARealQuotaPaysForInFull) {
  const real_group group;
  if (!group.limits) GTEST_SKIP() << "no control group with a CPU quota can be made here";
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!group.write("cgroup.procs", std::to_string(::getpid()))) ::_exit(9);
    const auto quota = cpu_quota();
    const bool right = quota && *quota <= 1.5 && usable_cores() == 1 && quota_limits() == (bound_cores() > 1);
    ::_exit(right && quota_note().empty() == (bound_cores() == 1) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 9) GTEST_SKIP() << "no process can be moved into a control group here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

} // namespace
} // namespace penstock

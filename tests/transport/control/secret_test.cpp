// The job's secret: read with care, derived the same way everywhere.
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"
#include "transport/control/secret.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* text = "0123456789abcdef";

class SecretTest : public ::testing::Test {
protected:
  SecretTest() { clear(); }
  ~SecretTest() override { clear(); }
  static void clear() {
    ::unsetenv("PENSTOCK_SECRET");
    ::unsetenv("PENSTOCK_SECRET_FILE");
  }
  std::string file_with(const std::string& content, mode_t mode) {
    const auto path = (folder.path() / "secret").string();
    std::ofstream(path) << content;
    ::chmod(path.c_str(), mode);
    ::setenv("PENSTOCK_SECRET_FILE", path.c_str(), 1);
    return path;
  }
  static void expect_refused(const std::string& words) {
    EXPECT_THAT(read_secret, ThrowsMessage<usage_error>(HasSubstr(words)));
  }
  testing_support::temporary_folder folder;
};

TEST_F(SecretTest, VariableAndFileGiveTheSameKey) {
  ::setenv("PENSTOCK_SECRET", text, 1);
  EXPECT_EQ(read_secret().key, secret_from_text(text).key);
  clear();
  file_with(std::string("  ") + text + " \n", 0600);
  EXPECT_EQ(read_secret().key, secret_from_text(text).key);
}

TEST_F(SecretTest, APipeOrAnAnonymousFileMayHoldIt) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], text, 16), 16);
  ::close(ends[1]);
  ::setenv("PENSTOCK_SECRET_FILE", ("/dev/fd/" + std::to_string(ends[0])).c_str(), 1);
  EXPECT_EQ(read_secret().key, secret_from_text(text).key);
  ::close(ends[0]);
  const int memory = ::memfd_create("secret", 0);
  ASSERT_EQ(::write(memory, text, 16), 16);
  ::setenv("PENSTOCK_SECRET_FILE", ("/dev/fd/" + std::to_string(memory)).c_str(), 1);
  EXPECT_EQ(read_secret().key, secret_from_text(text).key);
  ::close(memory);
}

TEST_F(SecretTest, WhatIsNoSecretIsRefused) {
  expect_refused("needs a secret");
  ::setenv("PENSTOCK_SECRET", "short", 1);
  expect_refused("PENSTOCK_SECRET has 5 characters, wanted at least 16");
  ::setenv("PENSTOCK_SECRET_FILE", "/nowhere/at/all", 1);
  expect_refused("both set");
  ::unsetenv("PENSTOCK_SECRET");
  expect_refused("'/nowhere/at/all', which cannot be opened: No such file");
  ::setenv("PENSTOCK_SECRET_FILE", folder.path().c_str(), 1);
  expect_refused("is a folder");
  file_with("   \n", 0600);
  expect_refused("PENSTOCK_SECRET_FILE has 0 characters");
  file_with(text, 0644);
  expect_refused("others may read");
  file_with(text, 0640);
  expect_refused("others may read");
  const auto path = file_with(std::string(5000, 'x'), 0600);
  expect_refused("more than 4096 characters");
  EXPECT_THAT(read_secret, ThrowsMessage<usage_error>(HasSubstr(path)));
}

TEST_F(SecretTest, WhoNeedsItIsNamedAndWhoHandsItOnGetsItsText) {
  EXPECT_THAT([] { read_secret_for("--control"); },
              ThrowsMessage<usage_error>(HasSubstr("--control needs a secret: ")));
  const auto path = file_with(std::string(" ") + text + "\n", 0600);
  EXPECT_EQ(read_secret_text("--secret-file", path), text);
  file_with("short", 0600);
  EXPECT_THAT([&] { read_secret_text("--secret-file", path); },
              ThrowsMessage<usage_error>(AllOf(HasSubstr("--secret-file: '" + path), HasSubstr("has 5 characters"))));
  EXPECT_THAT([&] { read_secret_text("--secret-file", "nowhere"); },
              ThrowsMessage<usage_error>(HasSubstr("--secret-file names 'nowhere', which cannot be opened")));
}

TEST_F(SecretTest, RefusalsDoNotShowTheSecret) {
  ::setenv("PENSTOCK_SECRET", "hunter2", 1);
  EXPECT_THAT(read_secret, ThrowsMessage<usage_error>(::testing::Not(HasSubstr("hunter2"))));
}

TEST(Secret, TokensDifferByPurposeAndSecret) {
  const auto a = secret_from_text(text);
  const auto b = secret_from_text("0123456789abcdeF");
  EXPECT_NE(a.key, b.key);
  EXPECT_EQ(a.token("data plane"), secret_from_text(text).token("data plane"));
  EXPECT_NE(a.token("data plane"), a.token("control plane"));
  EXPECT_NE(a.token("data plane"), b.token("data plane"));
}

TEST(Secret, MadeTextsAreLongHexadecimalAndNeverTheSame) {
  const auto made = make_secret_text();
  EXPECT_EQ(made.size(), 64U);
  EXPECT_EQ(made.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(made, make_secret_text());
}

} // namespace
} // namespace penstock::transport

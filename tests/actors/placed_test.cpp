// Tensors on their way into a stage: from files, from another stage of the process, from another process.
#include "actors/ranks/wire_format.hpp"
#include "actors/stage/pipeline.hpp"
#include "kernels/check.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>

#include <cstring>

namespace penstock::actors {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A layout of some device.
class blocked_format final : public tensor_format {
public:
  explicit blocked_format(std::size_t bytes) : bytes_(bytes) {}
  std::size_t bytes() const override { return bytes_; }
  bool equals(const tensor_format& other) const override { return other.name() == name(); }
  std::string name() const override { return "blocked"; }

private:
  std::size_t bytes_;
};

class Placed : public ::testing::Test {
protected:
  Placed() : parts_(build()) {}
  static std::unique_ptr<pipeline> build() {
    const auto o = testing::tiny_options();
    const auto net = testing::tiny_residual_network();
    return build_pipeline(*settle_request(o, *net), o, net);
  }
  // Of the tiny network's first convolution.
  const tensor& stored() const { return parts_->stages.front().owned.newest->tensors.front(); }
  tensor place(const tensor& given, const format_ptr& format) {
    tensor result;
    parts_->stages.front().update_stream().run(
        [&](backend& ops) { result = placed(ops, given, format, memory_use::weights); });
    return result;
  }
  tensor plain(const tensor& t) {
    tensor result;
    parts_->stages.front().update_stream().run([&](backend& ops) { result = ops.to_plain(t); });
    return result;
  }
  static bool same_bytes(const tensor& a, const tensor& b) {
    return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
  }
  std::unique_ptr<pipeline> parts_;
};

TEST_F(Placed, IsACopyInTheStagesOwnFormatWhateverThatOfTheGivenOne) {
  const auto format = stored().format();
  for (const auto& given : {stored(), plain(stored())})
    for (const auto& wanted : {format, format_ptr()}) {
      const auto result = place(given, wanted);
      EXPECT_NE(result.storage().identity(), given.storage().identity());
      EXPECT_TRUE(same_format(result.format(), wanted));
      EXPECT_TRUE(same_bytes(plain(result), plain(stored())));
    }
}

TEST_F(Placed, IsTheSameMemoryWhereItCameOverTheWireInThatLayout) {
  const auto& own = stored();
  const auto format = std::make_shared<blocked_format>(own.bytes());
  const tensor sent(own.type(), own.dims(), own.storage(), std::make_shared<wire_format>(own.bytes(), format->name()));
  const auto result = place(sent, format);
  EXPECT_EQ(result.storage().identity(), own.storage().identity());
  EXPECT_EQ(result.format(), format);
}

TEST_F(Placed, RefusesALayoutThatOnlyAnotherProcessKnows) {
  const auto& own = stored();
  const tensor sent(own.type(), own.dims(), own.storage(), std::make_shared<wire_format>(own.bytes(), "theirs"));
  EXPECT_THAT([&] { place(sent, own.format()); }, ThrowsMessage<error>(HasSubstr("came in layout theirs")));
  EXPECT_THAT([&] { place(sent, nullptr); }, ThrowsMessage<error>(HasSubstr("this device has plain")));
}

} // namespace
} // namespace penstock::actors

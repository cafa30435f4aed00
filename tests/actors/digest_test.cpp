// SHA-256 against published values.
#include "actors/checkpoint/digest.hpp"
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

#include <cstring>

namespace penstock::actors {
namespace {

const std::string of_nothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; // FIPS 180-4 examples
const std::string of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

tensor bytes(memory_pool& pool, const std::string& text) {
  auto t = tensor::allocate(pool, dtype::u8, {static_cast<std::int64_t>(text.size())}, memory_use::scratch);
  std::memcpy(t.raw(), text.data(), text.size());
  return t;
}

TEST(Digest, HashesBytesInNameOrder) {
  memory_pool pool;
  EXPECT_EQ(sha256_of({}), of_nothing);
  EXPECT_EQ(sha256_of({{"w", bytes(pool, "abc")}}), of_abc);
  EXPECT_EQ(sha256_of({{"b", bytes(pool, "bc")}, {"a", bytes(pool, "a")}, {"c", bytes(pool, "")}}), of_abc);
  EXPECT_NE(sha256_of({{"a", bytes(pool, "bc")}, {"b", bytes(pool, "a")}}), of_abc);
}

TEST(Digest, HashesFiles) {
  const testing_support::temporary_folder folder;
  const auto file = folder / "file";
  std::ofstream(file, std::ios::binary) << "abc";
  EXPECT_EQ(sha256_of_file(file), of_abc);
  std::ofstream(file, std::ios::binary) << "";
  EXPECT_EQ(sha256_of_file(file), of_nothing);
  const std::string long_text((1 << 20) + 77, 'x'); // more than a block
  std::ofstream(file, std::ios::binary) << long_text;
  memory_pool pool;
  EXPECT_EQ(sha256_of_file(file), sha256_of({{"x", bytes(pool, long_text)}}));
}

TEST(Digest, NamesAFileThatCannotBeRead) {
  const testing_support::temporary_folder folder;
  EXPECT_THAT([&] { sha256_of_file(folder / "none"); }, ::testing::ThrowsMessage<error>(::testing::HasSubstr("none")));
}

} // namespace
} // namespace penstock::actors

// Tensors in and out, and every way in which a safetensors file can be wrong.
#include "kernels/check.hpp"
#include "kernels/safetensors.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <fcntl.h>
#include <limits>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing_support::read_file;
using testing_support::temporary_folder;
using testing_support::write_file;

std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

std::string file_of(const std::string& header, const std::string& data) {
  return little_endian(header.size()) + header + data;
}

template <class T>
tensor tensor_of(memory_pool& pool, dtype type, shape dims, const std::vector<T>& values) {
  auto t = tensor::allocate(pool, type, std::move(dims), memory_use::weights);
  if (!values.empty()) std::memcpy(t.raw(), values.data(), t.bytes());
  return t;
}

TEST(Safetensors, ReadsHalfAndDoubleAsF32AndSaysSo) {
  const temporary_folder folder;
  memory_pool pool;
  const double doubles[] = {1.5, -0.1, 1e-300};
  const std::uint16_t halves[] = {0x3e00, 0xfc00};
  std::string data(sizeof doubles + sizeof halves, '\0');
  std::memcpy(data.data(), doubles, sizeof doubles);
  std::memcpy(data.data() + sizeof doubles, halves, sizeof halves);
  write_file(folder / "f", file_of(R"({"d":{"dtype":"F64","shape":[3],"data_offsets":[0,24]},)"
                                   R"("h":{"dtype":"F16","shape":[2,1],"data_offsets":[24,28]}})",
                                   data));
  const auto read = read_safetensors(folder / "f", pool);
  const auto& d = read.tensors.at("d");
  EXPECT_EQ(std::vector<float>(d.data<float>(), d.data<float>() + 3), (std::vector<float>{1.5F, -0.1F, 0}));
  const auto& h = read.tensors.at("h");
  EXPECT_EQ(h.dims(), (shape{2, 1}));
  EXPECT_EQ(h.data<float>()[0], 1.5F);
  EXPECT_EQ(h.data<float>()[1], -std::numeric_limits<float>::infinity()) << "what is infinite stays so, and is seen";
  EXPECT_EQ(read.converted, (std::map<std::string, std::string>{{"d", "F64"}, {"h", "F16"}}));
}

TEST(Safetensors, ReadsLongTensorsOfDoublesInPieces) {
  const temporary_folder folder;
  memory_pool pool;
  constexpr std::size_t count = 200'001;
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<double>(i);
  std::string data(count * sizeof(double), '\0');
  std::memcpy(data.data(), values.data(), data.size());
  const auto header = R"({"d":{"dtype":"F64","shape":[200001],"data_offsets":[0,1600008]}})";
  write_file(folder / "f", file_of(header, data));
  const auto d = read_safetensors(folder / "f", pool).tensors.at("d");
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(d.data<float>()[i], static_cast<float>(i));
  values[150'000] = -1e39;
  std::memcpy(data.data(), values.data(), data.size());
  write_file(folder / "f", file_of(header, data));
  EXPECT_THAT([&] { read_safetensors(folder / "f", pool); },
              testing::ThrowsMessage<error>(HasSubstr("tensor \"d\" holds a number beyond F32: -inf at [150000]")));
}

TEST(Safetensors, ComesBackAsItWent) {
  const temporary_folder folder;
  memory_pool pool;
  named_tensors tensors;
  tensors["layer.weight"] = tensor_of<float>(pool, dtype::f32, {2, 3}, {1, -2, 3.5F, 0, 1e30F, -0.0F});
  tensors["layer.half"] = tensor_of<std::uint16_t>(pool, dtype::bf16, {3}, {0x3F80, 0x7FC0, 1});
  tensors["label"] = tensor_of<std::int64_t>(pool, dtype::i64, {2}, {INT64_MIN, INT64_MAX});
  tensors["count"] = tensor_of<std::int32_t>(pool, dtype::i32, {}, {-7});
  tensors["bytes"] = tensor_of<std::uint8_t>(pool, dtype::u8, {1, 3}, {0, 127, 255});
  tensors["empty"] = tensor_of<float>(pool, dtype::f32, {4, 0}, {});
  const std::map<std::string, std::string> metadata{{"format", "pt"}, {"step", "3 \"quoted\" \n"}};
  write_safetensors(folder / "f", tensors, metadata);
  const auto back = read_safetensors(folder / "f", pool);
  EXPECT_EQ(back.metadata, metadata);
  ASSERT_EQ(back.tensors.size(), tensors.size());
  for (const auto& [name, value] : tensors) {
    const auto& other = back.tensors.at(name);
    EXPECT_EQ(other.type(), value.type()) << name;
    EXPECT_EQ(other.dims(), value.dims()) << name;
    EXPECT_EQ(std::memcmp(other.raw(), value.raw(), value.bytes()), 0) << name;
  }
  EXPECT_THAT(folder.names(), ElementsAre("f"));
}

TEST(Safetensors, WritesNamesInOrderAndAHeaderPaddedToEightBytes) {
  const temporary_folder folder;
  memory_pool pool;
  write_safetensors(folder / "f", {{"b", tensor_of<std::uint8_t>(pool, dtype::u8, {1}, {9})},
                                   {"a", tensor_of<float>(pool, dtype::f32, {1}, {1})}});
  std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(folder / "f"), file_of(header, std::string("\0\0\x80\x3f\x09", 5)));
}

TEST(Safetensors, ReadsTensorsInAnyOrderAndAnUnalignedHeader) {
  const temporary_folder folder;
  memory_pool pool;
  write_file(folder / "f", file_of(R"({"z":{"shape":[2],"data_offsets":[1,3],"dtype":"U8"}, )"
                                   R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                   "xyz"));
  const auto tensors = read_safetensors(folder / "f", pool).tensors;
  EXPECT_EQ(tensors.at("a").data<std::uint8_t>()[0], 'x');
  EXPECT_EQ(tensors.at("z").data<std::uint8_t>()[1], 'z');
}

TEST(Safetensors, MayHoldNothing) {
  const temporary_folder folder;
  memory_pool pool;
  write_safetensors(folder / "f", {});
  EXPECT_THAT(read_safetensors(folder / "f", pool).tensors, IsEmpty());
}

TEST(Safetensors, RefusesNamesThatCannotBeWritten) {
  const temporary_folder folder;
  memory_pool pool;
  const auto one = tensor_of<std::uint8_t>(pool, dtype::u8, {1}, {9});
  EXPECT_THROW(write_safetensors(folder / "f", {{"\xff\xfe", one}}), error);
  EXPECT_THROW(write_safetensors(folder / "f", {{"__metadata__", one}}), error);
  EXPECT_THAT(folder.names(), IsEmpty());
}

// The header as text; what does not begin with '{' goes into {"w":{...}}, and $ stands for the fields of a good tensor.
struct broken_header {
  const char* name;
  const char* header;
  const char* data;
  const char* wanted; // part of the message
};

constexpr broken_header broken_headers[] = {
    {"NotJson", R"({"a)", "", "not valid JSON"},
    {"JsonTwice", "{}{}", "", "not valid JSON"},
    {"NotUtf8", "{\"\xff\":{$}}", "abcd", "not valid JSON"},
    {"HugeNumber", R"("dtype":"F32","shape":[1e999],"data_offsets":[0,4])", "abcd", "not valid JSON"},
    {"TensorIsNumber", R"({"w":3})", "", "tensor \"w\" holds a number where none belongs"},
    {"TensorIsNull", R"({"w":null})", "", "holds null"},
    {"TensorIsArray", R"({"w":[]})", "", "holds an array"},
    {"DeepObjects", R"({"w":{"shape":{"x":{}}}})", "", "holds an object"},
    {"NewlineInName", R"({"a\nb":3})", "", R"(tensor "a\nb" holds)"},
    {"NoDtype", R"("shape":[1],"data_offsets":[0,4])", "abcd", "tensor \"w\" lacks dtype"},
    {"NoShape", R"("dtype":"F32","data_offsets":[0,4])", "abcd", "tensor \"w\" lacks shape"},
    {"NoOffsets", R"("dtype":"F32","shape":[1])", "abcd", "tensor \"w\" lacks data_offsets"},
    {"UnknownField", R"($,"extra":1)", "abcd", "the unknown field \"extra\""},
    {"FieldTwice", R"($,"shape":[1])", "abcd", "has shape twice"},
    {"TensorTwice", R"({"w":{$},"w":{$}})", "abcd", "tensor \"w\" appears twice"},
    {"TensorTwiceByEscape", R"({"w":{$},"\u0077":{$}})", "abcd", "appears twice"},
    {"MetadataTwice", R"({"__metadata__":{},"__metadata__":{}})", "", "appears twice"},
    {"MetadataKeyTwice", R"({"__metadata__":{"a":"1","a":"2"}})", "", "metadata \"a\" appears twice"},
    {"MetadataNotText", R"({"__metadata__":{"a":1}})", "", "wanted strings only"},
    {"MetadataNoObject", R"({"__metadata__":"a"})", "", "wanted strings only"},
    {"UnknownDtype", R"("dtype":"I16","shape":[1],"data_offsets":[0,4])", "abcd", "dtype \"I16\", wanted F32, F64"},
    {"DtypeIsNumber", R"("dtype":4,"shape":[1],"data_offsets":[0,4])", "abcd", "holds a number"},
    {"NegativeExtent", R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", "abcd", "the negative number -1"},
    {"FractionalExtent", R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])", "abcd", "a fraction"},
    {"ExtentOver63Bits", R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,4])", "abcd", "an extent of"},
    {"ExtentOver64Bits", R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,4])", "abcd", "too large"},
    {"ShapeOverflows", R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])", "abcd", "too large"},
    {"ShapeWrapsToFour", R"("dtype":"U8","shape":[9223372036854775807,2,2],"data_offsets":[0,4])", "abcd", "too large"},
    {"ZeroHidesOverflow", R"("dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0])", "", "too large"},
    {"BytesOverflow", R"("dtype":"I64","shape":[2305843009213693952],"data_offsets":[0,4])", "abcd", "too large"},
    {"OneOffset", R"("dtype":"F32","shape":[1],"data_offsets":[4])", "abcd", "1 data_offsets, wanted 2"},
    {"EmptyOffsets", R"("dtype":"F32","shape":[1],"data_offsets":[])", "abcd", "0 data_offsets, wanted 2"},
    {"ThreeOffsets", R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])", "abcd", "more than 2 data_offsets"},
    {"OffsetsReversed", R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", "abcd", "data_offsets 4 to 0"},
    {"BeyondTheFile", R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", "abcd", "4 bytes of data (truncated?)"},
    {"FarBeyond", R"("dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615])", "abcd",
     "4 bytes of data (truncated?)"},
    {"ShapeAgainstOffsets", R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", "abcd", "8 bytes, but"},
    {"HoleBefore", R"("dtype":"U8","shape":[2],"data_offsets":[2,4])", "abcd",
     "2 bytes before tensor \"w\" belong to no"},
    {"TrailingBytes", R"("dtype":"U8","shape":[2],"data_offsets":[0,2])", "abcd", "2 bytes after the last tensor"},
    {"TrailingWithoutTensors", "{}", "x", "1 bytes after the last tensor"},
    {"Overlap",
     R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
     "abcd", "tensor \"b\" overlaps"},
    {"SameBytesTwice", R"({"a":{$},"b":{$}})", "abcd", "overlaps"},
    {"Hole",
     R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
     "abcd", "1 bytes before tensor \"b\""},
};

std::string bytes_of(const broken_header& broken) {
  std::string header = broken.header;
  if (!header.starts_with('{')) header = "{\"w\":{" + header + "}}";
  for (auto at = header.find('$'); at != std::string::npos; at = header.find('$')) {
    header.replace(at, 1, R"("dtype":"F32","shape":[1],"data_offsets":[0,4])");
  }
  return file_of(header, broken.data);
}

void expect_refused(const std::string& name, const std::string& bytes, const std::string& wanted) {
  SCOPED_TRACE(name);
  const temporary_folder folder;
  memory_pool pool;
  write_file(folder / "f", bytes);
  try {
    read_safetensors(folder / "f", pool);
    ADD_FAILURE() << "was accepted";
  } catch (const error& e) {
    EXPECT_THAT(e.what(), StartsWith((folder / "f").string() + ": "));
    EXPECT_THAT(e.what(), HasSubstr(wanted));
    EXPECT_THAT(e.what(), testing::Not(HasSubstr("\n")));
    EXPECT_LT(std::strlen(e.what()), 400U);
  }
  EXPECT_EQ(pool.usage().total_peak_bytes, 0) << "allocated before everything was checked";
}

TEST(Safetensors, RefusesEveryBrokenHeaderInOneLineThatNamesTheFile) {
  for (const auto& broken : broken_headers)
    expect_refused(broken.name, bytes_of(broken), broken.wanted);
}

TEST(Safetensors, RefusesLengthsThatTheFileDoesNotHave) {
  expect_refused("Empty", "", "0 bytes, wanted at least 8");
  expect_refused("ShorterThanALength", "abc", "3 bytes, wanted at least 8");
  expect_refused("BeyondTheFile", little_endian(1000) + "{}", "the header has 1000 bytes, but the file only 10");
  expect_refused("OverTheLimit", little_endian(100'000'001) + "{}", "wanted at most 100 MB");
  expect_refused("Overflows", little_endian(UINT64_MAX) + "{}", "wanted at most 100 MB");
  expect_refused("Wraps", little_endian(UINT64_MAX - 7) + "{}", "wanted at most 100 MB");
  expect_refused("NoHeader", little_endian(0) + "{}", "does not begin with '{'");
  expect_refused("SpacesFirst", file_of(" {}", ""), "does not begin with '{'");
}

TEST(Safetensors, RefusesDepthAndRankWithoutStoringThem) {
  expect_refused("DeepJson", file_of("{\"w\":" + std::string(1'000'000, '['), ""), "holds an array");
  std::string ones = "1";
  for (int i = 0; i < 64; ++i)
    ones += ",1";
  expect_refused("TooManyExtents",
                 file_of(R"({"w":{"dtype":"U8","shape":[)" + ones + R"(],"data_offsets":[0,1]}})", "a"),
                 "more than 64 extents");
}

TEST(Safetensors, RefusesWhatIsNoFile) {
  const temporary_folder folder;
  memory_pool pool;
  EXPECT_THROW(read_safetensors(folder / "none", pool), error);
  EXPECT_THROW(read_safetensors(folder.path(), pool), error);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(read_safetensors(folder / "pipe", pool), error); // does not wait for a writer
}

TEST(Safetensors, SurvivesMutations) {
  const temporary_folder folder;
  memory_pool pool;
  named_tensors tensors;
  tensors["conv.weight"] = tensor_of<float>(pool, dtype::f32, {2, 3}, std::vector<float>(6, 1.0F));
  tensors["label"] = tensor_of<std::int64_t>(pool, dtype::i64, {2}, {1, 2});
  tensors["x"] = tensor_of<std::uint8_t>(pool, dtype::u8, {3}, {1, 2, 3});
  write_safetensors(folder / "good", tensors, {{"format", "pt"}});
  const auto good = read_file(folder / "good");
  const auto live = pool.usage().total_live_bytes;
  std::mt19937 random(20261); // NOLINT: the same mutations on every run
  const std::string pieces = "{}[]\",:0189-.eE\\";
  int accepted = 0;
  for (int round = 0; round < 5000; ++round) {
    auto bytes = good;
    const auto changes = 1 + random() % 4;
    for (unsigned i = 0; i < changes && !bytes.empty(); ++i) {
      const auto at = random() % bytes.size();
      switch (random() % 5) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = pieces[random() % pieces.size()];
        break;
      case 2:
        bytes.erase(at, 1 + random() % 8);
        break;
      case 3:
        bytes.insert(at, 1 + random() % 3, pieces[random() % pieces.size()]);
        break;
      default:
        bytes.resize(at);
        break;
      }
    }
    write_file(folder / "f", bytes);
    pool.reset_peak();
    try {
      read_safetensors(folder / "f", pool);
      ++accepted;
    } catch (const error&) {
    }
    ASSERT_LE(pool.usage().total_peak_bytes, live + static_cast<std::int64_t>(bytes.size()));
  }
  EXPECT_GT(accepted, 50); // changes within the data are no faults
  EXPECT_LT(accepted, 4500);
}

} // namespace
} // namespace penstock

// Files that people give for safetensors files are called what they are.
#include "kernels/check.hpp"
#include "kernels/file_kind.hpp"
#include "kernels/safetensors.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

namespace penstock {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

struct kind_case {
  const char* name;
  std::string start;
  const char* told;
};

class FileKind : public ::testing::TestWithParam<kind_case> {};

TEST_P(FileKind, IsNamedInOneLine) {
  const testing_support::temporary_folder folder;
  memory_pool pool;
  testing_support::write_file(folder / "given", GetParam().start + std::string(600, ' '));
  EXPECT_THAT([&] { read_safetensors(folder / "given", pool); },
              ThrowsMessage<error>(AllOf(HasSubstr((folder / "given").string() + ": not a safetensors file but "),
                                         HasSubstr(GetParam().told), Not(HasSubstr("\n")))));
}

INSTANTIATE_TEST_SUITE_P(
    All, FileKind,
    ::testing::Values(kind_case{"PyTorchZip", "PK\x03\x04" + std::string(26, '\0') + "archive/data.pkl", "torch.load"},
                      kind_case{"PyTorchBefore16", "\x80\x02\x8a\nl\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
                                "torch.load"},
                      kind_case{"Pickle4", "\x80\x04\x95\x10"s, "torch.load"},
                      kind_case{"Npz", "PK\x03\x04" + std::string(26, '\0') + "conv1.weight.npy", "numpy.load"},
                      kind_case{"Zip", "PK\x03\x04" + std::string(26, '\0') + "readme.txt", "a zip archive"},
                      kind_case{"Npy", "\x93NUMPY\x01", "one NumPy array"},
                      kind_case{"Hdf5", "\x89HDF\r\n\x1a\n", "HDF5"}, kind_case{"Gzip", "\x1f\x8b\x08", "gunzip"},
                      kind_case{"Tar", std::string(257, 'n') + "ustar", "a tar archive"},
                      kind_case{"LfsPointer", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
                      kind_case{"WebPage", "\n <!DOCTYPE HTML>", "a web page"},
                      kind_case{"Shards", R"({"metadata":{},"weight_map":{}})", "a model in several files"},
                      kind_case{"Json", R"({"a": 1})", "JSON text"}),
    [](const auto& p) { return p.param.name; });

TEST(FileKind, HeaderWhoseLengthLooksLikeGzipIsReadAllTheSame) {
  const testing_support::temporary_folder folder;
  memory_pool pool;
  std::string header = R"({"__metadata__":{"format":"pt"}})";
  header.append(0x8b1f - header.size(), ' '); // the length's low bytes are gzip's first
  testing_support::write_file(folder / "f", "\x1f\x8b\0\0\0\0\0\0"s + header);
  EXPECT_EQ(read_safetensors(folder / "f", pool).metadata.at("format"), "pt");
}

TEST(FileKind, FolderIsCalledOne) {
  const testing_support::temporary_folder folder;
  memory_pool pool;
  EXPECT_THAT([&] { read_safetensors(folder / ".", pool); }, ThrowsMessage<error>(HasSubstr("it is a folder")));
}

} // namespace
} // namespace penstock

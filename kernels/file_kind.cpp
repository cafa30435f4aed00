// Magic numbers of weights, arrays and archives, and of what a failed download leaves.
#include "kernels/file_kind.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace penstock {
namespace {

using namespace std::string_view_literals;

// Short enough to stay whole in an error line.
constexpr auto from_pytorch =
    "a PyTorch checkpoint; convert it with: python3 -c \"import sys, torch; from safetensors.torch import save_file; "
    "w = torch.load(sys.argv[1], 'cpu', weights_only=True); save_file({k: v.contiguous().clone() for k, v in "
    "w.get('state_dict', w).items() if torch.is_tensor(v)}, sys.argv[2])\" OLD NEW.safetensors"sv;
constexpr auto from_npz =
    "NumPy's .npz archive; convert it with: python3 -c \"import sys, numpy; from safetensors.numpy import save_file; "
    "save_file(dict(numpy.load(sys.argv[1])), sys.argv[2])\" OLD NEW.safetensors"sv;
constexpr auto from_hdf5 =
    "an HDF5 file (Keras writes those); write its arrays with Python's h5py and safetensors.numpy.save_file, "
    "under PyTorch's names and in PyTorch's layout"sv;

struct signature {
  std::size_t at;
  std::string_view bytes;
  std::string_view kind;
};

constexpr std::array signatures{
    signature{0, "\x89HDF\r\n\x1a\n"sv, from_hdf5},
    signature{0, "\x93NUMPY"sv, "one NumPy array (.npy), which has no names; save a dict with safetensors.numpy"sv},
    signature{0, "\x1f\x8b"sv, "compressed by gzip; unpack it first (gunzip)"sv},
    signature{0, "\x28\xb5\x2f\xfd"sv, "compressed by zstd; unpack it first (unzstd)"sv},
    signature{0, "\xfd\x37zXZ"sv, "compressed by xz; unpack it first (unxz)"sv},
    signature{0, "BZh"sv, "compressed by bzip2; unpack it first (bunzip2)"sv},
    signature{257, "ustar"sv, "a tar archive; unpack it first (tar -x)"sv},
    signature{0, "version https://git-lfs"sv, "a Git LFS pointer to it; fetch the file itself with: git lfs pull"sv},
    signature{0, "GGUF"sv, "a GGUF model"sv},
};

// A header's length below 4 GiB, then the header: the length's low bytes may look like another format's.
bool is_safetensors(std::string_view start) {
  return start.size() > 8 && start.substr(4, 5) == "\0\0\0\0{"sv;
}

bool begins_with_ignoring_case(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() && std::equal(lower.begin(), lower.end(), text.begin(), [](char l, char t) {
           return l == static_cast<char>(std::tolower(static_cast<unsigned char>(t)));
         });
}

// The first entry's name tells who made a zip archive.
std::string_view zip_kind(std::string_view start) {
  if (start.find("data.pkl") != start.npos || start.find("/data/") != start.npos || start.find(".pkl") != start.npos)
    return from_pytorch;
  if (start.find(".npy") != start.npos) return from_npz;
  if (start.find("metadata.json") != start.npos || start.find("config.json") != start.npos)
    return "a Keras archive or another zip with a configuration; unpack it, and write its weights by PyTorch's names"sv;
  return "a zip archive; unpack it first (a PyTorch checkpoint also is one: torch.load reads it)"sv;
}

// Pickle's protocol 2 and up; torch.save before version 1.6 began with a number of its own.
bool is_pickle(std::string_view start) {
  constexpr char protocol = '\x80';
  return start.size() > 2 && start[0] == protocol && start[1] >= 2 && start[1] <= 5 &&
         (start[2] == '\x8a' || start[2] == '}' || start[2] == 'c' || start[2] == ']' || start[2] == '\x95' ||
          start[2] == '(');
}

} // namespace

std::string other_file_kind(std::string_view start) {
  if (is_safetensors(start)) return "";
  for (const auto& s : signatures)
    if (start.size() >= s.at + s.bytes.size() && start.substr(s.at, s.bytes.size()) == s.bytes)
      return std::string(s.kind);
  if (start.starts_with("PK\x03\x04"sv)) return std::string(zip_kind(start));
  if (is_pickle(start)) return std::string(from_pytorch);
  const auto text = start.substr(std::min(start.find_first_not_of(" \t\r\n"), start.size()));
  for (const auto page : {"<!doctype"sv, "<html"sv, "<?xml"sv})
    if (begins_with_ignoring_case(text, page)) return "a web page: the download went wrong";
  if (text.starts_with('{'))
    return text.find("weight_map") != text.npos || text.find("metadata") != text.npos
               ? "the index of a model in several files; put their tensors into one file with Python's safetensors"
               : "JSON text";
  return "";
}

} // namespace penstock

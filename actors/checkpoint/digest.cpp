// SHA-256 by OpenSSL.
#include "actors/checkpoint/digest.hpp"

#include "kernels/check.hpp"
#include "kernels/input_file.hpp"

#include <openssl/evp.h>

#include <array>
#include <memory>
#include <vector>

namespace penstock::actors {

namespace {

class sha256 {
public:
  sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "OpenSSL has no SHA-256");
  }
  void add(const void* bytes, std::size_t size) {
    check(EVP_DigestUpdate(context_.get(), bytes, size) == 1, "SHA-256 update failed");
  }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1, "SHA-256 failed");
    static const char* const digits = "0123456789abcdef";
    std::string text;
    for (unsigned i = 0; i < size; ++i) {
      text += digits[digest[i] >> 4];
      text += digits[digest[i] & 15];
    }
    return text;
  }

private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

} // namespace

std::string sha256_of(const named_tensors& tensors) {
  sha256 hash;
  for (const auto& [name, t] : tensors) {
    check(t.is_plain(), "only plain tensors are hashed");
    hash.add(t.raw(), t.bytes());
  }
  return hash.hex();
}

std::string sha256_of_text(std::string_view text) {
  sha256 hash;
  hash.add(text.data(), text.size());
  return hash.hex();
}

std::string sha256_of_file(const std::filesystem::path& file) {
  const input_file in(file);
  sha256 hash;
  std::vector<char> block(1 << 20);
  std::uint64_t at = 0;
  while (const auto got = in.read_some(at, block.data(), block.size())) {
    hash.add(block.data(), got);
    at += got;
  }
  return hash.hex();
}

} // namespace penstock::actors

// SHA-256 by OpenSSL.
#include "actors/digest.hpp"

#include "kernels/check.hpp"

#include <openssl/evp.h>

#include <array>
#include <fstream>
#include <memory>

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

std::string sha256_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw error("[checkpoint] cannot read " + file.string());
  sha256 hash;
  std::vector<char> block(1 << 20);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0)
    hash.add(block.data(), static_cast<std::size_t>(in.gcount()));
  return hash.hex();
}

} // namespace penstock::actors

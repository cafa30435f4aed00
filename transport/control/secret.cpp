// Derives what ranks prove to each other from the job's secret.
#include "transport/control/secret.hpp"

#include "kernels/check.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <span>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace penstock::transport {

namespace {

constexpr std::size_t least_characters = 16;
constexpr std::size_t most_characters = 4096;
constexpr auto read_deadline = std::chrono::seconds(10); // a launcher's pipe is filled at once
constexpr std::string_view salt = "penstock job secret";

struct release_kdf {
  void operator()(EVP_KDF* k) const { EVP_KDF_free(k); }
  void operator()(EVP_KDF_CTX* c) const { EVP_KDF_CTX_free(c); }
};

void derive(std::span<const std::byte> from, std::string_view purpose, std::span<std::byte> into) {
  const std::unique_ptr<EVP_KDF, release_kdf> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const std::unique_ptr<EVP_KDF_CTX, release_kdf> context(kdf ? EVP_KDF_CTX_new(kdf.get()) : nullptr);
  char digest[] = "SHA256";
  // OpenSSL's parameters are pointers to non-const, though it only reads these.
  const auto octets = [](const char* name, const void* data, std::size_t size) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<void*>(data), size);
  };
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      octets(OSSL_KDF_PARAM_KEY, from.data(), from.size()), octets(OSSL_KDF_PARAM_SALT, salt.data(), salt.size()),
      octets(OSSL_KDF_PARAM_INFO, purpose.data(), purpose.size()), OSSL_PARAM_construct_end()};
  if (!context ||
      EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(into.data()), into.size(), parameters) != 1)
    throw error("[control] OpenSSL derives no key from the job's secret (HKDF with SHA-256)");
}

struct descriptor {
  int fd = -1;
  ~descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

/// The secret's text in memory, wiped at the end.
struct secret_text {
  std::string text;
  secret_text() { text.reserve(most_characters + 2); } // never moved to another place
  ~secret_text() { OPENSSL_cleanse(text.data(), text.capacity()); }
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const auto first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

constexpr const char* file_variable = "PENSTOCK_SECRET_FILE";

/// A file, and who names it.
struct named_file {
  std::string by;
  std::string name;
};

[[noreturn]] void refuse_file(const named_file& file, const std::string& why) {
  throw usage_error(file.by + " names '" + file.name + "', which " + why);
}

// A name that others can open must not be theirs to read. A pipe or an anonymous file has no name.
void check_private(const named_file& name, int fd) {
  struct stat about {};
  if (::fstat(fd, &about) != 0) refuse_file(name, "cannot be examined: " + std::generic_category().message(errno));
  if (S_ISDIR(about.st_mode)) refuse_file(name, "is a folder");
  if (S_ISREG(about.st_mode) && about.st_nlink > 0 && (about.st_mode & (S_IRGRP | S_IROTH)) != 0)
    refuse_file(name, "others may read: chmod 600 it");
}

void read_whole(const named_file& name, int fd, std::string& text) {
  const auto end = std::chrono::steady_clock::now() + read_deadline;
  while (text.size() <= most_characters) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd look{fd, POLLIN, 0};
    const int found = left > 0 ? ::poll(&look, 1, static_cast<int>(left)) : 0;
    if (found == 0) refuse_file(name, "does not end within " + std::to_string(read_deadline.count()) + " s");
    char bytes[512];
    const auto got = found < 0 ? -1 : ::read(fd, bytes, std::min(sizeof bytes, most_characters + 1 - text.size()));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) refuse_file(name, "cannot be read: " + std::generic_category().message(errno));
    if (got == 0) return;
    text.append(bytes, static_cast<std::size_t>(got));
    OPENSSL_cleanse(bytes, sizeof bytes);
  }
  refuse_file(name, "has more than " + std::to_string(most_characters) + " characters");
}

void read_file(const named_file& file, std::string& text) {
  const descriptor opened{::open(file.name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (opened.fd < 0) refuse_file(file, "cannot be opened: " + std::generic_category().message(errno));
  check_private(file, opened.fd);
  read_whole(file, opened.fd, text);
}

std::string_view checked(const std::string& source, std::string_view text) {
  text = trimmed(text);
  if (text.size() < least_characters)
    throw usage_error(source + " has " + std::to_string(text.size()) + " characters, wanted at least " +
                      std::to_string(least_characters));
  return text;
}

} // namespace

std::array<std::byte, 16> job_secret::token(std::string_view purpose) const {
  std::array<std::byte, 16> bytes{};
  derive(key, purpose, bytes);
  return bytes;
}

job_secret secret_from_text(std::string_view text) {
  job_secret secret;
  derive(std::as_bytes(std::span(text)), "key", secret.key);
  return secret;
}

job_secret read_secret() {
  return read_secret_for("a job of several processes");
}

job_secret read_secret_for(std::string_view who) {
  const char* given = std::getenv("PENSTOCK_SECRET");
  const char* file = std::getenv(file_variable);
  if (given != nullptr && file != nullptr)
    throw usage_error("PENSTOCK_SECRET and PENSTOCK_SECRET_FILE are both set, wanted one of them");
  if (given == nullptr && file == nullptr)
    throw usage_error(std::string(who) +
                      " needs a secret: set PENSTOCK_SECRET_FILE (or PENSTOCK_SECRET) to the same for all ranks, "
                      "at least " +
                      std::to_string(least_characters) + " characters");
  if (given != nullptr) return secret_from_text(checked("PENSTOCK_SECRET", given));
  secret_text from_file;
  read_file({file_variable, file}, from_file.text);
  return secret_from_text(checked(file_variable, from_file.text));
}

std::string read_secret_text(const std::string& option, const std::string& file) {
  secret_text from_file;
  read_file({option, file}, from_file.text);
  return std::string(checked(option + ": '" + file + "'", from_file.text));
}

std::string make_secret_text() {
  std::array<unsigned char, 32> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1)
    throw error("[control] OpenSSL has no random numbers for the job's secret");
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : random) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

} // namespace penstock::transport

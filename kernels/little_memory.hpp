// Running out of memory in one line: what is large is asked for only while something is left for what is small.
#pragma once

#include <cstddef>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// Bytes of address space that this process may still take under its limit (`ulimit -v`); nothing: it has none.
std::optional<std::size_t> address_space_left();

/// Throws error("out of memory: ...") where the limit would not leave room for `bytes` and a reserve for what cannot
/// say that it failed: threads of libraries, compilers of kernels, actors' messages. `what` ends the sentence "no
/// address space for WHAT". Free without a limit.
void require_address_space(std::size_t bytes, std::string_view what);

/// Whether it would not throw.
bool address_space_holds(std::size_t bytes);

/// The same for so many more threads with their stacks.
void require_threads(int threads, std::string_view what);

/// Bytes of memory that there are for this process, swap included: the machine's, or the least that its control groups
/// leave it (memory.max of version 2, memory.limit_in_bytes of version 1). `root` stands for "/".
double memory_there_is(const std::filesystem::path& root = "/");

/// Once, before a program has threads. Under a limit of address space few arenas are reserved by malloc; an exception
/// that nobody can catch because memory is out ends the process with one line and exit code 1.
void prepare_for_little_memory();

/// What an exception says, for people: of the standard library's own, what they mean.
std::string described(const std::exception& fault);

} // namespace penstock

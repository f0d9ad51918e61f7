// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Judges events of the evb event builder: the worker's side of `filter = { kind = "process", ... }`,
// in one header beside evb_file.hpp. It needs C++17 and Linux.
//
//     #include "evb_filter.hpp"
//
//     int main() {
//         return evb::filter::run([](const evb::filter::Event& event) {
//             const evb::filter::Fragment* fragment = event.fragment(1);
//             return fragment != nullptr && fragment->size > 100;
//         });
//     }
//
// evb starts the program and gives it events; `run` calls the function for each event, keeps the
// event if the result is true or an `evb::filter::Tag`, and returns when evb ends. Payloads are in the memory that evb
// shares, without a copy, and are valid until the function returns.
//
// `docs/reference/filter.md` in evb's repository describes the filter and its protocol.

#ifndef EVB_FILTER_HPP
#define EVB_FILTER_HPP

#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "evb_file.hpp"

namespace evb::filter {

using file::Event;
using file::Fragment;

/// The version of the protocol.
inline constexpr std::uint16_t protocol_version = 1;

/// A verdict that keeps the event, with this number as its tag in the file.
struct Tag {
    std::uint64_t number;
};

/// A verdict on an event: true, false, or a tag. A function that may return either says so:
/// `[](const Event& event) -> Verdict { ... }`.
struct Verdict {
    Verdict(bool is_kept) : kept(is_kept) {}
    Verdict(Tag given) : kept(true), tag(given.number) {}

    bool kept;
    std::uint64_t tag = 0;
};

namespace detail {

/// The memory that evb shares; null if this program was not started as a filter.
struct Memory {
    const std::uint8_t* data = nullptr;
    std::uint64_t size = 0;
};

inline int failed(const char* what) {
    std::fprintf(stderr, "%s\n", what);
    return 1;
}

/// Receives evb's greeting and answers it.
inline Memory greet() {
    std::uint8_t greeting[16] = {};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
    iovec bytes = {greeting, sizeof greeting};
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    if (recvmsg(0, &message, MSG_CMSG_CLOEXEC) != sizeof greeting) return {};
    const cmsghdr* rights = CMSG_FIRSTHDR(&message);
    if (rights == nullptr || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) return {};
    int memory = -1;
    std::memcpy(&memory, CMSG_DATA(rights), sizeof memory);
    const std::uint64_t size = file::detail::le64(greeting + 8);
    void* mapped = MAP_FAILED;
    if (std::memcmp(greeting, "EVBF\1\0", 6) == 0)
        mapped = mmap(nullptr, static_cast<std::size_t>(size), PROT_READ, MAP_SHARED, memory, 0);
    close(memory);
    if (mapped == MAP_FAILED) return {};
    const std::uint8_t ready[8] = {'E', 'V', 'B', 'F', protocol_version & 0xff, protocol_version >> 8, 0, 0};
    if (send(0, ready, sizeof ready, MSG_NOSIGNAL) != sizeof ready) return {};
    return {static_cast<const std::uint8_t*>(mapped), size};
}

/// Reads the header of a run; returns false if it is wrong.
inline bool begin(file::detail::Bytes bytes, file::detail::Layout& layout) {
    file::Header header;
    if (bytes.size < file::detail::min_header || file::detail::le16(bytes.data + 8) != 2) return false;
    if (!file::detail::decode_header(bytes, header).text.empty()) return false;
    layout.tag = file::detail::le64(bytes.data + bytes.size - 8);
    layout.run_id = header.run_id;
    layout.owner = {header.run, header.builder};
    return true;
}

/// Reads a record; returns false if it is damaged.
inline bool decode(file::detail::Bytes bytes, const file::detail::Layout& layout, Event& event) {
    file::detail::Prefix prefix;
    if (prefix.decode(bytes, bytes.size, layout)) return false;
    const auto head = static_cast<std::size_t>(prefix.head_length);
    if (prefix.record(0, {bytes.data, head}, layout, event)) return false;
    const std::uint8_t* at = bytes.data + head;
    for (Fragment& fragment : event.fragments) {
        fragment.data = at;
        at += fragment.size;
    }
    return true;
}

}  // namespace detail

/// Calls `judge` for each event until evb ends, and keeps the events for which the result is true.
/// Returns the exit code of the program.
template <class Judge>
int run(Judge judge) {
    constexpr std::chrono::milliseconds patience{1};
    const detail::Memory memory = detail::greet();
    if (memory.data == nullptr)
        return detail::failed("this program is a filter of evb: start it by `filter = { kind = \"process\", ... }` of "
                              "a builder, of the evb that this header belongs to");
    file::detail::Layout layout;
    Event event;
    std::vector<std::uint8_t> message(1 << 16), answers;
    const auto tell = [&answers] {
        const ssize_t size = static_cast<ssize_t>(answers.size());
        const bool told = answers.empty() || send(0, answers.data(), answers.size(), MSG_NOSIGNAL) == size;
        answers.clear();
        return told;
    };
    while (true) {
        const ssize_t size = recv(0, message.data(), message.size(), 0);
        if (size <= 0) return 0;
        auto since = std::chrono::steady_clock::now();
        for (const std::uint8_t* at = message.data(); at + 24 <= message.data() + size; at += 24) {
            const std::uint64_t offset = file::detail::le64(at + 8), length = file::detail::le32(at + 16);
            if (offset > memory.size || length > memory.size - offset)
                return detail::failed("evb announced bytes beyond the memory");
            const file::detail::Bytes bytes{memory.data + offset, length};
            if (file::detail::le32(at + 20) == 0) {
                if (!detail::begin(bytes, layout)) return detail::failed("evb gave the header of another format");
                continue;
            }
            if (!detail::decode(bytes, layout, event)) return detail::failed("evb gave a record that is damaged");
            const Verdict verdict = judge(std::as_const(event));
            answers.insert(answers.end(), at, at + 8);
            answers.insert(answers.end(), {static_cast<std::uint8_t>(verdict.kept), 0, 0, 0, 0, 0, 0, 0});
            for (int bit = 0; bit < 64; bit += 8) answers.push_back(static_cast<std::uint8_t>(verdict.tag >> bit));
            // Answers wait for others, but not for events that take long.
            const auto now = std::chrono::steady_clock::now();
            if (now - since < patience && answers.size() < 64 * 24) continue;
            if (!tell()) return 0;
            since = now;
        }
        if (!tell()) return 0;
    }
}

}  // namespace evb::filter

#endif  // EVB_FILTER_HPP

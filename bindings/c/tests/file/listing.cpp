// Lists event files with evb_file.hpp, in the text that the head of
// `crates/evb-file/examples/listing.rs` specifies.
//
//     listing PATH...     files and directories
//     listing @NAMES      the paths in the file NAMES, one on a line
//     listing -           an event file on standard input
//
// The option --no-map before the paths reads all files through a buffer, and --run=RUN chooses the run of a directory.

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "evb_file.hpp"

namespace {

using evb::file::Error;
using evb::file::Event;
using evb::file::EventFile;
using evb::file::Finding;
using evb::file::Fragment;
using evb::file::IndexEntry;
using evb::file::Item;
using evb::file::Kind;
using evb::file::Read;

evb::file::Options options;
evb::file::Selection selection;

std::string hex(std::uint64_t number) {
    char text[17];
    std::snprintf(text, sizeof text, "%016" PRIx64, number);
    return text;
}

std::string ids(const std::vector<std::uint16_t>& sources) {
    std::string text;
    for (const std::uint16_t source : sources) text += (text.empty() ? "" : ",") + std::to_string(source);
    return text.empty() ? "-" : text;
}

std::string ids(const std::vector<evb::file::MissingSource>& sources) {
    std::vector<std::uint16_t> plain;
    for (const evb::file::MissingSource& one : sources) plain.push_back(one.source);
    return ids(plain);
}

std::string code(const evb::file::MissingSource& one) { return std::to_string(static_cast<unsigned>(one.cause)); }

// What files of format 2 have besides, if it says something.
std::string more(const Event& event) {
    std::string line;
    if (event.run_id.known()) line += " run_id=" + event.run_id.text();
    if (event.utc_ns != 0) line += " utc=" + std::to_string(event.utc_ns);
    std::string causes, absent;
    bool said = false;
    for (const evb::file::MissingSource& one : event.missing) {
        causes += (causes.empty() ? "" : ",") + code(one);
        said = said || one.cause != evb::file::Cause::unknown;
    }
    for (const evb::file::MissingSource& one : event.absent)
        absent += (absent.empty() ? "" : ",") + std::to_string(one.source) + ":" + code(one);
    if (said) line += " causes=" + causes;
    if (!absent.empty()) line += " absent=" + absent;
    return line;
}

// The 64-bit hash FNV-1a (Fowler, Noll, Vo: RFC 9923).
std::uint64_t fnv_1a(const std::uint8_t* data, std::size_t size) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (std::size_t i = 0; i < size; ++i) hash = (hash ^ data[i]) * 0x00000100000001b3;
    return hash;
}

void print(const std::string& line) {
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::putchar('\n');
}

void print(const Event& event, bool with_place) {
    using std::to_string;
    std::string line = "event id=" + to_string(event.id) + " epoch=" + to_string(event.epoch) +
                       " run=" + to_string(event.run) + " builder=" + to_string(event.builder) +
                       " triggered=" + to_string(event.triggered_ns) + " missing=" + ids(event.missing) + more(event);
    if (with_place) line += " offset=" + to_string(event.offset) + " length=" + to_string(event.length);
    print(line);
    for (const Fragment& part : event.fragments) {
        const std::string hash = part.data == nullptr ? "-" : hex(fnv_1a(part.data, part.size));
        std::string alignment;
        if (part.alignment != evb::file::Alignment::unchecked)
            alignment = " alignment=" + to_string(static_cast<unsigned>(part.alignment));
        print("fragment source=" + to_string(part.source) + " timestamp=" + to_string(part.timestamp) +
              " size=" + to_string(part.size) + " crc=" + hex(part.checksum) + " hash=" + hash + alignment);
    }
}

void print(const Finding& finding) {
    const std::string event = finding.event ? std::to_string(*finding.event) : "-";
    print(std::string("finding kind=") + evb::file::name(finding.kind) + " offset=" +
          std::to_string(finding.offset) + " length=" + std::to_string(finding.length) + " event=" + event +
          " text=" + finding.text);
}

void print(const Item& item, bool with_place) {
    if (item) print(item.event, with_place);
    else print(*item.finding);
}

std::string hex(const std::string& text) {
    std::string digits;
    for (const char byte : text) digits += hex(static_cast<std::uint8_t>(byte)).substr(14);
    return digits;
}

std::string hex(const std::map<std::uint16_t, std::string>& names) {
    std::string text;
    for (const auto& [id, name] : names) text += (text.empty() ? "" : ",") + std::to_string(id) + ":" + hex(name);
    return text;
}

// What headers of format 2 have besides, if it says something.
std::string more(const EventFile& file) {
    const evb::file::Header& header = file.header();
    std::string line;
    if (header.run_id.known()) line += " run_id=" + header.run_id.text();
    if (header.begun_unix_ns != 0) line += " begun=" + std::to_string(header.begun_unix_ns);
    if (header.clock_synchronised) line += *header.clock_synchronised ? " clock=1" : " clock=2";
    if (!header.kind.empty()) line += " kind=" + hex(header.kind);
    if (!header.comment.empty()) line += " comment=" + hex(header.comment);
    if (!header.source_names.empty()) line += " source_names=" + hex(header.source_names);
    if (!header.builder_names.empty()) line += " builder_names=" + hex(header.builder_names);
    if (file.recovery())
        line += *file.recovery() == evb::file::Recovery::records ? " recovered=records" : " recovered=closing-block";
    return line;
}

void print_header(const EventFile& file) {
    using std::to_string;
    const evb::file::Header& header = file.header();
    print("header run=" + to_string(header.run) + " epoch=" + to_string(header.epoch) + " builder=" +
          (header.builder ? to_string(*header.builder) : "all") + " sequence=" + to_string(header.sequence) +
          " created=" + to_string(header.created_unix_ns) + " size=" + to_string(file.size()) +
          " index=" + evb::file::name(file.index_state()) + " sources=" + ids(header.sources) +
          " creator=" + hex(header.creator) + more(file));
}

void print_lookup(bool found, const Item& item) {
    if (found) print(item, false);
    else print("none");
}

void print_lookups(EventFile& file) {
    using std::to_string;
    Item item;
    print("index " + to_string(file.index_size()));
    for (const IndexEntry& entry : file.index_entries(0, 10)) {
        print("lookup event=" + to_string(entry.event) + " epoch=" + to_string(entry.epoch) +
              " offset=" + to_string(entry.offset));
        file.event_at(entry, item);
        print(item, false);
        print_lookup(file.event(entry.event, item), item);
        print_lookup(file.event_in_epoch(entry.event, entry.epoch, item), item);
    }
    for (const std::uint64_t event : {std::uint64_t{0}, ~std::uint64_t{0}}) {
        print("lookup event=" + to_string(event));
        print_lookup(file.event(event, item), item);
    }
}

void print_verification(const std::string& path) {
    print("verify");
    std::string text;
    try {
        text = evb::file::verify(path, {}, options).text();
    } catch (const Error& error) {
        text = error.what();
    }
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        print("| " + text.substr(at, end - at));
        at = end + 1;
    }
}

void list_file(const std::string& path) {
    print("file " + path);
    try {
        EventFile file(path, options);
        print_header(file);
        for (const auto& [section, read] : {std::pair("heads", Read::heads), std::pair("events", Read::checked),
                                            std::pair("unchecked", Read::unchecked)}) {
            print(section);
            for (const Item& item : file.events(read)) print(item, read != Read::checked);
        }
        print_lookups(file);
    } catch (const Error& error) {
        print(std::string("error ") + error.what());
    }
    // Standard input is at its end.
    if (path != "-") print_verification(path);
}

// Lists the events of a run that can be read to its end.
void list_run(const std::string& path) {
    try {
        evb::file::Run run(path, options, selection);
        std::vector<std::string> damage;
        for (const Finding& finding : run.findings()) damage.push_back(finding.text);
        print("merged");
        while (const Item* item = run.next()) {
            if (*item) print(item->event, false);
            else damage.push_back(item->finding->text);
        }
        print("superseded=" + std::to_string(run.superseded()) +
              " duplicates=" + std::to_string(run.duplicates()));
        for (const std::string& text : damage) print("damage " + text);
    } catch (const Error& error) {
        print(std::string("error ") + error.what());
    }
}

// Returns the error with which a merge of the run ends, if there is one. (`Run` itself goes on.)
std::string error_of_run(const std::string& path) {
    try {
        evb::file::Run run(path, options, selection);
        while (const Item* item = run.next()) {
            if (*item) continue;
            const Finding& finding = *item->finding;
            if (finding.kind == Kind::file || finding.kind == Kind::too_large) return finding.text;
        }
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

void list(const std::string& path) {
    if (path == "-" || !std::filesystem::is_directory(path)) {
        list_file(path);
        return;
    }
    for (const std::string& file : evb::file::files_at(path)) list_file(file);
    print("run " + path);
    const std::string error = error_of_run(path);
    if (error.empty()) list_run(path);
    else print("error " + error);
    print_verification(path);
}

}  // namespace

int main(int count, char** arguments) {
    for (int i = 1; i < count; ++i) {
        const std::string argument = arguments[i];
        if (argument == "--no-map") {
            options.map = false;
        } else if (argument.rfind("--run=", 0) == 0) {
            selection.run = argument.substr(6);
        } else if (argument[0] == '@') {
            std::ifstream names(argument.substr(1));
            for (std::string path; std::getline(names, path);) list(path);
        } else {
            list(argument);
        }
    }
    return 0;
}

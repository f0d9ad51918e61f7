// Reads all events of a file with all checks, and prints their number.

#include <cstdio>

#include "evb_file.hpp"

int main(int count, char** arguments) {
    if (count != 2) return 2;
    const evb::file::EventFile file(arguments[1]);
    unsigned long long events = 0, findings = 0;
    for (const evb::file::Item& item : file.events()) ++(item ? events : findings);
    std::printf("%llu events, %llu findings\n", events, findings);
    return findings == 0 ? 0 : 1;
}

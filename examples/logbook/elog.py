#!/usr/bin/env python3
"""Makes an entry in a log book at the end of each run:

    [hooks]
    run_ends = ["/opt/daq/elog.py", "http://elog.example.org:8080/shifts/", "--field", "Type=Run"]

It posts a form, as the page of ELOG does: the fields cmd, exp, Author, Subject and Text, and those of
--field, which may replace them. ELOG answers an entry with a redirection to it, and everything else with
a page. After any other answer than a redirection, and after none, evbd calls the program again, so an
entry may be there twice.
"""

import argparse
import http.client
import json
import sys
import urllib.parse
import uuid


def text(run):
    """Return the text of the entry."""
    lines = [run["verdict"], "", f"begin     {run['begin']}", f"end       {run['end']}"]
    lines += [f"{name:9} {text}" for name, text in run["annotation"].items() if text]
    lines += [f"{outcome:10} {count:>12}" for outcome, count in run["events"].items()]
    lines += [f"problem: {one}" for one in run["problems"]] + [f"remark: {one}" for one in run["remarks"]]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url", help="address of the log book")
    parser.add_argument("--field", action="append", default=[], metavar="NAME=TEXT", help="a field of the form")
    given, run = parser.parse_args(), json.load(sys.stdin)
    book, mark = urllib.parse.urlsplit(given.url), uuid.uuid4().hex
    subject = f"Run {run['run']} (id {run['run_id'][:8]})"
    fields = {"cmd": "Submit", "exp": book.path.strip("/"), "Author": "evbd", "Subject": subject, "Text": text(run)}
    fields |= dict(field.split("=", 1) for field in given.field)
    head = f"--{mark}\r\nContent-Disposition: form-data; name="
    parts = [f'{head}"{name}"\r\n\r\n{text}\r\n' for name, text in fields.items()]
    connect = http.client.HTTPSConnection if book.scheme == "https" else http.client.HTTPConnection
    connection = connect(book.netloc, timeout=20)
    kind = {"Content-Type": f"multipart/form-data; boundary={mark}"}
    try:
        connection.request("POST", book.path, f"{''.join(parts)}--{mark}--\r\n".encode(), kind)
        answer = connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"no answer from the log book at {given.url}: {error}")
    entry = answer.getheader("Location", "")
    if answer.status not in (302, 303) or "fail" in entry:
        sys.exit(f"{given.url} has made no entry; it answers {answer.status} {entry} {answer.read(500)}")
    print(f"run {run['run']} is at {entry}")


if __name__ == "__main__":
    main()

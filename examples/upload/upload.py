#!/usr/bin/env python3
"""Uploads a finished event file to S3 or XRootD, and checks the copy:

    [hooks]
    file_closed = ["/opt/daq/upload.py", "s3://bucket/folder"]        # or "root://host//folder"
    timeout     = "10 min"

It may be called many times for a file: a copy that is there with the right size and checksum is not sent
again, and other content under the name of the file is never overwritten. Readers of the store see whole
files only: S3 shows an object when all of it is there, and XRootD has it as NAME.part until it is right.

S3 compares the copy with the CRC-64/NVME that evbd has computed while it wrote the file. From a store
that does not know this checksum, the copy is read back. boto3 finds keys and region in its usual places,
such as AWS_ACCESS_KEY_ID. An XRootD server must compute Adler-32: xrootd.chksum adler32.

The exit code is 0 if the copy is there and right. The program tries for --patience seconds, and evbd
calls it twice more if it fails; then a warning in evbd's log has the object for its standard input.

Needs the package boto3[crt] for S3, or the programs xrdcp and xrdfs (Debian: xrootd-client) for XRootD.
"""

import argparse
import base64
import json
import os
import re
import subprocess
import sys
import time
import zlib

PIECE = 1 << 20
"""Bytes that are read at a time."""

LIMITS = {"CONNECTIONWINDOW": 5, "CONNECTIONRETRY": 1, "STREAMERRORWINDOW": 5, "REQUESTTIMEOUT": 30}
"""Seconds after which the programs of XRootD give up. Their own values are up to half an hour."""


def pieces(path):
    """Yield the content of a file."""
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            yield piece


class S3:
    """An object of S3, or of a store that speaks its protocol."""

    def __init__(self, url, file, endpoint):
        import boto3
        from botocore import config, exceptions

        bucket, _, folder = url.removeprefix("s3://").partition("/")
        limits = config.Config(connect_timeout=5, read_timeout=30, retries={"total_max_attempts": 2})
        self.client = boto3.client("s3", endpoint_url=endpoint, config=limits)
        self.file, self.refusal = file, exceptions.ClientError
        self.failures = (self.refusal, exceptions.BotoCoreError, boto3.exceptions.Boto3Error)
        self.object = {"Bucket": bucket, "Key": f"{folder}/{os.path.basename(file['path'])}".lstrip("/")}
        self.checksum = base64.b64encode(bytes.fromhex(file["crc64_nvme"])).decode()

    def find(self):
        """Return None if there is no copy, and else true if it is right."""
        try:
            head = self.client.head_object(**self.object, ChecksumMode="ENABLED")
        except self.refusal as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return None
            raise
        if head["ContentLength"] != self.file["size"]:
            return False
        if "ChecksumCRC64NVME" in head:
            return head["ChecksumCRC64NVME"] == self.checksum
        copy = self.client.get_object(**self.object)["Body"]
        return all(copy.read(len(piece)) == piece for piece in pieces(self.file["path"]))

    def put(self):
        """Make the copy; S3 refuses content with another checksum."""
        given = {"ChecksumAlgorithm": "CRC64NVME", "ChecksumCRC64NVME": self.checksum}
        self.client.upload_file(self.file["path"], **self.object, ExtraArgs=given)


class XRootD:
    """A file on an XRootD server."""

    failures = (subprocess.CalledProcessError,)

    def __init__(self, url, file, _endpoint):
        server, _, folder = url.removeprefix("root://").partition("/")
        self.server, self.file = f"root://{server}", file
        self.path = f"/{folder.strip('/')}/{os.path.basename(file['path'])}"
        self.checksum = 1
        for piece in pieces(file["path"]):
            self.checksum = zlib.adler32(piece, self.checksum)

    def run(self, *command):
        """Run a program of XRootD, and return what it says."""
        limits = {f"XRD_{name}": str(seconds) for name, seconds in LIMITS.items()}
        return subprocess.run(command, check=True, capture_output=True, text=True, env={**limits, **os.environ}).stdout

    def find(self):
        """Return None if there is no copy, and else true if it is right."""
        try:
            stated = self.run("xrdfs", self.server, "stat", self.path)
        except subprocess.CalledProcessError as error:
            if "[3011]" in error.stderr:
                return None
            raise
        if int(re.search(r"^Size: *(\d+)", stated, re.M)[1]) != self.file["size"]:
            return False
        said = self.run("xrdfs", self.server, "query", "checksum", f"{self.path}?cks.type=adler32")
        return int(said.split()[1], 16) == self.checksum

    def put(self):
        """Make the copy under another name, and rename it when it is right."""
        options = ("--silent", "--force", "--path", "--cksum", f"adler32:{self.checksum:08x}")
        self.run("xrdcp", *options, self.file["path"], f"{self.server}/{self.path}.part")
        self.run("xrdfs", self.server, "mv", f"{self.path}.part", self.path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url", help="s3://bucket/folder or root://host//folder")
    parser.add_argument("--endpoint", help="address of the S3 store, if it is not Amazon's")
    parser.add_argument("--patience", type=float, default=20, help="seconds in which the store must answer")
    given, file = parser.parse_args(), json.load(sys.stdin)
    if os.path.getsize(file["path"]) != file["size"]:
        sys.exit(f"{file['path']} has changed since evbd has closed it: look at it with evbd verify")
    store = (S3 if given.url.startswith("s3://") else XRootD)(given.url, file, given.endpoint)
    until = time.monotonic() + given.patience
    while True:
        try:
            if (found := store.find()) is None:
                store.put()
                print(f"sent {file['path']} to {given.url}", flush=True)
                found = store.find()
            break
        except store.failures as error:
            said = getattr(error, "stderr", None) or error
            print(f"{given.url} does not take {file['path']}: {said}", file=sys.stderr, flush=True)
            if time.monotonic() > until:
                sys.exit(1)
            time.sleep(1)
    if not found:
        sys.exit(f"{given.url} has other content under the name of {file['path']}: move one of them away")
    print(f"{file['path']} is at {given.url}", flush=True)


if __name__ == "__main__":
    main()

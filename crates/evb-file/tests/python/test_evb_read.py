"""Tests of bindings/python/evb_read.py with files of format 2: python3 -m unittest, without any package."""

import contextlib
import io
import os
import random
import tempfile
import unittest

import evb_read
import format2
from evb_read import Damaged, EventFile, NotAnEventFile


def run(*arguments):
    """The exit code and the output of the command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = evb_read.main(list(map(str, arguments)))
    return code, out.getvalue()


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def written(self, data, name="run000007_b01_0000.evb"):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def items(self, data):
        with EventFile(self.written(data)) as file:
            return file, list(file.scan())


class Contents(Case):
    def test_header(self):
        with EventFile(self.written(format2.sample())) as file:
            header = file.header
        self.assertEqual((header.version, header.run, header.run_id), (2, 7, format2.RUN_ID))
        self.assertEqual((header.epoch, header.builder, header.sequence, header.sources), (5, 1, 0, (1, 2, 3)))
        self.assertEqual((header.begun_unix_ns, header.created_unix_ns), (format2.BEGUN, format2.BEGUN + 5))
        self.assertEqual((header.kind, header.comment, header.creator), ("physics", "beam on", "a test"))
        self.assertEqual(header.source_names, {1: "tracker", 3: "calorimètre"})
        self.assertEqual((header.builder_names, header.clock), ({1: "eb-1"}, "synchronised"))
        for clock, said in ((0, "unknown"), (2, "not synchronised"), (77, "unknown")):
            with EventFile(self.written(format2.sample(clock=clock))) as file:
                self.assertEqual(file.header.clock, said)

    def test_events(self):
        for close in (True, False):
            file, events = self.items(format2.sample(close=close))
            self.assertEqual(file.index_state, "present" if close else "absent")
            by_id = {event.id: event for event in events}
            self.assertEqual(list(by_id), [1, 2, 3, 4, 5, 6])
            self.assertEqual(by_id[1].missing_causes, {2: "down", 3: "cause 99"})
            self.assertEqual((by_id[1].missing, by_id[1].absent), ((2, 3), ()))
            self.assertEqual((by_id[2].absent, by_id[2].absent_causes), ((3,), {3: "excluded"}))
            self.assertTrue(by_id[2].complete and not by_id[2].whole)
            self.assertFalse(by_id[3].complete)
            self.assertEqual(by_id[3].absent_causes, {2: "expendable"})
            self.assertEqual((by_id[4].tag, by_id[4].whole), (0xABCDEF, False))
            self.assertEqual([part.lost_packets for part in by_id[4].fragments], [0, 7, 1])
            states = [(part.alignment, part.aligned) for part in by_id[4].fragments]
            self.assertEqual(states, [("agrees", True), ("disagrees", False), ("not known", None)])
            states = [(part.alignment, part.aligned) for part in by_id[6].fragments]
            self.assertEqual(states, [("not checked", None)] * 3)
            self.assertEqual([event.id for event in events if not event.aligned], [4])
            self.assertEqual(by_id[6].utc_ns, format2.BEGUN + 6 * 1_000_003)
            self.assertEqual({event.run_id for event in events}, {format2.RUN_ID[:8]})
            for event in events:
                for part in event.fragments:
                    self.assertEqual(part.payload, format2.payloads(event.id)[part.source])

    def test_golden_files_have_all_states_of_alignment(self):
        golden = "../../../../bindings/c/tests/file/golden-2/alignment"
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), golden)
        found = {}
        for path in evb_read.files_at([folder]):
            with EventFile(path) as file:
                found.update({(event.id, event.epoch): [part.alignment for part in event.fragments] for event in file})
        expected = {
            (1, 1): ["not checked"] * 3,
            (2, 1): ["agrees", "disagrees", "not known"],
            (3, 1): ["disagrees", "disagrees", "not checked"],
            (4, 1): ["agrees", "agrees", "disagrees"],
            (4, 2): ["agrees"] * 3,
            (5, 1): ["not known", "disagrees", "agrees"],
        }
        self.assertEqual(found, expected)
        code, text = run(folder)
        self.assertEqual(code, 0, text)
        self.assertIn("5 events, 5 complete, 0 incomplete, 3 misaligned, 1 superseded copies", text)
        code, text = run(folder, "--event", "2")
        states = ["agrees", "disagrees", "not known ("]
        states = [text.count("alignment with other sources: " + state) for state in states]
        self.assertEqual((code, states), (0, [1, 1, 1]))
        self.assertNotIn("alignment", run(folder, "--event", "1")[1])

    def test_golden_files_have_the_changes_of_their_run(self):
        golden = "../../../../bindings/c/tests/file/golden-2/changes"
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), golden)
        ((run_of_files,), _) = evb_read.runs_of(evb_read.files_at([folder]))
        expected = [
            (2, True, 1, None, "broken"),
            (2, False, 3, "2025-11-13T02:13:22.000000000Z", ""),
            (3, True, 4, "2025-11-13T02:13:23.000000000Z", 'no "power", ν'),
        ]
        self.assertEqual(run_of_files.changes, expected)
        absent = {}
        for path in run_of_files.files:
            with EventFile(path) as file:
                absent.update({event.id: event.absent_causes for event in file})
        self.assertEqual(absent, {1: {2: "excluded"}, 2: {2: "excluded"}, 3: {}, 4: {3: "excluded"}})
        self.assertIn('source 3 is excluded from event 4 on (no "power", ν)', run(folder)[1])

    def test_a_merged_file_of_an_unknown_run(self):
        file, events = self.items(format2.sample(flags=1, builder=0, run_id="0" * 32, clock=0))
        self.assertEqual((file.header.builder, file.header.run_id), (None, ""))
        self.assertEqual({event.run_id for event in events}, {""})


class Sections(Case):
    def test_unknown_optional_sections_are_skipped(self):
        more = format2.section(900, b"odd")
        head = format2.header(more=more)
        file, (event,) = self.items(format2.file(head, [format2.record(head, 1, {1: b"data"}, more=more)]))
        self.assertEqual((event.fragments[0].payload, file.recovered), (b"data", None))

    def test_unknown_required_sections_of_a_header_are_refused(self):
        for fields in ({"more": format2.section(900, b"", True)}, {"flags": 2}):
            head = format2.header(**fields)
            path = self.written(format2.file(head, [format2.record(head, 1, {1: b"data"})]))
            with self.assertRaisesRegex(NotAnEventFile, "needs? a newer evb"):
                EventFile(path)
            self.assertEqual(run(path)[0], 2)

    def test_unknown_required_sections_of_a_record_are_a_defect(self):
        head = format2.header()
        for fields in ({"more": format2.section(900, b"", True)}, {"flags": 4}):
            records = [format2.record(head, event, {1: b"data"}, **(fields if event == 2 else {})) for event in (1, 2, 3)]
            file, (one, two, three) = self.items(format2.file(head, records))
            self.assertEqual((one.id, two.event, three.id), (1, 2, 3))
            self.assertRegex(str(two), "event 2: its .* a newer evb")
            self.assertEqual(two.length, len(records[1]))
            with self.assertRaisesRegex(Damaged, "newer evb"), EventFile(file.path) as again:
                again.event(2)

    def test_sections_must_fit(self):
        twice = format2.section(900, b"") * 2
        long = b"\x84\x03\0\0" + (9).to_bytes(4, "little") + bytes(8)
        unsorted = format2.section(900, b"") + format2.section(899, b"")
        for more in (twice, long, unsorted, bytes(4), format2.section(4, bytes(3)), format2.section(2, b"12345")):
            head = format2.header()
            _, (item,) = self.items(format2.file(head, [format2.record(head, 1, {1: b"data"}, more=more)]))
            self.assertIsInstance(item, Damaged)
        for more in (twice, long, format2.section(2, b"\xff"), format2.section(4, b"\1\0\5\0")):
            head = format2.header(kind="", more=more)
            with self.assertRaisesRegex(NotAnEventFile, "contradicts itself"):
                EventFile(self.written(format2.file(head, [])))

    def test_a_flag_must_agree_with_the_missing_sources(self):
        head = format2.header()
        for fields in ({"flags": 1}, {"flags": 0, "missing": {2: 1}}):
            _, (item,) = self.items(format2.file(head, [format2.record(head, 1, {1: b"data"}, **fields)]))
            self.assertIsInstance(item, Damaged)


class Recovery(Case):
    def test_from_the_closing_block(self):
        data = format2.sample()
        for place in (0, 8, 12, 20, 30, 100):
            file, items = self.items(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
            self.assertEqual((file.recovered, file.index_state, len(items)), ("closing block", "present", 6))
            self.assertEqual((file.header.kind, file.header.run_id), ("physics", format2.RUN_ID))
        code, text = run(self.written(bytes(80) + data[80:]))
        self.assertEqual(code, 1)
        self.assertIn("! the header is damaged; recovered from the closing block", text)

    def test_from_records(self):
        data = format2.sample(close=False)
        file, items = self.items(bytes(96) + data[96:])
        self.assertEqual((file.recovered, file.index_state), ("records", "absent"))
        self.assertEqual([event.id for event in items], [1, 2, 3, 4, 5, 6])
        header = file.header
        self.assertEqual((header.run, header.builder, header.run_id), (7, 1, format2.RUN_ID[:8]))
        code, text = run(self.written(bytes(96) + data[96:]))
        self.assertEqual(code, 1)
        self.assertIn("! the header is damaged; recovered from its records", text)

    def test_the_tag_with_most_bytes_is_that_of_the_file(self):
        old, head = format2.header(sequence=9), format2.header()
        records = [format2.record(old, 1, {1: b"old disk block"})]
        records += [format2.record(head, event, format2.payloads(event)) for event in (2, 3)]
        file, items = self.items(bytes(len(head)) + b"".join(records))
        self.assertEqual(([event.id for event in items], file.recovered), ([2, 3], "records"))

    def test_a_record_of_another_file_is_none_of_this(self):
        old, head = format2.header(sequence=9), format2.header()
        records = [format2.record(old, 1, {1: b"old"}), format2.record(head, 2, {1: b"new"})]
        _, (damage, event) = self.items(format2.file(head, records, close=False))
        self.assertEqual((damage.length, event.id), (len(records[0]), 2))
        self.assertIn("another file", str(damage))

    def test_a_record_of_another_run_or_builder_is_refused(self):
        head = format2.header()
        other = format2.header(run=8)
        records = [format2.record(head, 1, {1: b"own"}), format2.record(head, 2, {1: b"b"}, builder=9)]
        records += [format2.record(head, 3, {1: b"b"}, run_id="0bad" * 8)]
        records += [format2.record(other, 4, {1: b"b"}, file_tag=head[-8:])]
        _, items = self.items(format2.file(head, records))
        self.assertEqual(items[0].id, 1)
        for damage in items[1:]:
            self.assertRegex(str(damage), "the record belongs to another run or builder than the file")
        self.assertEqual([damage.event for damage in items[1:]], [2, 3, 4])

    def test_of_many_tags_only_the_first_are_counted(self):
        def records(count):
            heads = [format2.header(sequence=number) for number in range(count)]
            return b"".join(format2.record(head, 1, {}) for head in heads)

        own = format2.record(format2.header(sequence=9999), 2, {1: bytes(100)})
        for count, event in ((evb_read.MAX_TAGS - 1, 2), (evb_read.MAX_TAGS, 1)):
            _, items = self.items(bytes(96) + records(count) + own)
            self.assertEqual([item.id for item in items if not isinstance(item, Damaged)], [event])

    def test_an_index_that_does_not_match_is_told_and_not_used(self):
        head = format2.header()
        records = [format2.record(head, event, {1: b"data"}) for event in (1, 2)]
        for of in (records[:1], [records[0], records[1], records[1]]):
            data = head + b"".join(records) + format2.closing_block(head, of)
            block = bytearray(data[-len(format2.closing_block(head, of)) :])
            block[-24:-16] = len(head + b"".join(records)).to_bytes(8, "little")
            data = data[: -len(block)] + format2.sealed(bytes(block[:-16])) + b"EVB-END\n"
            path = self.written(data)
            with EventFile(path) as file:
                self.assertEqual((file.index_state, len(file.index())), ("present", 2))
            code, text = run(path)
            self.assertEqual(code, 1)
            self.assertIn("! the index does not match the records of the file", text)

    def test_the_block_of_another_file_is_none_of_this(self):
        other = format2.sample(sequence=1)
        data = format2.sample(close=False)
        block = other[len(format2.sample(close=False, sequence=1)) :]
        file, items = self.items(data + block)
        self.assertEqual((file.index_state, len(items)), ("damaged", 6))

    def test_nothing_is_recovered_from_nothing(self):
        data = format2.sample(close=False)
        for bad in (b"", b"text", bytes(400), data[:60], b"x" + data[1:150]):
            with self.assertRaises(NotAnEventFile):
                EventFile(self.written(bad))

    def test_every_event_whose_own_bytes_are_whole_is_read(self):
        generator = random.Random(35)
        for close in (True, False):
            data = format2.sample(12, close)
            with EventFile(self.written(data)) as file:
                whole = {event.id: event for event in file}
            for _ in range(400):
                bad = bytearray(data)
                at = generator.randrange(len(data) if generator.random() < 0.7 else 200)
                for place in range(at, min(at + generator.randint(1, 64), len(data))):
                    bad[place] = generator.randrange(256)
                hit = [place for place in range(len(data)) if bad[place] != data[place]]
                own = [
                    event
                    for event in whole.values()
                    if not any(event.offset <= place < event.offset + event.length for place in hit)
                ]
                file, items = self.items(bytes(bad))
                self.assertEqual([item for item in items if not isinstance(item, Damaged)], own)
                state = "present" if close else "absent"
                said = file.recovered or file.index_state != state or any(isinstance(one, Damaged) for one in items)
                self.assertEqual(bool(said), bool(hit))


class Runs(Case):
    def write_two(self):
        self.written(format2.sample())
        self.written(format2.sample(run_id="0bad" * 8, builder=2), "run000007_b02_0000.evb")

    def test_two_runs_with_one_number_are_a_defect(self):
        self.write_two()
        code, text = run(self.folder)
        self.assertEqual(code, 1)
        self.assertIn("! several runs have the number 7: run 7 (0bad0bad, begun 2026-09-21T14:13:20.000000000Z, 1 file), run 7 (5eedcafe", text)
        self.assertEqual(text.count("6 events, 4 complete"), 2)
        self.assertNotIn("1 superseded", text)
        code, text = run(self.folder, "--event", "2")
        self.assertEqual(code, 2)
        self.assertIn("the files are of 2 runs: run 7 (0bad0bad", text)
        self.assertIn("; choose one with --run", text)
        code, text = run(self.folder, "--event", "2", "--run", "0BAD")
        self.assertEqual(code, 0)
        self.assertIn("(0bad0bad), epoch 5, builder 2", text)
        self.assertIn("none of the files is of run 9, but of run 7 (0bad0bad", run(self.folder, "--run", "9")[1])
        self.assertIn("choose one with", run(self.folder, "--run", "7")[1])

    def write_old(self, builder, epoch, epochs):
        """A file of format 2 whose run id is unknown, as after a merge of format 1."""
        head = format2.header(run_id="0" * 32, epoch=epoch, builder=builder)
        records = [format2.record(head, place, {1: b"data"}, epoch=of) for place, of in enumerate(epochs, 1)]
        self.written(format2.file(head, records), "run000007_b%02d_0000.evb" % builder)

    def sizes(self, *same_run):
        runs, _ = evb_read.runs_of(evb_read.files_at([self.folder]), *same_run)
        return [len(one.files) for one in runs]

    def test_files_without_an_id_are_linked_by_epochs(self):
        self.write_old(1, 100, [100, 200])
        self.write_old(2, 200, [200, 300])
        self.write_old(3, 250, [300])
        self.write_old(4, 900, [900])
        self.assertEqual(self.sizes(), [3, 1])
        self.assertEqual(self.sizes(True), [4])
        text = run(self.folder, "--event", "1")[1]
        self.assertIn("run 7 (id unknown, epoch 100, begun", text)
        self.assertIn("--same-run", text)
        self.assertIn("epoch 900", run(self.folder, "--event", "1", "--same-run")[1])
        self.assertIn("epoch 100", run(self.folder, "--event", "1", "--epoch", "..150")[1])
        self.assertIn("2 events, 2 complete, 0 incomplete, 3 superseded", run(self.folder, "--epoch", "200..")[1])
        self.write_old(5, 950, [900, 100])
        self.assertEqual(self.sizes(), [5])

    def test_clean_runs_that_share_a_number_are_not_clean(self):
        for builder in (1, 2):
            head = format2.header(builder=builder, run_id="%032x" % (builder << 96))
            record = format2.record(head, 1, {1: b"data"}, absent={3: 16, 7: 17})
            path = self.written(format2.file(head, [record]), "run000007_b%02d_0000.evb" % builder)
            code, text = run(path)
            self.assertEqual(code, 0)
            said = "1 complete (of these, 1 without source 3 (excluded), 1 without source 7 (expendable))"
            self.assertIn(said, text)
        code, text = run(self.folder)
        self.assertEqual((code, text.count(": clean")), (1, 2))
        self.assertIn("several runs have the number 7", text)

    def test_a_recovered_header_belongs_to_the_run_of_its_records(self):
        self.written(format2.sample())
        data = format2.sample(builder=2, close=False)
        self.written(bytes(96) + data[96:], "run000007_b02_0000.evb")
        _, text = run(self.folder)
        self.assertNotIn("several runs", text)
        self.assertIn("6 events", text)

    def test_copies_are_superseded_within_one_run(self):
        head = format2.header()
        copies = [format2.record(head, 1, {1: b"a"}, epoch=epoch, missing={2: 1} if epoch == 5 else None) for epoch in (6, 5)]
        code, text = run(self.written(format2.file(head, copies)))
        self.assertEqual(code, 0, text)
        self.assertIn("1 events, 1 complete, 0 incomplete, 1 superseded copies", text)


if __name__ == "__main__":
    unittest.main()
